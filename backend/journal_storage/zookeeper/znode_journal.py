"""The journal in ZooKeeper: one znode a record, and KIP-179's removal records next to them.

Goals
    As `kshunt.backend.journal_storage.topic.topic_journal`: what `append` returned for is there,
    all of it. What it refused is not. What is in doubt is found out later. A backend that was
    replaced writes nothing more.
Constraints
    A server takes a megabyte in one commit, so that an append is no larger (`jute.maxbuffer`). A
    commit whose answer is lost may have been made, or may yet be.
Algorithm
    A backend that becomes the writer writes `/kshunt/writer`, if it may write below `/admin`,
    where the seed's znodes and the reassignment's are. Its version is in each of the
    writer's commits: the writer before has another version, and its commits fail. Then the new
    writer reads all of `/kshunt/journal`. Each append is one commit. It has the records, and the
    seed's znodes where throttles come or go (`removal_records`). It also has `/kshunt/commit`,
    with a word that no other append has, and the names of the records. The version of that znode
    numbers the appends. A reader that has the append before reads what is named. Any other reader
    reads everything, and reads again where the number has changed meanwhile. Where an append is in
    doubt, `/kshunt/writer` is written anew, after which the append can no longer be made. Then the
    word in `/kshunt/commit` says whether it was made.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import unquote_to_bytes

from kshunt.backend.access.cluster_keys import ClusterKeys
from kshunt.backend.admin.zookeeper import cluster_state, znode_layout
from kshunt.backend.admin.zookeeper.session import (
    Create,
    Delete,
    Fence,
    InDoubt,
    Op,
    Outdated,
    Put,
    Session,
)
from kshunt.backend.clock import Clock
from kshunt.backend.domain.backend.journal import JOURNAL_ZNODE
from kshunt.backend.errors import (
    ClusterError,
    ClusterUnreachable,
    JournalFenced,
    JournalUnavailable,
    JournalUnusable,
    NotActive,
    NotAuthorized,
    WrongCluster,
)
from kshunt.backend.journal_storage.zookeeper import removal_records
from kshunt.backend.journal_storage.zookeeper.removal_records import Removal
from kshunt.backend.journal_storage.zookeeper.znode_names import (
    THROTTLES,
    fenced,
    named_by,
    record_name,
    throttles_of,
)
from kshunt.backend.operations.journal.entries import (
    BACKEND_KEY,
    REFUSED,
    Body,
    EntryHeader,
    JournalState,
    Record,
    kind_of,
)
from kshunt.backend.operations.journal.port import RETRY_S, Repairs, check_append, in_lots
from kshunt.backend.operations.journal.replay import JournalReplay, Unproven

WRITER: Final = f"{JOURNAL_ZNODE}/writer"
COMMIT: Final = f"{JOURNAL_ZNODE}/commit"
RECORDS: Final = f"{JOURNAL_ZNODE}/journal"
PROBE: Final = "kshunt_probe"
"""Below `/admin`, made and deleted in one commit, so that nobody ever sees it."""
TIMEOUT_S: Final = 4.0
OPEN_S: Final = 10.0
NEWS_S: Final = 0.5
"""A follower looks this often."""
POLL_S: Final = 0.05
SIGNED_AT_ONCE: Final = 20
"""A server takes no more than a megabyte in one commit."""
ATTEMPTS: Final = 5
"""Somebody else would have to write the seed's znodes as often, between our look and our commit."""

Value = TypeVar("Value")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Doubt:
    """An append whose answer was lost."""

    entries: Mapping[str, Body | None]
    records: Sequence[Record]
    word: str


