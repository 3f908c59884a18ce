"""What other rates would do: laws of the model, and cases worked out by hand."""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.domain.cluster.metadata import Broker
from kshunt.backend.domain.forecast.outlook import JOIN_S, UNBOUNDED, UNSIZED
from kshunt.backend.domain.forecast.what_if import BrokerUse, sufficient_rates, what_if
from kshunt.backend.domain.replicas.expected_end_values import EVERYTHING, ExpectedEnd
from kshunt.backend.domain.replicas.snapshot import (
    COLUMNS,
    DTYPES,
    BrokerStatus,
    Replicas,
    Snapshot,
)
from kshunt.backend.domain.replicas.stuck_causes import Cause
from kshunt.backend.domain.throttles.configs import BrokerThrottle, ThrottledRate, Throttles

MB = 1_000_000
BROKERS = (1, 2, 3, 4)
Copy = tuple[int, int, int, int, int, bool, bool]
"""Leader, follower, lag, received, written, leader's side throttled, follower's side throttled."""


def cluster(copies: list[Copy], rates: dict[int, int], unread: int = 0) -> Snapshot:
    """One partition a copy: its leader, and the follower that lags. A broker may be `unread`."""
    columns: dict[str, list[object]] = {name: [] for name in COLUMNS}
    for partition, (leader, follower, lag, received, written, at_leader, at_follower) in enumerate(
        copies
    ):
        for position, broker in enumerate((leader, follower)):
            copying = position == 1
            row = dict.fromkeys(COLUMNS, 0) | {
                "partition": partition,
                "broker": broker,
                "position": position,
                "leader": leader,
                "in_isr": not copying,
                "leader_throttled": at_leader and not copying,
                "follower_throttled": at_follower and copying,
                "lag_bytes": lag if copying else 0,
                "fetched_bytes_per_s": received if copying else math.nan,
                "catch_up_bytes_per_s": received - written if copying else math.nan,
            }
            for name, value in row.items():
                columns[name].append(value)
    throttled = {
        id: BrokerThrottle(id, ThrottledRate(rates.get(id), rates.get(id)))
        for id in BROKERS
        if id != unread
    }
    return Snapshot(
        version=1,
        taken_ms=1_000,
        cluster_id="c",
        controller=1,
        topics=("t",),
        replicas=Replicas(**{name: np.array(columns[name], DTYPES[name]) for name in COLUMNS}),
        brokers={id: BrokerStatus(Broker(id, "h", 9092, ""), 1, stale=False) for id in BROKERS},
        throttles=Throttles(throttled, {}),
    )


def both(rate: int | None) -> ThrottledRate:
    return ThrottledRate(rate, rate)


rate = st.integers(1_000, 100 * MB)
copy = st.tuples(
    st.sampled_from((1, 2)),
    st.sampled_from((3, 4)),
    st.integers(0, 10**12),
    st.integers(0, 50 * MB),
    st.integers(0, 20 * MB),
    st.booleans(),
    st.booleans(),
)
clusters = st.builds(
    cluster, st.lists(copy, max_size=6), st.dictionaries(st.sampled_from(BROKERS), rate)
)
rates = st.dictionaries(st.sampled_from(BROKERS), st.tuples(rate, rate), max_size=4)


def p50_s(snapshot: Snapshot, rates: Mapping[int, ThrottledRate]) -> float:
    """When half of the ends are; NaN where none is known."""
    found = what_if(snapshot, rates).end.p50_s
    return math.nan if found is None else found


def in_s(seconds: float) -> float:
    """What that comes to: a little passes until it is in the ISR and seen there, and the middle of
    the shipped ranges is not quite the model's end."""
    return seconds + JOIN_S


@given(clusters, rates)
def test_every_copy_is_counted_once(snapshot: Snapshot, found: dict[int, tuple[int, int]]) -> None:
    then = what_if(snapshot, {id: ThrottledRate(*pair) for id, pair in found.items()})
    end = then.end
    assert then.copies == int((~snapshot.replicas.in_isr).sum())
    assert 0 <= end.never + end.unknown <= end.copies
    assert sum(then.why.values()) >= end.unknown
    assert (end.p50_s is None) == (end.never + end.unknown == end.copies)
    if end.p10_s is not None and end.p50_s is not None and end.p90_s is not None:
        assert 0 <= end.p10_s <= end.p50_s <= end.p90_s


