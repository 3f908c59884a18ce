"""Consumer groups and their offsets, without sockets."""

from __future__ import annotations

import pytest

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.embedded.coordinator.codes import CoordinatorCode, CoordinatorError
from kshunt.backend.embedded.coordinator.group_coordinator import GroupCoordinator
from kshunt.backend.embedded.coordinator.members import (
    Committer,
    GroupState,
    JoinAnswer,
    JoinRequest,
    SyncRequest,
)
from kshunt.backend.embedded.coordinator.offsets import Offset
from kshunt.backend.embedded.coordinator.routing import coordinator_of, java_hash
from kshunt.backend.embedded.metadata.records import Record, decode, encode
from tests.support.embedded.groups import RANGE, REBALANCE_S, SESSION_S, STICKY, Clients, given

ITEM = TopicPartition("orders", 0)


# --- one group


def test_a_member_joins_syncs_and_lives() -> None:
    clients = Clients()
    first = clients.alone()
    assert (first.generation, first.leader, first.protocol) == (1, first.member_id, "range")
    assert [member.metadata for member in first.members] == [b"r"]
    for _ in range(5):
        clients.passes(SESSION_S * 0.9)
        assert clients.heartbeat(first) is CoordinatorCode.NONE
    clients.passes(SESSION_S)
    assert clients.heartbeat(first) is CoordinatorCode.UNKNOWN_MEMBER_ID
    assert (clients.group.state, clients.group.generation) == (GroupState.EMPTY, 2)


def test_a_second_member_makes_everybody_join_again() -> None:
    clients = Clients()
    first = clients.alone()
    waiting = clients.join()
    assert waiting.answer is None
    assert clients.heartbeat(first) is CoordinatorCode.REBALANCE_IN_PROGRESS
    assert given(clients.sync(first)).code is CoordinatorCode.REBALANCE_IN_PROGRESS
    again = given(clients.join(first.member_id))
    second = given(waiting)
    assert again.generation == second.generation == 2
    assert {m.member_id for m in again.members} == {first.member_id, second.member_id}
    assert (second.leader, second.members) == (first.member_id, ())
    assert clients.heartbeat(first) is CoordinatorCode.ILLEGAL_GENERATION
    assert clients.heartbeat(again) is CoordinatorCode.NONE


def test_who_does_not_join_again_in_time_is_out() -> None:
    clients = Clients()
    leader, follower = clients.pair()
    third = clients.join()
    back = clients.join(follower.member_id)
    for _ in range(8):
        clients.passes(REBALANCE_S / 8)
        clients.heartbeat(leader)
    assert {m.member_id for m in given(back).members} == {
        follower.member_id,
        given(third).member_id,
    }
    assert clients.heartbeat(leader) is CoordinatorCode.UNKNOWN_MEMBER_ID


def test_who_does_not_sync_in_time_is_out() -> None:
    clients = Clients()
    first = given(clients.join())
    for _ in range(8):
        assert clients.heartbeat(first) is CoordinatorCode.NONE
        clients.passes(REBALANCE_S / 8)
    assert clients.heartbeat(first) is CoordinatorCode.UNKNOWN_MEMBER_ID


def test_the_leader_goes_and_another_leads() -> None:
    clients = Clients()
    leader, follower = clients.pair()
    assert clients.group.leave(leader.member_id, None, clients.now_s) is CoordinatorCode.NONE
    assert (
        clients.group.leave(leader.member_id, None, clients.now_s)
        is CoordinatorCode.UNKNOWN_MEMBER_ID
    )
    assert clients.heartbeat(follower) is CoordinatorCode.REBALANCE_IN_PROGRESS
    alone = given(clients.join(follower.member_id))
    assert (alone.leader, alone.generation) == (follower.member_id, 3)


def test_a_sync_that_waits_ends_with_the_next_rebalance() -> None:
    clients = Clients()
    leader, follower = clients.pair()
    back = clients.join(leader.member_id)
    again = given(clients.join(follower.member_id))
    late = clients.sync(again)
    assert late.answer is None
    clients.join()
    assert given(late).code is CoordinatorCode.REBALANCE_IN_PROGRESS
    assert given(back).code is CoordinatorCode.NONE


def test_a_member_that_goes_while_it_waits_is_told() -> None:
    clients = Clients()
    clients.alone()
    waiting = clients.join()
    member_id = next(reversed(clients.group.members))
    clients.group.leave(member_id, None, clients.now_s)
    assert given(waiting).code is CoordinatorCode.UNKNOWN_MEMBER_ID


