"""What an action would touch, in one sentence, and whether a preview still holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kshunt.backend.domain.cluster.metadata import LogDir
from kshunt.backend.domain.throttles.configs import ThrottledRate, ThrottledReplicas, Throttles
from kshunt.backend.errors import Conflict
from kshunt.backend.operations.moves.cluster_view import ClusterView
from kshunt.backend.operations.moves.schedule import Queue
from kshunt.backend.operations.review.blast_radius import (
    CancelRequest,
    ElectRequest,
    PauseRequest,
    Request,
    StartRequest,
    ThrottleRequest,
    blast_radius,
    check_fresh,
)
from kshunt.backend.operations.review.preview_facts import (
    FACTS_MAX,
    LEADER,
    SHOWN_MAX,
    PreviewFacts,
    ShownPreviews,
    fingerprint_of,
)
from tests.support.operations.engine import at, followers, moving, rated, tp, view_with

MB = 1_000_000


def cluster(**more: Any) -> ClusterView:
    """a-0 at rest, a-1 on its way from 1,2 to 2,3, b-0 without one replica."""
    values: dict[str, Any] = {
        "ongoing": [moving("a-1", [1, 2], [2, 3])],
        "min_isr": {"a": 1, "b": 2},
        "sizes": {"a-0": 300 * MB, "a-1": 5 * MB},
        "throttles": Throttles(rated(dict.fromkeys((1, 2, 3), (MB, MB))), followers(a="1:3")),
        "usable": {4: 100 * MB},
    }
    states = [at("a-0", [1, 2]), at("a-1", [2, 3, 1], [1, 2], 1), at("b-0", [3, 4, 5], [4, 5], 4)]
    return view_with(*states, **(values | more))


PLAN = {tp("a-1"): (2, 3)}
CANCEL = CancelRequest((tp("a-1"),), Queue(PLAN, started=frozenset(PLAN)), ("broker 3", "topic a"))
START = StartRequest({tp("a-0"): (4, 5), tp("b-0"): (3, 4, 6)}, MB)
REQUESTS: list[Request] = [
    START,
    CANCEL,
    PauseRequest((tp("a-1"),)),
    ElectRequest(None),
    ThrottleRequest({1: ThrottledRate(None, None), 2: ThrottledRate(2 * MB, MB)}),
]


def test_a_start_says_what_it_copies_sets_and_waits_for() -> None:
    blast = blast_radius(START, cluster())
    assert blast.sentence == (
        "Start: touches 6 brokers and 2 topics (2 partitions), copies 600 MB and 1 partition of "
        "unknown size, sets 8 throttles, moves 1 leader, 1 partition at min-ISR."
    )
    assert blast.brokers == (1, 2, 3, 4, 5, 6)
    assert blast.leaders_moving == (tp("a-0"),)
    assert blast.at_min_isr == (tp("b-0"),)
    assert blast.warnings == (
        "1 partition would wait for broker 3 to be in sync: 2 in sync, and min.insync.replicas "
        "is 2.",
        "1 partition of other plans are moving.",
        "Broker 4 would receive 300 MB and has 100 MB free.",
    )


def test_a_start_is_warned_of_the_directories_that_its_plan_names() -> None:
    dirs = (LogDir(4, "/a", 10**12, 200 * MB), LogDir(4, "/b", 10**12, 250 * MB))
    view = replace(cluster(ongoing=[]), log_dirs=dirs)
    request = StartRequest({tp("a-0"): (4, 5)}, MB, {(tp("a-0"), 4): "/b"})
    assert blast_radius(request, view).warnings == (
        "Log directory /b of broker 4 would receive 300 MB and has 250 MB free.",
    )


def test_a_cancellation_says_what_it_lifts_and_throws_away() -> None:
    blast = blast_radius(CANCEL, cluster())
    assert blast.sentence == (
        "Cancel: touches 3 brokers and 1 topic (1 partition), lifts 2 throttles, "
        "0 partitions at min-ISR."
    )
    assert blast.warnings == ("The data already copied for a-1 is thrown away.",)


def test_a_cancellation_moves_a_leader_that_only_the_move_brought() -> None:
    led = at("a-1", [2, 3, 1], [1, 2, 3], 3)
    assert blast_radius(CANCEL, view_with(led, ongoing=cluster().ongoing.values())).leaders_moving


def test_a_pause_slows_the_brokers_of_our_copies() -> None:
    blast = blast_radius(PauseRequest((tp("a-1"),)), cluster())
    assert (blast.brokers, blast.throttles_set) == ((3,), ("broker 3",))


def test_an_election_moves_leaders_and_names_what_cannot_be_led() -> None:
    blast = blast_radius(ElectRequest(None), cluster())
    assert blast.leaders_moving == (tp("a-1"),)
    assert blast.partitions == (tp("a-1"), tp("b-0"))
    assert blast.warnings == ("The preferred replica of b-0 is not in sync, so the leader stays.",)
    gone = blast_radius(ElectRequest((tp("a-9"),)), cluster())
    assert gone.warnings == ("The cluster does not have a-9.",)


def test_a_throttle_edit_says_what_it_sets_lifts_and_slows() -> None:
    request = ThrottleRequest(
        {1: ThrottledRate(None, None), 2: ThrottledRate(MB, MB), 9: ThrottledRate(MB, MB)},
        {"a": ThrottledReplicas()},
    )
    blast = blast_radius(request, cluster())
    assert blast.throttles_lifted == ("broker 1", "topic a")
    assert blast.throttles_set == ("broker 9",), "broker 2 has that rate already"
    assert blast.partitions == (tp("a-1"),)
    assert blast.warnings == ("The rates of broker 9 could not be read.",)


def test_partitions_under_min_isr_are_counted_apart() -> None:
    low = cluster(min_isr={"a": 1, "b": 3})
    assert blast_radius(START, low).sentence.endswith("0 partitions at min-ISR, 1 under it.")


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
def test_a_preview_of_the_same_state_holds(request_: Request) -> None:
    preview = blast_radius(request_, cluster()).preview.fingerprint
    check_fresh(preview, request_, cluster())
    # Sizes and what happens elsewhere make no preview stale.
    busy = cluster(sizes={"a-0": 7}, usable={})
    elsewhere = replace(busy, partitions={**busy.partitions, tp("z-0"): at("z-0", [7])})
    check_fresh(preview, request_, elsewhere)


@pytest.mark.parametrize(
    ("request_", "changed", "what"),
    [
        (START, {"live": (1, 2, 3, 4, 6)}, "which brokers are up"),
        (START, {"min_isr": {"a": 2, "b": 2}}, "which replicas are in sync"),
        (START, {"throttles": Throttles({}, {})}, "the throttles"),
        (CANCEL, {"ongoing": []}, "what is moving"),
        (CANCEL, {"throttles": Throttles(rated({3: (1, 1)}), {})}, "the throttles"),
    ],
)
def test_a_stale_preview_is_refused_and_says_what_changed(
    request_: Request, changed: Any, what: str
) -> None:
    preview = blast_radius(request_, cluster()).preview.fingerprint
    with pytest.raises(Conflict, match=f"since the preview: .*{what}.*. Nothing was done"):
        check_fresh(preview, request_, cluster(**changed))


MOVED_ON = {
    "ongoing": [],
    "throttles": Throttles(rated(dict.fromkeys((1, 2, 3), (MB, MB))), followers()),
}
"""What `cluster` is like when the copy of a-1 has ended."""


@pytest.mark.parametrize("request_", REQUESTS[1:], ids=lambda request: type(request).__name__)
def test_what_makes_a_change_smaller_makes_no_preview_stale(request_: Request) -> None:
    shown = blast_radius(request_, cluster())
    led = at("a-1", [2, 3], [2, 3], 2)
    ended = cluster(**MOVED_ON)
    ended = replace(ended, partitions={**ended.partitions, led.partition: led})
    check_fresh(shown.preview.fingerprint, request_, ended, shown.facts)


def test_rates_are_compared_with_those_that_were_shown() -> None:
    request = ThrottleRequest({2: ThrottledRate(2 * MB, MB)}, {"a": ThrottledReplicas()})
    shown = blast_radius(request, cluster())
    others = rated({1: (MB, 7), 2: (MB, MB), 3: (7, MB)})
    busy = cluster(ongoing=[], throttles=Throttles(others, followers(a="1:3", b="0:3")))
    check_fresh(shown.preview.fingerprint, request, busy)
    for rates, lists in (
        (rated({2: (MB, 7)}), followers(a="1:3")),
        (rated({2: (MB, MB)}), followers(a="0:1,1:3")),
    ):
        changed = cluster(throttles=Throttles(rates, lists))
        with pytest.raises(Conflict, match="since the preview: the throttles"):
            check_fresh(shown.preview.fingerprint, request, changed, shown.facts)


def test_an_election_of_all_is_one_of_the_partitions_that_were_shown() -> None:
    shown = blast_radius(ElectRequest(None), cluster())
    view = cluster()
    new = at("a-0", [1, 2], [1, 2], 2)
    busier = replace(view, partitions={**view.partitions, new.partition: new})
    fingerprint = shown.preview.fingerprint
    agreed = check_fresh(fingerprint, ElectRequest(None), busier, shown.facts)
    assert agreed == ElectRequest((tp("a-1"),))
    with pytest.raises(Conflict, match="who leads"):
        check_fresh(fingerprint, ElectRequest(None), busier)


def test_a_copy_that_was_not_shown_makes_a_cancellation_stale() -> None:
    both = CancelRequest((tp("a-0"), tp("a-1")), Queue(PLAN, started=frozenset(PLAN)))
    shown = blast_radius(both, cluster())
    queue = Queue({**PLAN, tp("a-0"): (4, 2)}, started=frozenset({tp("a-0"), tp("a-1")}))
    more = cluster(ongoing=[moving("a-0", [1, 2], [4, 2]), moving("a-1", [1, 2], [2, 3])])
    with pytest.raises(Conflict, match="what is moving"):
        check_fresh(
            shown.preview.fingerprint,
            CancelRequest((tp("a-0"), tp("a-1")), queue),
            more,
            shown.facts,
        )


def test_few_previews_are_remembered_and_no_large_one() -> None:
    previews = ShownPreviews()
    made: list[PreviewFacts] = [{LEADER: {number: 1}} for number in range(SHOWN_MAX + 1)]
    for facts in made:
        previews.remember(facts)
    assert previews.facts_of(fingerprint_of(made[0])) is None
    assert previews.facts_of(fingerprint_of(made[1])) == made[1]
    large = {LEADER: dict.fromkeys(range(FACTS_MAX + 1), 1)}
    previews.remember(large)
    assert previews.facts_of(fingerprint_of(large)) is None


def test_a_moved_partition_or_leader_makes_a_preview_stale() -> None:
    preview = blast_radius(START, cluster()).preview.fingerprint
    view = cluster()
    for state, what in (
        (at("a-0", [2, 1], None, 1), "where replicas are"),
        (at("a-0", [1, 2], None, 2), "who leads"),
    ):
        moved = replace(view, partitions={**view.partitions, state.partition: state})
        with pytest.raises(Conflict, match=what):
            check_fresh(preview, START, moved)


def test_another_cluster_and_no_preview_are_refused() -> None:
    preview = blast_radius(START, cluster()).preview.fingerprint
    with pytest.raises(Conflict):
        check_fresh(preview, START, replace(cluster(), cluster_id="there"))
    with pytest.raises(Conflict):
        check_fresh("", START, cluster())
