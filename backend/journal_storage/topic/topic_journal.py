"""The journal in a cluster: a compacted topic, a transactional producer, a consumer.

Goals
    What `append` returned for is in the topic whatever happens, all of it. What it refused is
    not. The journal says what is in doubt, and finds it out later. A backend that was replaced
    writes nothing more. A topic that was deleted, or deleted and made anew, is never taken for the
    journal that it was: what that one held would be forgotten without a word.
Constraints
    confluent-kafka's calls block, so one thread makes all of them, in order. A cancelled caller
    leaves its call to end by itself.
Algorithm
    KIP-98: every writer has the same `transactional.id`, so `init_transactions` gives it the next
    epoch, ends what the former one had begun, and fences it. Only then is the topic read to its
    high watermark, so nothing that could still be committed is missing. Each append is one
    transaction. A commit whose answer is lost is asked for again before anything else is
    written: librdkafka continues with it, and the coordinator answers alike. A reader takes
    committed records only and stops at the last stable offset, which is never within a
    transaction. A backend that has read something knows its topic by the id that Kafka gave it.
    It compares the id from time to time and when a call fails. A writer sees immediately that an
    offset is used again.

Importing this module loads librdkafka.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, TypeVar

from kshunt.backend.access.cluster_keys import ClusterKeys
from kshunt.backend.admin.security.client_properties import ClientConfig
from kshunt.backend.clock import Clock
from kshunt.backend.domain.backend.journal import JOURNAL_TOPIC
from kshunt.backend.errors import JournalFenced, JournalUnavailable, JournalUnusable, KshuntError
from kshunt.backend.journal_storage.topic.acls import acl_remarks, writers_of
from kshunt.backend.journal_storage.topic.clients import (
    POLL_S,
    READ_TIMEOUT_S,
    Clients,
    JournalTopic,
    retrying,
)
from kshunt.backend.journal_storage.topic.fenced_transactions import (
    NEWS_S,
    CommittedReader,
    ReadBehind,
    Writer,
)
from kshunt.backend.journal_storage.topic.repair import HEAL_S, TopicRepair, restoring_appends
from kshunt.backend.operations.journal.entries import (
    BACKEND_KEY,
    REFUSED,
    Body,
    EntryHeader,
    JournalState,
    Record,
)
from kshunt.backend.operations.journal.port import RETRY_S, Repairs, check_append, in_lots
from kshunt.backend.operations.journal.replay import JournalReplay, Unproven

OPEN_TIMEOUT_S: Final = 10.0
PEEK_S: Final = 1.0
"""A look before a take-over waits this long for a transaction that is under way."""
COMPARE_S: Final = 2.0
"""A follower looks this often whether its topic is still the same."""
SETTINGS_S: Final = 30.0
"""The writer looks this often whether somebody has changed the topic's settings."""
GONE_S: Final = 2.0
"""A topic that no broker names for this long was deleted: a broker that just started may not know
it."""
REPLACED: Final = "replaced"
"""The id of no topic."""
Value = TypeVar("Value")

log = logging.getLogger(__name__)


def transactional_id(cluster_id: str, topic: str = JOURNAL_TOPIC) -> str:
    """The `transactional.id` of every backend that writes a cluster's journal."""
    return f"{topic.strip('_').replace('_', '-')}-{cluster_id}"


