"""What the grid shows, without a screen: columns that fit, filters, sort orders, sums, words."""

import math
from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual.app import App, ComposeResult
from textual.geometry import Region

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.operation import OperationKind, OperationState
from kshunt.backend.domain.reassignment.answers import ChangeAnswer, Result
from kshunt.backend.domain.replicas.snapshot import Replicas, ReplicaStatus, Snapshot
from kshunt.backend.domain.throttles.configs import ReplicaSet, ThrottledRate, ThrottledReplicas
from kshunt.backend.errors import BadInput
from kshunt.tui.changes.wizard.answer_table import answer_table, headline
from kshunt.tui.facts.filter_terms import (
    ABOUT_FIELDS,
    EXAMPLES,
    FIELDS,
    WORDS,
    comparison_of,
    parse_filter,
)
from kshunt.tui.facts.row_keys import ListRowKey, RateRowKey, ReplicaKey
from kshunt.tui.facts.snapshot_facts import Facts
from kshunt.tui.grid.grid import Grid
from kshunt.tui.tables.model import GAP, Column, Order, fit_columns
from kshunt.tui.text.glyphs import ASCII
from kshunt.tui.views.brokers.table import broker_table
from kshunt.tui.views.operations.table import operation_table
from kshunt.tui.views.partitions.table import sorted_rows
from kshunt.tui.views.throttles.table import (
    BEFORE,
    ThrottleRow,
    ThrottleTable,
    orphan_hint,
    throttle_table,
)
from kshunt.tui.views.throttles.table import FIELDS as THROTTLE_FIELDS
from tests.support.tui.cluster import ScriptedCluster, incident
from tests.support.tui.tables import facts_of, keys, partitions, row_words

CLICKS = "clickstream-web-sessions-eu-west-1"
PAYMENTS = "payments.transactions.settled.v2"


COLUMNS = st.lists(
    st.builds(
        Column,
        key=st.text("abcdef", min_size=1, max_size=4),
        title=st.just("T"),
        width=st.integers(1, 20),
        wide=st.integers(0, 40),
        priority=st.integers(0, 5),
        grows=st.booleans(),
        comfort=st.integers(0, 30),
        extra=st.booleans(),
    ),
    min_size=1,
    max_size=12,
    unique_by=lambda column: column.key,
).filter(lambda columns: not columns[0].extra)


@given(COLUMNS, st.integers(1, 250))
def test_columns_fit_whatever_the_width(columns: list[Column], width: int) -> None:
    placed = fit_columns(columns, width)
    needed = sum(room for _, room in placed) + GAP * (len(placed) - 1)
    assert needed <= max(width, 1)
    assert columns[0] in [column for column, _ in placed]
    assert all(room >= column.width for column, room in placed) or len(placed) == 1
    assert [c for c, _ in placed] == [c for c in columns if c in [c for c, _ in placed]]


@given(COLUMNS, st.integers(1, 250))
def test_the_least_important_column_goes_first(columns: list[Column], width: int) -> None:
    shown = {column.key for column, _ in fit_columns(columns, width)}
    plain = [column for column in columns[1:] if not column.extra]
    dropped = [column.priority for column in plain if column.key not in shown]
    kept = [column.priority for column in plain if column.key in shown]
    assert not dropped or not kept or min(dropped) >= max(kept)


@given(COLUMNS, st.integers(1, 250), st.data())
def test_a_column_grows_no_further_than_its_longest_text(
    columns: list[Column], width: int, data: st.DataObject
) -> None:
    needs = {column.key: data.draw(st.integers(0, 40)) for column in columns}
    placed = fit_columns(columns, width, needs)
    for column, room in placed:
        if column.grows and len(placed) > 1:
            assert room <= max(needs[column.key], column.width)


def test_what_one_column_does_not_need_is_for_another() -> None:
    columns = [
        Column("name", "Name", 10, 80, grows=True, comfort=30),
        Column("note", "Note", 10, 80, 1, grows=True, comfort=20),
    ]
    assert [room for _, room in fit_columns(columns, 81)] == [40, 40]
    assert [room for _, room in fit_columns(columns, 81, {"name": 14, "note": 70})] == [14, 66]


