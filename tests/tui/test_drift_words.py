"""What is wrong with a throttle, in words: whose it is, what it should be and what it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kshunt.backend.domain.throttles.owners import DriftKind, OrphanOrigin, SettingValue, ShownDrift
from kshunt.tui.facts.drift_words import (
    BRIEF_ORIGINS,
    ORIGINS,
    change_words,
    drift_words,
    orphan_words,
    owner_words,
    setting_words,
    value_words,
)
from kshunt.tui.text.glyphs import ASCII
from tests.support.tui.cluster import DRIFT, ORPHAN

LIST = ShownDrift(
    *("d2", "leader.replication.throttled.replicas", None, "orders", DriftKind.NARROWED),
    *(SettingValue(replicas="0:1,0:2"), SettingValue(replicas="0:1"), "0:2"),
)


def test_every_origin_has_a_brief_form_too() -> None:
    assert {*BRIEF_ORIGINS} == {*ORIGINS} == {*OrphanOrigin}
    assert all(len(f"orphan: {words}") <= 23 for words in BRIEF_ORIGINS.values())


def test_broker_0_is_a_broker() -> None:
    assert setting_words(replace(DRIFT, broker=0)) == "follower rate of broker 0"
    assert setting_words(LIST) == "leader list of topic orders"
    lowest = drift_words(replace(DRIFT, broker=0))
    assert lowest == "follower rate of broker 0: wanted 25.0 MB/s, found 50.0 MB/s"
    assert orphan_words(replace(ORPHAN, broker=0, topic=None)).startswith("leader list of broker 0")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "?"),
        (SettingValue(), "none"),
        (SettingValue(5_000_000), "5.00 MB/s"),
        (SettingValue(0), "0 B/s"),
        (SettingValue(replicas=""), "none"),
        (SettingValue(replicas="0:1"), "0:1"),
    ],
)
def test_a_value_that_is_not_known_is_told_from_none(
    value: SettingValue | None, words: str
) -> None:
    assert value_words(value) == words


def test_a_list_says_what_it_lacks_or_also_lists() -> None:
    assert drift_words(LIST) == "leader list of topic orders was narrowed: it lacks 0:2"
    wider = replace(LIST, kind=DriftKind.WIDENED)
    assert drift_words(wider) == "leader list of topic orders was widened: it also lists 0:2"
    older = replace(LIST, changed_replicas="")
    assert drift_words(older) == "leader list of topic orders was narrowed"


def test_a_change_goes_from_what_it_should_be_to_what_it_is() -> None:
    assert change_words(DRIFT, ASCII) == "25.0 MB/s > 50.0 MB/s"


def test_several_operations_are_said_to_be_several() -> None:
    assert [owner_words(ids) for ids in ((), ("a",), ("a", "b"))] == [
        "",
        "operation a",
        "operations a, b",
    ]