class TopicJournal:
    """`kshunt.backend.operations.journal.port.Journal` in a topic of the cluster."""

    any_loop: Final = True
    """One thread makes all calls, in order; a caller may wait for them on any event loop."""

    def __init__(
        self,
        bootstrap_servers: str,
        config: ClientConfig,
        *,
        cluster_id: str,
        writer: str,
        clock: Clock,
        keys: ClusterKeys,
        unproven: Unproven = Unproven.REFUSE,
        topic: str = JOURNAL_TOPIC,
    ) -> None:
        """`writer` is this backend's id; `cluster_id` the one that its other calls reach.

        `unproven` says what becomes of a journal that nobody with these keys has written.
        """
        self._clients = Clients(bootstrap_servers, config, topic)
        self._cluster_id = cluster_id
        self._backend = writer
        self._clock = clock
        self._topic = JournalTopic(self._clients, cluster_id)
        self._repair = TopicRepair(self._clients)
        self._acls: tuple[str, ...] = ()
        self._memory: JournalReplay | None = None
        """What this backend knew as the writer of a topic that is no more."""
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kshunt-journal")
        self._keys = keys
        self._unproven = unproven
        self._fold = self._new_fold()
        self._reader: CommittedReader | None = None
        self._writer: Writer | None = None
        self._in_doubt: Mapping[str, Body | None] | None = None
        self._state = JournalState()
        self._identity: str | None = None
        """Of the topic that `_state` was read from."""
        self._compared_s = 0.0
        self._looked_s = time.monotonic()
        self._missing_since_s: float | None = None
        self._hurry = threading.Event()
        """Set while a call waits for a follower to give way."""

    @property
    def state(self) -> JournalState:
        """As `Journal.state`."""
        return self._state

    @property
    def remarks(self) -> tuple[str, ...]:
        """As `Journal.remarks`."""
        return (*self._topic.remarks, *self._acls, *self._repair.remarks)

    @property
    def repairs(self) -> Repairs:
        """As `Journal.repairs`."""
        return self._repair.repairs

    def _new_fold(self) -> JournalReplay:
        return JournalReplay(self._cluster_id, self._keys, self._unproven)

    async def open(self) -> JournalState:
        """As `Journal.open`."""
        self._hurry.set()
        return await self._call(self._open)

    async def peek(self) -> JournalState:
        """As `Journal.peek`."""
        return await self._call(self._peek)

    async def append(
        self, entries: Mapping[str, Body | None], *, replacing: Collection[str] = ()
    ) -> None:
        """As `Journal.append`."""
        await self._call(self._append, dict(entries), frozenset(replacing))

    async def resolve(self) -> bool:
        """As `Journal.resolve`."""
        return await self._call(self._resolve)

    async def follow(self) -> AsyncGenerator[JournalState, None]:
        """As `Journal.follow`."""
        while True:
            try:
                yield await self._call(self._look)
                if self._identity is None:
                    await self._rest()
            except JournalUnavailable as failed:
                log.info("The journal cannot be read: %s", failed)
                await self._clock.wait_s(RETRY_S)

    async def _rest(self) -> None:
        """Wait as long as a reader waits for news, unless there is a hurry."""
        until_s = self._clock.monotonic_s() + NEWS_S
        while self._clock.monotonic_s() < until_s and not self._hurry.is_set():
            await self._clock.wait_s(POLL_S)
        self._hurry.clear()

    def nudge(self) -> None:
        """As `Journal.nudge`."""
        self._hurry.set()

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
        self._hurry.clear()
        self._writer = None
        self._in_doubt = None
        if self._memory is not None:
            self._restore(until)
        retrying(until, self._same)
        self._topic.ensure(until)
        retrying(until, self._found)
        writer = Writer(self._clients, transactional_id(self._cluster_id, self._clients.topic))
        writer.fence(until)
        writer.reached = self._read(lambda reader: reader.catch_up_all(until))
        self._stop_reading()
        if self._state.provenance in REFUSED:
            raise JournalUnusable(f"{REFUSED[self._state.provenance][1]} Nothing was written.")
        self._writer = writer
        self._sign()
        topic = self._clients.topic
        self._acls = acl_remarks(topic, writers_of(self._clients.admin(), topic))
        return self._state

    def _sign(self) -> None:
        """Sign what is believed and is not signed with the key that signs.

        What is written first leaves the manifest as it is, so that nothing is lost where this
        ends in the middle.
        """
        adopted = self._state.adopted
        waiting = {key: self._state.entries[key].body for key in self._fold.unsigned()}
        for some, last in in_lots(waiting):
            self._put(some, unfinished=not last)
        if waiting:
            log.warning("Journal entries that were signed again: %d", len(waiting))
        if adopted:
            self._repair.adopted(len(waiting))

    def _peek(self) -> JournalState:
        if not self._same():
            return self._state
        with suppress(ReadBehind):
            self._read(lambda reader: reader.catch_up_all(time.monotonic() + PEEK_S))
        return self._state

    def _look(self) -> JournalState:
        # A topic made anew may have grown as long as the former one was: reading alone would not
        # tell them apart.
        if self._memory is not None:
            self._restore(time.monotonic() + OPEN_TIMEOUT_S)
        due = self._reader is None or time.monotonic() - self._compared_s > COMPARE_S
        if due and not self._same():
            return self._state
        until = time.monotonic() + READ_TIMEOUT_S
        try:
            self._read(lambda reader: reader.catch_up(until, self._hurry))
        except JournalUnavailable:
            if self._same():
                raise
        return self._state

    def _found(self) -> None:
        if not self._same():
            raise JournalUnavailable(
                "The topic of the journal was created, but no broker knows it yet."
            )

    def _same(self) -> bool:
        """Whether there is a topic.

        Raises:
            JournalUnavailable: it is not certain.
            JournalUnusable: it is not the one that was read, and what that one held is lost.
        """
        found = self._topic.identity()
        self._compared_s = time.monotonic()
        if found == self._identity:
            self._missing_since_s = None
            return found is not None
        if found is None and not self._gone():
            raise JournalUnavailable("The brokers do not list the journal's topic.")
        if found is not None and self._goes_on():
            self._stop_reading()
        elif self._identity is not None:
            self._lost(
                "does not exist any more" if found is None else "was deleted and created again"
            )
        self._identity = found
        return found is not None

    def _goes_on(self) -> bool:
        """Whether the topic is another one into which the one that acted wrote what it knew."""
        if self._identity is None or self._writer is not None:
            return False
        fold = self._new_fold()
        self._read_once(fold, time.monotonic() + READ_TIMEOUT_S)
        return self._fold.is_continued_by(fold)

    def _read_once(self, fold: JournalReplay, until: float) -> int:
        reader = CommittedReader(self._clients, fold.take)
        try:
            reader.catch_up_all(until)
            return reader.reached
        finally:
            reader.close()

    def _restore(self, until: float) -> None:
        """Write what this backend knew into a topic that was made anew, as nobody else has.

        Raises:
            JournalUnavailable, NotAuthorized, WrongCluster: it is tried again.
            JournalUnusable: also, another backend has begun a journal there.
        """
        self._topic.ensure(until)
        identity = retrying(until, self._topic.identity)
        writer = Writer(self._clients, transactional_id(self._cluster_id, self._clients.topic))
        writer.fence(until)
        fold, memory = self._new_fold(), self._memory
        writer.reached = self._read_once(fold, until)
        if identity is None or memory is None:
            raise JournalUnavailable(
                "The topic of the journal was created, but no broker knows it yet."
            )
        # An append of ours may have come into the new topic before that was noticed.
        if fold.listed_at >= 0 and fold.journal_id != memory.journal_id:
            self._memory = None
            raise self._forgotten("was deleted, and another backend began a new one")
        fold.go_on_from(memory)
        header = EntryHeader(self._cluster_id, self._backend, self._clock.now_ms())
        for records in restoring_appends(self._state, fold, header):
            writer.write(records)
            for key, value in records:
                fold.take(key, value)
        self._stop_reading()
        self._fold, self._state, self._memory = fold, fold.state(), None
        self._identity = identity
        self._repair.came_back(len(self._state.entries))
        log.warning("The journal was written again; entries: %d", len(self._state.entries))

    def _gone(self) -> bool:
        now_s = time.monotonic()
        if self._missing_since_s is None:
            self._missing_since_s = now_s
        return now_s - self._missing_since_s >= GONE_S

    def _lost(self, how: str) -> None:
        """Forget a topic that is no more, unless this backend remembers what it held.

        The writer knows all of it, and writes it into a new topic; see `_restore`.
        """
        self._stop_reading()
        self._repair.stop()
        if self._writer is not None:
            self._memory = self._fold
        self._writer = None
        remembered = (self._state.entries.keys() | self._state.unreadable.keys()) - {BACKEND_KEY}
        if remembered:
            raise self._forgotten(how)
        self._memory = None
        self._fold = self._new_fold()
        self._state = self._fold.state()

    def _forgotten(self, how: str) -> JournalUnusable:
        remembered = (self._state.entries.keys() | self._state.unreadable.keys()) - {BACKEND_KEY}
        some = ", ".join(sorted(remembered)[:3]) + (", ..." if len(remembered) > 3 else "")
        advice = (
            "This backend was active, so it knows all of them and writes them again as soon as "
            "it can. Do not stop it before that."
            if self._memory is not None
            else "This backend still shows them: check its operations and throttles. If another "
            "backend was active at that time, let it run: it writes them again, and this "
            "one continues. If there was none, note the throttles and their former values. "
            "After a restart, kshunt begins a new journal without them."
        )
        return JournalUnusable(
            f"Topic {self._clients.topic} {how}, with all that backends remembered of this "
            f"cluster; number of entries: {len(remembered)} ({some}). kshunt changes nothing "
            "here. Moves continue in the cluster, and throttles stay set.",
            advice=advice,
        )

    def _read(self, action: Callable[[CommittedReader], None]) -> int:
        """Read, and take what was read as the state; returns the offset that was reached.

        Where reading cannot continue, it begins anew the next time.
        """
        if self._reader is None:
            self._fold = self._new_fold()
            self._reader = CommittedReader(self._clients, self._fold.take)
        try:
            action(self._reader)
        except KshuntError:
            if self._reader.broken:
                self._stop_reading()
            raise
        self._state = self._fold.state()
        return self._reader.reached

    def _stop_reading(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _append(self, entries: Mapping[str, Body | None], replacing: Collection[str]) -> None:
        try:
            self._write(entries, replacing)
        except (JournalUnavailable, JournalFenced):
            # The first failure says more than another one of the same cluster.
            with suppress(JournalUnavailable):
                self._same()
            raise

    def _write(self, entries: Mapping[str, Body | None], replacing: Collection[str]) -> None:
        self._required()
        repeated = self._in_doubt
        if self._resolve() and repeated == entries:
            return
        check_append(self._state, entries, replacing)
        self._put(entries)
        if time.monotonic() - self._looked_s > SETTINGS_S:
            self._looked_s = time.monotonic()
            with suppress(KshuntError):
                self._topic.look()
        # What was asked is written; what others did is found again at the next append.
        with suppress(JournalUnavailable):
            if self._repair.look(self._required(), self._fold, time.monotonic() + HEAL_S):
                self._state = self._fold.state()
                due = self._repair.due(self._state)
                self._put(due, again=True)
                self._repair.written_again(len(due))

    def _put(
        self,
        entries: Mapping[str, Body | None],
        *,
        unfinished: bool = False,
        again: bool = False,
    ) -> None:
        header = EntryHeader(self._cluster_id, self._backend, self._clock.now_ms())
        records = self._fold.records(entries, header, unfinished=unfinished, again=again)
        if not records:
            return
        try:
            self._required().write(records)
        except JournalUnavailable as failed:
            self._in_doubt = entries if failed.written is None else None
            raise
        self._committed(records)

    def _resolve(self) -> bool:
        committed = self._required().resolve()
        doubtful, self._in_doubt = self._in_doubt, None
        self._committed(committed)
        return doubtful is None or bool(committed)

    def _committed(self, records: Sequence[Record]) -> None:
        if self._writer is not None and self._writer.went_back:
            # Where topics have no ids this is the only sign, so that no other may pass for it.
            self._identity = REPLACED
            self._lost("was deleted and created again")
        for key, value in records:
            self._fold.take(key, value)
        self._state = self._fold.state()

    def _required(self) -> Writer:
        if self._writer is None:
            raise JournalFenced(
                "This backend does not write the journal. Nothing was written.",
                advice="It is a standby, and takes over when no other backend is active.",
            )
        return self._writer

    def _end(self) -> None:
        self._stop_reading()
        self._repair.stop()
        self._writer = None
        self._clients.forget()
