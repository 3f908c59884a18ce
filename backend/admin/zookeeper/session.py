"""One session with a ZooKeeper ensemble: reads, and commits that happen as a whole or not at all.

Goals
    A read is answered or fails within its time. What `commit` returned for has happened; what it
    refused has not; what is in doubt is said to be. While this process writes the journal, no
    commit of it takes hold after another one has taken over.
Constraints
    kazoo works on threads of its own, and keeps what was asked while it has no connection: a commit
    whose caller has given up may be sent later. A server ends the connection on a request that is
    larger than its `jute.maxbuffer`, and says nothing.
Algorithm
    Every change is one ZooKeeper multi. Each new writer of the journal sets one znode. If `fence`
    is set, the multi opens with a check of the version of that znode: a multi that is late fails
    as a whole. A multi that is too large is refused here. While there is no connection nothing is
    handed to kazoo: reads wait, and so do changes, which would else be sent when nobody waits for
    them any more. After a change that was not answered the next read has the server catch up
    first: it may be another one, which lags. A new znode has the ACL of the znode above it, or of
    one that is named. So a client that can work with that one can work with the new one: a broker
    with credentials of its own, too.

The only module that knows kazoo. Importing it loads that.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from kazoo import exceptions as zk
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler

from kshunt.backend.admin.zookeeper.connection_diagnosis import why_not
from kshunt.backend.admin.zookeeper.ensemble_config import EnsembleConfig
from kshunt.backend.errors import (
    BadInput,
    ClusterError,
    ClusterUnreachable,
    NotActive,
    NotAuthorized,
)

SESSION_S: Final = 6.0
"""A server forgets a session that is silent for that time; none of its znodes is ephemeral."""
OPEN_S: Final = 8.0
LOOK_S: Final = 1.0
"""After that it is looked why there is no session yet."""
PAUSE_S: Final = 0.1
"""Before a read is asked for again after a lost connection."""
CHUNK: Final = 2_000
"""Reads that are under way at the same time."""
OPERATION_BYTES: Final = 150
"""More bytes than an operation of a multi has in addition to its path and data."""

_LOST: Final = (
    zk.ConnectionLoss,
    zk.ConnectionClosedError,
    zk.SessionExpiredError,
    zk.SessionMovedError,
    zk.OperationTimeoutError,
    zk.ConnectionDropped,
    KazooTimeoutError,
    TimeoutError,
)
_DENIED: Final = (zk.NoAuthError, zk.AuthFailedError, zk.InvalidACLError)
_OUTDATED: Final = (zk.NoNodeError, zk.NodeExistsError, zk.BadVersionError, zk.NotEmptyError)
_REFUSED: Final = (zk.KazooException, RuntimeError)
"""Whatever else a server answers. Codes that kazoo does not know become a RuntimeError."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Znode:
    """What a znode holds."""

    data: bytes
    version: int


@dataclass(frozen=True, slots=True)
class Create:
    """Make a znode; it fails where there is one."""

    path: str
    data: bytes
    sequence: bool = False
    """The path is a prefix, and the server appends a number."""
    acl_of: str = ""
    """Whose ACL it gets; empty: of the znode above it."""


@dataclass(frozen=True, slots=True)
class Put:
    """Replace what a znode of this version holds; -1 is any."""

    path: str
    data: bytes
    version: int = -1


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a znode of this version; -1 is any."""

    path: str
    version: int = -1


Op: TypeAlias = Create | Put | Delete


class Outdated(Exception):
    """The tree is not what a commit was made for; nothing was changed. Look, and decide anew."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path


class InDoubt(ClusterUnreachable):
    """A commit was sent and not answered: it happened, or did not, or may yet."""


@dataclass(frozen=True, slots=True)
class Fence:
    """The znode and the version that the journal's writer knows; another's commit changes it."""

    path: str
    version: int