def test_the_partitions_view_shows_all_that_matters_at_80_columns() -> None:
    placed = fit_columns(partitions(facts_of(incident())).columns, 78)
    assert [column.key for column, _ in placed] == [
        "topic",
        "partition",
        "broker",
        "role",
        "status",
        "lag_messages",
        "lag_bytes",
        "rate",
        "eta",
        "throttled",
    ]


def test_status_is_said_in_the_words_of_kip_179() -> None:
    cluster = incident()
    cluster.silent_lag = {5}
    cluster.down = {3: "connection refused"}
    table = partitions(facts_of(cluster))
    said = {row_words(table, row)["status"] for row in range(len(table))}
    assert said == {"In sync", "Lag unknown", "Offline", "Behind: 4875617 messages behind"}
    short = {row_words(table, row, 11)["status"] for row in range(len(table))}
    assert short == {"In sync", "Lag unknown", "Offline", "Behind"}


def test_what_is_unknown_is_never_shown_as_0() -> None:
    cluster = incident()
    cluster.silent_lag = {5}
    facts = facts_of(cluster)
    table = partitions(facts, "broker:5 adding")
    assert len(table) > 0
    for row in range(len(table)):
        words = row_words(table, row)
        assert {words[k] for k in ("lag_messages", "lag_bytes", "rate", "eta", "size")} == {"?"}
    broker = row_words(broker_table(facts, Order()), 4)
    assert broker["broker"] == "5"
    assert (broker["lag_in"], broker["rate_in"]) == ("?", "?")
    assert facts.summary.end is not None
    assert facts.summary.remaining_unknown == facts.summary.end.unknown == len(table)


def test_falling_behind_has_no_eta_but_words() -> None:
    cluster = incident()
    cluster.growing = {5}
    table = partitions(facts_of(cluster), "broker:5 adding", Order("eta", reverse=True))
    assert row_words(table, 0)["eta"] == "not at this rate"
    assert row_words(table, 0, 6)["eta"] == "never"
    assert row_words(table, 0)["rate"].startswith("-")


def test_roles_leaders_and_throttled_sides() -> None:
    table = partitions(facts_of(incident()), "topic:orders partition:0")
    rows = {key: row_words(table, row) for row, key in enumerate(keys(table))}
    assert rows[ReplicaKey("orders", 0, 5)]["role"] == "adding"
    assert rows[ReplicaKey("orders", 0, 5)]["throttled"] == "F"
    assert rows[ReplicaKey("orders", 0, 2)]["broker"] == "2*"
    present = [words["role"] for words in rows.values() if words["throttled"] == "L"]
    assert sorted(present) == ["follower", "leader", "removing"]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 96),
        ("orders", 20),
        ("ORDERS", 20),
        ("topic:order*", 20),
        ("topic:rders", 0),
        ("moving", 24),
        ("-moving", 72),
        ("adding", 6),
        ("adding broker:5", 3),
        ("adding broker:3,5", 5),
        ("adding behind:>1k", 6),
        ("adding behind:<1", 0),
        ("adding lag:>100GB", 0),
        ("size:>=400MB -moving", 72),
        ("orders partition:0 leader", 1),
        ("offline", 0),
        ("throttled -adding", 18),
        ("misled", 1),
        ("stuck", 0),
        ("stale", 0),
        ("leader:2 adding", 2),
        ("eta:>1s", 6),
        ("eta:<1h30m -eta:<1s", 6),
        ("eta:never", 0),
        ("rate:>1MB/s", 6),
        ("rate:>1GB", 0),
    ],
)
def test_filters(text: str, count: int) -> None:
    assert len(partitions(facts_of(incident(), 1.0), text)) == count


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("colour:red", "'colour:' is not a filter"),
        ("broker:x", "'x' is not a list of ids"),
        ("broker:", "'broker:' needs a value"),
        ("behind:many", "'many' is not a comparison"),
        ("behind:>", "not a comparison"),
        ("eta:soon", "'soon' is not a comparison"),
        ("eta:>", "not a comparison"),
        ("leader:all", "'all' is not a list of ids"),
        ("rate:>1m/s/s", "not a comparison"),
        ("op:", "'op:' needs a value"),
    ],
)
def test_a_filter_that_cannot_be_meant_is_refused_with_an_example(text: str, part: str) -> None:
    with pytest.raises(BadInput, match=part) as refusal:
        parse_filter(f"orders {text}")
    assert refusal.value.advice


