"""Sorting, groups, hints and courses of lags, without a screen: what holds whatever the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.text.formatting import duration_text
from kshunt.backend.domain.topics.configs import TopicConfig
from kshunt.backend.errors import ClusterUnreachable
from kshunt.tui.facts.filter_terms import EXAMPLES, WORDS, parse_filter
from kshunt.tui.facts.lag_history import LOOKED_AT_MOST, SAMPLES_MOST, LagHistory
from kshunt.tui.facts.replica_groups import AT_REST, GROUPINGS, OTHERS, GroupKey
from kshunt.tui.facts.row_keys import ReplicaKey
from kshunt.tui.facts.snapshot_facts import Facts, known_sum
from kshunt.tui.tables.model import LEVELS_MOST, NATURAL, Level, Order
from kshunt.tui.views.filter_hints import completed, hint_for
from kshunt.tui.views.partitions.group_table import GroupTable, group_table, partitions_of
from kshunt.tui.views.partitions.sorting import float_ranks, sorted_places
from kshunt.tui.views.partitions.topic_configs import (
    AGE_MOST_S,
    AGE_OF_FAILURE_S,
    TOPICS_CACHED,
    TopicConfigCache,
    TopicSettings,
)
from tests.support.tui.cluster import ScriptedCluster, incident, running_move
from tests.support.tui.tables import (
    SEEDS,
    facts_of,
    keys,
    partition_table,
    partitions,
    row_words,
    scrambled,
)

ORDERS = ReplicaKey("orders", 0, 5)


SORTABLE = [column.key for column in partitions(facts_of(incident())).columns if column.sortable]
LEVELS = st.lists(
    st.builds(Level, st.sampled_from(SORTABLE), st.booleans()),
    min_size=1,
    max_size=LEVELS_MOST,
    unique_by=lambda level: level.key,
)


# Sorting


@settings(deadline=None)
@given(SEEDS, LEVELS)
def test_sorting_by_several_columns_is_sorting_by_each_from_the_last(
    seed: int, levels: list[Level]
) -> None:
    facts = scrambled(seed)
    sorted_at_once = keys(partitions(facts, "", Order.of(levels)))
    assert set(sorted_at_once) == set(keys(partitions(facts)))
    by_one = {level: keys(partitions(facts, "", Order.of([level]))) for level in levels}
    # Where rows differ in no column before one, that column decides; in the end their own order.
    natural = keys(partitions(facts))
    for first, second in pairwise(sorted_at_once):
        for level in levels:
            if not _alike(facts, level, first, second):
                assert by_one[level].index(first) < by_one[level].index(second)
                break
        else:
            assert natural.index(first) < natural.index(second)


def _alike(facts: Facts, level: Level, first: object, second: object) -> bool:
    """Whether two rows keep their own order whichever way round they are sorted."""
    up, down = (keys(partitions(facts, "", Order(level.key, back))) for back in (False, True))
    return (up.index(first) < up.index(second)) == (down.index(first) < down.index(second))


@given(
    st.lists(
        st.tuples(st.integers(0, 2**44 - 1), st.integers(0, 2**44 - 1), st.integers(0, 2)),
        max_size=40,
    ),
    st.tuples(st.booleans(), st.booleans(), st.booleans()),
)
def test_wide_values_are_sorted_as_python_does(
    rows: list[tuple[int, int, int]], backwards: tuple[bool, bool, bool]
) -> None:
    columns = [np.array([row[place] for row in rows], np.int64) for place in range(3)]
    found = sorted_places(list(zip(columns, backwards, strict=True)), len(rows))
    signs = [-1 if back else 1 for back in backwards]
    wanted = sorted(
        range(len(rows)),
        key=lambda n: (*(sign * value for sign, value in zip(signs, rows[n], strict=True)), n),
    )
    assert found.tolist() == wanted


def test_columns_that_need_more_bits_together_than_a_key_has_sort_one_by_one() -> None:
    large = 2**29
    columns = [np.array(values) for values in ([0, large, large, 0], [large, 0, 0, large])]
    third, fourth = np.array([1, large, 0, 0]), np.array([0, 0, large, 1])
    levels = [(ranks, False) for ranks in (*columns, third, fourth)]
    assert sorted_places(levels, 4).tolist() == [3, 0, 2, 1]


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=2, max_size=30))
def test_ranks_of_floats_sort_as_the_floats(values: list[float]) -> None:
    ranks = float_ranks(np.array(values, np.float32), unknown=-1.0)
    assert ranks.min() >= 0
    for (a, one), (b, other) in pairwise(sorted(zip(values, ranks.tolist(), strict=True))):
        assert one == other if a == b else one < other


def test_an_order_takes_three_columns_and_turns_one_that_it_has() -> None:
    order = NATURAL.adding("broker", False).adding("lag_bytes", True)
    assert order.levels == (("broker", False), ("lag_bytes", True))
    assert order.adding("broker", False).levels == (("broker", True), ("lag_bytes", True))
    full = order.adding("eta", True).adding("size", True)
    assert [level.key for level in full.levels] == ["broker", "lag_bytes", "size"]
    assert full.without("broker").without("lag_bytes").levels == (("size", True),)
    assert NATURAL.without("size") == NATURAL == Order.of([])


# Groups


def groups(
    facts: Facts,
    kind: str,
    text: str = "",
    order: Order = NATURAL,
    operations: Sequence[object] = (),
) -> GroupTable:
    """The partitions view by groups."""
    return group_table(facts, parse_filter(text), order, False, kind, operations)  # type: ignore[arg-type]


@settings(deadline=None)
@given(SEEDS, st.sampled_from(GROUPINGS), st.sampled_from(["", "moving", "behind:>1", "-stuck"]))
def test_groups_add_up_to_what_is_not_grouped(seed: int, kind: str, text: str) -> None:
    facts = scrambled(seed)
    table, flat = groups(facts, kind, text), partitions(facts, text)
    shown = [facts_row(facts, key) for key in keys(flat)]
    rows, sums = facts.rows, table.sums
    behind = [p for p in shown if facts.behind[p] and rows.leader[p] != rows.broker[p]]
    assert int(sums.replicas.sum()) == table.replicas == len(flat)
    assert int(sums.behind.sum()) == len(behind)
    assert int(sums.stuck.sum()) == int(facts.stuck[shown].sum()) if shown else True
    known, unknown = known_sum(rows.lag_bytes[behind])
    assert int(sums.lag_bytes[sums.lag_bytes > 0].sum()) == max(known, 0)
    assert int(sums.lag_unknown.sum()) == unknown
    sizes = [int(rows.size_bytes[p]) for p in shown]
    assert int(sums.size_bytes[sums.size_bytes > 0].sum()) == sum(
        size for size in sizes if size > 0
    )


def facts_row(facts: Facts, key: object) -> int:
    """A replica's place in the snapshot."""
    assert isinstance(key, ReplicaKey)
    places = facts.rows_of(key.topic, key.partition)
    return next(place for place in places if facts.rows.broker[place] == key.broker)


