"""What other rates would do: laws of the model, and cases worked out by hand."""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.domain.cluster.metadata import Broker
from kshunt.backend.domain.replicas.snapshot import (
    COLUMNS,
    DTYPES,
    BrokerStatus,
    Replicas,
    Snapshot,
)
from kshunt.backend.domain.replicas.stuck_causes import Cause
from kshunt.backend.domain.replicas.what_if import UnknownReason, WhatIfForecast, what_if
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


def as_rates(found: Mapping[int, tuple[int, ...]]) -> dict[int, ThrottledRate]:
    return {id: ThrottledRate(*pair) for id, pair in found.items()}


@given(clusters, rates, st.dictionaries(st.sampled_from(BROKERS), st.tuples(rate, rate)))
def test_a_higher_rate_never_makes_a_copy_later(
    snapshot: Snapshot, low: dict[int, tuple[int, int]], more: dict[int, tuple[int, int]]
) -> None:
    none = (0, 0)
    high = {id: tuple(map(sum, zip(low[id], more.get(id, none), strict=True))) for id in low}
    slow, fast = (what_if(snapshot, as_rates(found)) for found in (low, high))
    assert slow.unknown == fast.unknown
    assert fast.never <= slow.never
    for sooner, later in ((fast.eta_s, slow.eta_s), (fast.eta_latest_s, slow.eta_latest_s)):
        assert math.isnan(sooner) == math.isnan(later)
        assert math.isnan(sooner) or sooner <= later * (1 + 1e-9)


@given(clusters)
def test_at_the_present_rates_every_copy_gains_what_it_gains_now(snapshot: Snapshot) -> None:
    present = {id: one.rate for id, one in snapshot.throttles.rates.items()}
    now = what_if(snapshot, {})
    assert repr(what_if(snapshot, present)) == repr(now)
    rows = snapshot.replicas
    copying = ~rows.in_isr
    lag, gained = rows.lag_bytes[copying], rows.catch_up_bytes_per_s[copying].astype(float)
    # What receives nothing is reckoned by its share of a rate, not by what it gains.
    still = (lag > 0) & (rows.fetched_bytes_per_s[copying] == 0)
    late = (lag > 0) & (gained <= 0) & ~still
    assert late.sum() <= now.never <= (late | still).sum()
    assert now.copies == copying.sum()
    arrives = [n / speed for n, speed in zip(lag, gained, strict=True) if n and speed > 0]
    if arrives and not still.any():
        assert now.rest_latest_s == pytest.approx(max(arrives))
    assert math.isinf(now.eta_latest_s) == bool(now.never)


@given(clusters)
def test_never_is_said_only_where_too_little_would_pass(snapshot: Snapshot) -> None:
    now = what_if(snapshot, {})
    assert sum(now.why.values()) == now.unknown
    assert now.never + now.unknown <= now.copies
    high = what_if(snapshot, {id: both(10**12) for id in BROKERS})
    rows = snapshot.replicas
    still = ~rows.in_isr & (rows.lag_bytes > 0) & (rows.fetched_bytes_per_s == 0)
    held = rows.follower_throttled | np.roll(rows.leader_throttled, 1)
    assert high.estimated == (still & held).sum()
    flows = ~rows.in_isr & (rows.fetched_bytes_per_s > 0)
    assert high.never <= (flows & (rows.catch_up_bytes_per_s <= 0)).sum()


HELD: Copy = (1, 3, 1_000 * MB, 10 * MB, 0, True, True)
"""One copy that uses all of a rate of 10 MB/s."""


def test_a_copy_that_its_throttle_holds_back_goes_as_fast_as_it_is_let() -> None:
    snapshot = cluster([HELD], {1: 10 * MB, 3: 10 * MB})
    assert what_if(snapshot, {}).eta_s == pytest.approx(100)
    assert what_if(snapshot, {1: both(20 * MB), 3: both(20 * MB)}).eta_s == pytest.approx(50)
    # The slower one of the two throttles on its way counts.
    assert what_if(snapshot, {3: both(20 * MB)}).eta_s == pytest.approx(100)
    assert what_if(snapshot, {3: both(5 * MB)}).eta_s == pytest.approx(200)


def test_copies_share_a_throttle_as_they_do_now() -> None:
    snapshot = cluster([HELD, (2, 3, 1_000 * MB, 30 * MB, 0, False, True)], {3: 40 * MB})
    use = what_if(snapshot, {3: both(80 * MB)}).brokers[3]
    assert use.received_bytes_per_s == pytest.approx(80 * MB)
    assert use.tightest is not None
    assert use.tightest[0] == pytest.approx(80 * MB)
    assert use.tightest[1] == 80 * MB
    assert what_if(snapshot, {3: both(80 * MB)}).eta_latest_s == pytest.approx(50)


