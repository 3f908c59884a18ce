"""Elections: who is elected, when that is done, why not, and what an unclean one loses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.admin.port.item_result import ItemResult
from kshunt.backend.admin.port.reassignments import ReassignOptions
from kshunt.backend.admin.port.replicas import ReplicaLag
from kshunt.backend.domain.cluster.metadata import NO_BROKER, PartitionState, TopicPartition
from kshunt.backend.domain.operations.election import (
    ElectionAnswer,
    LastSeenEnd,
    UncleanAnswer,
    UncleanLoss,
    in_batches,
    leader_counts,
    names,
    unclean_loss,
)
from kshunt.backend.domain.operations.operation import OperationState
from kshunt.backend.domain.untrusted.json_codec import from_document, to_document
from kshunt.backend.embedded.net.server import Handler, RequestContext
from kshunt.backend.errors import BadInput
from kshunt.backend.operations.elections.preferred import Pacing, foreseen, unavailable
from kshunt.backend.operations.elections.unclean import check_confirmation, refusal
from tests.support.admin import DEADLINE_S, connected, replicas_become, states_of, topic_with
from tests.support.brokers.launcher import RealKafka
from tests.support.clusters import ContractCluster
from tests.support.embedded.listeners import ListeningCluster
from tests.support.native import BRIEF_S, ELECT, ELECT_LEADERS, administered, stay_silent
from tests.support.operations.elections import Held, codes, words
from tests.support.waiting import wait_until_async

METADATA = 3
W0, W1, W2 = (TopicPartition("w", number) for number in range(3))


# The laws of the decisions

partitions = st.builds(TopicPartition, st.sampled_from("ab"), st.integers(0, 20))
preferences = st.dictionaries(partitions, st.integers(1, 4))


@given(preferences, st.none() | st.integers(1, 7))
def test_batches_hold_each_partition_once_and_take_the_brokers_in_turn(
    preferred: Mapping[TopicPartition, int], size: int | None
) -> None:
    batches = in_batches(preferred, size)
    ordered = [partition for batch in batches for partition in batch]
    assert sorted(ordered) == sorted(preferred)
    assert all(0 < len(batch) <= (size or len(preferred)) for batch in batches)
    assert all(len(batch) == size for batch in batches[:-1])
    left = list(preferred.values())
    led = dict.fromkeys(left, 0)
    for partition in ordered:
        left.remove(preferred[partition])
        led[preferred[partition]] += 1
        waiting = [led[broker] for broker in left]
        assert max(led.values()) - min(waiting, default=max(led.values())) <= 1


leaders = st.dictionaries(st.integers(1, 4), st.integers(0, 50))


@given(leaders, leaders)
def test_skews_are_distances_from_an_even_share(
    before: Mapping[int, int], after: Mapping[int, int]
) -> None:
    counts = leader_counts(before, after, {}, range(1, 5))
    assert [count.broker for count in counts] == [1, 2, 3, 4]
    for count in counts:
        even = sum(before.values()) / 4
        assert count.leaders_before == pytest.approx(even * (1 + count.skew_before), abs=0.05)
    assert abs(sum(count.skew_after for count in counts)) < 0.001
    answer = ElectionAnswer(True, None, (), ("note",), leaders=counts)
    assert from_document(ElectionAnswer, to_document(answer)) == answer


ends = st.dictionaries(
    st.integers(1, 4), st.builds(LastSeenEnd, st.integers(0, 9), st.integers(0, 9))
)


some = st.sets(st.integers(1, 4))


@given(st.permutations([1, 2, 3, 4]), some, some, ends)
def test_a_loss_is_never_stated_smaller_than_what_is_known(
    replicas: list[int], isr: set[int], live: set[int], seen: Mapping[int, LastSeenEnd]
) -> None:
    state = PartitionState(W0, NO_BROKER, tuple(replicas), tuple(isr))
    loss = unclean_loss(state, live, seen)
    able = [broker for broker in replicas if broker in live]
    assert loss.candidate == (able[0] if able else NO_BROKER)
    if loss.candidate not in seen:
        assert loss.lost_messages is None
    else:
        highest = max(end.offset for end in seen.values())
        assert loss.lost_messages_min == highest - seen[loss.candidate].offset
        assert loss.lost_messages in (None, loss.lost_messages_min)
    if loss.lost_messages is not None:
        # Somebody has seen how far those were who had everything.
        assert any(broker in seen for broker in (isr - live or set(replicas) - live))
    answer = UncleanAnswer(True, None, (), losses=(loss,))
    assert from_document(UncleanAnswer, to_document(answer)) == answer


def state(
    leader: int = 2, isr: tuple[int, ...] = (2,), offline: tuple[int, ...] = ()
) -> PartitionState:
    return PartitionState(W0, leader, (1, 2), isr, offline)


def lag(messages: int, why: str = "") -> ReplicaLag:
    return ReplicaLag(W0, 1, 0, messages, in_isr=False, result=ItemResult(message=why))


UNKNOWN_LAG = "how far it is behind is not known"


@pytest.mark.parametrize(
    ("of", "live", "behind", "dirs", "why"),
    [
        (state(), {2: 0}, None, (), "broker 1 is offline; start it, or reassign the partition"),
        (state(offline=(1,)), {1: 0}, None, ("/d1",), "on broker 1 is offline (/d1)"),
        (state(offline=(1,)), {1: 0}, None, (), "the replica on broker 1 is offline"),
        (state(), {1: 0}, lag(12), (), "is not in the ISR (2); it is 12 messages behind"),
        (state(), {1: 0}, lag(1), (), "it is 1 message behind the leader"),
        (state(isr=()), {1: 0}, None, (), f"is not in the ISR (empty); {UNKNOWN_LAG}"),
        (state(), {1: 0}, lag(-1, "no answer"), (), f"{UNKNOWN_LAG}: no answer"),
    ],
)
def test_why_the_preferred_replica_cannot_lead(
    of: PartitionState,
    live: Mapping[int, object],
    behind: ReplicaLag | None,
    dirs: Sequence[str],
    why: str,
) -> None:
    assert why in (unavailable(of, live, behind, dirs) or "")


def test_what_is_foreseen() -> None:
    both = (1, 2)
    assert unavailable(state(isr=both), {1: 0}, None, ()) is None
    assert foreseen(state(leader=1)).error_name == "ELECTION_NOT_NEEDED"
    assert foreseen(state()).error_name == "PREFERRED_LEADER_NOT_AVAILABLE"
    assert foreseen(state(isr=both)).message == "leadership would move from 2 to 1"
    assert foreseen(state(NO_BROKER, both)).message == (
        "broker 1 would become leader; there is none now"
    )


@pytest.mark.parametrize(
    ("of", "name"),
    [
        (None, "UNKNOWN_TOPIC_OR_PARTITION"),
        (state(), "ELECTION_NOT_NEEDED"),
        (state(NO_BROKER), "OPERATION_NOT_ATTEMPTED"),
        (state(NO_BROKER, isr=(1,), offline=(1, 2)), "ELIGIBLE_LEADERS_NOT_AVAILABLE"),
        (state(NO_BROKER, isr=(1,), offline=(1,)), None),
        (state(NO_BROKER, isr=()), None),
    ],
)
def test_an_unclean_election_is_refused_where_it_is_not_the_last_resort(
    of: PartitionState | None, name: str | None
) -> None:
    refused = refusal(of, {2: 0})
    assert (refused.error_name if refused else None) == name


@pytest.mark.parametrize("confirm", [[], ["w-0"], ["w-0", "w-1", "w-1"], ["*"], ["w-0, w-1"]])
def test_an_unclean_election_is_confirmed_by_every_name(confirm: list[str]) -> None:
    with pytest.raises(BadInput, match=r"must be exactly w-0, w-1\. Nothing was changed"):
        check_confirmation([W0, W1], confirm)
    with pytest.raises(BadInput, match="must name its partitions"):
        check_confirmation([], confirm)
    check_confirmation([W0, W1], ["w-1", "w-0"])


# On the embedded cluster, with the seed's RPC and without


@pytest.fixture(params=[True, False], ids=["native", "emulated"])
async def held(request: pytest.FixtureRequest) -> AsyncIterator[tuple[ListeningCluster, Held, int]]:
    """A cluster, its elections, and the API by which they are held.

    Broker 1 has been away: it leads neither w-0 nor w-2, which prefer it, and is in sync.
    """
    native = bool(request.param)
    async with administered(native=native) as (cluster, admin):
        cluster.create("w", [1, 2], [2, 1], [1, 3])
        cluster.core.stop_broker(1)
        cluster.restart(1)
        cluster.pass_s(1)
        assert [cluster.at("w", number).leader for number in range(3)] == [2, 2, 3]
        yield cluster, Held(admin), ELECT if native else ELECT_LEADERS


ElectionCluster = tuple[ListeningCluster, Held, int]


async def test_chosen_partitions_each_have_a_result(held: ElectionCluster) -> None:
    cluster, on, _ = held
    answer = await on.elect([W0, W1, W0, TopicPartition("w", 9), TopicPartition("gone", 0)])
    assert codes(answer) == {
        "gone-0": "UNKNOWN_TOPIC_OR_PARTITION",
        "w-0": "NONE",
        "w-1": "NONE",
        "w-9": "UNKNOWN_TOPIC_OR_PARTITION",
    }
    assert cluster.at("w", 0).leader == 1
    assert cluster.at("w", 2).leader == 3
    assert answer.notes == ("1 partition already led by the preferred replica.",)
    assert [o.state for o in on.registry] == [OperationState.DONE]
    assert "2 of 4 failed" in on.seen[-1].outcome


async def test_of_all_partitions_those_are_listed_that_needed_it(held: ElectionCluster) -> None:
    cluster, on, _ = held
    answer = await on.elect(None)
    # The topic that the cluster came with prefers broker 1 too.
    assert {"w-0", "w-2"} <= codes(answer).keys()
    assert "w-1" not in codes(answer)
    assert answer.failures == ()
    assert [cluster.at("w", number).leader for number in range(3)] == [1, 2, 1]
    again = await on.elect(None)
    assert (again.results, again.operation_id) == ((), None)
    assert len(list(on.registry)) == 1


async def test_a_preview_counts_the_leaders_and_changes_nothing(held: ElectionCluster) -> None:
    cluster, on, key = held
    answer = await on.elect([W0, W1], validate_only=True)
    assert words(answer) == {
        "w-0": "leadership would move from 2 to 1",
        "w-1": "broker 2 already leads",
    }
    by_broker = {count.broker: count for count in answer.leaders}
    assert by_broker.keys() == {1, 2, 3, 4}
    moved = {b: c.leaders_after - c.leaders_before for b, c in by_broker.items()}
    assert moved == {1: 1, 2: -1, 3: 0, 4: 0}
    assert by_broker[1].leaders_preferred == 3
    assert by_broker[4].skew_after == -1
    assert key not in cluster.asked
    assert on.seen == []


async def test_batches_end_before_the_next_begins(held: ElectionCluster) -> None:
    cluster, on, key = held
    led: list[list[int]] = []

    async def noting(context: RequestContext, message: Any) -> Any:
        led.append([cluster.at("w", number).leader for number in (0, 2)])
        return await cluster.own[key](context, message)

    cluster.instead[key] = noting
    answer = await on.elect([W0, W1, W2], pacing=Pacing(batch_size=1, pause_s=60.0))
    assert answer.failures == ()
    assert led == [[2, 3], [1, 3]]
    assert on.clock.pauses_s == [60.0]
    assert [operation.outcome for operation in on.seen] == ["", "1 of 2 batches done", ""]
    assert [operation.outcome_is_progress for operation in on.seen] == [False, True, False]


def frozen(handler: Handler) -> Handler:
    """Brokers that repeat their first answer to each question."""
    said: dict[object, Any] = {}

    async def answer(context: RequestContext, message: Any) -> Any:
        asked = message.topics
        key = context.version, None if asked is None else tuple(topic.name for topic in asked)
        if key not in said:
            said[key] = await handler(context, message)
        return said[key]

    return answer


async def test_an_election_is_done_when_the_brokers_say_so(held: ElectionCluster) -> None:
    cluster, on, _ = held
    cluster.instead[METADATA] = frozen(cluster.own[METADATA])
    late = await on.elect([W0, W1], timeout_s=BRIEF_S)
    assert codes(late) == {"w-0": "REQUEST_TIMED_OUT", "w-1": "NONE"}
    assert "broker 2 is still the leader, and not broker 1" in words(late)["w-0"]
    assert cluster.at("w", 0).leader == 1


async def test_a_lost_answer_is_looked_up_and_ends_the_batches(held: ElectionCluster) -> None:
    cluster, on, key = held

    async def done_and_silent(context: RequestContext, message: Any) -> Any:
        await cluster.own[key](context, message)
        await asyncio.Event().wait()

    cluster.instead[key] = done_and_silent
    paced: dict[str, Any] = {"pacing": Pacing(batch_size=1), "timeout_s": BRIEF_S}
    answer = await on.elect([W0, W2], **paced)
    assert codes(answer) == {"w-0": "NONE", "w-2": "OPERATION_NOT_ATTEMPTED"}
    assert "was not answered" in words(answer)["w-2"]
    cluster.instead[key] = stay_silent
    lost = await on.elect([W2], **paced)
    assert codes(lost) == {"w-2": "REQUEST_TIMED_OUT"}
    assert "It may still take place" in words(lost)["w-2"]
    assert next(iter(on.registry)).state is OperationState.FAILED


@pytest.mark.conforms("kip-183:error-80", "kip-183:reason")
async def test_the_reason_is_named_where_the_preferred_replica_cannot_lead(
    held: ElectionCluster,
) -> None:
    cluster, on, _ = held
    cluster.create("v", [4, 2])
    cluster.core.stop_broker(1)
    cluster.write("w", 25)
    cluster.restart(1)
    await cluster.stop_broker(4)
    cluster.create("u", [2, 3])
    path = cluster.at("u").log_dir(2)
    cluster.core.fail_log_dir(2, path)
    asked = [W0, TopicPartition("v", 0), TopicPartition("u", 0)]
    for validate_only in (True, False):
        answer = await on.elect(asked, validate_only=validate_only)
        assert set(codes(answer).values()) == {"PREFERRED_LEADER_NOT_AVAILABLE"}
        why = words(answer)
        assert "is not in the ISR (2); it is 25 messages behind the leader" in why["w-0"]
        assert "broker 4 is offline" in why["v-0"]
        assert f"log directory of the replica on broker 2 is offline ({path})" in why["u-0"]


# Unclean elections


async def leaderless(cluster: ListeningCluster) -> None:
    """w-0 loses its leader 2, which alone has the last 30 of its messages."""
    cluster.core.stop_broker(1)
    cluster.write("w", 30)
    await cluster.stop_broker(2)
    cluster.restart(1)
    cluster.asked.clear()
    assert cluster.at("w", 0).leader == NO_BROKER


async def test_an_unclean_election_says_what_it_loses(held: ElectionCluster) -> None:
    cluster, on, _ = held
    await leaderless(cluster)
    seen = {W0: {2: LastSeenEnd(30, 7)}}
    preview = await on.elect_unclean([W0], last_seen=seen, validate_only=True)
    assert preview.losses == (UncleanLoss("w", 0, 1, 0, 30, 7, 30, 30),)
    assert "may lose 30 messages" in words(preview)["w-0"]
    with pytest.raises(BadInput, match="must be exactly w-0"):
        await on.elect_unclean([W0], ["w-1"], seen)
    assert ELECT_LEADERS not in cluster.asked
    assert on.seen == []
    answer = await on.elect_unclean([W0, W0], ["w-0"], seen)
    assert codes(answer) == {"w-0": "NONE"}
    assert words(answer)["w-0"].startswith("broker 1 leads; ")
    assert cluster.at("w", 0).leader == 1
    assert "30 messages" in (next(iter(on.registry)).details.requested or {})["w-0"]


async def test_a_loss_that_nobody_can_know_is_unknown(held: ElectionCluster) -> None:
    cluster, on, _ = held
    await leaderless(cluster)
    (loss,) = (await on.elect_unclean([W0], validate_only=True)).losses
    assert "an UNKNOWN number of messages, at least 0" in str(loss)
    cluster.instead[2] = stay_silent
    mute = await on.elect_unclean([W0], validate_only=True, timeout_s=BRIEF_S)
    assert mute.losses[0].candidate_end is None
    assert "broker 1 does not report its log end offset" in str(mute.losses[0])


async def test_one_refused_partition_stops_the_whole_unclean_election(
    held: ElectionCluster,
) -> None:
    cluster, on, _ = held
    await leaderless(cluster)
    asked = [W0, W2, TopicPartition("w", 9)]
    answer = await on.elect_unclean(asked, names(asked))
    assert codes(answer) == {
        "w-0": "OPERATION_NOT_ATTEMPTED",
        "w-2": "ELECTION_NOT_NEEDED",
        "w-9": "UNKNOWN_TOPIC_OR_PARTITION",
    }
    assert [loss.name for loss in answer.losses] == [W0]
    assert cluster.at("w", 0).leader == NO_BROKER
    assert ELECT_LEADERS not in cluster.asked
    assert next(iter(on.registry)).state is OperationState.FAILED


async def test_an_unclean_election_that_is_not_answered_is_looked_up(held: ElectionCluster) -> None:
    cluster, on, _ = held
    await leaderless(cluster)
    cluster.instead[ELECT_LEADERS] = stay_silent
    answer = await on.elect_unclean([W0], ["w-0"], timeout_s=BRIEF_S)
    assert codes(answer) == {"w-0": "REQUEST_TIMED_OUT"}


# On real Kafka too


async def test_elections_on_every_cluster(cluster: ContractCluster) -> None:
    async with connected(cluster.bootstrap_servers) as admin:
        topic = await topic_with(admin, "elected", [[1, 2], [1, 2], [2, 1]])
        moved = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
        await admin.reassignments.reassign(dict.fromkeys(moved, (2, 1)), ReassignOptions(), {})
        for partition in moved:
            await replicas_become(admin, partition, (2, 1))
        on = Held(admin)
        preview = await on.elect(moved, validate_only=True)
        assert set(words(preview).values()) == {"leadership would move from 1 to 2"}
        answer = await on.elect([*moved, *moved], pacing=Pacing(batch_size=1))
        assert set(codes(answer).values()) == {"NONE"}
        assert len(answer.results) == 2
        assert {s.leader for s in (await states_of(admin, topic)).values()} == {2}
        refused = await on.elect_unclean(moved, names(moved))
        assert set(codes(refused).values()) == {"ELECTION_NOT_NEEDED"}


@pytest.fixture(scope="module")
def rebalancing() -> Iterator[RealKafka]:
    """Brokers of this file's own, since one is stopped; they put preferred leaders back."""
    rebalance = {
        "auto.leader.rebalance.enable": "true",
        "leader.imbalance.check.interval.seconds": "2",
    }
    with RealKafka(overrides=rebalance) as brokers:
        yield brokers


