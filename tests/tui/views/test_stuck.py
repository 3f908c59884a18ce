"""Stuck replicas in the dashboard: the count, the state, the cause, and what to press."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.replicas.stuck_causes import (
    CAUSE_TEXTS,
    Cause,
    RateNeed,
    Stuck,
    StuckEvidence,
)
from kshunt.backend.domain.throttles.configs import FOLLOWER_RATE, LEADER_RATE, parse_rate
from kshunt.tui.actions import ACTIONS
from kshunt.tui.dialogs.row_details import RowDetailsScreen, details
from kshunt.tui.facts.row_keys import ReplicaKey
from kshunt.tui.facts.stuck_words import stuck_sentence, stuck_word, typed_rate_up, why_lines
from kshunt.tui.tables.model import Order
from tests.support.tui.app import SIZES, Shown, at_size, check_frame, named, plotted
from tests.support.tui.cluster import ScriptedCluster, incident
from tests.support.tui.tables import facts_of, keys, partitions, row_words

WIDE = 33
"""Cells of the status in its long form."""
ORDERS = TopicPartition("orders", 0)
TOO_LOW = Stuck(
    ORDERS,
    5,
    Cause.THROTTLE_TOO_LOW,
    (
        RateNeed(2, LEADER_RATE, 25_000_000, 30_000_000, 34_000_000),
        RateNeed(5, FOLLOWER_RATE, 25_000_000, 30_000_000, 34_000_000),
    ),
    StuckEvidence(),
)
DOWN = Stuck(TopicPartition("orders", 2), 3, Cause.BROKER_DOWN)
WAITS = Stuck(TopicPartition("payments.transactions.settled.v2", 3), 5, Cause.WAITING_TURN)


def stuck_cluster() -> ScriptedCluster:
    """A move of which two replicas are stuck, and a third one waits for its turn."""
    cluster = incident()
    for _ in range(40):
        cluster.step()
    cluster.stuck = {(one.partition, one.broker): one for one in (TOO_LOW, DOWN, WAITS)}
    return cluster


@pytest.fixture(params=SIZES)
async def shown(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shown]:
    """The dashboard at each size."""
    async with at_size(tmp_path, stuck_cluster(), request.param) as running:
        yield running


async def test_the_head_counts_them_and_the_filter_lists_them(shown: Shown) -> None:
    assert "2 stuck" in shown.lines()[1]
    assert (
        "2 stuck: broker down 1, throttle too low 1. /stuck lists, Enter explains." in shown.frame()
    )
    await shown.press("slash")
    await shown.write("stuck")
    await shown.press("enter")
    await shown.until(lambda: "2 of 96: stuck" in shown.frame(), "two rows are listed")
    await check_frame(named("stuck", shown), shown)


async def test_the_details_say_what_to_do_and_what_to_press(shown: Shown) -> None:
    await shown.press("slash")
    await shown.write("stuck orders partition:0")
    await shown.press("enter")
    await shown.until(lambda: "1 of 96: stuck" in shown.frame(), "one row is listed")
    await shown.press("enter")
    if shown.size[1] < 36:
        await shown.dialog(RowDetailsScreen)
    await shown.until(lambda: "The cluster has no topic" in shown.frame(), "it was asked")
    if shown.size[1] > 36:
        await plotted(shown)
    await check_frame(named("stuck-details", shown), shown)


def test_the_status_is_one_word_and_the_cause_where_there_is_room() -> None:
    for cause, about in CAUSE_TEXTS.items():
        assert stuck_word(cause, 11) == "Stuck"
        assert stuck_word(cause, WIDE) == f"Stuck: {about.short}"
    table = partitions(facts_of(stuck_cluster()), "adding")
    words = {str(table.key_of(row)): row_words(table, row)["status"] for row in range(len(table))}
    assert words["orders-0 on broker 5"].startswith("Stuck")
    assert words["orders-2 on broker 3"].startswith("Stuck")
    assert words["payments.transactions.settled.v2-3 on broker 5"].startswith("Behind")


def test_the_filter_and_the_sort_order_find_them() -> None:
    facts = facts_of(stuck_cluster())
    stuck = {ReplicaKey("orders", 0, 5), ReplicaKey("orders", 2, 3)}
    assert set(keys(partitions(facts, "stuck"))) == stuck
    assert set(keys(partitions(facts, "", Order("status", reverse=True)))[:2]) == stuck
    assert facts.summary.stuck == {Cause.BROKER_DOWN: 1, Cause.THROTTLE_TOO_LOW: 1}
    assert facts.summary.stuck_replicas == 2


def test_the_details_begin_with_the_cause() -> None:
    table = partitions(facts_of(stuck_cluster()))
    said = details(table, ReplicaKey("orders", 0, 5))
    assert said[:4] == [
        ("Stuck", "throttle too low"),
        (
            "Why",
            "The throttle is at or below the 30.0MB/s that are written to what shares it: leader "
            "rate of broker 2 needs at least 34.0MB/s and has 25.0MB/s; follower rate of broker 5 "
            "needs at least 34.0MB/s and has 25.0MB/s.",
        ),
        (
            "Do next",
            "Raise leader rate of broker 2 to 34.0MB/s and follower rate of broker 5 to 34.0MB/s.",
        ),
        (
            "Press",
            "F opens the change, filled in. Or 3, then a with 34.0MB/s for every broker, or e on "
            "the rows of brokers 2, 5.",
        ),
    ]
    waits = details(table, ReplicaKey(WAITS.partition.topic, WAITS.partition.partition, 5))
    assert waits[0] == ("Not nearer", "waits for its turn")
    assert "Do next" not in dict(waits)
    assert details(table, keys(table)[0])[0][0] == "Topic"


@pytest.mark.parametrize("cause", CAUSE_TEXTS)
def test_every_key_that_is_named_exists(cause: Cause) -> None:
    bound = {key for action in ACTIONS for key in action.keys}
    lines = dict(why_lines(replace(TOO_LOW, cause=cause), stuck_cluster().snapshot()))
    press = lines.get("Press", "")
    assert all(key in bound for key in press.split() if len(key) == 1 and key.isalpha())
    if "THROTTLE" in cause.name:
        assert ", then " in press


@given(st.integers(1_000, 10**14))
def test_a_rate_to_type_is_never_less_than_what_is_needed(rate: int) -> None:
    read = parse_rate(typed_rate_up(rate))
    assert read is not None
    assert rate <= read <= rate * 1.02


def test_the_sentence_names_the_most_frequent_cause_first() -> None:
    assert stuck_sentence({}) == ""
    one = stuck_sentence({Cause.BROKER_DOWN: 1})
    assert one == "1 stuck: broker down. /stuck lists, Enter explains."
    many = stuck_sentence({Cause.BROKER_DOWN: 1, Cause.DISK_FULL: 1_200})
    assert many.startswith("1,201 stuck: disk full 1,200, broker down 1.")