@given(clusters)
def test_the_rates_in_force_change_nothing(snapshot: Snapshot) -> None:
    present = {id: one.rate for id, one in snapshot.throttles.rates.items()}
    assert repr(what_if(snapshot, present)) == repr(what_if(snapshot, {}))


HELD: Copy = (1, 3, 1_000 * MB, 10 * MB, 0, True, True)
"""One copy that uses all of a rate of 10 MB/s."""


def test_a_copy_that_its_throttle_holds_back_goes_as_fast_as_it_is_let() -> None:
    snapshot = cluster([HELD], {1: 10 * MB, 3: 10 * MB})
    now_s = p50_s(snapshot, {})
    assert now_s == pytest.approx(in_s(100), rel=0.1)
    factor = now_s / in_s(100)
    for rates, seconds in (
        ({1: both(20 * MB), 3: both(20 * MB)}, 50),
        # The slower one of the two throttles on its way counts.
        ({3: both(20 * MB)}, 100),
        ({3: both(5 * MB)}, 200),
    ):
        assert p50_s(snapshot, rates) == pytest.approx(factor * in_s(seconds), rel=0.1)


def test_copies_share_a_throttle_and_one_that_ends_leaves_it_to_the_other() -> None:
    snapshot = cluster([HELD, (2, 3, 1_000 * MB, 10 * MB, 0, False, True)], {3: 20 * MB})
    then = what_if(snapshot, {3: both(80 * MB)})
    use = then.brokers[3]
    assert use.received_bytes_per_s == pytest.approx(80 * MB)
    assert use.tightest is not None
    assert use.tightest[1] == 80 * MB
    assert then.end.p50_s == pytest.approx(in_s(25), rel=0.1)


@pytest.mark.parametrize(
    ("sent", "leader", "received", "follower", "tightest"),
    [
        (10.0, 100, 50.0, 100, (50.0, 100)),
        (50.0, 100, 60.0, 200, (50.0, 100)),
        (10.0, None, 5.0, 100, (5.0, 100)),
        (0.0, 100, 0.0, 100, None),
        (math.nan, 100, 5.0, 100, (5.0, 100)),
    ],
)
def test_the_side_with_less_head_room_is_the_tightest(
    sent: float,
    leader: int | None,
    received: float,
    follower: int | None,
    tightest: tuple[float, int] | None,
) -> None:
    assert BrokerUse(1, sent, leader, received, follower).tightest == tightest


def test_what_something_else_holds_back_is_not_made_faster() -> None:
    snapshot = cluster([HELD], {1: 100 * MB, 3: 100 * MB})
    now_s = p50_s(snapshot, {})
    assert p50_s(snapshot, {1: both(200 * MB), 3: both(200 * MB)}) == pytest.approx(now_s)
    assert p50_s(snapshot, {3: both(5 * MB)}) == pytest.approx(2 * now_s, rel=0.1)
    free = cluster([(1, 3, 1_000 * MB, 10 * MB, 0, False, False)], {1: MB, 3: MB})
    assert p50_s(free, {1: both(2 * MB), 3: both(2 * MB)}) == pytest.approx(now_s, rel=0.1)


def test_below_what_is_written_it_never_arrives_and_what_would_do_is_said() -> None:
    snapshot = cluster([(1, 3, 1_000 * MB, 10 * MB, 4 * MB, True, True)], {1: 10 * MB, 3: 10 * MB})
    slow = what_if(snapshot, {3: both(3 * MB)}).end
    assert (slow.never, slow.p50_s) == (1, None)
    assert slow.shortage is not None
    assert str(slow.shortage.resource) == "follower throttle of broker 3"
    assert slow.shortage.rate_bytes_per_s == 3 * MB
    assert slow.shortage.needs_bytes_per_s is not None
    assert 4 * MB < slow.shortage.needs_bytes_per_s < 6 * MB
    cured = what_if(snapshot, {3: both(slow.shortage.needs_bytes_per_s)}).end
    assert cured.never == 0


