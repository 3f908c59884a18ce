"""What an action would touch, asked of a cluster: of whose moves, throttles and partitions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.throttles.configs import ReplicaSet, ThrottledRate, ThrottledReplicas
from kshunt.backend.errors import BadInput, Conflict
from kshunt.backend.operations.core.context import Context
from kshunt.backend.operations.moves.schedule import Caps
from kshunt.backend.operations.review.blast_radius import CancelRequest, PauseRequest, StartRequest
from kshunt.backend.operations.review.preview_facts import fingerprint_of
from kshunt.backend.operations.review.previews import Previews
from tests.support.operations.engine import tp
from tests.support.operations.engine_backend import TIMEOUT_S
from tests.support.operations.story import RATE, Story


@pytest.fixture
def story() -> Iterator[Story]:
    found = Story()
    found.world.cluster.create("b", (1, 2))
    yield found
    found.world.close()


def previews(story: Story) -> Previews:
    backend = story.backend
    return Previews(Context(backend.admin, backend.registry, story.world.clock, TIMEOUT_S))


def test_a_start_reads_the_topics_of_its_plan(story: Story) -> None:
    here = previews(story)
    request = here.start(ReassignmentPlan({tp("a-0"): (3, 4)}), RATE)
    radius = story.world.run(here.radius(request))
    assert (radius.action, radius.partitions, radius.topics) == ("start", (tp("a-0"),), ("a",))
    assert radius.brokers == (1, 2, 3, 4)


def test_what_changed_since_it_was_shown_is_refused(story: Story) -> None:
    here, run = previews(story), story.world.run
    request = here.start(ReassignmentPlan({tp("a-0"): (3, 4)}), RATE)
    shown = run(here.radius(request))
    assert run(here.check(fingerprint_of(shown.facts), request)) == request
    story.world.alter({tp("a-0"): (5, 4)})
    with pytest.raises(Conflict):
        run(here.check(fingerprint_of(shown.facts), request))
    assert run(here.check("", request)) == request, "nothing was shown"


def test_an_election_of_all_reads_all_and_of_some_theirs(story: Story) -> None:
    here, run = previews(story), story.world.run
    story.world.stop(1)
    story.world.cluster.pass_s(30)
    story.world.restart(1)
    story.world.cluster.pass_s(30)
    everything = run(here.radius(here.elect(None)))
    some = run(here.radius(here.elect([tp("b-0")])))
    assert set(some.partitions) == {tp("b-0")}
    assert set(everything.topics) == {"a", "b"}


def test_a_throttle_touches_what_its_lists_name(story: Story) -> None:
    here = previews(story)
    lists = ThrottledReplicas(ReplicaSet.parse("0:1"), ReplicaSet())
    request = here.throttle({3: ThrottledRate(5_000, None)}, {"b": lists})
    radius = story.world.run(here.radius(request))
    assert radius.throttles_set == ("broker 3", "topic b")
    assert "b" in radius.topics


def test_a_cancellation_is_of_what_moves_and_of_what_an_operation_has_waiting(
    story: Story,
) -> None:
    here, run = previews(story), story.world.run
    story.world.alter({tp("a-4"): (4, 5)})  # somebody else's
    answer = story.start({"a-0": (3, 4), "a-1": (4, 5)})
    story.tick()
    asked = [tp("a-0"), tp("a-2"), tp("a-4"), tp("a-0")]
    request = run(here.cancel(asked))
    assert isinstance(request, CancelRequest)
    assert request.partitions == (tp("a-0"), tp("a-2"), tp("a-4"))
    assert request.queue.plan == {tp("a-0"): (3, 4), tp("a-4"): (4, 5)}
    assert request.queue.started == {tp("a-0"), tp("a-4")}
    assert request.throttles == (), "the operation goes on with the other partition"
    both = run(here.cancel([tp("a-0"), tp("a-1")]))
    assert isinstance(both, CancelRequest)
    assert both.throttles == (
        *(f"broker {number}" for number in range(1, 6)),
        "topic a",
    )
    assert here.partitions_of(answer.operation_id or "") == (tp("a-0"), tp("a-1"))
    radius = run(here.radius(both))
    assert radius.topics == ("a",)


def test_moves_that_wait_are_no_moves_under_way(story: Story) -> None:
    here, run = previews(story), story.world.run
    story.start({"a-0": (3, 4), "a-1": (4, 5)}, caps=Caps(in_cluster=1))
    request = run(here.cancel([tp("a-0"), tp("a-1")]))
    assert isinstance(request, CancelRequest)
    assert set(request.queue.plan) == {tp("a-0"), tp("a-1")}
    assert len(request.queue.started) == 1


def test_a_pause_is_of_what_still_moves_and_an_undo_of_what_has_moved(story: Story) -> None:
    here, run = previews(story), story.world.run
    answer = story.start({"a-0": (3, 4), "a-1": (4, 5)})
    story.tick()
    pause = here.pause(answer.operation_id or "")
    assert isinstance(pause, PauseRequest)
    assert pause.partitions == (tp("a-0"), tp("a-1"))
    assert {topic: str(one) for topic, one in pause.share.items()} == {"a": "0:3,0:4,1:4,1:5"}
    assert run(here.radius(pause)).action == "pause"
    story.until_over()
    undo = run(here.undo(answer.operation_id or ""))
    assert isinstance(undo, StartRequest)
    assert undo.plan == {tp("a-0"): (1, 2), tp("a-1"): (2, 3)}
    assert undo.throttle_bytes_per_s == RATE


def test_what_moves_nothing_has_nothing_to_pause_or_undo(story: Story) -> None:
    here, run = previews(story), story.world.run
    run(story.backend.throttles.alter_rates({3: ThrottledRate(5_000, None)}, Change()))
    (operation,) = story.backend.registry
    for name in (operation.id, "none"):
        words = f"No operation {name} moves partitions; nothing was changed."
        with pytest.raises(BadInput, match=words):
            here.pause(name)
        with pytest.raises(BadInput, match=words):
            here.partitions_of(name)
        with pytest.raises(BadInput, match=words):
            run(here.undo(name))
