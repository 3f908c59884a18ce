"""Stories of the engine, each told plainly; `tests.property.test_engine` tells all the others."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import numpy as np
import pytest

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.operation import OperationKind, OperationState
from kshunt.backend.domain.replicas.snapshot import DTYPES, Replicas, Snapshot
from kshunt.backend.domain.throttles.configs import ThrottledRate, Throttles
from kshunt.backend.errors import Conflict, KshuntError
from kshunt.backend.operations.moves.pause_throttles import FLOOR_BYTES_PER_S
from kshunt.backend.operations.moves.schedule import Caps
from kshunt.backend.operations.ownership.cells import ListKey, RateKey
from tests.support.operations.engine import tp
from tests.support.operations.engine_backend import TIMEOUT_S, Backend
from tests.support.operations.engine_world import BROKER, TOPIC, Effect, Fault
from tests.support.operations.story import (
    MB,
    RATE,
    Story,
    calls_of_commits,
    calls_until_the_request,
    cancel,
)

State = OperationState


@pytest.mark.conforms("kip-179:write-lists", "kip-179:write-move")
def test_lists_come_before_rates_and_rates_before_the_move(story: Story) -> None:
    """KIP-179's order; and the operation is in the journal before any of it."""
    kinds: list[int] = []

    def watch(effect: Effect) -> None:
        assert any(o.kind is OperationKind.REASSIGN for o in story.world.known.operations.values())
        kinds.append(effect.kind)

    story.world.effected = watch
    answer = story.start({"a-0": (3, 4)})
    assert list(dict.fromkeys(kinds)) == [TOPIC, BROKER, 0]
    assert story.world.config(TOPIC, "a", ListKey.LEADERS) == "0:1,0:2"
    assert story.world.config(TOPIC, "a", ListKey.FOLLOWERS) == "0:3,0:4"
    assert {b: story.rates(b) for b in (1, 2, 3, 4, 5)} == {
        **dict.fromkeys((1, 2, 3, 4), (str(RATE), str(RATE))),
        5: (None, None),
    }
    story.until_over()
    assert story.operation(answer).state is State.DONE
    assert story.replicas("a-0") == (3, 4)
    assert story.throttles() == story.before


def test_what_the_cluster_refuses_is_undone_completely(story: Story) -> None:
    story.world.set(BROKER, "1", RateKey.LEADER, "7000000")
    story.world.set(TOPIC, "a", ListKey.FOLLOWERS, "1:2")
    before, plan = story.throttles(), {"a-0": (3, 4)}
    calls = calls_until_the_request(lambda twin: twin.start(plan))
    story.world.plan_faults({calls: Fault.REFUSED})
    answer = story.start(plan, auto_remove_throttle=False)
    assert not answer.results[0].ok
    assert any("former values" in note for note in answer.notes)
    assert story.operation(answer).state is State.FAILED
    assert story.throttles() == before
    assert not story.backend.registry.ownership.in_force()


def test_a_move_whose_answer_was_lost_is_found(story: Story) -> None:
    plan = {"a-0": (3, 4)}
    story.world.plan_faults({calls_until_the_request(lambda twin: twin.start(plan)): Fault.LOST})
    answer = story.start(plan)
    assert answer.results[0].ok
    story.until_over()
    assert story.operation(answer).state is State.DONE
    assert story.throttles() == story.before


def test_a_dead_broker_is_skipped_and_said_and_throttled_when_it_is_back(story: Story) -> None:
    story.world.stop(3)
    answer = story.start({"a-1": (3, 4), "a-0": (2, 5)})
    assert answer.notes[0].startswith("Broker 3 does not answer; kshunt writes its throttle when")
    assert all(result.ok for result in answer.results)
    assert story.rates(3) == (None, None)
    story.tick(1)
    assert story.rates(4) == (str(RATE), str(RATE))
    story.world.restart(3)
    story.tick()
    assert story.rates(3) == (str(RATE), str(RATE))
    story.until_over()
    assert (story.replicas("a-1"), story.replicas("a-0")) == ((3, 4), (2, 5))
    assert story.throttles() == story.before


