"""The home screen: what it says, where its lines lead, and what it looks like."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from kshunt.backend.domain.audit.past_drift import PastDrift
from kshunt.backend.domain.cluster.failed_requests import FailedRequest
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.lifecycle import OperationState
from kshunt.backend.domain.operations.operation import OperationKind
from kshunt.backend.domain.replicas.snapshot import UNKNOWN
from kshunt.backend.domain.replicas.stuck_causes import Cause, Stuck
from kshunt.tui.actions.view_names import OVERVIEW
from kshunt.tui.app import KshuntApp
from kshunt.tui.dialogs.attention_list import AttentionScreen
from kshunt.tui.dialogs.dialog import Lines
from kshunt.tui.facts.health import Health, health_of
from kshunt.tui.facts.overview import HomeBuilder, Total, share_text, total_of, worst_replicas
from kshunt.tui.facts.row_keys import ReplicaKey
from kshunt.tui.facts.snapshot_facts import Facts
from kshunt.tui.facts.view_query import Job, Query
from kshunt.tui.feed.polled_facts import BACKEND_STATUS, DRIFT, ORPHANS, PAST_DRIFT
from kshunt.tui.text.bars import area, bar
from kshunt.tui.text.glyphs import ASCII, UNICODE
from kshunt.tui.views.attention import unread
from kshunt.tui.views.overview.layout import OverviewState, home_lines
from tests.support.tui.app import RETRY_S, SIZES, ManualTime, Shown, check_frame, dashboard, frame
from tests.support.tui.cluster import DRIFT as DRIFTED
from tests.support.tui.cluster import ORPHAN, ScriptedCluster, incident, moving, running_move
from tests.support.tui.tables import board, choose

STUCK = TopicPartition("orders", 2)


def idle() -> ScriptedCluster:
    """Nothing moves; the last move was cancelled, and one partition has another leader."""
    cluster = incident()
    cluster.min_isr = 2
    operation = running_move(cluster)
    for state in cluster.partitions.values():
        state.replicas = [broker for broker in state.replicas if broker not in state.copied]
        state.copied.clear()
        state.removing.clear()
    cluster.rates.clear()
    cluster.lists.clear()
    cluster.now_ms += 90_000
    ended = replace(
        operation, state=OperationState.CANCELLED, ended_ms=cluster.now_ms - 30_000, actions=()
    )
    cluster.operations[operation.id] = ended
    return cluster


def broken() -> ScriptedCluster:
    """A broker is down, a replica is stuck."""
    cluster = moving()
    cluster.down = {4: "connection refused"}
    cluster.stuck = {(STUCK, 3): Stuck(STUCK, 3, Cause.THROTTLE_TOO_LOW)}
    return cluster


SCENES: dict[str, Callable[[], ScriptedCluster]] = {"moving": moving, "idle": idle}


def named(name: str, size: str) -> str:
    return f"overview-{name}-{size}"


# Frames


@pytest.mark.parametrize("size", sorted(SIZES))
@pytest.mark.parametrize("scene", sorted(SCENES))
async def test_what_goes_on(scene: str, size: str, tmp_path: Path) -> None:
    async with dashboard(
        tmp_path / "s", SCENES[scene](), size=SIZES[size], start_view=OVERVIEW
    ) as shown:
        await shown.publish()
        await answered(shown)
        await check_frame(named(scene, size), shown)


@pytest.mark.parametrize("size", sorted(SIZES))
async def test_something_is_broken(size: str, tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", broken(), size=SIZES[size], start_view=OVERVIEW) as shown:
        shown.backend.drift = {DRIFTED.id: DRIFTED}
        shown.backend.orphans = {ORPHAN.id: ORPHAN}
        shown.app.polling.nudge()
        await answered(shown)
        await shown.until(lambda: shown.app.store.scene.answer(DRIFT), "the drift is known")
        await shown.until(lambda: shown.app.store.scene.answer(ORPHANS), "the orphan is known")
        await shown.publish()
        await check_frame(named("broken", size), shown)


async def test_brokers_that_are_down_come_before_what_they_keep_from_moving(
    tmp_path: Path,
) -> None:
    cluster = broken()
    cluster.down, cluster.gone = {}, {4, 5}
    async with dashboard(tmp_path / "s", cluster, start_view=OVERVIEW) as shown:
        await shown.publish()
        await answered(shown)
        assert "! Brokers 4, 5 are down." in shown.frame()
        assert shown.frame().index("Brokers 4, 5 are down") < shown.frame().index("1 stuck: ")
        await choose(shown, ("item", "down"))
        await shown.press("enter")
        assert shown.app.current_mode == "brokers"
        assert shown.grid.cursor_key == 4
        cluster.down, cluster.gone = {4: "connection refused"}, {4}
        await shown.publish()
        assert "Broker 4 is down" not in shown.frame(), "what it answered is said instead"


async def test_an_idle_cluster_says_what_drifted_since_yesterday(tmp_path: Path) -> None:
    cluster = idle()
    past = PastDrift(2, cluster.now_ms - 11_520_000, ("op-1",))
    async with dashboard(
        tmp_path / "s", cluster, size=SIZES["80x24"], start_view=OVERVIEW
    ) as shown:
        # As an earlier backend, it has no such answer: nobody is told.
        asked = shown.app.polling._asked_s
        await shown.until(lambda: PAST_DRIFT.name in asked, "it is asked for")
        await answered(shown)
        assert "drift of the last day" not in shown.frame()
        assert "drifted" not in shown.frame()
        shown.backend.past_drift = past
        shown.app.polling.nudge()
        await shown.until(lambda: shown.app.store.scene.answer(PAST_DRIFT) == past, "it is known")
        await answered(shown)
        await check_frame(named("drifted", "80x24"), shown)


@pytest.mark.parametrize("size", sorted(SIZES))
async def test_the_connection_is_lost(
    size: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The socket's path is on the screen.
    monkeypatch.chdir(tmp_path)
    async with dashboard(Path("s"), moving(), size=SIZES[size], start_view=OVERVIEW) as shown:
        await answered(shown)
        await shown.backend.stop()
        await shown.until(lambda: "No backend answers" in shown.frame(), "it is lost")
        shown.time.now += 12
        words = ("all of this is 12s old", "frozen 12s ago")
        await shown.until(lambda: all(one in shown.frame() for one in words), "its age is said")
        await check_frame(named("lost", size), shown)


@pytest.mark.parametrize("size", sorted(SIZES))
async def test_no_data_yet(size: str) -> None:
    app = KshuntApp("unix:/nowhere/none", now_s=ManualTime(), retry_s=(RETRY_S,))
    async with app.run_test(size=SIZES[size]) as pilot:
        shown = Shown(app, pilot, None, ManualTime(), SIZES[size])  # type: ignore[arg-type]
        assert "Waiting for the first snapshot from unix:/nowhere/none" in frame(app)
        await pilot.press("E")
        await shown.until(lambda: "> kshunt-overview.txt" in frame(app), "no time is made up")
        await pilot.press("escape")
        await shown.until(lambda: app.store.scene.lost, "the loss is noticed")
        await shown.until(lambda: shown.frame().count("No backend answers") == 2, "it says why")
        await check_frame(named("no-data", size), shown)


async def answered(shown: Shown) -> None:
    """Wait until the answers to the requests next to the stream are known."""
    wanted = ["drift ?", "orphan throttles ?"]
    await shown.until(
        lambda: shown.app.store.scene.answered(BACKEND_STATUS), "it is known who acts"
    )
    await shown.until(
        lambda: not any(word in shown.frame() for word in wanted), "drift and orphans are known"
    )


# Where lines lead


async def test_a_replica_leads_to_its_row(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", moving(), start_view=OVERVIEW) as shown:
        key = ReplicaKey("clickstream-web-sessions-eu-west-1", 7, 5)
        await choose(shown, key)
        await shown.press("enter")
        assert shown.app.current_mode == "partitions"
        await shown.until(lambda: shown.grid.cursor_key == key, "the cursor is on it")


async def test_esc_returns_to_the_line_that_led_there(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", broken(), start_view=OVERVIEW) as shown:
        await shown.publish()
        await choose(shown, ("item", "stuck"))
        await shown.press("enter")
        queries = shown.app.store.queries
        assert (shown.app.current_mode, queries["partitions"].filter_text) == (
            "partitions",
            "stuck",
        )
        await shown.until(lambda: "Esc return" in shown.frame(), "the way back is told")
        await shown.press("escape")
        assert (shown.app.current_mode, queries["partitions"].filter_text) == ("overview", "")
        assert board(shown).cursor_key == ("item", "stuck")
        await shown.press("enter", "slash")
        await shown.write(" orders")
        await shown.press("enter", "escape")
        assert shown.app.current_mode == "partitions", "what was typed is dropped first"
        await shown.press("escape")
        assert shown.app.current_mode == "overview"
        await shown.press("enter", "3", "escape", "2", "escape")
        assert shown.app.current_mode == "partitions", "who chose a view has left the way back"


async def test_the_row_is_found_although_a_filter_hid_it(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", moving()) as shown:
        await shown.press("slash")
        await shown.write("audit")
        await shown.press("enter", "1")
        key = ReplicaKey("orders", 2, 3)
        await choose(shown, key)
        await shown.press("enter")
        await shown.until(lambda: shown.grid.cursor_key == key, "the cursor is on it")


async def test_an_operation_leads_to_its_row(tmp_path: Path) -> None:
    cluster = moving()
    cluster.note(OperationKind.ELECTION, "elect 3 leaders", ended_ms=cluster.now_ms + 5)
    async with dashboard(tmp_path / "s", cluster, start_view=OVERVIEW) as shown:
        await choose(shown, ("operation", "op-1"))
        await shown.press("enter")
        assert shown.app.current_mode == "operations"
        await shown.until(lambda: shown.cursor == "op-1", "the cursor is on it")
        await shown.until(lambda: "op-1" in shown.app.store.scene.audits, "its history is there")


async def test_what_needs_attention_leads_to_where_it_is_mended(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", broken(), start_view=OVERVIEW) as shown:
        await shown.until(lambda: "1 stuck" in shown.frame(), "it is seen")
        await choose(shown, ("item", "stuck"))
        await shown.press("enter")
        assert shown.app.store.queries["partitions"].filter_text == "stuck"
        await shown.until(lambda: len(shown.grid.table or ()) == 1, "only the stuck one is shown")
        await shown.press("1", "G", "enter")
        assert shown.app.current_mode != OVERVIEW


async def test_a_broker_that_does_not_answer_leads_to_its_row(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", broken(), start_view=OVERVIEW) as shown:
        await shown.press("exclamation_mark")
        await shown.dialog(AttentionScreen)
        assert "Broker 4 does not answer" in shown.frame()
        await shown.press("enter")
        await shown.closed()
        assert shown.app.current_mode == "brokers"
        await shown.until(lambda: shown.grid.cursor_key == 4, "the cursor is on it")


def test_many_silent_brokers_are_one_thing_to_look_at() -> None:
    silent = [FailedRequest(f"Broker {id} did not answer.", id, 4.0) for id in range(1, 10)]
    other = FailedRequest("Topic configurations could not be read.")
    few = unread([*silent[:3], other], range(5))
    assert [item.text for item in few] == [one.message for one in (*silent[:3], other)]
    assert [item.tone for item in few] == ["bad", "bad", "bad", "warn"]
    many = unread([*silent, other], range(5))
    assert [item.text for item in many] == [
        "9 brokers did not answer in time: 1, 2, 3, 4, 5 and 4 more.",
        other.message,
    ]
    # It stays the same line to the cursor, whichever broker answers again.
    assert many[0].key == unread(silent[1:], range(5))[0].key


async def test_the_overview_and_the_list_name_the_same_things(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", broken(), size=(160, 50), start_view=OVERVIEW) as shown:
        look_at = shown.frame()
        await shown.press("exclamation_mark")
        listed = await shown.dialog(AttentionScreen)
        lines = [line.plain.partition("  [")[0] for line in listed.query(".item").results(Lines)]
        assert any("under-replicated" in line for line in lines), lines
        assert all(line.removeprefix("! ")[:40] in look_at for line in lines), lines


async def test_the_choice_stays_on_its_line_through_refreshes(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", moving(), start_view=OVERVIEW) as shown:
        key = ReplicaKey("orders", 0, 5)
        await choose(shown, key)
        shown.backend.cluster.copy_bytes_per_s = {5: 7_500_000, 3: 900_000_000}
        await shown.publish(9.0)
        assert board(shown).cursor_key == key
        shown.backend.cluster.cancel(TopicPartition("orders", 0))
        await shown.publish()
        assert board(shown).cursor_key not in (key, None)
        await shown.press("escape")
        assert board(shown).cursor_key is None
        await shown.press("enter")
        assert "j and k choose a line" in shown.said


async def test_it_fits_every_terminal(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", broken(), start_view=OVERVIEW) as shown:
        for width, height in ((20, 5), (40, 10), (120, 40), (200, 60), (80, 24)):
            await shown.resize(width, height)
            lines = shown.lines()
            assert len(lines) <= height
            assert all(cell_len(line) <= width for line in lines)
        await shown.resize(20, 5)
        assert "1 of 5 brokers" in shown.frame()


async def test_it_can_be_read_in_plain_ascii(tmp_path: Path) -> None:
    async with dashboard(
        tmp_path / "s", moving(), start_view=OVERVIEW, glyphs=ASCII, plain=True
    ) as shown:
        await shown.publish()
        assert shown.frame().isascii()
        assert "[##" in shown.frame()


# What is said


def facts_of(cluster: ScriptedCluster) -> Facts:
    return Facts(cluster.step())


def job_of(facts: Facts, cluster: ScriptedCluster) -> Job:
    operations = tuple(cluster.operations.values())
    return Job(OVERVIEW, Query(), facts.snapshot, operations, facts.snapshot.taken_ms)


def test_health_counts_as_kafka_does() -> None:
    cluster = broken()
    facts = facts_of(cluster)
    found = health_of(facts)
    assert found.brokers == 5
    assert found.silent == (4,)
    on_four = sum(1 for s in cluster.partitions.values() if 4 in s.replicas and 4 not in s.copied)
    assert found.under_replicated == on_four
    assert found.under_replicated_moving == len(
        {p for p in facts.moving_partitions if 4 in cluster.partitions[p].replicas}
        - {p for p, s in cluster.partitions.items() if 4 in s.copied}
    )
    assert (found.under_min_isr, found.min_isr_unknown) == (0, 0)
    assert not health_of(Facts(replace(facts.snapshot, min_isr=()))).min_isr_known
    known = replace(facts.snapshot, min_isr=(3,) * len(facts.snapshot.topics))
    assert health_of(Facts(known)).under_min_isr > 0
    enough = replace(facts.snapshot, min_isr=(1,) * len(facts.snapshot.topics))
    assert health_of(Facts(enough)).under_min_isr == 0
    assert health_of(Facts(enough)).min_isr_unknown == 0


@pytest.mark.parametrize(
    ("lacking", "moving", "words"),
    [
        (0, 0, "0 partitions under-replicated"),
        (1, 0, "1 partition under-replicated"),
        (18, 18, "18 moving partitions under-replicated"),
        (18, 5, "18 partitions under-replicated (5 of them moving)"),
    ],
)
def test_what_moves_is_told_from_what_is_wrong(lacking: int, moving: int, words: str) -> None:
    found = Health(under_replicated=lacking, under_replicated_moving=moving)
    assert found.under_replicated_words == words


def test_what_has_arrived_counts_as_copied() -> None:
    cluster = incident()
    running_move(cluster)
    operations = tuple(cluster.operations.values())
    shares = []
    for _ in range(40):
        total = total_of(facts_of(cluster), operations)
        if total.known:
            shares.append(total.share)
        cluster.now_ms += 1
        cluster.copy_bytes_per_s = dict.fromkeys(cluster.racks, 400_000_000)
    assert shares == sorted(shares)
    assert shares[0] < 0.2 < 0.8 < shares[-1]


def test_moves_of_nobody_here_count_too() -> None:
    cluster = incident()
    cluster.step(30)
    total = total_of(facts_of(cluster), ())
    assert total.done_bytes > 0
    assert total.whole_bytes == sum(
        state.size_bytes * len(state.copied) for state in cluster.partitions.values()
    )


@pytest.mark.parametrize(
    ("total", "text"),
    [
        (Total(), "?%"),
        (Total(0, 10), "0%"),
        (Total(999, 1), "99%"),
        (Total(10, 0), "100%"),
        (Total(5, 5, left_unknown=2, more_bytes=10), ">25%"),
        (Total(5, 5, left_unknown=2, more_bytes=UNKNOWN), "?%"),
        (Total(5, 5, left_unknown=2, more_bytes=UNKNOWN, reached=0.4), ">40%"),
    ],
)
def test_a_share_is_never_more_than_is_true(total: Total, text: str) -> None:
    assert share_text(total) == text


def test_the_stuck_come_first_and_then_the_furthest_from_done() -> None:
    worst, behind = worst_replicas(facts_of(broken()))
    assert worst[0].key == ReplicaKey("orders", 2, 3)
    assert worst[0].status == "stuck"
    assert worst[0].cause == "throttle too low"
    amounts = [one.lag_bytes for one in worst[1:] if one.lag_bytes >= 0]
    assert amounts == sorted(amounts, reverse=True)
    assert behind >= len(worst)


def test_the_home_screen_says_nothing_of_a_snapshot_that_the_head_has_left() -> None:
    builder, cluster = HomeBuilder(), idle()
    facts = facts_of(cluster)
    assert builder.home(facts, job_of(facts, cluster), plots=True).overview is not None
    busy = incident()
    later = facts_of(busy)
    elsewhere = replace(job_of(later, busy), view="partitions")
    home = builder.home(later, elsewhere, plots=False)
    assert home.overview is None
    lines = home_lines(OverviewState(home, nothing="Adding up."), 80, 20, ASCII)
    assert [line.text.strip() for line in lines] == ["", "Adding up."]
    assert builder.home(later, job_of(later, busy), plots=True).overview is not None


def test_the_same_lines_in_any_room_and_never_more() -> None:
    cluster = broken()
    facts = facts_of(cluster)
    home = HomeBuilder().home(facts, job_of(facts, cluster), plots=True)
    for glyphs in (UNICODE, ASCII):
        for height in range(0, 60):
            for width in (3, 9, 20, 41, 59, 60, 80, 161):
                lines = home_lines(OverviewState(home), width, height, glyphs)
                assert len(lines) <= height
                assert all(cell_len(line.text) <= width for line in lines), width


VALUES = st.lists(st.floats(0, 1e12) | st.just(math.nan), max_size=50)


@given(VALUES, VALUES, st.integers(1, 60), st.integers(1, 12), st.sampled_from([UNICODE, ASCII]))
def test_an_area_fills_exactly_its_room(values, limits, width, height, glyphs) -> None:  # type: ignore[no-untyped-def]
    rows, top = area(values, limits, width, height, glyphs)
    assert len(rows) == height
    assert all(cell_len(row) == width for row in rows)
    assert not math.isnan(top)


@given(st.floats(0, 1) | st.just(math.nan), st.integers(4, 80))
def test_a_bar_is_full_only_at_the_end_and_empty_only_at_the_start(
    share: float, width: int
) -> None:
    text = bar(share, width, ASCII)
    assert len(text) == width
    assert ("-" not in text) == (share == 1)
    assert ("#" not in text) == (math.isnan(share) or share == 0)


async def test_data_of_no_broker_are_as_old_as_the_last_answer(tmp_path: Path) -> None:
    cluster = incident()
    async with dashboard(tmp_path / "s", cluster, start_view=OVERVIEW) as shown:
        assert "live, <2s old" in shown.lines()[0]
        cluster.down = dict.fromkeys(cluster.racks, "Request timed out.")
        await shown.publish()
        assert "stale, 12s old" in shown.lines()[0]
        assert "Stale: data 12s old." in shown.frame()
        cluster.down = {4: "Request timed out."}
        await shown.publish()
        assert "live, <2s old" in shown.lines()[0]


async def test_data_over_three_seconds_old_are_not_called_live(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", idle(), start_view=OVERVIEW) as shown:
        store = shown.app.store
        now_s = store.now_s
        store.now_s = lambda: now_s() + 4
        await shown.publish()
        await shown.press("2")
        assert "late, 4s old" in shown.lines()[0]


async def test_what_the_way_to_the_cluster_does_not_offer_is_said_with_why(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", idle(), size=(160, 50), start_view=OVERVIEW) as shown:
        assert "ZooKeeper" not in shown.frame()
        shown.backend.status = replace(
            shown.backend.status, not_offered=(("unclean election", "there is no znode for it"),)
        )
        shown.time.now += 60
        words = "ZooKeeper does not support unclean election: there is no znode for it."
        await shown.until(lambda: words in shown.frame(), "it is said")