# A busy machine takes its time; what is tested is the answer.
@settings(deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_a_filter_or_refused(text: str) -> None:
    facts = facts_of(incident())
    try:
        table = partitions(facts, text)
    except BadInput:
        return
    assert 0 <= len(table) <= len(facts.rows)


@settings(deadline=None)
@given(st.sampled_from([*WORDS, "orders", "broker:4", "behind:>1k"]))
def test_a_term_and_its_opposite_share_the_rows(term: str) -> None:
    facts = facts_of(incident())
    both = set(keys(partitions(facts, term))) | set(keys(partitions(facts, f"-{term}")))
    assert len(both) == len(facts.rows)
    assert not set(keys(partitions(facts, f"{term} -{term}")))


def test_every_field_has_an_example_that_it_takes() -> None:
    for field in FIELDS:
        assert parse_filter(EXAMPLES[field])[0].field == field
        assert ABOUT_FIELDS[field]


SORTABLE = [c.key for c in partitions(facts_of(incident())).columns if c.sortable]


@pytest.mark.parametrize("key", ["", *SORTABLE])
@pytest.mark.parametrize("reverse", [False, True])
def test_every_sort_order_keeps_every_row_and_is_the_same_twice(key: str, reverse: bool) -> None:
    facts = facts_of(incident())
    table = partitions(facts, "", Order(key, reverse))
    assert sorted(map(str, keys(table))) == sorted(map(str, keys(partitions(facts))))
    assert keys(table) == keys(partitions(facts, "", Order(key, reverse)))
    assert all(table.row_of(table.key_of(row)) == row for row in range(len(table)))


def test_ties_stay_in_the_order_of_topic_and_partition() -> None:
    facts = facts_of(incident())
    natural = keys(partitions(facts))
    for reverse in (False, True):
        settled = keys(partitions(facts, "-moving", Order("lag_bytes", reverse)))
        assert settled == [key for key in natural if key in set(settled)]


def test_the_furthest_behind_comes_first_and_unknown_before_none() -> None:
    cluster = incident()
    cluster.silent_lag = {5}
    table = partitions(facts_of(cluster), "", Order("lag_bytes", reverse=True), follow=True)
    lags = [row_words(table, row)["lag_bytes"] for row in range(len(table))]
    known = [lag for lag in lags if lag not in ("?", "-", "0 B")]
    assert lags[: len(known)] == known
    assert lags[len(known)] == "?"
    assert lags[-1] in ("0 B", "-")


def test_a_row_that_is_gone_is_nowhere() -> None:
    table = partitions(facts_of(incident()), "orders")
    assert table.row_of(ReplicaKey(CLICKS, 0, 5)) is None
    assert table.row_of(ReplicaKey("orders", 99, 1)) is None
    assert table.row_of(ReplicaKey("no-such-topic", 0, 1)) is None


def test_the_summary_adds_up() -> None:
    cluster = incident()
    facts = facts_of(cluster, 2.0)
    summary = facts.summary
    assert summary.moving_partitions == summary.moving_replicas == 6
    assert summary.remaining_bytes == cluster.history[-1].remaining_bytes
    assert summary.rate_bytes_per_s == pytest.approx(75_000_000)
    assert summary.end is not None
    assert (summary.end.copies, summary.never) == (6, 0)
    assert len(facts.moving_partitions) == 6
    assert facts.replicas_of(TopicPartition("orders", 0)) == (2, 3, 5, 4)
    assert facts.replicas_of(TopicPartition("orders", 42)) == ()


def test_an_empty_cluster_is_no_error() -> None:
    facts = facts_of(ScriptedCluster.of(0, {}))
    assert len(partitions(facts, "moving", Order("lag_bytes"), follow=True)) == 0
    assert len(broker_table(facts, Order())) == 0
    assert facts.summary.moving_partitions == 0
    assert facts.moving_partitions == ()


def test_brokers_count_what_comes_in_and_goes_out() -> None:
    cluster = incident()
    facts = facts_of(cluster, 1.0)
    table = broker_table(facts, Order("broker"))
    rows = {row: row_words(table, row) for row in range(len(table))}
    assert sum(int(words["moving_in"]) for words in rows.values()) == 6
    assert [rows[place]["moving_in"] for place in range(5)] == ["0", "1", "2", "0", "3"]
    assert [rows[place]["moving_out"] for place in range(5)] == ["1", "2", "0", "3", "0"]
    assert rows[4]["lag_in"] == "24.8 GB"
    assert (rows[4]["rate_in"], rows[4]["rate_out"]) == ("25.0 MB/s", "-")
    assert rows[2]["leader_rate"] == rows[3]["follower_rate"] == "25.0 MB/s"
    assert rows[0]["state"] == "up, controller"
    assert rows[0]["disk"].endswith("%")
    assert row_words(table, 0, 4)["state"] == "up"


def test_a_silent_broker_says_since_when_and_why() -> None:
    cluster = incident()
    cluster.down = {2: "connection refused"}
    words = row_words(broker_table(facts_of(cluster), Order()), 1)
    assert words["state"] == "stale 12s: connection refused"
    assert words["leader_rate"] == words["follower_rate"] == "?"


def test_throttles_list_brokers_then_topics() -> None:
    table = throttle_table(facts_of(incident()), Order())
    assert BEFORE not in {column.key for column in table.columns}, "nothing is ours"
    assert keys(table)[:5] == [RateRowKey(id) for id in range(1, 6)]
    assert keys(table)[5:] == [ListRowKey(topic) for topic in (CLICKS, "orders", PAYMENTS)]
    assert row_words(table, 0)["leader"] == "25.0 MB/s"
    assert row_words(table, 6)["follower"] == "0:5,2:3"


def test_throttles_that_outlive_their_move_are_pointed_out() -> None:
    cluster = ScriptedCluster.of(3, {"orders": 3})
    assert orphan_hint(facts_of(cluster)) == ""
    cluster.rates = {1: ThrottledRate(5_000_000, None)}
    cluster.lists = {"orders": ThrottledReplicas(ReplicaSet(everything=True), ReplicaSet())}
    facts = facts_of(cluster)
    hint = orphan_hint(facts)
    assert "rates on 1 broker and replica lists on 1 topic" in hint
    table = throttle_table(facts, Order())
    assert row_words(table, 0)["note"] == row_words(table, 3)["note"] == "left over: nothing moves"
    assert row_words(table, 3)["leader"] == "* (all)"
    cluster.lists = {}
    assert "rates on 1 broker." in orphan_hint(facts_of(cluster))


def test_replicas_of_unknown_size_sort_before_empty_ones() -> None:
    facts = facts_of(incident())
    sizes = facts.rows.size_bytes.copy()
    sizes[:3] = (0, -1, 1)
    rows = replace(facts.rows, size_bytes=sizes)
    found = sorted_rows(Facts(replace(facts.snapshot, replicas=rows)), np.arange(3), Order("size"))
    assert found.tolist() == [1, 0, 2]


@pytest.mark.parametrize(
    ("term", "comparison"),
    [
        ("lag:1kB", (">=", 1_000.0)),
        ("lag:>1.5GB", (">", 1_500_000_000.0)),
        ("behind:=0", ("=", 0.0)),
        ("rate:<=2M", ("<=", 2_000_000.0)),
        ("eta:90", (">=", 90.0)),
        ("eta:<1d2h3m4s", ("<", 93_784.0)),
        ("eta:never", ("=", math.inf)),
    ],
)
def test_a_bound_without_a_sign_is_at_least_that(term: str, comparison: tuple[str, float]) -> None:
    (found,) = parse_filter(term)
    assert comparison_of(found) == comparison


ORDERS = ("52431", "15342", "24513", "43125", "31254")
"""By row, a digit for each column: each column has another order."""


def test_each_column_of_throttles_sorts_by_what_it_shows() -> None:
    words = ("what", "leader", "follower", "owner", "before", "note")
    rows: dict[Hashable, ThrottleRow] = {
        RateRowKey(number): ThrottleRow(
            *(f"broker {number}", (0, number, ""), f"leader {b}", f"follower {c}"),
            note=f"note {f}",
            owner=f"owner {d}",
            before=f"before {e}",
        )
        for number, (b, c, d, e, f) in enumerate(map(tuple, ORDERS))
    }
    for key in words:
        table = ThrottleTable(THROTTLE_FIELDS, rows, Order(key))
        found = [row_words(table, row)[key] for row in range(len(table))]
        assert found == sorted(found), key
        table = ThrottleTable(THROTTLE_FIELDS, rows, Order(key, reverse=True))
        assert [row_words(table, row)[key] for row in range(len(table))] == found[::-1], key


def test_operations_that_run_come_first_and_then_the_newest() -> None:
    cluster = incident()
    facts, failed = facts_of(cluster), OperationState.FAILED
    cluster.note(OperationKind.REASSIGN, "oldest", throttle_bytes_per_s=5_000_000, who="ada@b")
    for word in ("older", "newer"):
        cluster.now_ms += 60_000
        cluster.note(OperationKind.CANCEL, word, state=failed, outcome=f"no quorum, {word}")
    operations = tuple(cluster.operations.values())
    table = operation_table(facts, operations, cluster.now_ms + 5_000, Order())
    assert keys(table) == ["op-1", "op-3", "op-2"]
    oldest = row_words(table, 0)
    assert (oldest["age"], oldest["throttle"], oldest["who"]) == ("2m05s", "5.00 MB/s", "ada@b")
    assert row_words(table, 1)["outcome"] == "no quorum, newer"


def answer(results: Iterable[Result], *, validate_only: bool = False) -> ChangeAnswer:
    """An answer with these results."""
    return ChangeAnswer(validate_only=validate_only, operation_id=None, results=tuple(results))


def test_failures_come_first_in_kafkas_names() -> None:
    results = [
        Result("a-0", 0, "NONE", ""),
        Result("a-1", 84, "ELECTION_NOT_NEEDED", ""),
        Result("a-2", 39, "INVALID_REPLICA_ASSIGNMENT", "Broker 9 is unknown."),
    ]
    table = answer_table(answer(results), {"a-0": "1,2 → 2,3"})
    assert row_words(table, 0)["words"] == "INVALID_REPLICA_ASSIGNMENT: Broker 9 is unknown."
    assert row_words(table, 1) == {"item": "a-0", "change": "1,2 → 2,3", "words": "done"}
    assert row_words(table, 2)["words"] == "already led by its preferred replica"
    assert headline(answer(results)) == ("2 of 3 done, 1 failed", "bad")
    assert headline(answer(results[:2], validate_only=True)) == ("all 2 would succeed", "good")
    assert headline(answer(results[:1])) == ("done", "good")
    waiting = replace(answer(results[:2]), waiting=2)
    assert headline(waiting) == ("all 2 accepted", "good")
    assert headline(answer([])) == ("there is nothing to do", "warn")


def test_a_large_table_is_sorted_and_filtered_without_touching_rows_one_by_one() -> None:
    """The arrays do the work: 200,000 rows in well under the deadline of Hypothesis' default."""
    count = 66_000
    cluster = ScriptedCluster.of(6, {"t": 1})
    snapshot = cluster.step()
    repeat = np.arange(count * 3) % 3
    columns = {
        name: np.take(getattr(snapshot.replicas, name), repeat)
        for name in snapshot.replicas.__dataclass_fields__
    }
    columns["partition"] = np.repeat(np.arange(count, dtype=np.int32), 3)
    columns["lag_bytes"] = (np.arange(count * 3, dtype=np.int64) * 7919) % 1_000_003
    facts = Facts(_with_columns(snapshot, columns))
    table = partitions(facts, "t", Order("lag_bytes", reverse=True))
    assert len(table) == count * 3
    assert table.row_of(table.key_of(150_000)) == 150_000
    assert math.isnan(float(facts.rows.eta_s[0])) or facts.rows.status[0] == ReplicaStatus.IN_SYNC


def _with_columns(snapshot: Snapshot, columns: dict[str, Any]) -> Snapshot:
    return replace(snapshot, replicas=Replicas(**columns))


async def test_a_table_that_has_no_styles_yet_is_blank() -> None:
    """A table may be painted between being mounted and being styled; that ended the dashboard."""

    class Shell(App[None]):
        def compose(self) -> ComposeResult:
            yield Grid(glyphs=ASCII)

    async with Shell().run_test() as pilot:
        grid = pilot.app.query_one(Grid)
        grid._component_styles.clear()
        (line,) = grid.render_lines(Region(0, 0, 20, 1))
        assert line.text == " " * 20
