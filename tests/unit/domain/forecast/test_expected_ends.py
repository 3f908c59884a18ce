"""What is expected of copies together: ends, what holds them up in turn, the bytes on the way."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from kshunt.backend.domain.forecast.copies import BrokerRates, Copies
from kshunt.backend.domain.forecast.expected_ends import HELD, Group, expected_ends
from kshunt.backend.domain.forecast.outlook import JOIN_S, STILL, UNMEASURED, UNSIZED, outlook
from kshunt.backend.domain.forecast.ranges import QUANTILES
from kshunt.backend.domain.forecast.turns import MoveQueue, WaitingMoves
from kshunt.backend.domain.reassignment.move_caps import MoveCaps
from kshunt.backend.domain.replicas.expected_end_values import ExpectedEnd

MB = 1e6
PLAIN = np.zeros(QUANTILES)
NOW_MS = 1_760_000_000_000
SEEN = ("seen", "source_seen", "target_seen", "latest")


def copies(*rows: dict[str, Any], queue: MoveQueue | None = None) -> Copies:
    """Copies from broker 1 to 4 of 100 MB, which were seen to get 10 MB/s for minutes."""
    plain: dict[str, Any] = {
        "source": 1,
        "target": 4,
        "remaining_bytes": 100 * MB,
        "written_bytes_per_s": 0.0,
        "written_least_bytes_per_s": 0.0,
        **{f"{name}_bytes_per_s": 10 * MB for name in SEEN},
        "begins_bytes_per_s": math.nan,
        "age_s": 300.0,
        "at_source": True,
        "at_target": True,
        "has_turn": True,
        "stuck": False,
        "source_after": 1.0,
        "target_after": 1.0,
    }
    filled = [plain | row for row in rows]
    columns = {name: np.array([row[name] for row in filled]) for name in plain}
    columns["written_lately_bytes_per_s"] = columns["written_bytes_per_s"]
    why = tuple(row.get("why", "") for row in rows)
    return Copies(**columns, why=why, queue=queue, next_leaders=None)


def rates(leaders: dict[int, float], followers: dict[int, float]) -> BrokerRates:
    """Throttles in MB/s; nothing in sync takes of them."""
    brokers = sorted({*leaders, *followers})
    sides = [
        np.array([side.get(broker, math.inf) * MB for broker in brokers])
        for side in (leaders, followers)
    ]
    return BrokerRates(np.array(brokers), *sides, *np.zeros((2, len(brokers))))


def seen(mb_per_s: float) -> dict[str, float]:
    return {f"{name}_bytes_per_s": mb_per_s * MB for name in SEEN}


def end_of(found: Copies, limits: BrokerRates) -> ExpectedEnd:
    """Of all of them together, as the model has it without a range."""
    group = Group(np.arange(len(found)), 300.0)
    (end,) = expected_ends(outlook(found, limits), [group], PLAIN, NOW_MS)
    return end


def told(end: ExpectedEnd) -> list[tuple[str, int]]:
    """What holds it up, and until which second."""
    return [(str(one.resource), round(one.until_s or 0)) for one in end.bottlenecks]


def test_what_holds_the_last_copy_up_changes_as_others_end() -> None:
    end = end_of(copies({"remaining_bytes": 1_000 * MB}, {"source": 2}), rates({1: 15}, {4: 20}))
    # 10 s at 10 MB/s each, and 900 MB at what broker 1 may send.
    assert end.p50_s == pytest.approx(10 + 60 + JOIN_S, abs=0.1)
    assert told(end) == [
        ("follower throttle of broker 4", 10),
        ("leader throttle of broker 1", 71),
    ]


def test_the_bytes_that_are_left_become_less_until_none_is() -> None:
    end = end_of(copies({"remaining_bytes": 1_000 * MB}, {"source": 2}), rates({1: 15}, {4: 20}))
    at_s, left = zip(*end.burndown, strict=True)
    assert (at_s[0], left[0]) == (0.0, 1_100 * MB)
    assert (at_s[-1], left[-1]) == (end.p50_s, 0)
    assert list(left) == sorted(left, reverse=True)
    assert list(at_s) == sorted(at_s)


def test_what_waits_for_its_turn_is_reckoned_with_and_named() -> None:
    waiting = {f"{name}_bytes_per_s": math.nan for name in SEEN} | {"age_s": 0.0}
    queue = MoveQueue(
        np.arange(2),
        np.zeros(2, np.int64),
        [frozenset({1, 4}), frozenset({1, 4})],
        (WaitingMoves(np.array([1]), MoveCaps(1, 10)),),
    )
    end = end_of(copies({}, waiting, queue=queue), rates({}, {4: 10}))
    assert end.p50_s == pytest.approx(20 + JOIN_S, abs=0.1)
    assert (end.copies, end.waiting) == (2, 1)
    assert told(end)[0] == ("its turn", 10)
    assert told(end)[-1][0] == "follower throttle of broker 4"


def test_a_throttle_that_nobody_has_used_yet_gives_as_much_of_it_as_the_others() -> None:
    queue = MoveQueue(
        np.arange(2),
        np.zeros(2, np.int64),
        [frozenset({1, 4}), frozenset({1, 5})],
        (WaitingMoves(np.array([1]), MoveCaps(1, 9)),),
    )
    found = copies(
        {**seen(8), "at_source": False},
        {**seen(math.nan), "at_source": False, "target": 5, "age_s": 0.0},
        queue=queue,
    )
    # Both throttles are 10 MB/s, of which the first is seen to give 8.
    end = end_of(found, rates({}, {4: 10, 5: 10}))
    assert end.p50_s == pytest.approx(100 / 8 + 100 / 8, abs=2)


@pytest.mark.parametrize(("age_s", "gives"), [(0.0, 10.0), (7.5, 9.0), (15.0, 8.0), (300.0, 8.0)])
def test_what_copies_get_while_they_begin_is_not_what_their_throttle_gives(
    age_s: float, gives: float
) -> None:
    """They get 8 MB/s of 10 so far."""
    end = end_of(copies({**seen(8), "age_s": age_s}), rates({}, {4: 10}))
    assert end.p50_s == pytest.approx(100 / gives + JOIN_S, abs=0.1)


@pytest.mark.parametrize(
    ("written", "writes"), [(0.0, "none"), (0.1, "none"), (1.0, "some"), (7.0, "much")]
)
def test_an_end_says_what_is_written_until_then(written: float, writes: str) -> None:
    """Ten MB/s are copied of 100 MB that are lacking."""
    written_bytes = written * MB
    end = end_of(
        copies({"written_bytes_per_s": written_bytes, "written_least_bytes_per_s": written_bytes}),
        rates({1: 10}, {4: 10}),
    )
    assert end.writes == writes


def test_who_never_arrives_does_not_hide_when_the_others_do() -> None:
    found = copies(
        {},
        {"target": 3, "written_bytes_per_s": 10 * MB, "written_least_bytes_per_s": 10 * MB},
        {"why": "broker_down"},
        {"why": HELD},
        {"target": 7, "remaining_bytes": math.nan},
        {"target": 5, "at_source": False, "at_target": False, **seen(math.nan)},
        {"target": 6, "at_source": False, "at_target": False, **seen(0.0)},
    )
    limits = rates({}, {3: 10, 4: 10})
    end = end_of(found, limits)
    assert end.p50_s == pytest.approx(10 + JOIN_S, abs=0.1)
    assert (end.copies, end.never, end.unknown, end.held) == (7, 3, 2, 1)
    assert end.shortage is not None
    assert str(end.shortage.resource) == "follower throttle of broker 3"
    assert (end.shortage.rate_bytes_per_s, end.shortage.written_bytes_per_s) == (10 * MB, 10 * MB)
    assert end.shortage.needs_bytes_per_s is not None
    assert end.shortage.needs_bytes_per_s > 10 * MB
    words = outlook(found, limits).why
    assert words[1].startswith("never: follower throttle of broker 3")
    assert words[2:] == ("broker_down", HELD, UNSIZED, UNMEASURED, STILL)


def test_no_end_is_told_before_it_is_known_what_is_written() -> None:
    found = copies({}, {"written_bytes_per_s": math.nan, "target": 5})
    assert outlook(found, rates({1: 10}, {})).why == ("", UNMEASURED)
    end = end_of(found, rates({1: 10}, {}))
    assert (end.unknown, end.p50_s is None) == (1, False)


@pytest.mark.parametrize(
    ("begins", "age_s", "told"), [(4, 6, False), (6, 6, True), (4, 16, True), (math.nan, 6, True)]
)
def test_copies_that_begin_far_below_their_throttle_are_measured_first(
    begins: float, age_s: float, told: bool
) -> None:
    """A throttle of 10 MB/s that has given less than half of it does not say when it ends."""
    unseen = seen(math.nan) if age_s < 15 else seen(begins)
    row = unseen | {"begins_bytes_per_s": begins * MB, "age_s": age_s}
    assert (end_of(copies(row), rates({1: 10}, {})).p50_s is not None) is told


def test_the_commonest_reason_is_told_and_a_pause_is_none() -> None:
    held, sized = {"why": HELD}, {"remaining_bytes": math.nan, "target": 7}
    for rows, why in (
        (({}, held, held, {"why": "broker_down"}), "broker_down"),
        (({"why": "no_leader"}, {"why": "disk_full"}, {"why": "no_leader"}), "no_leader"),
        (({}, held, sized), ""),
    ):
        assert end_of(copies(*rows), rates({}, {4: 10})).why == why


def test_nothing_is_said_of_a_shortage_where_no_throttle_is_short() -> None:
    free = {"at_source": False, "at_target": False, "written_bytes_per_s": 20 * MB}
    end = end_of(copies(free | {"written_least_bytes_per_s": 20 * MB}), rates({}, {}))
    assert end.never == 1
    assert end.shortage is not None
    assert end.shortage.needs_bytes_per_s is None


def test_a_leader_that_leaves_takes_its_followers_with_it() -> None:
    """Broker 1 sends 5 MB/s to a follower in the ISR, and no more once the first move has ended."""
    half = rates({1: 20}, {})
    limits = BrokerRates(
        half.brokers,
        half.leader_bytes_per_s,
        half.follower_bytes_per_s,
        np.array([5 * MB]),
        half.follower_in_sync_bytes_per_s,
    )
    first = {"written_bytes_per_s": 5 * MB, **seen(7.5)}
    last = {"remaining_bytes": 1_000 * MB, **seen(7.5)}
    stays, leaves = (
        end_of(copies(first | {"source_after": after}, last), limits).p50_s for after in (1.0, -1.0)
    )
    assert stays is not None
    assert leaves is not None
    # 40 s until the first has arrived; then 10, or else 20 MB/s for 700 MB.
    assert stays == pytest.approx(40 + 70 + JOIN_S, rel=0.01)
    assert leaves == pytest.approx(40 + 35 + JOIN_S, rel=0.01)


def test_a_throttle_that_is_used_up_stays_so_when_shares_change() -> None:
    """Two copies shared 10 MB/s at broker 4; now three others take what broker 1 may send."""
    fresh = seen(math.nan) | {"age_s": 2.0}
    others = [fresh | {"target": target} for target in (5, 6, 7)]
    found = outlook(copies(seen(5), seen(5) | {"source": 2}, *others), rates({1: 4}, {4: 10}))
    # The first one gets a quarter of 4 MB/s, and the second one the rest of 10.
    assert found.rate_bytes_per_s[:2] == pytest.approx([1 * MB, 9 * MB], rel=0.15)


@pytest.mark.parametrize("unknown", ["source_seen", "target_seen"])
def test_a_link_gives_what_either_of_its_ends_is_seen_to_take(unknown: str) -> None:
    """Both brokers carry more for others, so it is the link; of one end too little is known."""
    free = {"at_source": False, "at_target": False}
    slow = free | seen(2) | {f"{unknown}_bytes_per_s": math.nan}
    others = [free | seen(20) | {"target": 5}, free | seen(20) | {"source": 2}]
    found = outlook(copies(slow, *others), rates({}, {}))
    assert found.seconds[0] == pytest.approx(50 + JOIN_S, rel=0.01)
    assert str(found.limits.resource(int(found.tight[0]))) == "link 1->4"


def test_where_one_has_ended_the_other_gets_what_its_broker_sends() -> None:
    """Its own mean still says half of it."""
    alone = {
        "at_source": False,
        "at_target": False,
        "seen_bytes_per_s": 6 * MB,
        "source_seen_bytes_per_s": 20 * MB,
        "target_seen_bytes_per_s": 20 * MB,
    }
    assert end_of(copies(alone), rates({}, {})).p50_s == pytest.approx(5 + JOIN_S, abs=0.1)


def test_nothing_is_nothing() -> None:
    some = copies({})
    none = Copies(
        **{
            name: getattr(some, name)[:0]
            for name in Copies.__dataclass_fields__
            if name not in ("why", "queue", "next_leaders")
        },
        why=(),
    )
    assert expected_ends(outlook(none, rates({}, {})), [], PLAIN, NOW_MS) == []
