"""Max-min fair shares, judged by their definition."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kshunt.backend.embedded.replication.flows import share
from kshunt.backend.embedded.replication.max_min_fair import load, max_min

WIDTH = 3
NEAR = 1e-6


@st.composite
def networks(draw: st.DrawFn) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.float64]]:
    """Limits of flows, what they pass through, and capacities; the last resource is endless."""
    resources = draw(st.integers(1, 6))
    capacity = draw(
        st.lists(
            st.sampled_from([0.0, 1.0, 3.0, 10.0, 1e6]), min_size=resources, max_size=resources
        )
    )
    one = st.lists(st.integers(0, resources - 1), max_size=WIDTH, unique=True)
    through = draw(st.lists(one, max_size=12))
    limits = draw(
        st.lists(st.floats(0.001, 50) | st.just(1e9), min_size=len(through), max_size=len(through))
    )
    passes = np.full((len(through), WIDTH), resources, np.int32)
    for flow, used in enumerate(through):
        passes[flow, : len(used)] = used
    return np.array(limits), passes, np.array([*capacity, np.inf])


def check(
    limits: NDArray[np.float64],
    passes: NDArray[np.int32],
    capacity: NDArray[np.float64],
    rates: NDArray[np.float64],
) -> None:
    """No limit is broken, and who gets less than its limit is among the best at a full place."""
    drawn = load(passes, rates, len(capacity))
    assert (drawn <= capacity * (1 + NEAR) + NEAR).all()
    assert (rates <= limits * (1 + NEAR)).all()
    full = drawn >= capacity * (1 - NEAR)
    for flow, rate in enumerate(rates):
        if rate >= limits[flow] * (1 - NEAR):
            continue
        assert any(
            full[place] and rate >= max(rates[(passes == place).any(axis=1)]) * (1 - NEAR) - NEAR
            for place in passes[flow]
        )


@given(networks())
def test_shares_are_max_min_fair(
    network: tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.float64]],
) -> None:
    limits, passes, capacity = network
    check(limits, passes, capacity, max_min(limits, passes, capacity))


@given(networks(), st.integers(0, 12))
def test_steady_flows_beforehand_come_to_the_same(
    network: tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.float64]], cut: int
) -> None:
    limits, passes, capacity = network
    rates = share(limits[:cut], passes[:cut], limits[cut:], passes[cut:], capacity)
    check(limits, passes, capacity, rates)
    np.testing.assert_allclose(rates, max_min(limits, passes, capacity), rtol=1e-6, atol=1e-6)