def test_a_new_member_is_given_its_id_first() -> None:
    clients = Clients()
    told = given(clients.join(known=True))
    assert told.code is CoordinatorCode.MEMBER_ID_REQUIRED
    assert told.member_id == "c-1"
    assert clients.group.members == {}
    joined = given(clients.join(told.member_id, known=True))
    assert (joined.code, joined.member_id) == (CoordinatorCode.NONE, told.member_id)
    clients.join(known=True)
    clients.passes(SESSION_S)
    assert given(clients.join("c-2", known=True)).code is CoordinatorCode.UNKNOWN_MEMBER_ID


def test_the_next_generation_waits_for_who_was_given_an_id() -> None:
    clients = Clients()
    first = clients.alone()
    told = given(clients.join(known=True))
    again = clients.join(first.member_id)
    assert again.answer is None
    clients.join(told.member_id, known=True)
    assert len(given(again).members) == 2


def test_a_protocol_that_all_support_wins_by_votes() -> None:
    clients = Clients()
    first = given(clients.join(protocols=(RANGE, STICKY)))
    others = [clients.join(protocols=(STICKY, RANGE)) for _ in range(2)]
    clients.join(first.member_id, protocols=(RANGE, STICKY))
    assert [given(other).protocol for other in others] == ["sticky", "sticky"]
    refused = given(clients.join(protocols=(("none", b""),)))
    assert refused.code is CoordinatorCode.INCONSISTENT_GROUP_PROTOCOL
    assert given(clients.join(protocols=())).code is CoordinatorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_same_join_again_gets_the_same_answer() -> None:
    clients = Clients()
    leader, follower = clients.pair()
    assert given(clients.join(follower.member_id)) == follower
    assert clients.heartbeat(leader) is CoordinatorCode.NONE
    assert clients.join(leader.member_id).answer is None, "a leader asks for a rebalance"


def test_an_empty_group_waits_for_more_members() -> None:
    clients = Clients(initial_rebalance_delay_s=3.0)
    waiting = [clients.join()]
    clients.passes(2.0)
    waiting.append(clients.join())
    clients.passes(2.0)
    assert [ticket.answer for ticket in waiting] == [None, None]
    clients.passes(1.0)
    assert [given(ticket).generation for ticket in waiting] == [1, 1]


def test_a_static_member_comes_back_without_a_rebalance() -> None:
    clients = Clients()
    old = clients.alone(instance="i")
    new = given(clients.join(instance="i"))
    assert new.member_id != old.member_id
    assert (new.generation, new.leader, new.skip_assignment) == (1, new.member_id, True)
    assert [member.instance_id for member in new.members] == ["i"]
    assert given(clients.sync(new, "i")).assignment == b"all"
    assert clients.heartbeat(old, "i") is CoordinatorCode.FENCED_INSTANCE_ID
    assert clients.heartbeat(new, "i") is CoordinatorCode.NONE
    assert clients.group.leave("", "j", 0.0) is CoordinatorCode.UNKNOWN_MEMBER_ID
    assert clients.group.leave("x", "i", 0.0) is CoordinatorCode.FENCED_INSTANCE_ID
    assert clients.group.leave("", "i", 0.0) is CoordinatorCode.NONE
    assert clients.group.state is GroupState.EMPTY


def test_a_client_that_cannot_skip_is_not_told_that_it_leads() -> None:
    clients = Clients()
    old = clients.alone(instance="i")
    new = given(clients.join(instance="i", skip=False))
    assert (new.leader, new.members, new.skip_assignment) == (old.member_id, (), False)


def test_a_static_member_keeps_its_place_until_its_session_ends() -> None:
    clients = Clients()
    static = clients.alone(instance="i")
    waiting = clients.join()
    clients.passes(SESSION_S)
    assert given(waiting).generation == 2
    assert clients.heartbeat(static, "i") is CoordinatorCode.UNKNOWN_MEMBER_ID


# --- offsets