def test_what_something_else_holds_back_is_not_made_faster() -> None:
    snapshot = cluster([HELD], {1: 100 * MB, 3: 100 * MB})
    assert what_if(snapshot, {1: both(200 * MB), 3: both(200 * MB)}).eta_s == pytest.approx(100)
    assert what_if(snapshot, {3: both(5 * MB)}).eta_s == pytest.approx(200)
    free = cluster([(1, 3, 1_000 * MB, 10 * MB, 0, False, False)], {1: MB, 3: MB})
    assert what_if(free, {1: both(2 * MB), 3: both(2 * MB)}).eta_s == pytest.approx(100)


def test_below_what_is_written_it_never_arrives() -> None:
    snapshot = cluster([(1, 3, 1_000 * MB, 10 * MB, 4 * MB, True, True)], {1: 10 * MB, 3: 10 * MB})
    slow = what_if(snapshot, {3: both(3 * MB)})
    assert (slow.never, slow.eta_s, slow.eta_latest_s) == (1, math.inf, math.inf)
    assert math.isnan(slow.rest_s)
    low = cluster([(1, 3, 1_000 * MB, 3 * MB, 4 * MB, True, True)], {1: 3 * MB, 3: 3 * MB})
    assert what_if(low, {}).never == 1
    enough = what_if(low, {1: both(9 * MB), 3: both(9 * MB)})
    assert enough.never == 0
    assert enough.eta_s == pytest.approx(200)


def _unknown(forecast: WhatIfForecast) -> bool:
    return forecast.unknown == 1 and math.isnan(forecast.eta_s) and forecast.never == 0


def test_what_is_not_known_stays_unknown() -> None:
    snapshot = cluster([HELD], {1: 10 * MB, 3: 10 * MB})
    lifted = what_if(snapshot, {1: both(None), 3: both(None)})
    assert _unknown(lifted)
    assert math.isnan(lifted.brokers[3].received_bytes_per_s)
    assert lifted.brokers[3].tightest is None
    # Broker 1 does not say what its rate is.
    half = cluster([HELD], {3: 10 * MB}, unread=1)
    assert what_if(half, {}).eta_s == pytest.approx(100)
    assert _unknown(what_if(half, {3: both(20 * MB)}))
    for column, value in (("lag_bytes", -1), ("fetched_bytes_per_s", math.nan)):
        rows = replace(snapshot.replicas, **{column: np.array([0, value], DTYPES[column])})
        assert _unknown(what_if(replace(snapshot, replicas=rows), {3: both(20 * MB)}))


NOT_BEGUN: Copy = (1, 3, 1_000 * MB, 0, 2 * MB, True, True)
"""One copy that receives nothing while 2 MB/s are written."""


def test_what_has_not_begun_is_reckoned_by_its_share_of_the_rate() -> None:
    snapshot = cluster([NOT_BEGUN], {1: 12 * MB, 3: 7 * MB})
    now = what_if(snapshot, {})
    assert (now.never, now.unknown, now.estimated) == (0, 0, 1)
    assert now.rest_s == pytest.approx(200)
    assert what_if(snapshot, {3: both(12 * MB)}).rest_s == pytest.approx(100)
    # At what is written, and below it, nothing is left that would bring it nearer.
    for rate in (MB, 2 * MB):
        low = what_if(snapshot, {3: both(rate)})
        assert low.never == 1
        assert math.isnan(low.rest_s)
    two = cluster([NOT_BEGUN, NOT_BEGUN], {1: 14 * MB, 3: 14 * MB})
    assert what_if(two, {}).rest_s == pytest.approx(200)


def test_the_first_copies_of_a_broker_tell_how_fast_the_rest_of_it_goes() -> None:
    snapshot = cluster([(1, 3, 1_000 * MB, 10 * MB, 0, True, True), NOT_BEGUN], {3: 10 * MB})
    assert what_if(snapshot, {}).rest_s == pytest.approx(200)


def test_of_what_receives_nothing_for_no_rate_nothing_is_told_and_why() -> None:
    free = what_if(cluster([(1, 3, MB, 0, MB, False, False)], {1: MB, 3: MB}), {3: both(9 * MB)})
    assert _unknown(free)
    assert free.why == {UnknownReason.FREE: 1}
    snapshot = cluster([NOT_BEGUN], {1: 12 * MB, 3: 12 * MB})
    full = np.array([0, Cause.DISK_FULL], np.uint8)
    stuck = replace(snapshot, replicas=replace(snapshot.replicas, cause=full))
    assert what_if(stuck, {}).why == {UnknownReason.STUCK: 1}
    assert what_if(cluster([NOT_BEGUN], {1: 12 * MB}, unread=3), {}).why == {
        UnknownReason.UNREAD: 1
    }
    new = np.array([0, math.nan], np.float32)
    started = replace(snapshot, replicas=replace(snapshot.replicas, catch_up_bytes_per_s=new))
    assert what_if(started, {}).why == {UnknownReason.UNMEASURED: 1}


def test_nothing_that_copies_needs_no_time() -> None:
    nothing = what_if(cluster([], {1: MB}), {1: both(2 * MB)})
    assert (nothing.copies, nothing.eta_s, nothing.eta_latest_s, nothing.brokers) == (0, 0, 0, {})
