"""The two ways into the journal's topic: a producer of transactions, and a reader of what was
committed. `kshunt.backend.journal_storage.topic.topic_journal` says how they are used.

Importing this module loads librdkafka.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, Literal

from confluent_kafka import (
    OFFSET_BEGINNING,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import OffsetSpec

from kshunt.backend.errors import JournalUnavailable
from kshunt.backend.journal_storage.topic.clients import (
    POLL_S,
    Clients,
    meaning,
    retrying,
    translated_errors,
)
from kshunt.backend.operations.journal.entries import Record

APPEND_TIMEOUT_S: Final = 4.0
NEWS_S: Final = 0.5
"""A reader looks for the end of the topic this often, or when a record comes."""


class ReadBehind(JournalUnavailable):
    """The end was not reached in time: a broker is slow, or a transaction is open."""


class Writer:
    """One transactional producer."""

    def __init__(self, clients: Clients, identity: str) -> None:
        self._topic = clients.topic
        self._producer = clients.producer(identity)
        self._open: Literal["commit", "abort"] | None = None
        """How the transaction that did not end yet is to end."""
        self._records: Sequence[Record] = ()
        """Those of the last transaction."""
        self.reached = 0
        """The offset after all that is known to be in the topic."""
        self.went_back = False
        """True where a record got an offset that was in use: it is another topic."""
        self.strange_from: int | None = None
        """The first offset that may be somebody else's: there was a gap before a record of ours."""
        self._first = True
        """True until a record of the transaction is acknowledged."""

    def fence(self, until: float) -> None:
        """Become the writer. In ZooKeeper, `admin.zookeeper.session.Fence` does this.

        Raises:
            JournalUnavailable, JournalFenced, NotAuthorized.
        """
        with translated_errors("Taking over the journal"):
            self._producer.init_transactions(_left(until))

    def write(self, records: Sequence[Record]) -> None:
        """Write records in one transaction; no other may be open.

        Raises:
            JournalFenced, JournalUnavailable, NotAuthorized.
        """
        self._producer.poll(0)
        self._records = records
        self._first = True
        try:
            with translated_errors("Writing to the journal"):
                self._producer.begin_transaction()
                self._open = "abort"
                for key, value in records:
                    self._producer.produce(
                        self._topic, value, key, partition=0, on_delivery=self._delivered
                    )
        except JournalUnavailable:
            self.resolve()
            raise
        self._open = "commit"
        self._commit()

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        # A record that was sent twice has no offset in the second answer.
        offset = message.offset()
        if error is None and offset is not None and offset >= 0:
            self.went_back |= offset < self.reached
            # The end of the transaction before takes one offset.
            if offset > self.reached + self._first and self.strange_from is None:
                self.strange_from = self.reached
            self._first = False
            self.reached = offset + 1

    def resolve(self) -> Sequence[Record]:
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
            with translated_errors("Reverting what was written to the journal"):
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
            self.resolve()
            raise meaning(error, "Writing to the journal") from None
        self._open = None


class CommittedReader:
    """Reads the topic's committed records, each once and in order."""

    def __init__(
        self,
        clients: Clients,
        take: Callable[[bytes | None, bytes | None], None],
        start: int = OFFSET_BEGINNING,
    ) -> None:
        """`start` is the offset of the first record to take."""
        self._clients = clients
        self._take = take
        self._consumer = clients.consumer()
        self._place = TopicPartition(clients.topic, 0, start)
        self._consumer.assign([self._place])
        self.reached = max(0, start)
        """The offset before which everything was taken."""
        self._began = False
        self.broken = False
        """True where reading cannot continue from where it is."""

    def close(self) -> None:
        """Release the consumer."""
        self._consumer.close()

    def catch_up(self, until: float, hurry: threading.Event) -> None:
        """Wait for news a while, unless there is a hurry, then read to the last stable offset.

        Raises:
            JournalUnavailable: it did not come to the end in time.
            NotAuthorized: the cluster refuses this principal.
        """
        if self._began:
            self._wait_for_news(time.monotonic() + NEWS_S, hurry)
        self._began = True
        with translated_errors("Looking for the end of the journal"):
            _, end = self._consumer.get_watermark_offsets(self._place, _left(until))
        if end < self.reached:
            self.broken = True
            raise JournalUnavailable(
                f"The journal ends at {end}, but was read only to {self.reached}."
            )
        self.read_to(end, until)

    def _wait_for_news(self, until: float, hurry: threading.Event) -> None:
        reached = self.reached
        while self.reached == reached and time.monotonic() < until and not hurry.is_set():
            self._poll(POLL_S)
        hurry.clear()

    def catch_up_all(self, until: float) -> None:
        """Read to the high watermark: also what a transaction of somebody else still holds back.

        Raises:
            JournalUnavailable, NotAuthorized: as `catch_up`.
        """
        place = TopicPartition(self._clients.topic, 0)
        end = retrying(until, lambda: self._high_watermark(place, until))
        self.read_to(end, until)

    def _high_watermark(self, place: TopicPartition, until: float) -> int:
        with translated_errors("Looking for the end of the journal"):
            asked = self._clients.admin().list_offsets(
                {place: OffsetSpec.latest()},  # type: ignore[no-untyped-call]
                isolation_level=IsolationLevel.READ_UNCOMMITTED,
                request_timeout=_left(until),
            )
            offset: int = asked[place].result().offset
        return offset

    def read_to(self, end: int, until: float) -> None:
        """Take what is before an offset.

        Raises:
            JournalUnavailable, NotAuthorized: as `catch_up`.
        """
        while self.reached < end:
            if time.monotonic() > until:
                raise ReadBehind(
                    f"The journal was read to offset {self.reached} of {end}, and then time ran "
                    "out.",
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
            self.reached = int(message.offset() or 0) + 1
        elif error.code() == KafkaError._PARTITION_EOF:
            self.reached = int(message.offset() or 0)
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
        # librdkafka looks for the coordinator of its group, which nothing here is asked of.
        KafkaError.GROUP_AUTHORIZATION_FAILED,
    }
)
"""Errors after which a consumer continues by itself."""