@settings(deadline=None)
@given(SEEDS, st.sampled_from(GROUPINGS), st.sampled_from(["", "moving", "broker:3,5"]))
def test_an_opened_group_holds_the_rows_that_it_counts(seed: int, kind: str, text: str) -> None:
    facts, terms = scrambled(seed), parse_filter(text)
    table = groups(facts, kind, text)
    for row in range(len(table)):
        key = table.key_of(row)
        inside = partition_table(facts, terms, NATURAL, False, (), key)
        assert len(inside) == table.sums.replicas[table.shown[row]] > 0
        assert inside.row_of(key) == 0
        assert all(table.row_of(replica) == row for replica in keys(inside))
        named_partitions = {TopicPartition(one[0], one[1]) for one in keys(inside)}  # type: ignore[index]
        assert partitions_of(facts, terms, False, [key], ()) == named_partitions


@settings(deadline=None)
@given(SEEDS, st.sampled_from(GROUPINGS), st.booleans())
def test_groups_sort_without_losing_one(seed: int, kind: str, reverse: bool) -> None:
    facts = scrambled(seed)
    natural = keys(groups(facts, kind))
    for column in groups(facts, kind).columns:
        found = groups(facts, kind, "", Order(column.key, reverse))
        assert sorted(map(str, keys(found))) == sorted(map(str, natural))
        assert all(found.row_of(found.key_of(row)) == row for row in range(len(found)))