class ZnodeJournal:
    """`kshunt.backend.operations.journal.port.Journal` in znodes of the cluster."""

    any_loop: Final = False
    """The session belongs to one event loop."""

    def __init__(
        self,
        session: Session,
        *,
        cluster_id: str,
        writer: str,
        clock: Clock,
        keys: ClusterKeys,
        unproven: Unproven = Unproven.REFUSE,
    ) -> None:
        """`writer` is this backend's id; `cluster_id` the one that its other calls reach.

        `unproven` says what becomes of a journal that nobody with these keys has written.
        """
        self._session = session
        self._cluster_id = cluster_id
        self._backend = writer
        self._clock = clock
        self._lock = asyncio.Lock()
        self._keys = keys
        self._unproven = unproven
        self._fold = self._new_fold()
        self._state = JournalState()
        self._names: set[str] = set()
        """Of the znodes that there are."""
        self._number = -1
        """Of the last append that is known; -1: nothing was read yet."""
        self._identity = ""
        """What `/kshunt` said when it was first read."""
        self._fence: Fence | None = None
        self._doubt: _Doubt | None = None
        self._remarks: tuple[str, ...] = ()
        self._nudged = False
        self.repairs = Repairs()
        """As `Journal.repairs`."""

    @property
    def state(self) -> JournalState:
        """As `Journal.state`."""
        return self._state

    @property
    def remarks(self) -> tuple[str, ...]:
        """As `Journal.remarks`."""
        return self._remarks

    def _new_fold(self) -> JournalReplay:
        return JournalReplay(self._cluster_id, self._keys, self._unproven)

    def explained(self) -> Removal:
        """The names in KIP-179's znodes that this journal's records explain."""
        return removal_records.named_by(throttles_of(self._state))

    async def open(self) -> JournalState:
        """As `Journal.open`."""
        return await self._alone(self._open)

    async def peek(self) -> JournalState:
        """As `Journal.peek`."""
        return await self._alone(self._peek)

    async def append(
        self, entries: Mapping[str, Body | None], *, replacing: Collection[str] = ()
    ) -> None:
        """As `Journal.append`.

        Raises:
            BadInput: also, it is more than a server takes in one commit.
            Conflict: also, one of the seed's znodes cannot be understood.
        """
        copied, replaced = dict(entries), frozenset(replacing)
        await self._alone(lambda: self._append(copied, replaced))

    async def resolve(self) -> bool:
        """As `Journal.resolve`."""
        return await self._alone(self._resolve)

    async def follow(self) -> AsyncGenerator[JournalState, None]:
        """As `Journal.follow`."""
        while True:
            try:
                yield await self._alone(self._look)
                await self._rest()
            except JournalUnavailable as failed:
                log.info("The journal cannot be read: %s", failed)
                await self._clock.wait_s(RETRY_S)

    async def _rest(self) -> None:
        until_s = self._clock.monotonic_s() + NEWS_S
        while self._clock.monotonic_s() < until_s and not self._nudged:
            await self._clock.wait_s(POLL_S)
        self._nudged = False

    def nudge(self) -> None:
        """As `Journal.nudge`."""
        self._nudged = True

    async def close(self) -> None:
        """As `Journal.close`; the session is not ours."""
        self._lose()

    async def _alone(self, action: Callable[[], Awaitable[Value]]) -> Value:
        """One call after the other; one whose caller was cancelled runs to its end."""

        async def locked() -> Value:
            async with self._lock:
                try:
                    return await action()
                except (JournalUnavailable, JournalFenced, JournalUnusable, NotAuthorized):
                    raise
                except Outdated as error:
                    raise JournalUnavailable(
                        f"Another process writes the journal: {error}."
                    ) from None
                except ClusterUnreachable as error:
                    raise JournalUnavailable(
                        error.message,
                        advice=error.advice,
                        written=False if self._doubt is None else None,
                    ) from None
                except ClusterError as error:
                    raise JournalUnusable(error.message, advice=error.advice) from None

        return await asyncio.shield(asyncio.ensure_future(locked()))

    # --- becoming the writer

    async def _open(self) -> JournalState:
        self._lose()
        self._doubt = None
        await self._session.sync("/", timeout_s=OPEN_S)
        found = await cluster_state.cluster_id(self._session, timeout_s=OPEN_S)
        if found != self._cluster_id:
            raise WrongCluster(
                f"ZooKeeper at {self._session.connect} holds cluster {found}, but this backend "
                f"serves {self._cluster_id}. Nothing was changed."
            )
        await self._ensure()
        token = f"{self._backend} {secrets.token_hex(8)}"
        # Who may not write there must not act: another one may, and would have to wait for it.
        probe = f"{znode_layout.ADMIN}/{PROBE}"
        become: list[Op] = [Create(probe, b""), Delete(probe), Put(WRITER, token.encode())]
        await self._session.commit(become, timeout_s=TIMEOUT_S, fenced=False)
        self._fence = await self._written(token)
        await self._read_all(OPEN_S)
        if self._state.provenance in REFUSED:
            self._lose()
            raise JournalUnusable(f"{REFUSED[self._state.provenance][1]} Nothing was written.")
        self._session.fence, self._session.barred = self._fence, False
        await self._sign()
        return self._state

    async def _sign(self) -> None:
        """Sign what is believed and is not signed with the key that signs."""
        adopted = self._state.adopted
        waiting = {key: self._state.entries[key].body for key in self._fold.unsigned()}
        for some, last in in_lots(waiting, SIGNED_AT_ONCE):
            await self._put(some, unfinished=not last)
        if adopted:
            self.repairs = Repairs(adopted=self.repairs.adopted + len(waiting))

    async def _ensure(self) -> None:
        """Make what is not there."""
        made: dict[str, bytes] = {
            JOURNAL_ZNODE: znode_layout.text({"version": 1, "id": secrets.token_hex(8)}),
            WRITER: b"",
            COMMIT: b"{}",
            RECORDS: b"",
        }
        found = await self._session.read_many(list(made), timeout_s=OPEN_S)
        missing = [
            Create(path, made[path], acl_of=znode_layout.ADMIN)
            for path, znode in zip(made, found, strict=True)
            if znode is None
        ]
        try:
            if missing:
                await self._session.commit(missing, timeout_s=TIMEOUT_S, fenced=False)
        except Outdated as error:
            raise JournalUnavailable(f"Another backend is creating the journal: {error}.") from None

    async def _written(self, token: str) -> Fence:
        """The fence, if what is in `/kshunt/writer` is ours.

        Raises:
            JournalFenced: another one has written it since.
        """
        znode = await self._session.read(WRITER, timeout_s=TIMEOUT_S)
        if znode is None or znode.data.decode("utf-8", "replace") != token:
            self._lose()
            raise fenced()
        return Fence(WRITER, znode.version)

    def _lose(self) -> None:
        """Not be the writer, until the next `open`."""
        if self._fence is not None:
            self._session.barred = True
        self._fence = self._session.fence = None

    # --- reading

    async def _peek(self) -> JournalState:
        await self._session.sync("/", timeout_s=TIMEOUT_S)
        return await self._look()

    async def _look(self) -> JournalState:
        root, commit = await self._session.read_many([JOURNAL_ZNODE, COMMIT], timeout_s=TIMEOUT_S)
        if root is None or commit is None:
            self._gone("does not exist any more")
            return self._state
        if self._identity and root.data.decode("utf-8", "replace") != self._identity:
            self._gone("was deleted and created again")
        if commit.version == self._number:
            return self._state
        if self._number >= 0 and commit.version == self._number + 1:
            names = named_by(commit)
            if names is not None and await self._read_some(names, commit.version):
                return self._state
        await self._read_all(TIMEOUT_S)
        return self._state

    async def _read_some(self, names: Sequence[str], number: int) -> bool:
        """Take over what one append wrote; False where another one came between."""
        found = await self._session.read_many(list(map(_path, names)), timeout_s=TIMEOUT_S)
        after = await self._session.read(COMMIT, timeout_s=TIMEOUT_S)
        if after is None or after.version != number:
            return False
        records = [
            (unquote_to_bytes(name), None if znode is None else znode.data)
            for name, znode in zip(names, found, strict=True)
        ]
        self._take(records, number)
        return True

    async def _read_all(self, timeout_s: float) -> None:
        """Take over everything, of one moment.

        Raises:
            JournalUnavailable: it is written all the time.
        """
        until_s = self._clock.monotonic_s() + timeout_s
        while self._clock.monotonic_s() < until_s:
            root, before = await self._session.read_many(
                [JOURNAL_ZNODE, COMMIT], timeout_s=timeout_s
            )
            # A head before its parts.
            names = sorted(await self._session.children(RECORDS, timeout_s=timeout_s) or ())
            found = await self._session.read_many(list(map(_path, names)), timeout_s=timeout_s)
            after = await self._session.read(COMMIT, timeout_s=timeout_s)
            if root is None or before is None or after is None:
                break
            if before.version == after.version:
                self._fold = self._new_fold()
                self._names.clear()
                records = [
                    (unquote_to_bytes(name), znode.data)
                    for name, znode in zip(names, found, strict=True)
                    if znode is not None
                ]
                self._identity = root.data.decode("utf-8", "replace")
                self._take(records, after.version)
                await self._look_for_remarks()
                return
        raise JournalUnavailable("The journal in ZooKeeper changes while it is read.")

    async def _look_for_remarks(self) -> None:
        found = await removal_records.read(self._session, timeout_s=TIMEOUT_S)
        self._remarks = tuple(map(str, found.unreadable.values()))

    def _take(self, records: Sequence[Record], number: int) -> None:
        for key, value in records:
            self._fold.take(key, value)
            name = record_name(key)
            (self._names.discard if value is None else self._names.add)(name)
        self._state, self._number = self._fold.state(), number

    def _gone(self, how: str) -> None:
        """Forget a journal that is no more, unless this backend remembers what it held."""
        self._lose()
        remembered = (self._state.entries.keys() | self._state.unreadable.keys()) - {BACKEND_KEY}
        if remembered:
            raise JournalUnusable(
                f"The znode {JOURNAL_ZNODE} {how}, with all that backends remembered of this "
                f"cluster; number of entries: {len(remembered)}. kshunt changes nothing here.",
                advice="This backend still shows them: check its operations and throttles. After "
                "a restart, kshunt removes the throttles that "
                "/admin/throttled_rates_removal and /admin/throttled_replicas_removal "
                "name.",
            )
        self._fold, self._number, self._identity = self._new_fold(), -1, ""
        self._names.clear()
        self._state = self._fold.state()

    # --- writing

    async def _append(self, entries: Mapping[str, Body | None], replacing: Collection[str]) -> None:
        self._required()
        doubt = self._doubt
        if doubt is not None and await self._resolve() and doubt.entries == entries:
            return
        check_append(self._state, entries, replacing)
        await self._put(entries)

    async def _put(self, entries: Mapping[str, Body | None], *, unfinished: bool = False) -> None:
        header = EntryHeader(self._cluster_id, self._backend, self._clock.now_ms())
        records = self._fold.records(entries, header, unfinished=unfinished)
        if not records:
            return
        for attempt in range(ATTEMPTS):
            try:
                await self._commit(entries, records)
                return
            except Outdated as error:
                # Somebody may have made or deleted a record's znode.
                self._names = set(await self._session.children(RECORDS, timeout_s=TIMEOUT_S) or ())
                if attempt + 1 == ATTEMPTS:
                    raise JournalUnusable(
                        f"Another process writes znodes of the journal: {error}. Nothing was "
                        "written."
                    ) from None
            except NotActive:
                # Where an append was in doubt, the version may have grown by our own hand.
                if attempt or not await self._still_ours():
                    self._lose()
                    raise fenced() from None

    async def _still_ours(self) -> Fence | None:
        """The fence as it is, where we are the last that became the writer."""
        znode = await self._session.read(WRITER, timeout_s=TIMEOUT_S)
        if znode is None or not znode.data.startswith(f"{self._backend} ".encode()):
            return None
        self._fence = self._session.fence = Fence(WRITER, znode.version)
        return self._fence

    async def _commit(self, entries: Mapping[str, Body | None], records: Sequence[Record]) -> None:
        word = secrets.token_hex(8)
        names = [record_name(key) for key, _ in records]
        operations = [*self._record_operations(records), *await self._removal_operations(entries)]
        note = znode_layout.text({"id": word, "names": names})
        try:
            await self._session.commit([*operations, Put(COMMIT, note)], timeout_s=TIMEOUT_S)
        except InDoubt as lost:
            self._doubt = _Doubt(entries, records, word)
            raise JournalUnavailable(lost.message, advice=lost.advice, written=None) from None
        self._take(records, self._number + 1)

    def _record_operations(self, records: Sequence[Record]) -> list[Op]:
        operations: list[Op] = []
        for key, value in records:
            name = record_name(key)
            if value is None:
                operations += [Delete(_path(name))] if name in self._names else []
            elif name in self._names:
                operations.append(Put(_path(name), value))
            else:
                operations.append(Create(_path(name), value))
        return operations

    async def _removal_operations(self, entries: Mapping[str, Body | None]) -> list[Op]:
        """What becomes of the seed's znodes with these entries."""
        if not any(kind_of(key) in THROTTLES for key in entries):
            return []
        before = throttles_of(self._state)
        after = {
            key: body
            for key, body in {**before, **entries}.items()
            if body is not None and kind_of(key) in THROTTLES
        }
        found = await removal_records.read(self._session, timeout_s=TIMEOUT_S)
        self._remarks = tuple(map(str, found.unreadable.values()))
        return removal_records.changes_for(
            found, removal_records.named_by(before), removal_records.named_by(after)
        )

    async def _resolve(self) -> bool:
        self._required()
        doubt = self._doubt
        if doubt is None:
            return True
        token = f"{self._backend} {secrets.token_hex(8)}"
        fence = await self._still_ours()
        if fence is None:
            self._lose()
            raise fenced()
        write = Put(WRITER, token.encode(), fence.version)
        try:
            await self._session.commit([write], timeout_s=TIMEOUT_S, fenced=False)
        except InDoubt as lost:
            raise JournalUnavailable(lost.message, advice=lost.advice, written=None) from None
        except Outdated:
            raise JournalUnavailable(
                "Whether the journal was written is not known yet.", written=None
            ) from None
        self._fence = self._session.fence = await self._written(token)
        commit = await self._session.read(COMMIT, timeout_s=TIMEOUT_S)
        self._doubt = None
        if commit is None or znode_layout.document(COMMIT, commit.data).get("id") != doubt.word:
            return False
        self._take(doubt.records, commit.version)
        return True

    def _required(self) -> None:
        if self._fence is None:
            raise fenced()


def _path(name: str) -> str:
    return f"{RECORDS}/{name}"
