"""The topics view: what each topic holds, takes and lacks; the way into its replicas and back."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.replicas.snapshot import UNKNOWN
from kshunt.backend.domain.throttles.configs import LEADER_REPLICAS
from kshunt.backend.domain.topics.configs import TopicConfig
from kshunt.tui.dialogs.help import HelpScreen
from kshunt.tui.dialogs.row_details import RowDetailsScreen
from kshunt.tui.facts.cockpit.traffic import traffic_of
from kshunt.tui.facts.filter_terms import parse_filter
from kshunt.tui.facts.health import health_of
from kshunt.tui.facts.replica_groups import TOPIC, GroupKey, groups_of
from kshunt.tui.facts.snapshot_facts import Facts
from kshunt.tui.tables.model import NATURAL, Order
from kshunt.tui.text.glyphs import ASCII
from kshunt.tui.views.partitions.topic_configs import TopicSettings
from kshunt.tui.views.topics.columns import ranks_of
from kshunt.tui.views.topics.details import about
from kshunt.tui.views.topics.screen import TopicsScreen
from kshunt.tui.views.topics.table import TopicTable, topic_table
from kshunt.tui.views.topics.topic_sums import TopicSums, topic_sums
from tests.support.tui.app import SIZES, Shown, check_frame, dashboard, named
from tests.support.tui.cluster import ScriptedCluster, eventful, incident
from tests.support.tui.tables import SEEDS, facts_of, keys, row_words, scrambled

ORDERS = GroupKey(TOPIC, "orders")


@pytest.fixture
async def shown(tmp_path: Path) -> AsyncIterator[Shown]:
    """The dashboard during a throttled move, in the topics view at 80x24."""
    async with dashboard(tmp_path / "s", eventful(), start_view="topics") as running:
        yield running


@pytest.fixture(params=SIZES)
async def sized(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shown]:
    """The topics view at each size."""
    folder = tmp_path / "s"
    size = SIZES[request.param]
    async with dashboard(folder, eventful(), size=size, start_view="topics") as running:
        yield running


def topics(facts: Facts, text: str = "", order: Order = NATURAL) -> TopicTable:
    """The topics view."""
    return topic_table(facts, parse_filter(text), order)


def names(table: TopicTable) -> list[str]:
    """The topics in the order of the screen."""
    return [key.name for key in keys(table) if isinstance(key, GroupKey)]


def sums_of_topics(facts: Facts) -> TopicSums:
    return topic_sums(facts, groups_of(facts, TOPIC))


def words_of(facts: Facts, topic: str, width: int = 14) -> dict[str, str]:
    """What the row of a topic says."""
    table = topics(facts)
    return row_words(table, names(table).index(topic), width)


def with_rows(facts: Facts, **columns: object) -> Facts:
    """The snapshot with other columns."""
    changed = replace(facts.rows, **columns)  # type: ignore[arg-type]
    return Facts(replace(facts.snapshot, replicas=changed))


def with_min_isr(facts: Facts, least: int) -> Facts:
    """The snapshot of a cluster on which every topic has this min.insync.replicas."""
    topics = facts.snapshot.topics
    return Facts(replace(facts.snapshot, min_isr=(least,) * len(topics)))


# What topics say adds up to what the cluster says


@settings(deadline=None)
@given(SEEDS)
def test_topics_add_up_to_the_cluster(seed: int) -> None:
    facts = with_min_isr(scrambled(seed), 2)
    sums, health, traffic = sums_of_topics(facts), health_of(facts), traffic_of(facts)
    assert int(sums.partitions.sum()) == health.partitions
    assert int(sums.under_replicated.sum()) == health.under_replicated
    assert int(sums.under_min_isr.sum()) == health.under_min_isr
    assert int(sums.at_min_isr.sum()) == health.at_min_isr
    assert int(sums.moving_partitions.sum()) == facts.summary.moving_partitions
    assert np.nansum(sums.written_bytes_per_s) == pytest.approx(
        0 if math.isnan(traffic.rate_bytes_per_s) else traffic.rate_bytes_per_s
    )


@settings(deadline=None)
@given(SEEDS)
def test_a_skew_is_never_below_an_even_share(seed: int) -> None:
    facts = scrambled(seed)
    sums = sums_of_topics(facts)
    for skew in (sums.leader_skew, sums.size_skew):
        assert (skew[~np.isnan(skew)] >= 1 - 1e-9).all()
    assert (np.isnan(sums.size_skew) | (sums.size_unknown == 0)).all()


@settings(deadline=None)
@given(SEEDS)
def test_every_column_that_can_be_sorted_sorts_all_topics(seed: int) -> None:
    facts = with_min_isr(scrambled(seed), 2)
    table = topics(facts)
    for column in table.columns:
        ranks = ranks_of(table.sums, column.key)
        up, down = (topics(facts, "", Order(column.key, back)) for back in (False, True))
        assert sorted(names(up)) == sorted(names(down)) == sorted(names(table))
        assert (np.diff(ranks[up.shown]) >= 0).all(), column.key
        assert (np.diff(ranks[down.shown]) <= 0).all(), column.key


# What a row says


def test_what_is_written_is_unknown_where_no_leader_says() -> None:
    facts = facts_of(incident())
    rates = np.full(len(facts.rows), np.nan, np.float32)
    assert words_of(with_rows(facts, fetched_bytes_per_s=rates), "orders")["written"] == "?"
    place = facts.rows_of("orders", 0)
    led = next(row for row in place if facts.rows.leader[row] == facts.rows.broker[row])
    rates[led] = 5e6
    assert (
        words_of(with_rows(facts, fetched_bytes_per_s=rates), "orders")["written"] == ">5.00 MB/s"
    )
    rates[:] = 0
    assert words_of(with_rows(facts, fetched_bytes_per_s=rates), "orders")["written"] == "-"


def test_what_followers_fetch_is_not_what_is_written() -> None:
    facts = facts_of(incident())
    leads = facts.rows.leader == facts.rows.broker
    rates = np.where(leads, np.float32(1e6), np.float32(9e9))
    count = facts.partitions_in("orders")
    sums = sums_of_topics(with_rows(facts, fetched_bytes_per_s=rates))
    written = sums.written_bytes_per_s[facts.topic_places["orders"]]
    assert written == pytest.approx(count * 1e6)


def test_a_size_is_at_least_what_replicas_say() -> None:
    facts = facts_of(incident())
    sizes = np.full(len(facts.rows), 10**9)
    whole = with_rows(facts, size_bytes=sizes)
    assert not words_of(whole, "orders")["size"].startswith(">")
    sizes = sizes.copy()
    sizes[facts.rows_of("orders", 0).start] = UNKNOWN
    some = with_rows(facts, size_bytes=sizes)
    assert words_of(some, "orders")["size"].startswith(">")
    assert words_of(some, "orders")["size_skew"] == "?"
    none = with_rows(facts, size_bytes=np.full(len(facts.rows), UNKNOWN))
    assert words_of(none, "orders")["size"] == "?"


def test_leaders_on_one_broker_are_uneven_and_one_partition_is_not() -> None:
    facts = Facts(ScriptedCluster.of(4, {"even": 8, "one": 1, "uneven": 8}).snapshot())
    sums, place = sums_of_topics(facts), facts.topic_places
    assert sums.leader_skew[place["even"]] == sums.leader_skew[place["one"]] == 1.0
    partition = facts.rows.topic_index == place["uneven"]
    # Every partition is led from broker 3, which holds most of them.
    leader = np.where(partition, 3, facts.rows.leader)
    held = partition & (facts.rows.broker == 3)
    changed = with_rows(facts, leader=leader.astype(np.int32))
    led = int(held.sum())
    found = sums_of_topics(changed).leader_skew[place["uneven"]]
    assert found == pytest.approx(led / math.ceil(led / 4))
    assert found > 1.5


def test_added_replicas_are_not_part_of_the_replication_factor() -> None:
    facts = facts_of(incident())
    assert facts.rows.adding.any()
    assert words_of(facts, "orders")["factor"] == "3"
    removed = np.zeros(len(facts.rows), np.bool_)
    removed[facts.rows_of("orders", 1)[-1]] = True
    kept = {name: getattr(facts.rows, name)[~removed] for name in facts.rows.__dataclass_fields__}
    fewer = Facts(replace(facts.snapshot, replicas=type(facts.rows)(**kept)))
    assert words_of(fewer, "orders")["factor"] == "2-3"


def test_copies_are_never_all_there_before_they_are_in_sync() -> None:
    facts = facts_of(incident())
    adding = facts.rows.adding
    zero = np.where(adding, 0, facts.rows.lag_bytes)
    sizes = np.where(adding, 10**9, facts.rows.size_bytes)
    still = with_rows(facts, lag_bytes=zero, size_bytes=sizes, in_isr=facts.rows.in_isr & ~adding)
    assert words_of(still, "orders")["copied"] == "99%"
    done = with_rows(facts, lag_bytes=zero, size_bytes=sizes, in_isr=facts.rows.in_isr | adding)
    assert words_of(done, "orders")["copied"] == "100%"
    silent = with_rows(facts, lag_bytes=np.where(adding, UNKNOWN, facts.rows.lag_bytes))
    assert words_of(silent, "orders")["copied"] == "?"


def test_min_isr_is_unknown_until_it_is_read() -> None:
    facts = facts_of(incident())
    unread = Facts(replace(facts.snapshot, min_isr=()))
    assert words_of(unread, "orders")["at_min_isr"] == "?"
    lone = with_rows(with_min_isr(facts, 2), in_isr=facts.rows.leader == facts.rows.broker)
    count = facts.partitions_in("orders")
    said = words_of(lone, "orders")
    assert said["at_min_isr"] == f"{count} under"
    assert said["under_replicated"] == str(count)
    place = lone.topic_places["orders"]
    assert topics(lone).sums.under_min_isr[place] == count


# Filters are about whole topics


def test_a_filter_finds_topics_and_says_all_of_them() -> None:
    facts = facts_of(incident())
    whole = words_of(facts, "orders")
    table = topics(facts, "orders moving")
    assert names(table) == ["orders"]
    assert row_words(table, 0, 14) == whole
    assert (len(table), table.total) == (1, len(facts.snapshot.topics))


def test_a_negated_term_is_about_every_replica_of_a_topic() -> None:
    facts = facts_of(incident())
    moving = {partition.topic for partition in facts.moving_partitions}
    assert moving
    assert moving < set(facts.snapshot.topics)
    assert set(names(topics(facts, "moving"))) == moving
    assert set(names(topics(facts, "-moving"))) == set(facts.snapshot.topics) - moving


# Details


def test_details_say_what_a_topic_lacks_and_how_it_is_set_up() -> None:
    facts = with_min_isr(facts_of(incident()), 2)
    facts = with_rows(facts, in_isr=facts.rows.leader == facts.rows.broker)
    configs = (
        TopicConfig("min.insync.replicas", "2", "STATIC_BROKER_CONFIG", False),
        TopicConfig("retention.ms", "600000", "DYNAMIC_TOPIC_CONFIG", False),
        TopicConfig(LEADER_REPLICAS, "0:1", "DYNAMIC_TOPIC_CONFIG", False),
        TopicConfig("retention.bytes", "-1", "DEFAULT_CONFIG", True),
    )
    lines = about(topics(facts), ORDERS, TopicSettings(configs), ())
    said = {line.label: line.text for line in lines if line.label}
    assert "refuse writes with acks=all" in said["Lacks"]
    assert said["Min ISR"] == "2 of replication factor 3, set on the brokers"
    assert said["Retention"] == (
        "retention.ms=600000 (10m00s), retention.bytes=-1 (no limit, Kafka's default)"
    )
    assert said["Set here"] == "retention.ms=600000"
    assert "no operation of kshunt" in said["Moves"]


def test_details_have_min_isr_from_the_configurations_until_a_snapshot_has_it() -> None:
    facts = facts_of(incident())
    unread = topics(Facts(replace(facts.snapshot, min_isr=())))
    config = TopicConfig("min.insync.replicas", "2", "DYNAMIC_TOPIC_CONFIG", False)
    for known, text in (((config,), "2 of replication factor 3, set on the topic"), (None, "? of")):
        lines = about(unread, ORDERS, TopicSettings(known), ())
        assert any(line.label == "Min ISR" and line.text.startswith(text) for line in lines)


def test_brokers_in_the_details_add_up_to_the_topic() -> None:
    facts = facts_of(incident())
    lines = about(topics(facts), ORDERS, TopicSettings(), ())
    first = next(place for place, line in enumerate(lines) if line.label == "Brokers")
    rows = [line.text.split() for line in lines[first + 1 :]]
    assert sum(int(row[1]) for row in rows) == facts.partitions_in("orders")
    assert sum(int(row[2]) for row in rows) == int(
        topics(facts).sums.replicas[facts.topic_places["orders"]]
    )


def test_a_pane_says_how_many_brokers_it_leaves_out() -> None:
    table = topics(facts_of(incident()))
    whole = about(table, ORDERS, TopicSettings(), ())
    short = about(table, ORDERS, TopicSettings(), (), 3)
    assert short[-1].text == "and 3 more brokers"
    assert short[:-1] == whole[: len(short) - 1]
    assert len(whole) == len(short) + 2


def test_of_a_topic_that_is_gone_it_is_said_so() -> None:
    table = topics(facts_of(incident()))
    (line,) = about(table, GroupKey(TOPIC, "gone"), TopicSettings(), ())
    assert line.text == "This topic no longer exists."


# On the screen


async def test_frames(sized: Shown) -> None:
    await sized.until(lambda: "asking" not in sized.frame(), "the configurations were asked for")
    await sized.press("j", "j")
    await sized.until(lambda: "asking" not in sized.frame(), "the configurations were asked for")
    await check_frame(named("topics", sized), sized)
    await sized.press("i")
    if sized.size[1] < 36:
        await sized.dialog(RowDetailsScreen)
        await sized.until(lambda: "asking" not in sized.frame(), "the configurations are said")
    await check_frame(named("topics-about", sized), sized)


@pytest.mark.parametrize("back", ["escape", "backspace"])
async def test_enter_opens_the_replicas_and_the_way_back_leads_to_the_row(
    shown: Shown, back: str
) -> None:
    await shown.press("j", "j", "enter")
    assert shown.app.current_mode == "partitions"
    assert {key.topic for key in keys(shown.app.store.tables["partitions"])} == {"orders"}  # type: ignore[attr-defined]
    assert "Esc topics" in shown.frame()
    await shown.press(back)
    assert shown.app.current_mode == "topics"
    assert shown.grid.cursor_key == ORDERS
    await shown.press("2")
    assert len(shown.app.store.tables["partitions"]) == len(shown.app.store.facts.rows)  # type: ignore[union-attr]
    assert "Esc topics" not in shown.frame()


async def test_a_filter_inside_a_topic_is_dropped_before_the_way_back(shown: Shown) -> None:
    await shown.press("j", "j", "enter", "slash")
    await shown.write("broker:1")
    await shown.press("enter")
    within = len(shown.app.store.tables["partitions"])
    await shown.press("escape")
    assert shown.app.current_mode == "partitions"
    assert len(shown.app.store.tables["partitions"]) > within
    await shown.press("escape")
    assert shown.app.current_mode == "topics"


async def test_the_partitions_view_is_as_it_was_after_the_way_back(shown: Shown) -> None:
    await shown.press("2", "slash")
    await shown.write("broker:1")
    await shown.press("enter", "s")
    before = shown.app.store.queries["partitions"]
    # The second topic is opened from the number key's way back, not from Esc.
    await shown.press("7", "j", "enter", "7", "j", "enter", "escape")
    assert shown.app.current_mode == "topics"
    assert shown.app.store.queries["partitions"] == before
    await shown.press("2")
    assert "broker:1" in shown.frame()


async def test_a_topic_that_disappears_leaves_the_others(shown: Shown) -> None:
    await shown.press("j", "j")
    _delete(shown.backend.cluster, "orders")
    await shown.publish()
    assert "orders" not in names(shown.app.store.tables["topics"])  # type: ignore[arg-type]
    assert shown.grid.cursor_key is not None
    assert shown.grid.cursor_key != ORDERS


async def test_a_topic_that_disappears_while_it_is_open_says_so(shown: Shown) -> None:
    await shown.press("j", "j", "enter")
    _delete(shown.backend.cluster, "orders")
    await shown.publish()
    assert "There are no replicas of topic orders any more. Esc goes back." in shown.frame()
    await shown.press("escape")
    assert shown.app.current_mode == "topics"


async def test_a_cluster_without_topics(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", ScriptedCluster.of(3, {}), start_view="topics") as shown:
        assert "The cluster has no topics." in shown.frame()
        await shown.press("enter", "i", "l", "P", "e", "plus", "minus")
        assert shown.app.is_running


async def test_the_palette_leads_to_topics(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", eventful()) as shown:
        await shown.press("colon")
        await shown.write("topics")
        await shown.until(lambda: "Topics (7)" in shown.frame(), "the view is found")
        await shown.pilot.press("down", "enter")
        await shown.until(lambda: shown.app.current_mode == "topics", "the view is open")


async def test_help_says_what_the_columns_mean(shown: Shown) -> None:
    await shown.press("question_mark")
    helped = await shown.dialog(HelpScreen)
    said = " ".join(line.plain for line in helped.query("Lines"))
    for column in ("LSkw, DSkw", "Copy", "Under", "AtMin"):
        assert column in said


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (160, 50)])
async def test_ascii_terminals_see_no_other_signs(tmp_path: Path, size: tuple[int, int]) -> None:
    async with dashboard(
        tmp_path / "s", eventful(), size=size, start_view="topics", glyphs=ASCII, plain=True
    ) as shown:
        assert shown.frame().isascii()


async def test_marked_topics_are_chosen_together(shown: Shown) -> None:
    await shown.press("j", "space", "j", "space")
    assert len(shown.grid.marked) == 2
    assert isinstance(shown.view, TopicsScreen)
    marked = {key.name for key in shown.grid.marked if isinstance(key, GroupKey)}
    facts, chosen = shown.app.store.facts, shown.view.chosen_partitions()
    assert facts is not None
    assert {one.topic for one in chosen} == marked
    assert len(chosen) == sum(facts.partitions_in(name) for name in marked)
    await shown.press("plus")
    assert shown.said == "This is about one topic; 2 topics are chosen here."


def _delete(cluster: ScriptedCluster, topic: str) -> None:
    for partition in [one for one in cluster.partitions if one.topic == topic]:
        del cluster.partitions[partition]
    for listed in [name for name in cluster.lists if name == topic]:
        del cluster.lists[listed]
    assert not any(TopicPartition(*one).topic == topic for one in cluster.partitions)
