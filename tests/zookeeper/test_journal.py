"""The journal in ZooKeeper: all of an append or none of it, one writer, and KIP-179's records."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl, make_digest_acl

from kshunt.backend.admin.zookeeper.ensemble_config import PACKET_BYTES_DEFAULT, ensemble_config
from kshunt.backend.admin.zookeeper.session import Create, InDoubt, Session
from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.backend.journal import JOURNAL_ZNODE
from kshunt.backend.errors import (
    BadInput,
    Conflict,
    JournalFenced,
    JournalUnavailable,
    JournalUnusable,
    NotActive,
    NotAuthorized,
    WrongCluster,
)
from kshunt.backend.journal_storage.zookeeper.znode_journal import (
    COMMIT,
    RECORDS,
    WRITER,
    ZnodeJournal,
)
from kshunt.backend.operations.journal.entries import (
    Body,
    JournalState,
    broker_throttle_key,
    operation_key,
    topic_throttle_key,
)
from kshunt.backend.operations.journal.records import signed
from tests.support.access.keys import KEYS
from tests.support.brokers.zookeeper import ZooKeeperKafka
from tests.support.zookeeper.znodes import (
    CLUSTER_ID,
    ON_ZOOKEEPER,
    TIMEOUT_S,
    journal_in,
    named_for_removal,
    session_of,
    tree,
)

pytestmark = ON_ZOOKEEPER

ONE, TWO = operation_key("one"), operation_key("two")


@pytest.fixture
def place(zookeeper: ZooKeeperKafka) -> Iterator[tuple[str, KazooClient]]:
    with tree(zookeeper.server.address) as found:
        yield found


@pytest.fixture
def client(place: tuple[str, KazooClient]) -> KazooClient:
    return place[1]


@pytest.fixture
async def session(place: tuple[str, KazooClient]) -> AsyncIterator[Session]:
    async with session_of(place[0]) as found:
        yield found


def bodies(state: JournalState) -> Mapping[str, Any]:
    return {key: entry.body for key, entry in state.entries.items()}


def rate_record(broker: int, *, auto_remove: bool = True) -> Body:
    share = {"rate": 1000, "auto_remove": auto_remove, "state": "held"}
    cell = {
        "prior": {"value": None, "source": "DEFAULT_CONFIG"},
        "known": [1000],
        "shares": {"one": share},
    }
    return {"format": 1, "broker": broker, "rates": {"leader.replication.throttled.rate": cell}}


async def test_what_was_appended_is_read_by_others_in_order(
    session: Session, place: tuple[str, KazooClient]
) -> None:
    journal = journal_in(session)
    assert bodies(await journal.open()) == {}
    async with session_of(place[0]) as other, aclosing(journal_in(other, "two").follow()) as seen:
        assert bodies(await anext(seen)) == {}
        await journal.append({ONE: {"a": 1}, TWO: {"b": [2]}})
        await _until(seen, {ONE: {"a": 1}, TWO: {"b": [2]}})
        await journal.append({ONE: {"a": 3}})
        await journal.append({TWO: None})
        await _until(seen, {ONE: {"a": 3}})
    assert bodies(journal.state) == {ONE: {"a": 3}}


async def _until(seen: Any, wanted: Mapping[str, Any]) -> None:
    for _ in range(50):
        if bodies(await anext(seen)) == wanted:
            return
    raise AssertionError(f"no follower saw {wanted}")


async def test_a_large_entry_has_parts_that_go_with_it(
    session: Session, client: KazooClient
) -> None:
    journal = journal_in(session)
    await journal.open()
    # Half of it cannot be compressed away.
    noise = "".join(f"{number * 2654435761 % 2**32:08x}" for number in range(30_000))
    await journal.append({ONE: {"noise": noise}})
    assert len(client.get_children(RECORDS)) > 1
    async with session_of(client.hosts[0][0] + f":{client.hosts[0][1]}{client.chroot}") as other:
        assert bodies(await journal_in(other, "two").peek()) == {ONE: {"noise": noise}}
    await journal.append({ONE: None})
    assert client.get_children(RECORDS) == ["manifest"]


async def test_who_was_replaced_writes_nothing_more_and_changes_nothing(
    session: Session, place: tuple[str, KazooClient], client: KazooClient
) -> None:
    first = journal_in(session)
    await first.open()
    await first.append({ONE: {"a": 1}})
    async with session_of(place[0]) as other:
        second = journal_in(other, "two")
        assert bodies(await second.open()) == {ONE: {"a": 1}}
        # An effect of the first that was decided before, and comes late.
        with pytest.raises(NotActive, match="Another backend has taken over"):
            await session.commit([Create("/admin/reassign_partitions", b"{}")], timeout_s=TIMEOUT_S)
        assert client.exists("/admin/reassign_partitions") is None
        with pytest.raises(JournalFenced):
            await first.append({TWO: {}})
        with pytest.raises(JournalFenced):
            await first.resolve()
        await second.append({TWO: {"b": 2}})
        assert bodies(await first.peek()) == {ONE: {"a": 1}, TWO: {"b": 2}}
        assert bodies(await first.open()) == {ONE: {"a": 1}, TWO: {"b": 2}}
        with pytest.raises(JournalFenced):
            await second.append({TWO: None})


class Losing(Session):
    """Loses what is answered, before or after it was done."""

    lose = ""

    async def commit(self, operations: Any, *, timeout_s: float, fenced: bool = True) -> None:
        lose, self.lose = self.lose, ""
        if lose != "request":
            await super().commit(operations, timeout_s=timeout_s, fenced=fenced)
        if lose:
            raise InDoubt("The answer is lost, as a test wants it.")


@pytest.mark.parametrize("lost", ["request", "answer"])
async def test_an_append_in_doubt_is_found_out_and_is_written_once(
    lost: str, place: tuple[str, KazooClient], client: KazooClient
) -> None:
    session = Losing(ensemble_config(place[0], None))
    await session.open()
    try:
        journal = journal_in(session)
        await journal.open()
        session.lose = lost
        with pytest.raises(JournalUnavailable) as failed:
            await journal.append({ONE: {"a": 1}})
        assert failed.value.written is None
        assert bodies(journal.state) == {}
        written = await journal.resolve()
        assert written == (lost == "answer")
        assert bodies(journal.state) == ({ONE: {"a": 1}} if written else {})
        session.lose = lost
        with pytest.raises(JournalUnavailable):
            await journal.append({TWO: {"b": 2}})
        appended = client.exists(COMMIT).version
        await journal.append({TWO: {"b": 2}})
        assert client.exists(COMMIT).version == appended + (lost == "request")
        assert bodies(journal.state)[TWO] == {"b": 2}
    finally:
        await session.close()


async def test_what_a_server_would_not_take_is_refused_before_anything_is_written(
    session: Session, client: KazooClient
) -> None:
    journal = journal_in(session)
    await journal.open()
    before = client.exists(COMMIT).version
    noise = "".join(f"{number * 2654435761 % 2**64:016x}" for number in range(200_000))
    with pytest.raises(BadInput, match=str(PACKET_BYTES_DEFAULT)):
        await journal.append({ONE: {"noise": noise}, TWO: {"b": 2}})
    assert client.exists(COMMIT).version == before
    assert client.get_children(RECORDS) == []
    await journal.append({TWO: {"b": 2}})
    assert bodies(journal.state) == {TWO: {"b": 2}}


@pytest.mark.conforms("kip-179:removal-znodes")
async def test_records_of_throttles_are_named_in_the_seeds_znodes_in_the_same_commit(
    session: Session, client: KazooClient
) -> None:
    journal = journal_in(session)
    await journal.open()
    one, two, stays = (broker_throttle_key(broker) for broker in (1, 2, 3))
    await journal.append(
        {
            ONE: {"a": 1},
            one: rate_record(1),
            two: rate_record(2),
            stays: rate_record(3, auto_remove=False),
            topic_throttle_key("payments"): {"A later version": "version"},
        }
    )
    assert named_for_removal(client) == (["payments"], [1, 2])
    await journal.append({one: None})
    assert named_for_removal(client) == (["payments"], [2])
    await journal.append({two: None, topic_throttle_key("payments"): None, stays: None})
    assert client.exists("/admin/throttled_rates_removal") is None
    assert client.exists("/admin/throttled_replicas_removal") is None


@pytest.mark.conforms("kip-179:removal-znodes")
async def test_what_somebody_else_put_into_the_seeds_znodes_stays(
    session: Session, client: KazooClient
) -> None:
    journal = journal_in(session)
    await journal.open()
    path = "/admin/throttled_rates_removal"
    client.create(path, b'{"version":1,"brokers":[7]}')
    await journal.append({broker_throttle_key(1): rate_record(1)})
    assert named_for_removal(client) == ([], [1, 7])
    client.set(path, b'{"version":1,"brokers":[1,7,8]}')
    await journal.append({broker_throttle_key(1): None})
    assert named_for_removal(client) == ([], [7, 8])


async def test_half_a_removal_record_is_neither_used_nor_written_over(
    session: Session, client: KazooClient
) -> None:
    path, half = "/admin/throttled_rates_removal", b'{"version":1,"brok'
    client.create(path, half)
    journal = journal_in(session)
    await journal.open()
    assert any(path in remark for remark in journal.remarks)
    with pytest.raises(Conflict, match=f"{path} does not hold JSON"):
        await journal.append({ONE: {"a": 1}, broker_throttle_key(1): rate_record(1)})
    assert bodies(await journal.peek()) == {}
    await journal.append({ONE: {"a": 1}})
    assert client.get(path)[0] == half
    client.set(path, b'{"version":1,"brokers":[]}')
    await journal.append({broker_throttle_key(1): rate_record(1)})
    assert named_for_removal(client) == ([], [1])
    assert not journal.remarks


async def test_a_record_that_somebody_spoilt_is_set_aside(
    session: Session, client: KazooClient, place: tuple[str, KazooClient]
) -> None:
    journal = journal_in(session)
    await journal.open()
    await journal.append({ONE: {"a": 1}})
    (name,) = set(client.get_children(RECORDS)) - {"manifest"}
    client.set(f"{RECORDS}/{name}", client.get(f"{RECORDS}/{name}")[0][:-9])
    client.create(f"{RECORDS}/operation%2Ftwo", b"?")
    async with session_of(place[0]) as other:
        state = await journal_in(other, "two").peek()
        assert set(state.aside) == {ONE, TWO}
        assert state.missing == (ONE,)
        # The first one is still the writer, knows better, and a znode in its way is no hindrance.
        await journal.append({ONE: {"a": 2}, TWO: {"b": 2}})
        second = journal_in(other, "two")
        assert bodies(await second.open()) == {ONE: {"a": 2}, TWO: {"b": 2}}


async def test_a_record_of_a_newer_kshunt_is_not_written_over(
    session: Session, client: KazooClient
) -> None:
    journal = journal_in(session)
    await journal.open()
    await journal.append({ONE: {"a": 1}})
    newer = {"format": 9, "cluster_id": CLUSTER_ID, "key": ONE}
    client.set(f"{RECORDS}/operation%2Fone", signed(newer, 2 * SystemClock().now_ms(), KEYS))
    await journal.open()
    with pytest.raises(Conflict, match="newer"):
        await journal.append({ONE: {"a": 2}})


async def test_what_names_the_last_append_may_be_spoilt_without_harm(
    session: Session, client: KazooClient, place: tuple[str, KazooClient]
) -> None:
    journal = journal_in(session)
    await journal.open()
    async with session_of(place[0]) as other, aclosing(journal_in(other, "two").follow()) as seen:
        assert bodies(await anext(seen)) == {}
        await journal.append({ONE: {"a": 1}})
        await _until(seen, {ONE: {"a": 1}})
        client.set(COMMIT, b'{"id":"')
        # The writer continues, and the follower reads everything.
        await journal.append({TWO: {"b": 2}})
        await _until(seen, {ONE: {"a": 1}, TWO: {"b": 2}})


async def test_what_cannot_be_understood_is_said_to_be_the_journals_trouble(
    session: Session, client: KazooClient
) -> None:
    """The keeper of the lease continues after such an error, and after no other."""
    journal = journal_in(session)
    await journal.open()
    client.set("/cluster/id", b"half")
    with pytest.raises(JournalUnusable, match="/cluster/id does not hold JSON"):
        await journal.open()


async def test_a_journal_that_is_gone_is_not_begun_anew_in_silence(
    session: Session, client: KazooClient
) -> None:
    journal = journal_in(session)
    await journal.open()
    await journal.append({ONE: {"a": 1}})
    client.delete(JOURNAL_ZNODE, recursive=True)
    with pytest.raises(JournalUnusable, match="does not exist any more"):
        await journal.peek()
    # One that knows nothing of it begins.
    fresh = journal_in(session, "fresh")
    await fresh.open()
    with pytest.raises(JournalUnusable, match="was deleted and created again"):
        await journal.peek()


async def test_a_journal_of_another_cluster_is_not_touched(
    session: Session, client: KazooClient
) -> None:
    journal = ZnodeJournal(
        session, cluster_id="another", writer="one", clock=SystemClock(), keys=KEYS
    )
    with pytest.raises(WrongCluster, match="a-cluster"):
        await journal.open()
    assert client.exists(JOURNAL_ZNODE) is None


async def test_who_may_not_write_what_throttles_need_does_not_become_the_writer(
    session: Session, client: KazooClient, place: tuple[str, KazooClient], tmp_path: Path
) -> None:
    """/kshunt was made before the ACLs were. If this backend became the writer, a backend with the
    right could not act for that time."""
    await journal_in(session).open()
    ops = make_digest_acl("ops", "secret", all=True)
    client.set_acls("/admin", [make_acl("world", "anyone", read=True), ops])
    before = client.exists(WRITER).version
    async with session_of(place[0]) as stranger:
        with pytest.raises(NotAuthorized, match="ACL of /admin does not allow access anonymously"):
            await journal_in(stranger, "two").open()
    assert client.exists(WRITER).version == before
    config = tmp_path / "zk.properties"
    config.write_text("zookeeper.digest=ops:secret\n")
    async with session_of(place[0], config) as known:
        await journal_in(known, "three").open()
    assert client.exists(WRITER).version == before + 1
    assert client.get_children("/admin") == []


@pytest.mark.parametrize("known", [True, False], ids=["by-ops", "by-anybody"])
async def test_znodes_have_the_acl_of_the_admin_znode(
    known: bool, place: tuple[str, KazooClient], tmp_path: Path
) -> None:
    connect, client = place
    anybody = make_acl("world", "anyone", read=True, create=True, write=True, delete=True)
    ops = make_digest_acl("ops", "secret", all=True)
    client.set_acls("/admin", [anybody, ops])
    client.add_auth("digest", "ops:secret")
    config = tmp_path / "zk.properties"
    config.write_text("zookeeper.digest=ops:secret\n" if known else "")
    async with session_of(connect, config) as session:
        journal = journal_in(session)
        await journal.open()
        await journal.append({ONE: {"a": 1}, broker_throttle_key(1): rate_record(1)})
    paths = [JOURNAL_ZNODE, WRITER, RECORDS, COMMIT, "/admin/throttled_rates_removal"]
    paths += [f"{RECORDS}/{name}" for name in client.get_children(RECORDS)]
    # Who may not administer the ACL is not shown the hash, and cannot pass it on.
    expected = [anybody, ops] if known else [anybody]
    assert [client.get_acls(path)[0] for path in paths] == [expected] * len(paths)