@pytest.mark.kafka
async def test_a_preferred_leader_is_put_back_while_its_partition_moves(
    rebalancing: RealKafka,
) -> None:
    """The order of the target holds from the start. Forecasts count on it (`NextLeaders`)."""
    async with connected(rebalancing.bootstrap_servers) as admin:
        topic = await topic_with(admin, "put-back", [[1, 2]], records=2000)
        moved = TopicPartition(topic, 0)
        await admin.reassignments.reassign({moved: [2, 3]}, ReassignOptions(1000), {})

        async def leads() -> bool:
            return (await states_of(admin, topic))[0].leader == 2

        await wait_until_async(leads, DEADLINE_S, f"broker 2 leads {moved}")
        assert (await states_of(admin, topic))[0].replicas == (2, 3, 1)


@pytest.mark.kafka
async def test_an_unclean_election_on_real_brokers(rebalancing: RealKafka) -> None:
    async with connected(rebalancing.bootstrap_servers) as admin:
        topic = await topic_with(admin, "unclean", [[2]], records=2000)
        lost = TopicPartition(topic, 0)
        # Throttled so far that the new replica cannot get into the ISR.
        await admin.reassignments.reassign({lost: [3, 2]}, ReassignOptions(1000), {})
        await asyncio.to_thread(rebalancing.stop_broker, 2)

        async def is_leaderless() -> bool:
            return (await states_of(admin, topic))[0].leader == NO_BROKER

        await wait_until_async(is_leaderless, DEADLINE_S, f"{lost} has no leader")
        on = Held(admin)
        seen = {lost: {2: LastSeenEnd(2000, 1)}}
        preview = await on.elect_unclean([lost], last_seen=seen, validate_only=True)
        (loss,) = preview.losses
        assert (loss.candidate, loss.known_end) == (3, 2000)
        assert loss.lost_messages == 2000 - (loss.candidate_end or 0) > 0
        answer = await on.elect_unclean([lost], [str(lost)], seen)
        assert codes(answer) == {str(lost): "NONE"}
        assert (await states_of(admin, topic))[0].leader == 3