class Session:
    """See the module's text. It belongs to one event loop."""

    def __init__(self, config: EnsembleConfig) -> None:
        self.config = config
        self.fence: Fence | None = None
        """Set while this process writes the journal."""
        self.barred = False
        """Set when it was the writer and is not any more: nothing of it may be changed."""
        self._doubts = self._doubts_known = 0
        """Commits in doubt, and those that the server we read from surely knows of, if made."""
        self._acls: dict[str, Any] = {}
        self._client = KazooClient(
            hosts=config.connect,
            timeout=SESSION_S,
            handler=_Handler(config),
            auth_data=[("digest", config.digest)] if config.digest else None,
            connection_retry={"max_tries": -1, "delay": 0.05, "max_delay": 0.5},
            command_retry={"max_tries": 0},
            logger=log.getChild("kazoo"),
        )

    @property
    def connect(self) -> str:
        """`host:port,host:port/chroot`."""
        return self.config.connect

    @property
    def is_connected(self) -> bool:
        """Whether a server has us, as far as is known."""
        return bool(self._client.connected)

    async def open(self, timeout_s: float = OPEN_S) -> None:
        """Connect.

        Raises:
            ClusterUnreachable: no server took the session in time.
            ConfigError: the server's certificate is not trusted, or it does not speak TLS.
        """
        connected = self._client.start_async()
        if await asyncio.to_thread(connected.wait, min(LOOK_S, timeout_s)):
            return
        # What no server does is not waited for.
        found = await asyncio.to_thread(why_not, self.config, LOOK_S)
        left_s = timeout_s - LOOK_S
        if found is None and left_s > 0 and await asyncio.to_thread(connected.wait, left_s):
            return
        await self.close()
        raise found or ClusterUnreachable(
            f"ZooKeeper ({self.connect}) did not accept a session.",
            advice="Does the port expect TLS? See zookeeper.ssl.client.enable, "
            "--zk-tls-config-file.",
        )

    async def close(self) -> None:
        """End the session; no other call may follow."""
        await asyncio.to_thread(self._client.stop)
        await asyncio.to_thread(self._client.close)

    # Reading

    async def read(self, path: str, *, timeout_s: float) -> Znode | None:
        """What a znode holds; None where there is none."""
        found = await self._fresh(lambda: self._client.get_async(path), path, timeout_s)
        return None if found is None else _znode(*found)

    async def children(self, path: str, *, timeout_s: float) -> tuple[str, ...] | None:
        """The names below a znode, sorted; None where there is none."""
        found = await self._fresh(lambda: self._client.get_children_async(path), path, timeout_s)
        return None if found is None else tuple(sorted(found))

    async def sync(self, path: str, *, timeout_s: float) -> None:
        """Have the server that we are connected to catch up with the ensemble's leader."""
        doubts = self._doubts
        await self._ask(lambda: self._client.sync_async(path), path, timeout_s)
        self._doubts_known = max(self._doubts_known, doubts)

    async def read_many(self, paths: Sequence[str], *, timeout_s: float) -> list[Znode | None]:
        """What znodes hold, in order; None where there is none.

        Raises:
            ClusterUnreachable: not all was answered in time.
            NotAuthorized: an ACL forbids it.
        """
        if not paths:
            return []
        until = time.monotonic() + timeout_s
        await self._catch_up(until)
        return await asyncio.to_thread(self._read_all, paths, until)

    def _read_all(self, paths: Sequence[str], until: float) -> list[Znode | None]:
        found: list[Znode | None] = []
        for start in range(0, len(paths), CHUNK):
            found += self._read_chunk(paths[start : start + CHUNK], until)
        return found

    def _read_chunk(self, paths: Sequence[str], until: float) -> list[Znode | None]:
        while True:
            try:
                if self.is_connected:
                    waiting = [self._client.get_async(path) for path in paths]
                    return [_held(one, until) for one in waiting]
                lost: BaseException = zk.ConnectionLoss()
            except _LOST as error:
                lost = error
            except _REFUSED as refused:
                raise self._refusal(paths[0], refused) from None
            if time.monotonic() + PAUSE_S >= until:
                raise self._unreachable(lost) from None
            time.sleep(PAUSE_S)

    async def _ask(self, start: Callable[[], Any], path: str, timeout_s: float) -> Any:
        until = time.monotonic() + timeout_s
        while True:
            try:
                if self.is_connected:
                    return await _within(until - time.monotonic(), start())
                lost: BaseException = zk.ConnectionLoss()
            except zk.NoNodeError:
                return None
            except _LOST as error:
                lost = error
            except _REFUSED as refused:
                raise self._refusal(path, refused) from None
            if time.monotonic() + PAUSE_S >= until:
                raise self._unreachable(lost) from None
            await asyncio.sleep(PAUSE_S)

    async def _fresh(self, start: Callable[[], Any], path: str, timeout_s: float) -> Any:
        until = time.monotonic() + timeout_s
        await self._catch_up(until)
        return await self._ask(start, path, until - time.monotonic())

    async def _catch_up(self, until: float) -> None:
        if self._doubts_known < self._doubts:
            await self.sync("/", timeout_s=until - time.monotonic())

    # Changing

    async def commit(
        self, operations: Sequence[Op], *, timeout_s: float, fenced: bool = True
    ) -> None:
        """Do all of it, or nothing.

        `fenced`: not after another process has begun to write the journal.

        Raises:
            Outdated: a znode is not there, is there, or has another version.
            NotActive: another backend has taken over; nothing was changed.
            InDoubt: it is not known what became of it.
            BadInput: it is larger than the servers take; nothing was sent.
            NotAuthorized: an ACL forbids it; nothing was changed.
            ClusterUnreachable: there is no connection; nothing was sent.
            ClusterError: the servers refuse it for another reason; nothing was changed.
        """
        self.check_size(operations)
        until = time.monotonic() + timeout_s
        await self._connected(until)
        acls = [await self._acl(one, until - time.monotonic()) for one in operations]
        if fenced and self.barred:
            raise _taken_over()
        fence = self.fence if fenced else None
        transaction = self._client.transaction()
        if fence is not None:
            transaction.check(fence.path, fence.version)
        for one, acl in zip(operations, acls, strict=True):
            _add(transaction, one, acl)
        try:
            answers = await _within(until - time.monotonic(), transaction.commit_async())
        except (*_LOST, RuntimeError) as lost:
            self._doubts += 1
            raise InDoubt(
                f"ZooKeeper ({self.connect}) did not confirm a change: {_words(lost)}.",
                advice="The change may have been made, or may still be made; check before you "
                "ask again.",
            ) from None
        except zk.KazooException as refused:
            raise self._refusal(operations[0].path, refused) from None
        self._refuse_failed(answers, operations, fence)

    async def _connected(self, until: float) -> None:
        while not self.is_connected:
            if time.monotonic() + PAUSE_S >= until:
                raise ClusterUnreachable(
                    f"ZooKeeper ({self.connect}) cannot be reached. Nothing was sent."
                )
            await asyncio.sleep(PAUSE_S)

    def _refuse_failed(
        self, answers: Sequence[Any], operations: Sequence[Op], fence: Fence | None
    ) -> None:
        checks = 0 if fence is None else 1
        for place, answer in enumerate(answers):
            if isinstance(answer, zk.RolledBackError) or not isinstance(answer, Exception):
                continue
            if place < checks:
                raise _taken_over()
            failed = operations[place - checks]
            if isinstance(answer, _OUTDATED):
                raise Outdated(failed.path, _words(answer))
            made_in = _above(failed.path) if isinstance(failed, Create) else failed.path
            raise self._refusal(made_in, answer)

    def check_size(self, operations: Sequence[Op]) -> None:
        """Return only where servers take all of it in one request.

        Raises:
            BadInput: it is too large.
        """
        sizes = {one.path: _size(one) for one in operations}
        size, most = sum(sizes.values()), self.config.packet_bytes_max
        if size > most:
            what = max(sizes, key=sizes.__getitem__)
            raise BadInput(
                f"{what} and what is written with it have {size} bytes; a ZooKeeper server "
                f"accepts at most {most} in one request (jute.maxbuffer). Nothing was changed.",
                advice="Split the plan, or use --bootstrap-server. If the servers accept more, "
                "set jute.maxbuffer in the file of --zk-tls-config-file.",
            )

    async def _acl(self, one: Op, timeout_s: float) -> Any:
        if not isinstance(one, Create):
            return None
        above = one.acl_of or _above(one.path)
        if above not in self._acls:
            found = await self._ask(lambda: self._client.get_acls_async(above), above, timeout_s)
            # Without one, the commit fails for want of the znode above.
            if found is None:
                return None
            # Who may not administer an ACL is shown its digests without their hashes: such an
            # entry would let in nobody.
            self._acls[above] = [one for one in found[0] if not _is_hidden(one.id)]
        return self._acls[above]

    def _refusal(self, path: str, refused: Exception) -> ClusterError:
        if not isinstance(refused, _DENIED):
            return ClusterError(
                f"ZooKeeper ({self.connect}) rejected {path}: {_words(refused)}. Nothing was "
                "changed."
            )
        who = "with the credentials of zookeeper.digest" if self.config.digest else "anonymously"
        return NotAuthorized(
            f"The ZooKeeper ACL of {path} does not allow access {who} ({_words(refused)}). "
            "Nothing was changed.",
            advice="Set zookeeper.digest in the file of --zk-tls-config-file to a user that has "
            "access.",
        )

    def _unreachable(self, lost: BaseException) -> ClusterUnreachable:
        return ClusterUnreachable(f"ZooKeeper ({self.connect}) did not answer: {_words(lost)}.")