def test_a_groups_eta_is_that_of_its_last_replica() -> None:
    cluster = incident()
    operation = running_move(cluster)
    facts = facts_of(cluster, 5.0)
    table = groups(facts, "operation", "adding", operations=[operation])
    assert keys(table) == [GroupKey("operation", "op-1")]
    summary, place = facts.summary, int(table.shown[0])
    last_s = float(facts.rows.eta_s[facts.rows.adding].max())
    assert table.sums.eta_s[place] == pytest.approx(last_s)
    assert row_words(table, 0, 30)["eta"] == duration_text(last_s)
    assert table.sums.moving[place] == summary.moving_replicas


def test_one_replica_that_never_arrives_does_not_hide_the_others() -> None:
    cluster = incident()
    cluster.growing = {2}
    table = groups(facts_of(cluster, 5.0), "topic", "adding", Order("eta", reverse=True))
    words = row_words(table, 0, 30)
    assert words["group"].startswith("clickstream")
    assert words["eta"].endswith(", 1 never")
    assert row_words(table, 0, 13)["eta"].endswith("+1never")
    assert row_words(table, 0, 6)["eta"] == "never"


def test_moves_of_somebody_else_are_a_group_of_their_own() -> None:
    cluster = incident()
    facts = facts_of(cluster)
    assert keys(groups(facts, "operation")) == [
        GroupKey("operation", OTHERS),
        GroupKey("operation", AT_REST),
    ]
    said = [row_words(groups(facts, "operation"), row)["group"] for row in (0, 1)]
    assert said == ["not ours", "no operation"]
    operation = running_move(cluster)
    owned = partition_table(facts, parse_filter("op:OP-1"), NATURAL, False, [operation])
    assert len(owned) == 24
    assert not len(partition_table(facts, parse_filter("op:1f"), NATURAL, False, [operation]))


def test_an_empty_cluster_has_no_groups() -> None:
    facts = facts_of(ScriptedCluster.of(0, {}))
    for kind in GROUPINGS:
        assert len(groups(facts, kind, "", Order("lag_bytes"))) == 0


# The filter line


@pytest.mark.parametrize(
    ("text", "words", "completions"),
    [
        ("", "topic:pay*", ()),
        ("b", "broker:3  behind:>1000  behind", ("broker:", "behind:", "behind")),
        ("pay -st", "stale  stuck", ("-stale", "-stuck")),
        ("stu", "stuck: cannot arrive", ("stuck",)),
        ("eta:", "eta:never", ()),
        ("op:", "op:1f3a", ("op:op-1", "op:op-2")),
        ("topic:or", "topic:orders", ("topic:orders",)),
        ("colour:", "no such field", ()),
        ("zzz", "topics with 'zzz' in their name", ()),
    ],
)
def test_hints_say_what_can_be_typed_next(
    text: str, words: str, completions: tuple[str, ...]
) -> None:
    hint = hint_for(text, ("op-1", "op-2"), ("audit-log", "orders"))
    assert words in hint.words
    assert hint.completions == completions


@pytest.mark.parametrize(
    ("text", "longer"),
    [("stu", "stuck "), ("x b", "x b"), ("pay br", "pay broker:"), ("be", "behind"), ("zz", "zz")],
)
def test_completion_goes_as_far_as_what_fits_agrees(text: str, longer: str) -> None:
    found = completed(text, hint_for(text))
    assert found == longer or found.startswith(longer)


@given(st.text("abemorstu: -", max_size=12))
def test_a_completed_line_begins_as_it_was_typed(text: str) -> None:
    found = completed(text, hint_for(text, ("op-1",), ("orders",)))
    kept = text[: len(text) - len(text.split()[-1])] if text and not text[-1].isspace() else text
    assert found.startswith(kept)


def test_every_example_can_be_typed() -> None:
    for example in (*EXAMPLES.values(), *WORDS, "eta:never", "eta:>1d2h3m4s", "-rate:<=1.5MB/s"):
        assert len(parse_filter(example)) == 1