class StoredCoordinator:
    """A coordinator whose records are stored, and read again as bytes."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.coordinator = GroupCoordinator(self.records.extend)

    def commit(
        self, offset: int, who: Committer | None = None, producer_id: int | None = None
    ) -> CoordinatorCode:
        who = who or Committer()
        offsets = {ITEM: Offset(offset, 3, "m", 7)}
        codes = self.coordinator.commit("g", who, offsets, 0.0, producer_id=producer_id)
        return codes[ITEM]

    def join(self) -> JoinAnswer:
        return given(self.coordinator.join("g", JoinRequest("", (RANGE,)), 0.0))

    def restarted(self) -> GroupCoordinator:
        fresh = GroupCoordinator(self.records.extend)
        for record in self.records:
            fresh.replay(decode(encode(record)))
        return fresh


def test_offsets_survive_and_a_deleted_topic_takes_its_own_along() -> None:
    stored = StoredCoordinator()
    assert stored.commit(5) is CoordinatorCode.NONE
    stored.coordinator.commit("h", Committer(), {TopicPartition("orders", 1): Offset(8)}, 0.0)
    fresh = stored.restarted()
    assert fresh.offsets.committed("g") == {ITEM: Offset(5, 3, "m", 7)}
    assert fresh.group_ids() == ["g", "h"]
    stored.coordinator.forget_partitions("orders", [1])
    assert stored.restarted().group_ids() == ["g"]
    stored.commit(6, producer_id=4)
    stored.coordinator.forget_topic("orders")
    stored.coordinator.end_transaction(4, commit=True)
    assert stored.restarted().group_ids() == []


def test_offsets_of_a_transaction_hold_when_it_commits() -> None:
    stored = StoredCoordinator()
    stored.commit(5)
    stored.commit(6, producer_id=4)
    fresh = stored.restarted()
    assert fresh.offsets.committed("g")[ITEM].offset == 5
    assert fresh.offsets.unstable("g") == {ITEM}
    fresh.end_transaction(4, commit=False)
    assert (fresh.offsets.committed("g")[ITEM].offset, fresh.offsets.unstable("g")) == (5, set())
    stored.coordinator.end_transaction(4, commit=True)
    assert stored.coordinator.offsets.unstable("g") == set()
    assert stored.coordinator.offsets.committed("g")[ITEM].offset == 6


def test_who_may_commit() -> None:
    stored = StoredCoordinator()
    with pytest.raises(CoordinatorError) as unknown:
        stored.commit(1, Committer("x", 1))
    assert unknown.value.code is CoordinatorCode.ILLEGAL_GENERATION
    joined = stored.join()
    cases = {
        Committer(): CoordinatorCode.UNKNOWN_MEMBER_ID,
        Committer("x", 1): CoordinatorCode.UNKNOWN_MEMBER_ID,
        Committer(joined.member_id, 2): CoordinatorCode.ILLEGAL_GENERATION,
        Committer(joined.member_id, 1): CoordinatorCode.REBALANCE_IN_PROGRESS,
    }
    for who, code in cases.items():
        with pytest.raises(CoordinatorError) as refused:
            stored.commit(1, who)
        assert refused.value.code is code
    stored.coordinator.sync("g", SyncRequest(joined.member_id, 1), 0.0)
    assert stored.commit(1, Committer(joined.member_id, 1)) is CoordinatorCode.NONE
    assert stored.commit(1, producer_id=4) is CoordinatorCode.NONE, (
        "a producer need not be a member"
    )
    large = {ITEM: Offset(1, metadata="x" * 4_097)}
    codes = stored.coordinator.commit("g", Committer(joined.member_id, 1), large, 0.0)
    assert codes == {ITEM: CoordinatorCode.OFFSET_METADATA_TOO_LARGE}


def test_only_a_group_without_members_is_deleted() -> None:
    stored = StoredCoordinator()
    assert stored.coordinator.delete("g") is CoordinatorCode.GROUP_ID_NOT_FOUND
    stored.commit(5)
    joined = stored.join()
    assert stored.coordinator.delete("g") is CoordinatorCode.NON_EMPTY_GROUP
    stored.coordinator.leave("g", Committer(joined.member_id), 0.0)
    assert stored.coordinator.delete("g") is CoordinatorCode.NONE
    assert stored.coordinator.described("g") is None
    assert stored.restarted().group_ids() == []


def test_the_session_must_be_as_the_broker_allows() -> None:
    stored = StoredCoordinator()
    for session_s in (5.9, 1_801.0):
        request = JoinRequest("", (RANGE,), session_timeout_s=session_s)
        refused = given(stored.coordinator.join("g", request, 0.0))
        assert refused.code is CoordinatorCode.INVALID_SESSION_TIMEOUT
    assert (
        given(stored.coordinator.join("", JoinRequest("", ()), 0.0)).code
        is CoordinatorCode.INVALID_GROUP_ID
    )
    stranger = stored.coordinator.join("g", JoinRequest("x", (RANGE,)), 0.0)
    assert given(stranger).code is CoordinatorCode.UNKNOWN_MEMBER_ID


# --- who coordinates


def test_a_key_hashes_as_in_java() -> None:
    assert java_hash("") == 0
    assert java_hash("hello") == 99_162_322
    assert java_hash("\U0001f600") == 0xD83D * 31 + 0xDE00
    assert java_hash("x" * 40) < 2**32


def test_a_broker_that_goes_takes_only_its_own_keys_along() -> None:
    keys = [f"group-{n}" for n in range(200)]
    before = {key: coordinator_of(key, [3, 1, 2], {1, 2, 3}) for key in keys}
    after = {key: coordinator_of(key, [1, 2, 3], {1, 3}) for key in keys}
    assert set(before.values()) == {1, 2, 3}
    assert all(after[key] == before[key] for key in keys if before[key] != 2)
    assert all(after[key] in (1, 3) for key in keys)
    assert coordinator_of("g", [1], set()) is None
    assert coordinator_of("g", [], set()) is None