def _above(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _is_hidden(who: Any) -> bool:
    return bool(who.scheme == "digest" and who.id.endswith(":x"))


def _size(one: Op) -> int:
    data = 0 if isinstance(one, Delete) else len(one.data)
    return len(one.path.encode()) + OPERATION_BYTES + data


def _held(asked: Any, until: float) -> Znode | None:
    try:
        data, stat = asked.get(timeout=max(0.0, until - time.monotonic()))
    except zk.NoNodeError:
        return None
    return _znode(data, stat)


def _znode(data: bytes | None, stat: Any) -> Znode:
    # One that was made without data has none, which is not the same to ZooKeeper.
    return Znode(data or b"", stat.version)


def _add(transaction: Any, one: Op, acl: Any) -> None:
    match one:
        case Create():
            transaction.create(one.path, one.data, acl=acl, sequence=one.sequence)
        case Put():
            transaction.set_data(one.path, one.data, one.version)
        case Delete():
            transaction.delete(one.path, one.version)


def _taken_over() -> NotActive:
    return NotActive(
        "Another backend has taken over and now writes the journal in ZooKeeper. Nothing was "
        "changed here."
    )


async def _within(timeout_s: float, result: Any) -> Any:
    """What kazoo's thread says in that time.

    `asyncio.wait_for` of Python 3.11 forgets a cancellation that comes with the answer.
    """
    async with asyncio.timeout(timeout_s):
        return await _future(result)


def _future(result: Any) -> asyncio.Future[Any]:
    """What kazoo's thread will say, on this event loop."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def fulfil(done: Any) -> None:
        if future.done():
            return
        if done.exception is not None:
            future.set_exception(done.exception)
        else:
            future.set_result(done.value)

    def tell(done: Any) -> None:
        # The loop may have ended meanwhile.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(fulfil, done)

    result.rawlink(tell)
    return future


def _words(error: BaseException) -> str:
    words = {
        "NoNodeError": "it does not exist",
        "NodeExistsError": "it already exists",
        "BadVersionError": "another client changed it in the meantime",
        "NoAuthError": "not authorized",
        "TimeoutError": "no answer in time",
        "KazooTimeoutError": "no answer in time",
    }
    name = type(error).__name__
    return words.get(name, f"{name} {error}".rstrip())


# --- TLS


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads, with connections as our stores say."""

    def __init__(self, config: EnsembleConfig) -> None:
        super().__init__()
        self._context = None if config.stores is None else config.stores.context()

    def create_connection(self, *args: Any, **kwargs: Any) -> socket.socket:
        """A connection to one of the servers."""
        plain: socket.socket = super().create_connection(*args, **kwargs)
        if self._context is None:
            return plain
        try:
            host = kwargs.get("hostname") or plain.getpeername()[0]
            return self._context.wrap_socket(plain, server_hostname=host)
        except BaseException:
            plain.close()
            raise
