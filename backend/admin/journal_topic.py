"""The journal in a cluster: a compacted topic, a transactional producer, a consumer.

Goals
    What `append` returned for is in the topic whatever happens, all of it; what it refused is
    not; what is in doubt is said to be, and found out later. A backend that was replaced writes
    nothing more.
Constraints
    confluent-kafka's calls block, so one thread makes all of them, in order. A cancelled caller
    leaves its call to end by itself.
Algorithm
    KIP-98: every writer has the same `transactional.id`, so `init_transactions` gives it the next
    epoch, ends what the former one had begun, and fences it. Only then is the topic read to its
    high watermark, so nothing that could still be committed is missing. Each append is one
    transaction. A commit whose answer is lost is asked for again before anything else is
    written: librdkafka goes on with it, and the coordinator answers alike. A reader takes
    committed records only and stops at the last stable offset, which is never within a
    transaction.

Importing this module loads librdkafka.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Literal, TypeVar

from confluent_kafka import (
    OFFSET_BEGINNING,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import OffsetSpec

from backend.admin.journal_clients import (
    JOURNAL_TOPIC,
    POLL_S,
    READ_TIMEOUT_S,
    Clients,
    JournalTopic,
    insist,
    meaning,
    meant,
)
from backend.admin.properties import ClientConfig
from backend.clock import Clock
from backend.operations.journal import (
    RETRY_S,
    JournalFenced,
    JournalUnavailable,
    check_append,
)
from backend.operations.journal_codec import Body, Fold, Header, JournalState, Record

APPEND_TIMEOUT_S: Final = 4.0
OPEN_TIMEOUT_S: Final = 10.0
NEWS_S: Final = 0.5
"""A follower looks for the end of the topic this often, or when a record comes."""
Value = TypeVar("Value")

log = logging.getLogger(__name__)


def transactional_id(cluster_id: str, topic: str = JOURNAL_TOPIC) -> str:
    """The `transactional.id` of every backend that writes a cluster's journal."""
    return f"{topic.strip('_').replace('_', '-')}-{cluster_id}"


