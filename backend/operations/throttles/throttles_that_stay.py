"""Which throttles of a request nothing takes off again, in words for its answer.

KIP-179's `autoRemoveThrottle` takes a throttle off "at the end of the current reassignment". Where
no reassignment has a part in it there is no such end, and the operator who asked has to know.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kshunt.backend.domain.text.formatting import listed, many
from kshunt.backend.domain.throttles.configs import (
    NO_RATE,
    ReplicaSet,
    ThrottledRate,
    ThrottledReplicas,
)
from kshunt.backend.operations.ownership.cells import ListKey, Pairs
from kshunt.backend.operations.ownership.ownership import Ownership, Shares


def rates_that_stay(
    rates: Mapping[int, ThrottledRate], passing: Shares, ours: Collection[int]
) -> tuple[str, ...]:
    """A note where no end of a move removes the rates.

    Args:
        rates: What was asked for. None in a rate removes it, so that nothing is left.
        passing: What is removed when moves that others started end.
        ours: Brokers whose rates operations of this backend remove.
    """
    gone = {broker for broker, _ in passing.rates} | set(ours)
    stays = [
        broker for broker, rate in sorted(rates.items()) if broker not in gone and rate != NO_RATE
    ]
    if not stays:
        return ()
    brokers = f"broker{'s' if len(stays) > 1 else ''} {listed(stays)}"
    return (f"No move involves {brokers}. These rates stay until you remove them.",)


def lists_that_stay(
    replicas: Mapping[str, ThrottledReplicas], passing: Shares, ownership: Ownership
) -> tuple[str, ...]:
    """A note where no end of a move removes the listed replicas."""
    stays = [
        topic
        for topic, lists in sorted(replicas.items())
        if any(
            _stays(
                side,
                passing.lists.get((topic, key), frozenset()),
                ownership.held_pairs((topic, key)),
            )
            for key, side in zip(ListKey, (lists.leaders, lists.followers), strict=True)
        )
    ]
    if not stays:
        return ()
    topics = f"{many(len(stays), 'topic')} ({listed(stays, 3)})"
    return (f"No move uses some listed replicas of {topics}. They stay until you remove them.",)


def _stays(side: ReplicaSet, passing: Pairs, owned: Pairs) -> bool:
    return side.everything or bool(side.pairs - passing - owned)