def test_an_operation_that_ends_leaves_the_throttle_of_another(story: Story) -> None:
    story.world.cluster.create("big", (1, 2))
    story.world.cluster.fill("big", 100 * MB)
    long = story.start({"big-0": (1, 3)}, throttle_bytes_per_s=2 * RATE)
    short = story.start({"a-0": (1, 3)})
    assert story.rates(1) == (str(RATE), str(RATE)), "the lowest holds for both"
    while not story.operation(short).state.ended:
        story.tick(5)
    assert story.operation(long).state is State.RUNNING
    assert story.rates(1) == story.rates(3) == (str(2 * RATE), str(2 * RATE))
    assert story.world.config(TOPIC, "big", ListKey.FOLLOWERS) == "0:3"
    assert story.world.config(TOPIC, "a", ListKey.FOLLOWERS) is None
    story.until_over()
    assert story.throttles() == story.before


def test_a_queue_keeps_its_caps_and_takes_the_largest_first(story: Story) -> None:
    sizes = {"a-0": 2, "a-3": 9, "a-4": 5}
    sample = sampled({tp(name): size * MB for name, size in sizes.items()})
    story.world.latest = lambda: sample
    most, order = 0, []
    story.world.effected = lambda effect: order.extend([effect.name] * (effect.kind == 0))
    caps = Caps(per_broker=1, in_cluster=1)
    answer = story.start(dict.fromkeys(sizes, (1, 4)), caps=caps)
    assert answer.waiting == len(answer.results) == len(sizes)
    assert story.backend.registry.waiting == {tp("a-0"), tp("a-4")}, "the largest has begun"
    while not story.operation(answer).state.ended:
        story.tick(1)
        most = max(most, len(story.world.ongoing))
    assert (most, order) == (1, ["a-3", "a-4", "a-0"])
    assert not story.backend.registry.waiting
    assert story.throttles() == story.before


def sampled(sizes: Mapping[TopicPartition, int]) -> Snapshot:
    """A sample that knows these partitions' sizes."""
    rows = {name: np.zeros(len(sizes), dtype) for name, dtype in DTYPES.items()}
    rows["partition"] += np.array([number for _, number in sizes], np.int32)
    rows["size_bytes"] += np.array(list(sizes.values()))
    return Snapshot(1, 1, "here", 1, ("a",), Replicas(**rows), {}, Throttles({}, {}))


def test_nothing_starts_while_others_lack_replicas_in_sync(story: Story) -> None:
    story.world.cluster.create("other", (4, 5), min_insync_replicas="2")
    story.world.stop(5)
    answer = story.start({"a-0": (1, 3)}, caps=Caps())
    story.tick(5)
    assert not story.world.ongoing
    assert "other-0" in story.operation(answer).outcome
    assert story.operation(answer).outcome_is_progress
    story.world.restart(5)
    story.until_over()
    assert story.replicas("a-0") == (1, 3)


def test_a_pause_keeps_what_was_copied(story: Story) -> None:
    answer = story.start({"a-0": (1, 3)})
    one = story.operation(answer).id
    story.tick(4)
    copied = story.world.cluster.end("a", 3)
    assert copied > 0
    story.world.run(story.backend.operation_control.pause(one, Change()))
    assert story.operation(answer).state is State.PAUSED
    assert story.rates(3) == (str(RATE), str(FLOOR_BYTES_PER_S))
    for _ in range(6):
        story.tick(10)
    held = story.world.cluster.end("a", 3)
    assert copied <= held < story.world.cluster.end("a", 1)
    story.world.run(story.backend.operation_control.resume(one, Change()))
    assert story.rates(3) == (str(RATE), str(RATE))
    assert story.operation(answer).outcome_is_progress
    story.until_over()
    assert story.replicas("a-0") == (1, 3)
    assert story.throttles() == story.before


