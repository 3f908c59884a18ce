"""Progress is that of the whole operation: what waits counts, and no bar falls or says too much."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.operation import Operation, OperationDetails
from kshunt.backend.domain.throttles.configs import ThrottledRate
from kshunt.tui.actions.view_names import OVERVIEW
from kshunt.tui.facts.moves.bounds import Bound, bound_of
from kshunt.tui.facts.overview import Home, HomeBuilder
from kshunt.tui.facts.progress import MoveState, move_states, progress_of
from kshunt.tui.facts.snapshot_facts import Facts
from kshunt.tui.facts.view_query import Job, Query
from tests.support.tui.app import dashboard
from tests.support.tui.cluster import ScriptedCluster, incident, running_move

TOPIC = "audit-log"
"""Its four partitions wait while six others move."""


def target_of(cluster: ScriptedCluster, partition: TopicPartition) -> tuple[int, ...]:
    replicas = cluster.partitions[partition].replicas
    outside = next(id for id in cluster.racks if id not in replicas)
    return (*replicas[:-1], outside)


def capped() -> tuple[ScriptedCluster, Operation]:
    """A move of ten partitions, of which four wait for their turn."""
    cluster = incident()
    operation = running_move(cluster)
    waiting = [TopicPartition(TOPIC, number) for number in range(4)]
    entries = [
        {"topic": p.topic, "partition": p.partition, "replicas": list(target_of(cluster, p))}
        for p in waiting
    ]
    before = [
        {"topic": p.topic, "partition": p.partition, "replicas": cluster.partitions[p].replicas}
        for p in waiting
    ]
    rollback = dict(operation.details.rollback_plan or {})
    rollback["partitions"] = [*rollback["partitions"], *before]
    details = OperationDetails(
        rollback_plan=rollback, waiting_plan={"version": 1, "partitions": entries}
    )
    operation = replace(
        operation,
        partitions=(*operation.partitions, *waiting),
        waiting=len(waiting),
        details=details,
    )
    cluster.operations[operation.id] = operation
    return cluster, operation


def sizes(cluster: ScriptedCluster, operation: Operation) -> int:
    return sum(cluster.partitions[partition].size_bytes for partition in operation.partitions)


def home_of(cluster: ScriptedCluster, builder: HomeBuilder, *, past: bool = False) -> Home:
    snapshot, operations = cluster.snapshot(), tuple(cluster.operations.values())
    job = Job(OVERVIEW, Query(), snapshot, operations, cluster.now_ms, past=past)
    return builder.home(Facts(snapshot), job, plots=False)


def test_an_operation_and_the_headline_are_as_large_as_all_that_it_moves() -> None:
    cluster, operation = capped()
    whole = sizes(cluster, operation)
    progress = progress_of(Facts(cluster.snapshot()), operation)
    assert progress is not None
    assert (progress.replicas, progress.left_bytes, progress.copy_bytes) == (10, whole, whole)
    assert not progress.at_least
    cluster.step(5)
    home = home_of(cluster, HomeBuilder())
    assert home.total.whole_bytes == whole
    assert home.overview is not None
    assert home.overview.running[0].total.whole_bytes == whole


def test_each_partition_waits_moves_or_is_there() -> None:
    cluster, operation = capped()
    first, second, *_, last = operation.partitions
    state = cluster.partitions[first]
    state.copied = dict.fromkeys(state.copied, state.size_bytes)
    cluster.step(0)
    cluster.silent_lag = set(cluster.partitions[second].copied)
    states = move_states(Facts(cluster.snapshot()), operation)
    assert len(states) == 10
    assert states[first] == (MoveState.THERE, 1.0)
    assert states[second][0] is MoveState.MOVES
    assert states[second][1] != states[second][1], "it does not say how far it is"
    assert states[last] == (MoveState.WAITS, 0.0)


def test_where_nobody_says_what_waits_it_is_at_least_what_is_known() -> None:
    cluster, operation = capped()
    details = OperationDetails(rollback_plan=operation.details.rollback_plan)
    cluster.operations[operation.id] = replace(operation, details=details)
    total = home_of(cluster, HomeBuilder()).total
    assert (total.left_unknown, total.more_bytes) == (4, -1)
    assert total.share != total.share


def begin(cluster: ScriptedCluster, *, told: bool) -> None:
    """The next move that waits begins; `told` False: the cluster does not show it yet."""
    operation = next(iter(cluster.operations.values()))
    plan = dict(operation.details.waiting_plan or {})
    if not plan["partitions"]:
        return
    first, *rest = plan["partitions"]
    if told:
        cluster.move(TopicPartition(first["topic"], first["partition"]), first["replicas"])
    details = OperationDetails(
        rollback_plan=operation.details.rollback_plan, waiting_plan={**plan, "partitions": rest}
    )
    cluster.operations[operation.id] = replace(operation, waiting=len(rest), details=details)


GO_ON, BEGIN, SILENT, HEARD, GROW = "go on", "begin", "silent", "heard", "grow"


@given(st.lists(st.sampled_from((GO_ON, BEGIN, SILENT, HEARD, GROW)), max_size=14))
def test_no_bar_falls_or_shows_more_than_was_copied(happens: list[str]) -> None:
    cluster, operation = capped()
    builder, last = HomeBuilder(), (0.0, 0.0)
    for what in happens:
        if what == BEGIN:
            begin(cluster, told=True)
        elif what == SILENT:
            cluster.silent_lag = {5}
        elif what == HEARD:
            cluster.silent_lag = set()
        elif what == GROW:
            for partition in operation.partitions:
                cluster.partitions[partition].size_bytes += 400_000_000
        cluster.step(4)
        if not any(state.copied for state in cluster.partitions.values()):
            return
        home = home_of(cluster, builder)
        assert home.overview is not None
        found = (home.total.share, home.overview.running[0].total.share)
        if any(share != share for share in found):
            assert last == (0.0, 0.0)
            continue
        assert found >= last
        assert found[1] >= last[1]
        last = found
        lags = sum(cluster._lag(p, b) for p, s in cluster.partitions.items() for b in s.copied)
        waits = cluster.operations[operation.id].details.waiting_plan or {}
        ahead = [TopicPartition(e["topic"], e["partition"]) for e in waits["partitions"]]
        left = lags + sum(cluster.partitions[partition].size_bytes for partition in ahead)
        if GROW not in happens:
            assert found[0] <= 1 - left / sizes(cluster, operation) + 1e-9


def test_a_move_that_has_begun_and_is_not_seen_yet_is_not_taken_for_done() -> None:
    cluster, _ = capped()
    builder = HomeBuilder()
    cluster.step(5)
    before = home_of(cluster, builder).total.share
    begin(cluster, told=False)
    cluster.now_ms += 1_000
    assert home_of(cluster, builder).total.share == pytest.approx(before)


def test_a_moment_of_the_past_is_not_held_to_what_was_reached_later() -> None:
    cluster, _ = capped()
    builder = HomeBuilder()
    cluster.step(5)
    then = home_of(cluster, HomeBuilder(), past=True).total.share
    snapshot_of_then = cluster.snapshot()
    cluster.step(60)
    now = home_of(cluster, builder).total.share
    job = Job(OVERVIEW, Query(), snapshot_of_then, tuple(cluster.operations.values()), 0, past=True)
    assert now > then
    assert builder.home(Facts(snapshot_of_then), job, plots=False).total.share == then
    cluster.now_ms += 1_000
    assert home_of(cluster, builder).total.share >= now


def test_throttles_bound_all_copies_or_not_or_nobody_knows() -> None:
    cluster = incident()
    assert bound_of(Facts(cluster.snapshot())) is Bound.ALL
    cluster.rates = {id: ThrottledRate(1_000_000, None) for id in cluster.racks}
    assert bound_of(Facts(cluster.snapshot())) is Bound.ALL, "leaders have rates"
    cluster.lists = {}
    assert bound_of(Facts(cluster.snapshot())) is Bound.NONE
    snapshot = cluster.snapshot()
    unread = replace(snapshot, throttles=replace(snapshot.throttles, rates={}))
    assert bound_of(Facts(unread)) is Bound.UNKNOWN
    assert bound_of(Facts(ScriptedCluster.of(3, {"t": 1}).snapshot())) is Bound.ALL


async def test_every_place_says_how_far_the_whole_is(tmp_path: Path) -> None:
    cluster, operation = capped()
    cluster.step(5)
    async with dashboard(tmp_path / "s", cluster, size=(160, 50), start_view=OVERVIEW) as shown:
        whole = f"{sizes(cluster, operation) / 1e9:.1f} GB"
        head = shown.lines()[1]
        assert head.startswith(" Moving 6 partitions, 4 wait")
        share = head.split("·")[1].strip().split(",")[0]
        assert f"{share} of {whole}" in shown.frame()
        await shown.press("5")
        assert " 0/10 " in shown.frame()
        left = head.split(", ")[2].split(" left")[0]
        # The pane is laid out after the table.
        await shown.until(lambda: "0 of 10 replicas, " in shown.frame(), "the pane of the row")
        assert f"0 of 10 replicas, {left} of {whole}" in shown.frame()
