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
    Every change is one ZooKeeper multi. If `fence` is set, the multi opens with a check of the
    version of the znode that each new writer of the journal sets: one that is late fails as a
    whole. A multi that is too large is refused here. Znodes that are made have the ACL of the
    znode above them (or of one that is named), so that whoever works with those can work with
    these: a broker with credentials of its own, too.

The only module that knows kazoo. Importing it loads that.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from kazoo import exceptions as zk
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler

from backend.admin.zk_config import EnsembleConfig
from backend.errors import (
    BadInput,
    ClusterUnreachable,
    ConfigError,
    KshuntError,
    NotActing,
    NotAuthorized,
)

SESSION_S: Final = 6.0
"""A server forgets a session that is silent for so long; none of its znodes is ephemeral."""
OPEN_S: Final = 8.0
LOOK_S: Final = 1.0
"""After that it is looked why there is no session yet."""
PAUSE_S: Final = 0.1
"""Before a read is asked for again after a lost connection."""
CHUNK: Final = 2_000
"""Reads that are under way at once."""
OPERATION_BYTES: Final = 150
"""More than what an operation of a multi has besides its path and data."""

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
        why_not = await asyncio.to_thread(_why_not, self.config)
        left_s = timeout_s - LOOK_S
        if why_not is None and left_s > 0 and await asyncio.to_thread(connected.wait, left_s):
            return
        await self.close()
        raise why_not or ClusterUnreachable(
            f"ZooKeeper ({self.connect}) did not take a session.",
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
        found = await self._ask(lambda: self._client.get_async(path), path, timeout_s)
        return None if found is None else Znode(found[0], found[1].version)

    async def children(self, path: str, *, timeout_s: float) -> tuple[str, ...] | None:
        """The names below a znode, sorted; None where there is none."""
        found = await self._ask(lambda: self._client.get_children_async(path), path, timeout_s)
        return None if found is None else tuple(sorted(found))

    async def sync(self, path: str, *, timeout_s: float) -> None:
        """Have the server that we are connected to catch up with the ensemble's leader."""
        await self._ask(lambda: self._client.sync_async(path), path, timeout_s)

    async def read_many(self, paths: Sequence[str], *, timeout_s: float) -> list[Znode | None]:
        """What znodes hold, in order; None where there is none.

        Raises:
            ClusterUnreachable: not all was answered in time.
            NotAuthorized: an ACL forbids it.
        """
        if not paths:
            return []
        until = time.monotonic() + timeout_s
        return await asyncio.to_thread(self._read_all, paths, until)

    def _read_all(self, paths: Sequence[str], until: float) -> list[Znode | None]:
        found: list[Znode | None] = []
        for start in range(0, len(paths), CHUNK):
            found += self._read_chunk(paths[start : start + CHUNK], until)
        return found

    def _read_chunk(self, paths: Sequence[str], until: float) -> list[Znode | None]:
        while True:
            waiting = [self._client.get_async(path) for path in paths]
            try:
                return [_held(one, until) for one in waiting]
            except _DENIED as denied:
                raise self._denied(paths[0], denied) from None
            except _LOST as lost:
                if time.monotonic() + PAUSE_S >= until:
                    raise self._unreachable(lost) from None
            time.sleep(PAUSE_S)

    async def _ask(self, start: Callable[[], Any], path: str, timeout_s: float) -> Any:
        until = time.monotonic() + timeout_s
        while True:
            try:
                return await _within(until - time.monotonic(), start())
            except zk.NoNodeError:
                return None
            except _DENIED as denied:
                raise self._denied(path, denied) from None
            except _LOST as lost:
                if time.monotonic() + PAUSE_S >= until:
                    raise self._unreachable(lost) from None
            await asyncio.sleep(PAUSE_S)

    # Changing

    async def commit(
        self, operations: Sequence[Op], *, timeout_s: float, fenced: bool = True
    ) -> None:
        """Do all of it, or nothing.

        `fenced`: not after another process has begun to write the journal.

        Raises:
            Outdated: a znode is not there, is there, or has another version.
            NotActing: another backend has taken over; nothing was changed.
            InDoubt: it is not known what became of it.
            BadInput: it is larger than the servers take; nothing was sent.
            NotAuthorized: an ACL forbids it; nothing was changed.
            ClusterUnreachable: ACLs could not be read; nothing was sent.
        """
        self.check_size(operations)
        acls = [await self._acl(one, timeout_s) for one in operations]
        if fenced and self.barred:
            raise _taken_over()
        fence = self.fence if fenced else None
        transaction = self._client.transaction()
        if fence is not None:
            transaction.check(fence.path, fence.version)
        for one, acl in zip(operations, acls, strict=True):
            _add(transaction, one, acl)
        try:
            answers = await _within(timeout_s, transaction.commit_async())
        except _LOST as lost:
            raise InDoubt(
                f"ZooKeeper ({self.connect}) did not answer a change: {_words(lost)}.",
                advice="It may have been made, or may yet be; look before asking again.",
            ) from None
        self._refuse_failed(answers, operations, fence)

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
            if isinstance(answer, _DENIED):
                made_in = _above(failed.path) if isinstance(failed, Create) else failed.path
                raise self._denied(made_in, answer)
            raise Outdated(failed.path, _words(answer))

    def check_size(self, operations: Sequence[Op]) -> None:
        """Return only where servers take all of it at once.

        Raises:
            BadInput: it is too large.
        """
        sizes = {one.path: _size(one) for one in operations}
        size, most = sum(sizes.values()), self.config.packet_bytes_max
        if size > most:
            what = max(sizes, key=sizes.__getitem__)
            raise BadInput(
                f"{what} and what is written with it have {size} bytes; a ZooKeeper server takes "
                f"{most} at once (jute.maxbuffer). Nothing was changed.",
                advice="Split the plan, or use --bootstrap-server; where the servers take more, "
                "say so by jute.maxbuffer in --zk-tls-config-file.",
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

    def _denied(self, path: str, denied: Exception) -> NotAuthorized:
        who = "with the credentials of zookeeper.digest" if self.config.digest else "anonymously"
        return NotAuthorized(
            f"ZooKeeper's ACL of {path} does not let us in {who} ({_words(denied)}). "
            "Nothing was changed.",
            advice="Name a user that may by zookeeper.digest in --zk-tls-config-file.",
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
    return Znode(data, stat.version)


def _add(transaction: Any, one: Op, acl: Any) -> None:
    match one:
        case Create():
            transaction.create(one.path, one.data, acl=acl, sequence=one.sequence)
        case Put():
            transaction.set_data(one.path, one.data, one.version)
        case Delete():
            transaction.delete(one.path, one.version)


def _taken_over() -> NotActing:
    return NotActing(
        "Another backend has taken over: it writes the journal in ZooKeeper. "
        "Nothing was changed here."
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

    def settle(done: Any) -> None:
        if future.done():
            return
        if done.exception is not None:
            future.set_exception(done.exception)
        else:
            future.set_result(done.value)

    def tell(done: Any) -> None:
        # The loop may have ended meanwhile.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, done)

    result.rawlink(tell)
    return future


def _words(error: BaseException) -> str:
    told = {
        "NoNodeError": "it is not there",
        "NodeExistsError": "it is there already",
        "BadVersionError": "somebody else wrote it meanwhile",
        "NoAuthError": "not authorized",
        "TimeoutError": "no answer in time",
        "KazooTimeoutError": "no answer in time",
    }
    name = type(error).__name__
    return told.get(name, f"{name} {error}".rstrip())


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


def _why_not(config: EnsembleConfig) -> KshuntError | None:
    """Why no server can take a session; None where one could."""
    found: KshuntError | None = None
    for host, port in config.servers:
        found = _fault(config, host, port)
        if found is None or isinstance(found, ConfigError):
            return found
    return found


def _fault(config: EnsembleConfig, host: str, port: int) -> KshuntError | None:
    name = f"ZooKeeper ({host}:{port})"
    try:
        with socket.create_connection((host, port), LOOK_S) as plain:
            if config.stores is not None:
                return _tls_fault(config.stores.context(), plain, host, name)
    except OSError as error:
        return ClusterUnreachable(f"{name} cannot be reached: {error.strerror or error}.")
    return None


def _tls_fault(
    context: ssl.SSLContext, plain: socket.socket, host: str, name: str
) -> KshuntError | None:
    try:
        context.wrap_socket(plain, server_hostname=host).close()
    except ssl.SSLCertVerificationError as error:
        return ConfigError(
            f"{name} shows a certificate that is not trusted: {error.verify_message}.",
            advice="See zookeeper.ssl.truststore.location and "
            "zookeeper.ssl.endpoint.identification.algorithm.",
        )
    except OSError as error:
        return ConfigError(
            f"{name} does not speak TLS with us: {error}.",
            advice="See zookeeper.ssl.client.enable, --zk-tls-config-file.",
        )
    return None