def test_undo_brings_back_what_was_moved(story: Story) -> None:
    answer = story.start({"a-0": (3, 4)})
    story.until_over()
    back = story.world.run(
        story.backend.operation_control.undo(
            story.operation(answer).id, Change(), timeout_s=TIMEOUT_S
        )
    )
    assert story.rates(3) == (str(RATE), str(RATE))
    story.until_over()
    assert story.operation(back).state is State.DONE
    assert story.replicas("a-0") == (1, 2)
    assert story.throttles() == story.before


def test_what_was_cancelled_whole_has_nothing_to_undo(story: Story) -> None:
    answer = story.start({"a-0": (3, 4)})
    id, control = story.operation(answer).id, story.backend.operation_control
    story.world.run(control.cancel(id, Change(), timeout_s=TIMEOUT_S))
    story.until_over()
    words = f"^Every partition of operation {id} is where it was before. Nothing was changed.$"
    with pytest.raises(Conflict, match=words):
        story.world.run(control.undo(id, Change(), timeout_s=TIMEOUT_S))


def test_a_backend_that_acts_no_more_does_nothing(story: Story) -> None:
    story.start({"a-0": (3, 4)})
    former, story.backend = story.backend, Backend(story.world)
    story.effects.clear()
    story.world.cluster.pass_s(60)
    story.world.run(former.engine.tick())
    assert not story.effects
    story.until_over()
    assert story.throttles() == story.before


# What random walks have found


def test_a_rate_that_an_operator_frees_goes_when_its_broker_is_back(story: Story) -> None:
    story.start({"a-1": (3, 4)})
    story.world.stop(3)
    answer = story.world.run(
        story.backend.throttles.alter_rates({3: ThrottledRate(None, None)}, Change())
    )
    assert not answer.results[0].ok
    story.world.restart(3)
    story.until_over()
    assert story.throttles() == story.before


def test_a_rate_that_an_operator_frees_goes_also_where_the_throttle_is_then_kept(
    story: Story,
) -> None:
    story.start({"a-1": (3, 4)})
    story.world.stop(3)
    story.world.run(story.backend.throttles.alter_rates({3: ThrottledRate(None, None)}, Change()))
    cancel(story, "a-1", preserve_throttles=True)
    story.tick(1)
    story.world.restart(3)
    story.until_over()
    assert story.rates(3) == (None, None)
    assert story.rates(4) == (str(RATE), str(RATE))


@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.LOST])
def test_a_change_that_breaks_off_does_not_stay_open(story: Story, fault: Fault) -> None:
    """Its backend would be busy, and never end by itself."""
    broken = 0
    for call in range(8):
        story.world.plan_faults({call: fault})
        try:
            story.world.run(
                story.backend.throttles.alter_rates({3: ThrottledRate(RATE, RATE)}, Change())
            )
        except KshuntError:
            broken += 1
        story.world.plan_faults({})
        story.tick(1)
        assert not story.backend.engine.busy
    assert broken


def test_a_pause_does_not_hold_what_somebody_else_has_retargeted(story: Story) -> None:
    answer = story.start({"a-0": (1, 3), "a-3": (1, 3)})
    story.world.alter({tp("a-0"): (1, 4)})
    story.world.run(story.backend.operation_control.pause(story.operation(answer).id, Change()))
    assert story.rates(4) == (None, None)
    assert "0:4" not in (story.world.config(TOPIC, "a", ListKey.FOLLOWERS) or "")
    assert story.rates(3) == (str(RATE), str(FLOOR_BYTES_PER_S))


@pytest.mark.parametrize("rate", [None, RATE])
def test_a_pause_that_is_cancelled_leaves_no_floor(story: Story, rate: int | None) -> None:
    """Also where the caller keeps the throttle: the floor that the pause has set is no throttle."""
    answer = story.start({"a-0": (1, 3)}, throttle_bytes_per_s=rate)
    one = story.operation(answer).id
    story.world.run(story.backend.operation_control.pause(one, Change()))
    assert story.rates(3)[1] == str(FLOOR_BYTES_PER_S)
    story.world.run(
        story.backend.operation_control.cancel(
            one, Change(), preserve_throttles=True, timeout_s=TIMEOUT_S
        )
    )
    story.until_over()
    assert story.operation(answer).state is State.CANCELLED
    left = None if rate is None else str(rate)
    assert story.rates(3) == (left, left)
    if rate is None:
        assert story.throttles() == story.before