def test_what_is_not_known_stays_unknown() -> None:
    snapshot = cluster([HELD], {1: 10 * MB, 3: 10 * MB})
    lifted = what_if(snapshot, {1: both(None), 3: both(None)})
    assert (lifted.end.unknown, lifted.end.p50_s) == (1, None)
    assert lifted.why == {UNBOUNDED: 1}
    assert math.isnan(lifted.brokers[3].received_bytes_per_s) or not (
        lifted.brokers[3].received_bytes_per_s
    )
    assert lifted.brokers[3].tightest is None
    rows = replace(snapshot.replicas, lag_bytes=np.array([0, -1], np.int64))
    assert what_if(replace(snapshot, replicas=rows), {3: both(20 * MB)}).why == {UNSIZED: 1}


def test_the_end_that_a_backend_expects_is_moved_by_what_the_model_says() -> None:
    snapshot = cluster([HELD], {1: 10 * MB, 3: 10 * MB})
    expected = ExpectedEnd(1_000, 1, 200.0, 300.0, 400.0)
    told = replace(snapshot, expected_ends={EVERYTHING: expected})
    assert what_if(told, {}).end == expected
    end = what_if(told, {1: both(20 * MB), 3: both(20 * MB)}).end
    found = [seconds or 0.0 for seconds in (end.p10_s, end.p50_s, end.p90_s)]
    assert found == pytest.approx([100.0, 150.0, 200.0], rel=0.1)


def test_what_is_stuck_under_a_throttle_is_cured_by_another_one() -> None:
    snapshot = cluster([HELD], {1: 10 * MB, 3: 10 * MB})
    low = np.array([0, Cause.THROTTLE_TOO_LOW], np.uint8)
    stuck = replace(snapshot, replicas=replace(snapshot.replicas, cause=low))
    assert what_if(stuck, {}).end.never == 1
    assert what_if(stuck, {1: both(20 * MB), 3: both(20 * MB)}).end.never == 0
    full = np.array([0, Cause.DISK_FULL], np.uint8)
    other = replace(snapshot, replicas=replace(snapshot.replicas, cause=full))
    assert what_if(other, {1: both(20 * MB), 3: both(20 * MB)}).why == {"disk_full": 1}


def test_nothing_that_copies_needs_no_time() -> None:
    nothing = what_if(cluster([], {1: MB}), {1: both(2 * MB)})
    assert (nothing.copies, nothing.end.p50_s, nothing.brokers) == (0, None, {})


def test_a_throttle_that_leaves_nothing_is_named_though_nothing_passes() -> None:
    snapshot = cluster([(1, 3, 1_000 * MB, 0, 4 * MB, True, True)], {1: 3 * MB, 3: 3 * MB})
    end = what_if(snapshot, {}).end
    assert end.never == 1
    assert end.shortage is not None
    assert end.shortage.needs_bytes_per_s is not None
    assert end.shortage.needs_bytes_per_s > 4 * MB


def test_every_throttle_on_the_way_is_raised_and_no_other() -> None:
    copy = (1, 3, 1_000 * MB, 0, 4 * MB, True, True)
    snapshot = cluster([copy], {1: 3 * MB, 2: 3 * MB, 3: 3 * MB})
    first = what_if(snapshot, {}).end.shortage
    assert first is not None
    assert first.needs_bytes_per_s is not None
    one = {first.resource.brokers[0]: both(first.needs_bytes_per_s)}
    assert what_if(snapshot, one).end.never == 1, "the other side is too low still"
    found = sufficient_rates(snapshot, {})
    assert what_if(snapshot, found).end.never == 0
    leader, follower = found[1], found[3]
    assert found.keys() == {1, 3}
    assert (leader.follower_bytes_per_s, follower.leader_bytes_per_s) == (3 * MB, 3 * MB)


def test_rates_that_suffice_stay_and_what_no_throttle_holds_raises_none() -> None:
    copy = (1, 3, 1_000 * MB, 10 * MB, 4 * MB, True, True)
    snapshot = cluster([copy], {1: 10 * MB, 3: 10 * MB})
    assert sufficient_rates(snapshot, {}) == {}
    given = {1: both(8 * MB)}
    assert sufficient_rates(snapshot, given) == given
