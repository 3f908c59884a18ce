"""Sessions with a real ZooKeeper: TLS, ACLs, a server that hangs or is gone, and what is lost."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl, make_digest_acl

from kshunt.backend.admin.zookeeper.ensemble_config import ensemble_config
from kshunt.backend.admin.zookeeper.session import (
    Create,
    Delete,
    InDoubt,
    Op,
    Outdated,
    Put,
    Session,
)
from kshunt.backend.errors import (
    BadInput,
    ClusterUnreachable,
    ConfigError,
    JournalUnavailable,
    NotAuthorized,
)
from kshunt.backend.operations.journal.entries import operation_key
from tests.support.brokers.tls import make_tls_files
from tests.support.brokers.zookeeper import ZooKeeperKafka, ZooKeeperServer
from tests.support.ports import HOST, free_ports
from tests.support.waiting import wait_until_async
from tests.support.zookeeper.kill_backend import backend_of
from tests.support.zookeeper.znodes import (
    DEADLINE_S,
    ON_ZOOKEEPER,
    TIMEOUT_S,
    client_of,
    journal_in,
    jsoned,
    session_of,
    tree,
)

pytestmark = ON_ZOOKEEPER

PACKET_BYTES = 4 * 1024 * 1024
ONE, TWO = operation_key("one"), operation_key("two")


@pytest.fixture(scope="module")
def alone() -> Iterator[ZooKeeperKafka]:
    """A ZooKeeper without brokers, which a test may freeze and kill."""
    with ZooKeeperKafka(brokers=0, packet_bytes=PACKET_BYTES) as found:
        yield found


@pytest.fixture
def server(alone: ZooKeeperKafka) -> ZooKeeperServer:
    return alone.server


@pytest.fixture
def place(server: ZooKeeperServer) -> Iterator[tuple[str, KazooClient]]:
    with tree(server.address) as found:
        yield found


def config_file(folder: Path, **properties: object) -> Path:
    """Properties for ZooKeeper; `ssl_x_y` is `zookeeper.ssl.x.y`."""
    path = folder / "zookeeper.properties"
    lines = [f"zookeeper.{key.replace('_', '.')}={value}" for key, value in properties.items()]
    path.write_text("\n".join(lines))
    return path


# Commits


async def test_a_commit_is_whole_or_nothing(place: tuple[str, KazooClient]) -> None:
    connect, client = place
    async with session_of(connect) as session:
        await session.commit([Create("/a", b"1"), Create("/a/b", b"2")], timeout_s=TIMEOUT_S)
        with pytest.raises(Outdated, match="/a/b: another client changed it in the meantime"):
            await session.commit([Put("/a", b"3", 0), Put("/a/b", b"4", 7)], timeout_s=TIMEOUT_S)
        assert client.get("/a")[0] == b"1"
        with pytest.raises(Outdated, match="/a/c: it does not exist"):
            await session.commit([Delete("/a/b"), Put("/a/c", b"")], timeout_s=TIMEOUT_S)
        assert await session.children("/a", timeout_s=TIMEOUT_S) == ("b",)
        assert await session.read("/nowhere", timeout_s=TIMEOUT_S) is None
        assert await session.children("/nowhere", timeout_s=TIMEOUT_S) is None


async def test_a_znode_of_more_than_a_megabyte_where_servers_take_it(
    place: tuple[str, KazooClient], tmp_path: Path
) -> None:
    connect, client = place
    big = bytes(2_000_000)
    async with session_of(connect) as session:
        with pytest.raises(
            BadInput, match="2000154 bytes; a ZooKeeper server accepts at most 1048575"
        ):
            await session.commit([Create("/big", big)], timeout_s=TIMEOUT_S)
        assert client.exists("/big") is None
        client.create("/theirs", big)
        # What somebody else has written is read, whatever we are told that servers take.
        found = await session.read("/theirs", timeout_s=DEADLINE_S)
        assert found is not None
        assert len(found.data) == len(big)
    config = tmp_path / "zk.properties"
    config.write_text(f"jute.maxbuffer={PACKET_BYTES}\n")
    async with session_of(connect, config) as session:
        await session.commit([Create("/big", big)], timeout_s=DEADLINE_S)
    assert client.exists("/big").dataLength == len(big)


async def test_more_than_a_server_takes_although_we_were_told_otherwise(
    zookeeper: ZooKeeperKafka, tmp_path: Path
) -> None:
    """The server ends the connection without a word."""
    config = tmp_path / "zk.properties"
    config.write_text(f"jute.maxbuffer={PACKET_BYTES}\n")
    with tree(zookeeper.server.address) as (connect, client):
        async with session_of(connect, config) as session:
            with pytest.raises(InDoubt, match="did not confirm a change"):
                await session.commit([Create("/big", bytes(2_000_000))], timeout_s=TIMEOUT_S)
            await session.commit([Create("/small", b"")], timeout_s=DEADLINE_S)
        assert client.exists("/big") is None
        assert client.exists("/small") is not None


# A server that does not answer


async def test_a_server_that_hangs_is_waited_for_and_then_goes_on(
    server: ZooKeeperServer, place: tuple[str, KazooClient]
) -> None:
    async with session_of(place[0]) as session:
        await session.commit([Create("/early", b"")], timeout_s=TIMEOUT_S)
        server.send(signal.SIGSTOP)
        try:
            with pytest.raises(ClusterUnreachable, match="did not answer"):
                await session.read("/admin", timeout_s=0.5)
            with pytest.raises(InDoubt, match="did not confirm a change"):
                await session.commit([Create("/late", b"")], timeout_s=0.5)
        finally:
            server.send(signal.SIGCONT)
        assert await session.read("/admin", timeout_s=DEADLINE_S) is not None

        async def there() -> bool:
            return await session.read("/late", timeout_s=TIMEOUT_S) is not None

        # Nobody waits for it any more, and it was made nevertheless: that is what the doubt means.
        await wait_until_async(there, DEADLINE_S, "the late commit is made")


async def test_what_is_asked_while_there_is_no_server_is_not_sent_later(
    server: ZooKeeperServer, place: tuple[str, KazooClient]
) -> None:
    connect, client = place
    async with session_of(connect) as session:
        server.kill()
        try:
            await wait_until_async(lambda: not session.is_connected, DEADLINE_S, "it is noticed")
            with pytest.raises(ClusterUnreachable, match="Nothing was sent") as refused:
                await session.commit([Create("/late", b"")], timeout_s=0.3)
            assert not isinstance(refused.value, InDoubt)
            with pytest.raises(ClusterUnreachable, match="did not answer"):
                await session.read("/admin", timeout_s=0.3)
            with pytest.raises(ClusterUnreachable, match="did not answer"):
                await session.read_many(["/admin"], timeout_s=0.3)
        finally:
            server.start()
        await session.commit([Create("/later", b"")], timeout_s=DEADLINE_S)
        assert await session.read("/late", timeout_s=TIMEOUT_S) is None
        assert client.exists("/late") is None


async def test_a_znode_without_data_is_empty(place: tuple[str, KazooClient]) -> None:
    """ZooKeeper knows another nothing than no bytes: Kafka makes its folders so."""
    connect, client = place
    client.create("/nothing", None)
    async with session_of(connect) as session:
        found = await session.read("/nothing", timeout_s=TIMEOUT_S)
        assert found is not None
        assert found.data == b""
        assert await session.read_many(["/nothing"], timeout_s=TIMEOUT_S) == [found]


async def test_a_session_that_was_lost_in_the_middle_is_followed_by_another(
    server: ZooKeeperServer, place: tuple[str, KazooClient]
) -> None:
    connect, _ = place
    async with session_of(connect) as session:
        journal = journal_in(session)
        await journal.open()
        await journal.append({ONE: {"a": 1}})
        server.kill()
        with pytest.raises(JournalUnavailable) as failed:
            await journal.append({TWO: {"b": 2}})
        # Whether it was sent is chance; that it was made is not claimed.
        assert failed.value.written is not True
        server.start()
        await asyncio.wait_for(_settled(journal.resolve), DEADLINE_S)
        await journal.append({TWO: {"b": 2}})
        async with session_of(connect) as other:
            state = await journal_in(other, "two").peek()
            assert {key: entry.body for key, entry in state.entries.items()} == {
                ONE: {"a": 1},
                TWO: {"b": 2},
            }


async def _settled(settle: object) -> None:
    while True:
        try:
            await settle()  # type: ignore[operator]
            return
        except JournalUnavailable:
            continue


async def test_a_session_that_expired_is_replaced(
    server: ZooKeeperServer, place: tuple[str, KazooClient]
) -> None:
    async with session_of(place[0]) as session:
        journal = journal_in(session)
        await journal.open()
        identity = session._client.client_id

        async def replaced() -> bool:
            if session._client.client_id == identity:
                # Closing a session ends it for everybody who has its id, unless it has moved
                # back to the other connection before.
                with client_of(place[0], client_id=identity) as thief:
                    thief.close_session = True
            try:
                await journal.append({ONE: {"a": 1}})
            except JournalUnavailable:
                return False
            return bool(session._client.client_id != identity)

        await wait_until_async(replaced, DEADLINE_S, "another session writes the journal")


async def test_a_backend_whose_zookeeper_is_gone_still_ends(
    server: ZooKeeperServer, place: tuple[str, KazooClient]
) -> None:
    connect, client = place
    broker = {"endpoints": ["PLAINTEXT://127.0.0.1:1"], "version": 5}
    client.create("/brokers/ids/1", jsoned(broker))
    async with asyncio.timeout(DEADLINE_S):
        async with backend_of(connect) as backend:
            await backend.ready()
            await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)


async def test_nobody_there_is_said_in_words(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with pytest.raises(ClusterUnreachable, match=f"{HOST}:{port}.* cannot be reached"):
        await Session(ensemble_config(f"{HOST}:{port}", None)).open(0.5)


# TLS


def tls_config(folder: Path, cluster: ZooKeeperKafka, **more: object) -> Path:
    return config_file(
        folder,
        ssl_client_enable="true",
        ssl_truststore_location=cluster.tls.ca,
        ssl_truststore_type="PEM",
        **more,
    )


def secure(cluster: ZooKeeperKafka, plain: str) -> str:
    """The same place over TLS."""
    return plain.replace(cluster.server.address, f"{HOST}:{cluster.server.secure_port}")


async def test_tls_with_a_certificate_of_ours_and_without(
    alone: ZooKeeperKafka, place: tuple[str, KazooClient], tmp_path: Path
) -> None:
    connect = secure(alone, place[0])
    async with session_of(connect, tls_config(tmp_path, alone)) as session:
        assert await session.read("/admin", timeout_s=TIMEOUT_S) is not None
    keystore = tmp_path / "client.pem"
    keystore.write_text(alone.tls.client_key.read_text() + alone.tls.client_certificate.read_text())
    own = tls_config(tmp_path, alone, ssl_keystore_location=keystore)
    async with session_of(connect, own) as session:
        await session.commit([Create("/by-tls", b"")], timeout_s=TIMEOUT_S)
    assert place[1].exists("/by-tls")


async def test_a_certificate_that_is_not_trusted_is_named(
    alone: ZooKeeperKafka, place: tuple[str, KazooClient], tmp_path: Path
) -> None:
    stranger = make_tls_files(tmp_path / "stranger")
    config = config_file(tmp_path, ssl_client_enable="true", ssl_truststore_location=stranger.ca)
    session = Session(ensemble_config(secure(alone, place[0]), config))
    with pytest.raises(ConfigError, match="a certificate that is not trusted"):
        await session.open(1.0)


async def test_plain_text_and_tls_at_the_wrong_port_are_told_apart(
    alone: ZooKeeperKafka, place: tuple[str, KazooClient], tmp_path: Path
) -> None:
    plain = Session(ensemble_config(secure(alone, place[0]), None))
    with pytest.raises(ClusterUnreachable, match="Does the port expect TLS"):
        await plain.open(1.0)
    tls = Session(ensemble_config(place[0], tls_config(tmp_path, alone)))
    with pytest.raises(ConfigError, match="The TLS handshake with"):
        await tls.open(1.0)


# ACLs


async def test_a_digest_acl_lets_in_whom_it_names(
    place: tuple[str, KazooClient], tmp_path: Path
) -> None:
    connect, client = place
    client.set_acls("/admin", [make_digest_acl("ops", "secret", all=True)])
    config = config_file(tmp_path, digest="ops:secret")
    async with session_of(connect, config) as session:
        await session.commit([Create("/admin/mine", b"1")], timeout_s=TIMEOUT_S)
        assert (await session.read_many(["/admin/mine"], timeout_s=TIMEOUT_S))[0] is not None
    for stranger in (None, config_file(tmp_path, digest="ops:wrong")):
        async with session_of(connect, stranger) as session:
            with pytest.raises(NotAuthorized, match="ACL of /admin/mine") as refused:
                await session.read("/admin/mine", timeout_s=TIMEOUT_S)
            assert "secret" not in str(refused.value)
            with pytest.raises(NotAuthorized, match="ACL of /admin"):
                await session.commit([Create("/admin/theirs", b"")], timeout_s=TIMEOUT_S)
            with pytest.raises(NotAuthorized):
                await session.read_many(["/admin/mine"], timeout_s=TIMEOUT_S)


async def test_who_may_read_and_not_write_is_told_so_and_nothing_is_changed(
    place: tuple[str, KazooClient],
) -> None:
    connect, client = place
    client.create("/admin/theirs", b"1")
    acls = [make_acl("world", "anyone", read=True), make_digest_acl("ops", "secret", all=True)]
    client.set_acls("/admin/theirs", acls)
    async with session_of(connect) as session:
        operations: list[Op] = [Create("/new", b""), Put("/admin/theirs", b"2")]
        with pytest.raises(NotAuthorized, match="ACL of /admin/theirs"):
            await session.commit(operations, timeout_s=TIMEOUT_S)
        assert client.exists("/new") is None
        assert client.get("/admin/theirs")[0] == b"1"
