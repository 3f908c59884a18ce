"""Partitions that are read-only or being deleted (KIP-694), in the dashboard."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.operations.operation import Operation, OperationKind, OperationState
from kshunt.backend.domain.replicas.stuck_causes import Cause, Stuck
from kshunt.backend.errors import BadInput
from kshunt.tui.actions.view_names import OPERATIONS, OVERVIEW, PARTITIONS
from kshunt.tui.dialogs.attention_list import AttentionScreen
from kshunt.tui.facts.cockpit.marks import counted
from kshunt.tui.facts.filter_terms import parse_filter
from kshunt.tui.facts.health import health_of
from kshunt.tui.facts.leaving_partitions import (
    Leaving,
    leaving_items,
    leaving_of,
    removal_of,
)
from kshunt.tui.facts.overview import worst_replicas
from kshunt.tui.facts.row_keys import ReplicaKey
from kshunt.tui.facts.snapshot_facts import Facts
from kshunt.tui.tables.model import Order
from kshunt.tui.tables.targets import ScreenTarget
from kshunt.tui.text.glyphs import UNICODE
from kshunt.tui.views.filter_hints import hint_for
from kshunt.tui.views.partitions.details import about
from kshunt.tui.views.partitions.topic_configs import TopicSettings
from tests.support.tui.app import SIZES, Shown, dashboard
from tests.support.tui.cluster import START_MS, ScriptedCluster
from tests.support.tui.tables import facts_of, keys, partitions, row_words

RW, RO, NONE = PartitionMode.READ_WRITE, PartitionMode.READ_ONLY, PartitionMode.NONE
MINUTE_MS = 60_000
LATER, NOW = TopicPartition("orders", 4), TopicPartition("orders", 5)
WAITS = Stuck(NOW, 3, Cause.DELETION_WAITS)


def shrinking() -> ScriptedCluster:
    """orders-4 goes in three minutes; orders-5 is being deleted, which waits for broker 3."""
    cluster = ScriptedCluster.of(3, {"orders": 6, "audit": 1})
    cluster.min_isr = 2
    cluster.partitions[LATER].mode = RO
    cluster.partitions[LATER].deletes_ms = START_MS + 3 * MINUTE_MS
    cluster.partitions[NOW].mode = NONE
    cluster.partitions[NOW].leader = -1
    return cluster


def stopped() -> ScriptedCluster:
    """The same, and broker 3 is down: only what is being deleted is on it."""
    cluster = shrinking()
    for partition, state in cluster.partitions.items():
        if partition != NOW:
            state.replicas = [broker for broker in state.replicas if broker != 3]
            state.leader = state.replicas[0]
    cluster.down = {3: "not registered: it is down or fenced"}
    cluster.stuck = {(NOW, 3): WAITS}
    return cluster


DELETION = Operation(
    "op-7",
    OperationKind.DELETE_PARTITIONS,
    state=OperationState.DONE,
    summary="shrink orders: keeps 4 partitions",
    started_ms=START_MS,
    ended_ms=START_MS,
    partitions=(LATER, NOW),
    who="ada@bastion",
)


def test_nothing_is_offline_or_behind_that_is_being_deleted() -> None:
    facts = facts_of(stopped(), 0)
    summary, health = facts.summary, health_of(facts)
    assert (summary.leaderless_partitions, summary.offline_replicas) == (0, 0)
    assert (summary.misled_partitions, summary.behind_replicas, summary.never) == (0, 0, 0)
    assert (health.leaderless, health.under_replicated, health.under_min_isr) == (0, 0, 0)
    assert summary.stuck == {Cause.DELETION_WAITS: 1}
    counts = counted(facts.snapshot)
    assert (counts.leaderless, counts.offline) == (0, 0)


def test_the_same_partition_without_a_mode_is_offline() -> None:
    cluster = stopped()
    cluster.partitions[NOW].mode = RW
    facts = facts_of(cluster, 0)
    assert facts.summary.leaderless_partitions == 1
    assert health_of(facts).under_replicated == 1


def test_what_takes_no_records_is_not_under_min_isr() -> None:
    cluster = shrinking()
    cluster.min_isr = 3
    cluster.down = {2: "gone"}
    low = health_of(facts_of(cluster, 0)).under_min_isr
    cluster.partitions[LATER].mode = RW
    assert health_of(facts_of(cluster, 0)).under_min_isr == low + 1


def test_facts_that_depend_on_the_mode_are_not_taken_over_when_it_changes() -> None:
    cluster = shrinking()
    first = Facts(cluster.step())
    assert first.summary.leaderless_partitions == 0
    rows = first.snapshot.replicas
    other = replace(first.snapshot, replicas=replace(rows, mode=np.zeros_like(rows.mode)))
    second = Facts(other, first)
    assert second.summary.leaderless_partitions == 1
    assert second.leaving == ()


@pytest.mark.conforms("kip-694:metadata-shown")
def test_a_column_tells_the_mode_where_any_partition_has_one() -> None:
    table = partitions(facts_of(shrinking(), 0), "-mode:readwrite leader")
    assert row_words(table, 0)["mode"] == "leaving in 3m00s"
    assert row_words(table, 0, 8)["mode"] == "ReadOnly"
    table = partitions(facts_of(shrinking(), 0), "mode:none")
    assert {row_words(table, row)["mode"] for row in range(3)} == {"being deleted"}
    assert {row_words(table, row)["status"] for row in range(3)} == {"Deleting"}
    plain = partitions(facts_of(ScriptedCluster.of(3, {"orders": 2}), 0))
    assert "mode" not in {column.key for column in plain.columns}


def test_rows_are_sorted_and_filtered_by_mode() -> None:
    facts = facts_of(shrinking(), 0)
    by_mode = keys(partitions(facts, "", Order("mode", reverse=True)))
    assert [key[:2] for key in by_mode[:6]] == [tuple(NOW)] * 3 + [tuple(LATER)] * 3  # type: ignore[index]
    for text, count in {
        "mode:readonly": 3,
        "mode:none": 3,
        "mode:ReadOnly,none": 6,
        "-mode:readwrite": 6,
        "misled": 0,
    }.items():
        assert len(partitions(facts, text)) == count, text


def test_a_mode_that_there_is_not_is_refused_and_those_there_are_are_offered() -> None:
    with pytest.raises(BadInput, match="'gone' is not a mode"):
        parse_filter("mode:gone")
    assert hint_for("mode:").completions == ("mode:readwrite", "mode:readonly", "mode:none")
    assert hint_for("mode:rea").completions == ("mode:readwrite", "mode:readonly")
    assert "about to be deleted" in hint_for("mode:").words


def test_the_details_say_when_it_goes_and_who_asked() -> None:
    facts = facts_of(shrinking(), 0)

    def mode_line(partition: TopicPartition) -> str:
        key = ReplicaKey(partition.topic, partition.partition, 1)
        lines = about(facts, key, (), TopicSettings(), (DELETION,), UNICODE)
        return next((line.text for line in lines if line.label == "Mode"), "")

    assert mode_line(LATER) == (
        "ReadOnly: leaving in 3m00s (at 2025-10-09 08:56:20 UTC), as ada@bastion asked"
    )
    assert mode_line(NOW) == "None: being deleted, as ada@bastion asked"
    assert mode_line(TopicPartition("orders", 0)) == ""


def test_the_first_of_a_topics_partitions_says_when_they_go() -> None:
    cluster = shrinking()
    sooner = TopicPartition("orders", 3)
    cluster.partitions[sooner].mode = RO
    cluster.partitions[sooner].deletes_ms = START_MS + MINUTE_MS
    unknown = TopicPartition("audit", 0)
    cluster.partitions[unknown].mode = RO
    found = set(leaving_of(facts_of(cluster).snapshot))
    assert found == {
        Leaving("orders", RO, 2, START_MS + MINUTE_MS),
        Leaving("orders", NONE, 1),
        Leaving("audit", RO, 1),
    }


def said(*leaving: Leaving) -> list[str]:
    return [item.text for item in leaving_items(leaving, START_MS, (DELETION,))]


def test_the_overview_says_what_leaves_and_by_whom() -> None:
    at_ms = START_MS + 3 * MINUTE_MS
    assert said(Leaving("orders", RO, 6, at_ms), Leaving("t", RO, 1), Leaving("u", NONE, 2)) == [
        "6 partitions of orders leave in 3m00s, as ada@bastion asked.",
        "1 partition of t is read-only, and about to be deleted.",
        "2 partitions of u are being deleted.",
    ]
    many = [Leaving(f"t{number}", RO, 2, at_ms + number) for number in range(4)]
    assert said(*many) == [
        "8 partitions of 4 topics are about to be deleted; the first is leaving in 3m00s."
    ]


def test_what_takes_a_topics_partitions_away_is_found_whoever_asked() -> None:
    leaving = [Leaving("orders", RO, 6, START_MS + 3 * MINUTE_MS), Leaving("t", NONE, 1)]
    ours = removal_of("orders", leaving, START_MS, (DELETION,))
    assert ours is not None
    assert ours.text == "6 partitions of orders leave in 3m00s: operation op-7 by ada@bastion."
    assert ours.target == ScreenTarget(OPERATIONS, "op-7")
    theirs = removal_of("t", leaving, START_MS, (DELETION,))
    assert theirs is not None
    assert theirs.text == "1 partition of t is being deleted, started outside kshunt."
    assert theirs.target == ScreenTarget(PARTITIONS, filter_text="mode:none topic:t")
    assert removal_of("audit", leaving, START_MS, (DELETION,)) is None


def test_a_deletion_that_waits_is_among_the_worst_and_has_no_eta() -> None:
    (worst, *_), count = worst_replicas(facts_of(stopped(), 0))
    assert count == 1
    assert (worst.key, worst.cause) == (ReplicaKey(NOW.topic, NOW.partition, 3), "deletion waits")


@pytest.fixture(params=SIZES)
async def shown(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shown]:
    """The overview at each size."""
    cluster = stopped()
    cluster.operations = {DELETION.id: DELETION}
    async with dashboard(
        tmp_path / "s", cluster, size=SIZES[request.param], start_view=OVERVIEW
    ) as running:
        yield running


async def test_a_broker_stops_while_partitions_are_deleted(shown: Shown) -> None:
    await shown.until(lambda: "as ada@bastion asked" in shown.frame(), "who asked is said")
    text = shown.frame()
    assert re.search(r"1 partition of orders leaves in (2m5\ds|3m00s)", text)
    assert "1 partition of orders is being deleted" in text
    assert "deletion waits" in text
    assert "0 offline" in text
    assert "without a leader" not in text
    assert "never" not in text
    await shown.press("exclamation_mark")
    await shown.dialog(AttentionScreen)
    assert re.search(r"1 partition of orders leaves in (2m5\ds|3m00s)", shown.frame())
    await shown.press("escape")
    await shown.closed()
    await shown.press("2")
    await shown.press("slash")
    await shown.write("mode:none")
    await shown.press("enter")
    await shown.until(lambda: "3 of" in shown.frame(), "its replicas are listed")
    assert "Offline" not in shown.frame()
    assert "Stuck" in shown.frame()
