"""Drift of owned throttles: what is reported, and the two ways out."""

from __future__ import annotations

from dataclasses import replace

from kshunt.backend.domain.cluster.config_names import ConfigSource
from kshunt.backend.domain.throttles.configs import ReplicaSet
from kshunt.backend.domain.throttles.owners import DriftKind
from kshunt.backend.operations.ownership.cells import FoundRate, ListKey, RateKey
from kshunt.backend.operations.ownership.drift import (
    ListDrift,
    RateDrift,
    accept,
    drift,
    reapply,
)
from kshunt.backend.operations.ownership.listing import owned_throttles
from kshunt.backend.operations.ownership.ownership import (
    FoundSettings,
    ListCellId,
    Ownership,
    RateCellId,
    Shares,
)

RATE: RateCellId = (1, RateKey.LEADER)
LIST: ListCellId = ("t", ListKey.LEADERS)


def present(rate: int | None, listed: str) -> FoundSettings:
    source = ConfigSource.DEFAULT if rate is None else ConfigSource.DYNAMIC_BROKER
    return FoundSettings({RATE: FoundRate(rate, source)}, {LIST: ReplicaSet.parse(listed)})


def owned(prior: FoundSettings) -> Ownership:
    """An operation of 10,000 B/s with replicas 0:1 and 0:2, written and read back."""
    shares = Shares({RATE: 10_000}, {LIST: frozenset({(0, 1), (0, 2)})})
    step = Ownership().record("ours", shares, prior)
    return step.after.confirm(present(10_000, str(step.after.in_force().lists[LIST])))


def test_what_is_as_it_should_be_has_not_drifted() -> None:
    assert drift(owned(present(None, "")), present(10_000, "0:1,0:2")) == ()


def test_what_was_not_read_or_not_written_yet_has_not_drifted() -> None:
    prior = present(None, "")
    assert drift(owned(prior), FoundSettings({}, {})) == ()
    unwritten = Ownership().record("ours", Shares({RATE: 10_000}), prior).after
    assert drift(unwritten, prior) == ()


def test_a_deleted_rate_says_both_values() -> None:
    (found,) = drift(owned(present(7, "")), present(None, "0:1,0:2"))
    assert isinstance(found, RateDrift)
    assert (found.kind, found.wanted_bytes_per_s) == (DriftKind.DELETED, 10_000)
    assert found.operations == ("ours",)
    assert str(found) == "leader rate of broker 1 was deleted: none instead of 10 kB/s"


def test_a_changed_rate_is_put_back_or_kept() -> None:
    own, now = owned(present(7, "")), present(500, "0:1,0:2")
    found = drift(own, now)
    assert [one.kind for one in found] == [DriftKind.CHANGED]

    again = reapply(own, found, now)
    assert again.writes.rates == {RATE: 10_000}
    ours = again.after.confirm(present(10_000, "0:1,0:2"))
    assert ours.lift("ours", present(10_000, "")).writes.rates == {RATE: 7}

    theirs = accept(own, found, now)
    assert not theirs.writes
    assert drift(theirs.after, now) == ()
    assert theirs.after.in_force().rates == {RATE: 500}
    assert not theirs.after.lift("ours", present(500, "")).writes.rates


def test_an_accepted_rate_gives_way_to_a_rate_that_is_asked_for_again() -> None:
    now = present(500, "0:1,0:2")
    own = owned(present(7, ""))
    kept = accept(own, drift(own, now), now).after
    asked = kept.change("ours", {RATE: 20_000}, now)
    assert asked.writes.rates == {RATE: 20_000}
    after = asked.after.confirm(present(20_000, "0:1,0:2"))
    assert after.lift("ours", present(20_000, "")).writes.rates == {RATE: 500}


def test_an_operation_that_ends_leaves_what_was_changed_and_not_decided() -> None:
    own, now = owned(present(7, "")), present(500, "0:1")
    step = own.lift("ours", now)
    assert not step.writes.rates
    assert step.writes.lists == {LIST: ReplicaSet()}
    assert step.after.confirm(present(500, "")) == Ownership()


def test_a_narrowed_list_is_put_back_or_kept() -> None:
    own, now = owned(present(None, "3:3")), present(10_000, "0:1")
    (found,) = drift(own, now)
    assert isinstance(found, ListDrift)
    assert (found.kind, str(found.replicas)) == (DriftKind.NARROWED, "0:2,3:3")
    assert str(found).endswith("was narrowed: it lacks 0:2,3:3")
    assert reapply(own, [found], now).writes.lists == {LIST: ReplicaSet.parse("0:1,0:2,3:3")}
    kept = accept(own, [found], now).after
    assert drift(kept, now) == ()
    assert kept.in_force().lists == {LIST: ReplicaSet.parse("0:1")}
    assert kept.lift("ours", now).writes.lists == {LIST: ReplicaSet()}


def test_a_widened_list_is_put_back_or_kept() -> None:
    own, now = owned(present(None, "")), present(10_000, "0:1,0:2,5:5")
    (found,) = drift(own, now)
    assert isinstance(found, ListDrift)
    assert (found.kind, str(found.replicas)) == (DriftKind.WIDENED, "5:5")
    assert reapply(own, [found], now).writes.lists == {LIST: ReplicaSet.parse("0:1,0:2")}
    kept = accept(own, [found], now).after
    assert drift(kept, now) == ()
    assert kept.lift("ours", now).writes.lists == {LIST: ReplicaSet.parse("5:5")}


def test_a_list_set_to_all_is_put_back_or_kept() -> None:
    own, now = owned(present(None, "3:3")), present(10_000, "*")
    (found,) = drift(own, now)
    assert (found.kind, str(found.replicas)) == (DriftKind.WIDENED, "*")  # type: ignore[union-attr]
    assert reapply(own, [found], now).writes.lists == {LIST: ReplicaSet.parse("0:1,0:2,3:3")}
    assert not own.lift("ours", now).writes.lists
    assert drift(accept(own, [found], now).after, now) == ()


def test_all_that_was_narrowed_is_put_back_or_kept() -> None:
    own, now = owned(present(None, "*")), present(10_000, "0:1")
    (found,) = drift(own, now)
    assert found.kind is DriftKind.NARROWED
    assert reapply(own, [found], now).writes.lists == {LIST: ReplicaSet(everything=True)}
    kept = accept(own, [found], now).after
    assert drift(kept, now) == ()
    assert not kept.lift("ours", now).writes.lists


def test_what_changed_since_it_was_shown_is_not_decided_unseen() -> None:
    own, shown = owned(present(7, "")), present(500, "0:1,0:2")
    found, later = drift(own, shown), present(600, "0:1,0:2")
    assert accept(own, found, later).after == own
    assert not reapply(own, found, later).writes


def test_of_topics_that_are_gone_no_throttle_is_listed() -> None:
    own, found = owned(present(7, "")), present(10_000, "0:1,0:2")
    rate, lists = owned_throttles(own, found, str.upper)
    assert (rate.broker, rate.topic, rate.shares[0].who) == (1, None, "OURS")
    assert (lists.broker, lists.topic) == (None, "t")
    gone = replace(found, lists={}, gone_topics=frozenset({"t"}))
    assert owned_throttles(own, gone, str.upper) == (rate,)