def test_rates_can_be_set_while_a_pause_is_being_cancelled(story: Story) -> None:
    """Its floor may be gone already: the rate is in force, and nobody's but the operator's."""
    answer = story.start({"a-0": (1, 3)}, throttle_bytes_per_s=None)
    story.world.run(story.backend.operation_control.pause(story.operation(answer).id, Change()))
    cancel(story, "a-0")
    said = story.world.run(
        story.backend.throttles.alter_rates({3: ThrottledRate(None, RATE)}, Change())
    )
    assert said.results[0].ok
    story.until_over()
    assert story.rates(3) == (None, str(RATE))


def test_a_rate_that_is_freed_in_a_pause_does_not_come_back_with_its_end(story: Story) -> None:
    story.world.set(BROKER, "3", RateKey.FOLLOWER, "7000000")
    one = story.operation(story.start({"a-0": (1, 3)})).id
    story.world.run(story.backend.operation_control.pause(one, Change()))
    story.world.run(story.backend.throttles.alter_rates({3: ThrottledRate(None, None)}, Change()))
    assert story.rates(3) == (None, str(FLOOR_BYTES_PER_S))
    story.world.run(story.backend.operation_control.resume(one, Change()))
    assert story.rates(3) == (None, None)
    story.until_over()
    assert story.rates(3) == (None, None)


def test_resuming_a_pause_that_did_not_take_hold_writes_no_floor(story: Story) -> None:
    one = story.operation(story.start({"a-0": (1, 3)})).id
    for call in range(30):
        story.world.plan_faults({call: Fault.REFUSED})
        with contextlib.suppress(KshuntError):
            story.world.run(story.backend.operation_control.pause(one, Change()))
        story.world.plan_faults({})
        with contextlib.suppress(KshuntError):
            story.world.run(story.backend.operation_control.resume(one, Change()))
            assert story.rates(3) == (str(RATE), str(RATE))
    story.until_over()
    assert story.throttles() == story.before


def test_a_throttle_that_came_off_in_a_pause_does_not_come_back(story: Story) -> None:
    one = story.operation(story.start({"a-0": (1, 3)})).id
    story.world.run(story.backend.operation_control.pause(one, Change()))
    story.start({"a-3": (1, 3)}, throttle_bytes_per_s=2 * RATE)
    for preserve in (False, True):
        cancel(story, "a-0", preserve_throttles=preserve)
    story.tick()
    story.tick()
    assert story.rates(3) == (str(2 * RATE), str(2 * RATE))
    story.until_over()
    assert story.throttles() == story.before


def test_a_cancellation_leaves_alone_what_an_earlier_one_has_preserved(story: Story) -> None:
    story.start({"a-0": (1, 3), "a-3": (1, 4)})
    for name, preserve in (("a-0", True), ("a-2", False)):
        cancel(story, name, preserve_throttles=preserve)
    assert story.world.config(TOPIC, "a", ListKey.FOLLOWERS) == "0:3,3:4"
    story.until_over()
    assert story.throttles() == story.before


def test_an_append_in_doubt_does_not_hide_what_is_in_the_journal(story: Story) -> None:
    """Its operation is in the journal; so the backend has to know of it, and end it."""
    intent = calls_of_commits(lambda twin: twin.start({"a-0": (3, 4)}))[0]
    story.world.plan_faults({intent: Fault.IN_DOUBT})
    with pytest.raises(KshuntError):
        story.start({"a-0": (3, 4)})
    story.world.plan_faults({})
    story.tick(1)
    story.until_over()
    assert all(operation.state.ended for operation in story.world.known.operations.values())
