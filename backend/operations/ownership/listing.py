"""Ownership as an operator reads it: of each setting its value, its owners, what comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kshunt.backend.domain.throttles.configs import ReplicaSet
from kshunt.backend.domain.throttles.owners import (
    DriftKind,
    OwnedThrottle,
    SettingValue,
    Share,
    ShareState,
)
from kshunt.backend.operations.ownership.cells import (
    FoundRate,
    ListCell,
    ListKey,
    RateCell,
    RateKey,
)
from kshunt.backend.operations.ownership.drift import RateDrift, drift
from kshunt.backend.operations.ownership.ownership import FoundSettings, Ownership


def owned_throttles(
    ownership: Ownership, present: FoundSettings, who: Callable[[str], str]
) -> tuple[OwnedThrottle, ...]:
    """Every setting in which an operation has a share, rates by broker and then lists by topic.

    `who` says who asked for an operation. Of topics that are gone nothing is said.
    """
    drifted = _drifted(ownership, present)
    rates = (
        _rate(broker, key, cell, present, who, drifted.get((broker, key)))
        for (broker, key), cell in sorted(ownership.rates.items())
    )
    lists = (
        _list(topic, key, cell, present, who, drifted.get((topic, key)))
        for (topic, key), cell in sorted(ownership.lists.items())
        if topic not in present.gone_topics
    )
    return tuple(one for one in (*rates, *lists) if one.shares)


def _drifted(
    ownership: Ownership, present: FoundSettings
) -> Mapping[tuple[int | str, str], DriftKind]:
    """What was done to a setting; the first thing, where a list lost some and got others."""
    found: dict[tuple[int | str, str], DriftKind] = {}
    for one in drift(ownership, present):
        whose = one.broker if isinstance(one, RateDrift) else one.topic
        found.setdefault((whose, one.key), one.kind)
    return found


def _rate(
    broker: int,
    key: RateKey,
    cell: RateCell,
    present: FoundSettings,
    who: Callable[[str], str],
    drifted: DriftKind | None,
) -> OwnedThrottle:
    found, prior = present.rates.get((broker, key)), cell.prior
    shares = (
        Share(id, who(id), share.state, SettingValue(share.rate_bytes_per_s))
        for id, share in sorted(cell.shares.items())
        if share.state is not ShareState.PAST
    )
    return OwnedThrottle(
        key.value,
        broker,
        None,
        _source(found),
        _source(prior),
        tuple(shares),
        None if found is None else SettingValue(found.value_bytes_per_s),
        None if prior is None else SettingValue(prior.value_bytes_per_s),
        drifted,
    )


def _source(rate: FoundRate | None) -> str:
    return "" if rate is None or rate.value_bytes_per_s is None else rate.source.value


def _list(
    topic: str,
    key: ListKey,
    cell: ListCell,
    present: FoundSettings,
    who: Callable[[str], str],
    drifted: DriftKind | None,
) -> OwnedThrottle:
    found = present.lists.get((topic, key))
    return OwnedThrottle(
        key.value,
        None,
        topic,
        "",
        "",
        tuple(_list_shares(cell, who)),
        None if found is None else SettingValue(replicas=str(found)),
        None if cell.prior is None else SettingValue(replicas=str(cell.prior)),
        drifted,
    )


def _list_shares(cell: ListCell, who: Callable[[str], str]) -> Iterable[Share]:
    """What each operation needs listed; one that only gives up replicas is ending."""
    for id, share in sorted(cell.shares.items()):
        if share.state is ShareState.PAST:
            continue
        ending = not share.pairs and bool(share.given_up)
        state = ShareState.ENDING if ending else share.state
        pairs = share.given_up if ending else share.pairs
        yield Share(id, who(id), state, SettingValue(replicas=str(ReplicaSet(pairs))))