class TopicJournal:
    """`backend.operations.journal.Journal` in a topic of the cluster."""

    def __init__(
        self,
        bootstrap_servers: str,
        config: ClientConfig,
        *,
        cluster_id: str,
        writer: str,
        clock: Clock,
        topic: str = JOURNAL_TOPIC,
    ) -> None:
        """`writer` is this backend's id; `cluster_id` the one that its other calls reach."""
        self._clients = Clients(bootstrap_servers, config, topic)
        self._cluster_id = cluster_id
        self._backend = writer
        self._clock = clock
        self._topic = JournalTopic(self._clients, cluster_id)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kshunt-journal")
        self._fold = Fold(cluster_id)
        self._reader: _Reader | None = None
        self._writer: _Writer | None = None
        self._in_doubt: Mapping[str, Body | None] | None = None
        self._state = JournalState()

    @property
    def state(self) -> JournalState:
        """As `Journal.state`."""
        return self._state

    @property
    def remarks(self) -> tuple[str, ...]:
        """As `Journal.remarks`."""
        return self._topic.remarks

    async def open(self) -> JournalState:
        """As `Journal.open`."""
        return await self._call(self._open)

    async def append(
        self, entries: Mapping[str, Body | None], *, replacing: Collection[str] = ()
    ) -> None:
        """As `Journal.append`."""
        await self._call(self._append, dict(entries), frozenset(replacing))

    async def settle(self) -> bool:
        """As `Journal.settle`."""
        return await self._call(self._settle)

    async def follow(self) -> AsyncGenerator[JournalState, None]:
        """As `Journal.follow`."""
        while True:
            try:
                yield await self._call(self._look)
            except JournalUnavailable as failed:
                log.info("The journal cannot be read: %s", failed)
                await self._clock.wait_s(RETRY_S)

    async def close(self) -> None:
        """As `Journal.close`."""
        await self._call(self._end)
        self._thread.shutdown(wait=False)

    async def _call(self, function: Callable[..., Value], *args: Any) -> Value:
        future = self._thread.submit(function, *args)
        # librdkafka asks for an OAUTHBEARER token only while it is polled.
        while self._clients.need_tokens and not future.done():
            await asyncio.to_thread(self._clients.poll)
        return await asyncio.wrap_future(future)

    # --- on the journal's thread

    def _open(self) -> JournalState:
        until = time.monotonic() + OPEN_TIMEOUT_S
        self._writer = None
        self._in_doubt = None
        self._topic.ensure(until)
        writer = _Writer(self._clients, transactional_id(self._cluster_id, self._clients.topic))
        writer.fence(until)
        self._read(lambda reader: reader.catch_up_all(until))
        self._stop_reading()
        self._writer = writer
        return self._state

    def _look(self) -> JournalState:
        if self._reader is None and not self._topic.exists():
            self._fold = Fold(self._cluster_id)
            self._state = self._fold.state()
            threading.Event().wait(NEWS_S)
            return self._state
        self._read(lambda reader: reader.catch_up(time.monotonic() + READ_TIMEOUT_S))
        return self._state

    def _read(self, action: Callable[[_Reader], None]) -> None:
        """Read, and take what was read as the state; after a failure reading begins anew."""
        if self._reader is None:
            self._fold = Fold(self._cluster_id)
            self._reader = _Reader(self._clients, self._fold.take)
        try:
            action(self._reader)
        except JournalUnavailable:
            if self._reader.broken:
                self._stop_reading()
            raise
        self._state = self._fold.state()

    def _stop_reading(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _append(self, entries: Mapping[str, Body | None], replacing: Collection[str]) -> None:
        writer = self._required()
        repeated = self._in_doubt
        if self._settle() and repeated == entries:
            return
        check_append(self._state, entries, replacing)
        header = Header(self._cluster_id, self._backend, self._clock.now_ms())
        records = self._fold.records(entries, header)
        if not records:
            return
        try:
            writer.write(records)
        except JournalUnavailable as failed:
            self._in_doubt = entries if failed.written is None else None
            raise
        self._committed(records)

    def _settle(self) -> bool:
        committed = self._required().settle()
        doubtful, self._in_doubt = self._in_doubt, None
        self._committed(committed)
        return doubtful is None or bool(committed)

    def _committed(self, records: Sequence[Record]) -> None:
        for key, value in records:
            self._fold.take(key, value)
        self._state = self._fold.state()

    def _required(self) -> _Writer:
        if self._writer is None:
            raise JournalFenced(
                "This backend does not write the journal. Nothing was written.",
                advice="It follows, and takes over when no other backend acts.",
            )
        return self._writer

    def _end(self) -> None:
        self._stop_reading()
        self._writer = None
        self._clients.forget()


class _Writer:
    """One transactional producer."""

    def __init__(self, clients: Clients, identity: str) -> None:
        self._topic = clients.topic
        self._producer = clients.producer(identity)
        self._open: Literal["commit", "abort"] | None = None
        """How the transaction that did not end yet is to end."""
        self._records: Sequence[Record] = ()
        """Those of the last transaction."""

    def fence(self, until: float) -> None:
        """Become the writer.

        Raises:
            JournalUnavailable, JournalFenced, NotAuthorized.
        """
        with meant("Taking the journal over"):
            self._producer.init_transactions(_left(until))

    def write(self, records: Sequence[Record]) -> None:
        """Write records in one transaction; no other may be open.

        Raises:
            JournalFenced, JournalUnavailable, NotAuthorized.
        """
        self._producer.poll(0)
        self._records = records
        try:
            with meant("Writing to the journal"):
                self._producer.begin_transaction()
                self._open = "abort"
                for key, value in records:
                    self._producer.produce(self._topic, value, key, partition=0)
        except JournalUnavailable:
            self.settle()
            raise
        self._open = "commit"
        self._commit()

    def settle(self) -> Sequence[Record]:
        """End the transaction that is open, if any; returns the records that this committed.

        Raises:
            JournalFenced, JournalUnavailable, NotAuthorized.
        """
        if self._open == "commit":
            try:
                self._commit()
            except JournalUnavailable as failed:
                if failed.written is None or not self._over():
                    raise
                return ()
            return self._records
        if self._open == "abort":
            with meant("Taking back what was written to the journal"):
                self._producer.abort_transaction(APPEND_TIMEOUT_S)
            self._open = None
        return ()

    def _over(self) -> bool:
        return self._open is None

    def _commit(self) -> None:
        try:
            self._producer.commit_transaction(APPEND_TIMEOUT_S)
        except KafkaException as failed:
            error = failed.args[0]
            if not error.txn_requires_abort():
                raise meaning(error, "Writing to the journal", doubt=True) from None
            self._open = "abort"
            self.settle()
            raise meaning(error, "Writing to the journal") from None
        self._open = None


class _Reader:
    """Reads the topic's committed records, each once and in order."""

    def __init__(
        self, clients: Clients, take: Callable[[bytes | None, bytes | None], None]
    ) -> None:
        self._clients = clients
        self._take = take
        self._consumer = clients.consumer()
        self._place = TopicPartition(clients.topic, 0, OFFSET_BEGINNING)
        self._consumer.assign([self._place])
        self._reached = 0
        """The offset before which everything was taken."""
        self._began = False
        self.broken = False
        """True where reading cannot go on from where it is."""

    def close(self) -> None:
        """Release the consumer."""
        self._consumer.close()

    def catch_up(self, until: float) -> None:
        """Wait for news a while, then read to the last stable offset.

        Raises:
            JournalUnavailable: it did not come to the end in time.
            NotAuthorized: the cluster refuses this principal.
        """
        if self._began:
            self._poll(NEWS_S)
        self._began = True
        with meant("Looking for the journal's end"):
            _, end = self._consumer.get_watermark_offsets(self._place, _left(until))
        self._read_to(end, until)

    def catch_up_all(self, until: float) -> None:
        """Read to the high watermark: also what a transaction of somebody else still holds back.

        Raises:
            JournalUnavailable, NotAuthorized: as `catch_up`.
        """
        place = TopicPartition(self._clients.topic, 0)
        end = insist(until, lambda: self._high_watermark(place, until))
        self._read_to(end, until)

    def _high_watermark(self, place: TopicPartition, until: float) -> int:
        with meant("Looking for the journal's end"):
            asked = self._clients.admin().list_offsets(
                {place: OffsetSpec.latest()},  # type: ignore[no-untyped-call]
                isolation_level=IsolationLevel.READ_UNCOMMITTED,
                request_timeout=_left(until),
            )
            offset: int = asked[place].result().offset
        return offset

    def _read_to(self, end: int, until: float) -> None:
        while self._reached < end:
            if time.monotonic() > until:
                raise JournalUnavailable(
                    f"The journal was read to offset {self._reached} of {end}, and no further "
                    f"in time.",
                    advice="A broker may be slow, or another producer may hold a transaction open.",
                )
            self._poll(POLL_S)

    def _poll(self, timeout_s: float) -> None:
        message = self._consumer.poll(timeout_s)
        if message is None:
            return
        error = message.error()
        if error is None:
            self._take(message.key(), message.value())
            self._reached = int(message.offset() or 0) + 1
        elif error.code() == KafkaError._PARTITION_EOF:
            self._reached = int(message.offset() or 0)
        elif not error.retriable() and error.code() not in _PASSING:
            self.broken = True
            raise meaning(error, "Reading the journal")


def _left(until: float) -> float:
    return max(POLL_S, until - time.monotonic())


_PASSING: Final = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._RESOLVE,
    }
)
"""Errors of a consumer that goes on by itself."""