# Details


def test_the_course_of_a_lag_is_kept_within_bounds() -> None:
    cluster, history = incident(), LagHistory()
    for _ in range(SAMPLES_MOST + 20):
        history.take(Facts(cluster.step(1.0)))
    samples = history.samples(ORDERS)
    assert len(samples) == SAMPLES_MOST
    assert all(one.at_ms < other.at_ms for one, other in pairwise(samples))
    assert all(one.lag_bytes >= other.lag_bytes for one, other in pairwise(samples))
    assert history.samples(("orders", 0, 2)) == ()
    for number in range(LOOKED_AT_MOST + 5):
        history.look_at(("orders", number % 6, 1 + number % 5))
    history.take(Facts(cluster.step(1.0)))
    assert len(history.samples(("orders", 0, 2))) <= 1


def test_going_back_in_time_forgets_what_comes_later() -> None:
    cluster, history = incident(), LagHistory()
    snapshots = [cluster.step(1.0) for _ in range(6)]
    for snapshot in snapshots:
        history.take(Facts(snapshot))
    history.take(Facts(snapshots[2]))
    assert [one.at_ms for one in history.samples(ORDERS)] == [s.taken_ms for s in snapshots[:3]]
    other = replace(snapshots[5], cluster_id="another")
    history.take(Facts(other))
    assert len(history.samples(ORDERS)) == 1


async def test_settings_of_topics_are_asked_once_and_again_when_they_are_old() -> None:
    asked: list[str] = []
    now = [0.0]

    async def ask(question: object) -> tuple[TopicConfig, ...]:
        asked.append("orders")
        return (TopicConfig("a", "1", "DYNAMIC_TOPIC_CONFIG", is_default=False),)

    configs = TopicConfigCache(ask, lambda: now[0])
    assert configs.wants("orders")
    assert TopicSettings(*configs.known("orders")).words == "asking"
    await configs.fetch("orders")
    assert not configs.wants("orders")
    assert TopicSettings(*configs.known("orders")).words == "a=1"
    now[0] = 61.0
    assert configs.wants("orders")
    configs.forget()
    assert configs.known("orders") == (None, "")


async def test_settings_that_failed_are_asked_again_sooner_than_those_that_came() -> None:
    now, fails = [0.0], [True]

    async def ask(question: object) -> tuple[TopicConfig, ...]:
        if fails[0]:
            raise ClusterUnreachable("No broker answers.")
        return ()

    configs = TopicConfigCache(ask, lambda: now[0])
    await configs.fetch("orders")
    assert configs.known("orders") == (None, "No broker answers.")
    now[0] = AGE_OF_FAILURE_S
    assert not configs.wants("orders")
    now[0] = AGE_OF_FAILURE_S + 0.1
    assert configs.wants("orders")
    fails[0] = False
    await configs.fetch("orders")
    now[0] += AGE_MOST_S
    assert not configs.wants("orders")
    now[0] += 0.1
    assert configs.wants("orders")


async def test_the_settings_of_many_topics_push_out_the_oldest() -> None:
    async def ask(question: object) -> tuple[TopicConfig, ...]:
        return ()

    configs = TopicConfigCache(ask, lambda: 0.0)
    for number in range(TOPICS_CACHED):
        await configs.fetch(f"t{number}")
    await configs.fetch("t0")
    await configs.fetch("new")
    assert [topic for topic in ("t0", "t1", "t2", "new") if configs.wants(topic)] == ["t1"]


def test_settings_name_what_differs_from_the_defaults() -> None:
    topic = TopicConfig("retention.ms", "1000", "DYNAMIC_TOPIC_CONFIG", is_default=False)
    broker = TopicConfig("a.b", None, "STATIC_BROKER_CONFIG", is_default=False)
    shipped = TopicConfig("z", "1", "DEFAULT_CONFIG", is_default=True)
    words = TopicSettings((broker, shipped, topic)).words
    assert words == "retention.ms=1000, a.b=(hidden) (broker)"
    assert TopicSettings((shipped,)).words == "nothing differs from Kafka's defaults"
