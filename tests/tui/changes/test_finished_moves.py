"""Progress over all moves: it continues while moves of one batch end, and begins anew after it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.tui.facts.moves.finished_moves import FinishedMoves
from kshunt.tui.facts.overview import Total, total_of
from kshunt.tui.facts.snapshot_facts import Facts
from tests.support.tui.cluster import ScriptedCluster, ScriptedPartition, incident, running_move

PARTITIONS = 6
END, CANCEL, SILENT = "end", "cancel", "silent"


def moves() -> ScriptedCluster:
    """Six partitions that somebody else moves to another broker each."""
    cluster = ScriptedCluster.of(5, {"t": PARTITIONS})
    for number in range(PARTITIONS):
        name = TopicPartition("t", number)
        begin(cluster, name)
    cluster.step(5)
    return cluster


def begin(cluster: ScriptedCluster, name: TopicPartition) -> None:
    """Its first replica goes to a broker that has none."""
    replicas = cluster.partitions[name].replicas
    adding = next(id for id in cluster.racks if id not in replicas)
    cluster.move(name, [adding, *replicas[1:]])


def total(cluster: ScriptedCluster, finished: FinishedMoves) -> Total:
    operations = tuple(cluster.operations.values())
    return total_of(Facts(cluster.snapshot()), operations, finished)


def finish(cluster: ScriptedCluster, name: TopicPartition) -> None:
    """A move arrives."""
    state = cluster.partitions[name]
    state.copied.update(dict.fromkeys(state.copied, state.size_bytes))
    cluster.step(0)


steps = st.lists(
    st.tuples(st.sampled_from((END, CANCEL, SILENT)), st.integers(0, PARTITIONS - 1)), max_size=12
)


@given(steps)
def test_the_share_never_goes_back_while_moves_end(changes: list[tuple[str, int]]) -> None:
    cluster, finished = moves(), FinishedMoves()
    share = total(cluster, finished).share
    assert share > 0
    for what, number in changes:
        name = TopicPartition("t", number)
        if what == SILENT:
            # A new topic before it moves every row's place and number.
            cluster.partitions.setdefault(
                TopicPartition(f"a{number}", 0), ScriptedPartition([1], 1, 5)
            )
        elif what == CANCEL:
            cluster.cancel(name)
        elif cluster.partitions[name].copied:
            finish(cluster, name)
        cluster.now_ms += 1_000
        found = total(cluster, finished)
        if not any(state.copied for state in cluster.partitions.values()):
            assert found == Total()
            return
        assert found.share >= share
        share = found.share


def test_what_has_ended_counts_with_all_it_holds() -> None:
    cluster, finished = moves(), FinishedMoves()
    whole = total(cluster, finished).whole_bytes
    finish(cluster, TopicPartition("t", 2))
    assert total(cluster, finished).whole_bytes == whole
    # Without it, what was done would leave the total.
    assert total(cluster, FinishedMoves()).whole_bytes < whole


def test_a_batch_ends_when_nothing_moves_and_the_next_begins_at_nothing() -> None:
    cluster, finished = moves(), FinishedMoves()
    total(cluster, finished)
    for number in range(PARTITIONS):
        finish(cluster, TopicPartition("t", number))
    assert total(cluster, finished) == Total()
    begin(cluster, TopicPartition("t", 0))
    assert total(cluster, finished).done_bytes == 0


def test_an_operation_that_ends_does_not_take_what_it_copied_with_it() -> None:
    cluster, finished = incident(), FinishedMoves()
    operation = running_move(cluster)
    cluster.step(30)
    first = operation.partitions[0]
    finish(cluster, first)
    share = total(cluster, finished).share
    others = total_of(Facts(cluster.snapshot()), (), finished)
    assert others.share == pytest.approx(share)


def test_a_look_at_the_past_forgets_what_ended_after_it() -> None:
    cluster, finished = moves(), FinishedMoves()
    then = Facts(cluster.snapshot())
    at_first = total_of(then, (), finished)
    cluster.now_ms += 1_000
    finish(cluster, TopicPartition("t", 2))
    after = total(cluster, finished)
    assert after.share > at_first.share
    assert total_of(then, (), finished) == at_first
    assert total(cluster, finished) == after
