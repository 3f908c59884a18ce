"""Replay and going back in time: the same screens, and nothing can be sent from the past."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.operation import OperationState
from kshunt.backend.errors import Conflict
from kshunt.tui.actions import ACTIONS
from kshunt.tui.facts.snapshot_facts import Facts
from tests.support.tui.app import check_frame, dashboard, press_at_random, threads_have_ended
from tests.support.tui.cluster import incident
from tests.support.tui.replay import Recorded, recorded, replayed, scripted

VIEWS = ("2", "3", "4", "5", "7")
HEAD = 24
"""Cells of the first line that do not depend on whether it is live."""

BAR, KEYS = -2, -1
"""Lines that are not what they were: the time bar, and the keys that are offered."""


def body(lines: list[str], *, live: bool = False) -> list[str]:
    """What is shown, without the time bar, the keys, and whether it is live or the past."""
    shown = lines[:KEYS] if live else lines[:BAR]
    return [shown[0][:HEAD], *shown[1:]]


async def views_of(shown: Recorded) -> dict[str, list[str]]:
    """Every view as it stands at this moment."""
    for _ in range(2):
        # The first round asks what only the view in sight wants to know.
        frames = {}
        for key in VIEWS:
            await shown.press(key)
            await shown.quiet()
            frames[key] = body(shown.lines(), live=True)
    return frames


async def lose_and_find_the_backend(shown: Recorded) -> dict[str, list[str]]:
    """Every view while the connection is lost."""
    shown.time.now += 5
    await shown.backend.stop()
    await shown.until(lambda: shown.app.store.scene.lost, "the loss is noticed")
    shown.time.now += 5
    frames = await views_of(shown)
    shown.time.now += 10
    shown.backend.snapshot = shown.backend.cluster.step()
    await shown.backend.start()
    await shown.until(lambda: shown.app.store.scene.live, "it is back")
    await shown.quiet()
    return frames


@pytest.mark.slow
async def test_a_replay_shows_frame_for_frame_what_was_live(tmp_path: Path) -> None:
    moments: list[dict[str, list[str]]] = []
    async with recorded(tmp_path, scripted()) as shown:
        cluster = shown.backend.cluster
        moments.append(await views_of(shown))
        await shown.later(10)
        moments.append(await views_of(shown))
        cluster.down = {3: "connection refused"}
        await shown.later(10)
        moments.append(await views_of(shown))
        moments.append(await lose_and_find_the_backend(shown))
        moments.append(await views_of(shown))
        cluster.down = {}
        shown.time.now += 5
        done = cluster.operations["op-1"].to(OperationState.LIFTING, at_ms=cluster.now_ms)
        shown.backend.announce(done)
        await shown.until(
            lambda: shown.app.store.scene.operations == (done,), "the operation goes on"
        )
        await shown.later(5)
        moments.append(await views_of(shown))
        paths = shown.recorder.paths
    async with replayed(paths) as replay:
        for number, frames in enumerate(moments):
            if number:
                await replay.go("right_square_bracket")
            for key, lines in frames.items():
                await replay.go(key)
                assert body(replay.lines()) == lines, f"moment {number}, view {key}"
                assert "REPLAY" in replay.lines()[0]
                # The operator who recorded it was alone here.
                assert " here" not in replay.lines()[0]


async def test_live_goes_on_and_is_recorded_while_the_past_is_shown(live: Recorded) -> None:
    await live.press("j", "j", "space")
    cursor, version = live.cursor, live.backend.snapshot.version
    await live.go("left_square_bracket")
    assert live.lines()[BAR].startswith(" BACK IN TIME · 10s ago")
    assert live.lines()[0].endswith(" PAST")
    shown = live.app.store.scene.snapshot
    assert shown is not None
    assert shown.version < version
    live.backend.publish()
    live.time.now += 10
    live.backend.alert("Seen while nobody looked.")
    newest = live.backend.publish()

    def came() -> bool:
        snapshot = live.app.live_scene.scene.snapshot
        return snapshot is not None and snapshot.version == newest.version

    await live.until(came, "it came")
    assert live.app.store.scene.snapshot is shown, "what is live does not disturb the past"
    assert "Seen while" not in live.said
    assert live.cursor == cursor
    await live.go("T")
    assert live.said == "Live again."
    assert live.lines()[0].endswith(" live, <2s old")
    assert live.app.store.scene.snapshot.version == newest.version
    await live.until_shown()
    assert live.cursor == cursor
    assert live.grid.marked
    await live.go("left_square_bracket", "dollar_sign")
    assert live.app.store.scene.snapshot is not None
    assert live.app.store.scene.snapshot.version == newest.version


async def test_arrows_scrub_in_the_past_and_leave_no_present(live: Recorded) -> None:
    await live.pilot.press("left")
    assert not live.app.playback.past
    assert live.said == "[ goes back in time; then the arrows move there."
    await live.go("left_square_bracket")
    here = live.app.playback.position_ms
    await live.go("left")
    assert live.app.playback.position_ms == here - 10_000
    for view in ("3", "2"):
        await live.go(view, "right")
    assert live.app.playback.position_ms == here + 10_000
    await live.go("shift+left")
    assert live.app.playback.position_ms == live.app.playback.first_ms
    assert "!" in live.lines()[BAR], "a broker went down meanwhile"


@pytest.mark.parametrize("key", ["r", "c", "C", "l", "L"])
async def test_nothing_can_be_changed_from_the_past(live: Recorded, key: str) -> None:
    await live.go("left_square_bracket")
    await live.pilot.press(key)
    assert live.said == "This is the past; T returns to live."
    assert live.app.screen is live.view
    with pytest.raises(Conflict, match="This is the past"):
        await live.app.link.ask(lambda client: client.reassignments.start)
    assert live.backend.asked == []


async def test_a_recording_sends_nothing_and_returns_to_no_present(live: Recorded) -> None:
    await live.quiet()
    async with replayed(live.recorder.paths) as replay:
        await replay.go("T")
        assert replay.said == "This is a recording without live data; q leaves."
        await replay.pilot.press("r")
        assert replay.said == "This is a recording: nothing can be sent."
        with pytest.raises(Conflict):
            await replay.app.link.ask(lambda client: client.cluster())


async def test_keys_jump_to_changes_and_incidents(live: Recorded) -> None:
    await live.go("comma")
    assert live.said.startswith("Broker 3 does not answer: connection refused")
    assert "10s ago" in live.lines()[BAR]
    await live.go("left_parenthesis")
    assert "Operation op-1 by ada@bastion-1 is running" in live.said
    await live.go("left_parenthesis")
    assert live.said == "There is none before this."
    await live.go("full_stop")
    assert "Broker 3 does not answer" in live.said
    await live.go("full_stop")
    assert live.said == "There is none after this."
    await live.go("circumflex_accent")
    assert "30s ago" in live.lines()[BAR]
    await live.go("right_curly_bracket")
    assert "0s ago" in live.lines()[BAR]


async def test_playing_moves_time_at_the_chosen_speed_and_holds_at_the_end(live: Recorded) -> None:
    await live.quiet()
    async with replayed(live.recorder.paths) as replay:
        playback, clock = replay.app.playback, replay.app.live_scene.now_s
        begin = playback.position_ms
        await replay.go("vertical_line")
        assert "playing x1" in replay.lines()[BAR]
        clock.now += 1  # type: ignore[attr-defined]
        playback.tick()
        await replay.go()
        assert playback.position_ms == begin + 1_000
        await replay.go("asterisk", "asterisk")
        clock.now += 1  # type: ignore[attr-defined]
        playback.tick()
        await replay.go()
        assert playback.position_ms == begin + 11_000
        await replay.go("asterisk")
        clock.now += 1  # type: ignore[attr-defined]
        playback.tick()
        await replay.go()
        playback.tick()
        await replay.pilot.pause()
        assert replay.said == "This is the end of the recording."
        assert not playback.playing
        assert playback.position_ms == playback.last_ms


async def test_without_a_recorder_there_is_no_past(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", incident()) as shown:
        await shown.press("left_square_bracket")
        assert shown.said.startswith("Nothing is recorded here")
        await shown.press("right_square_bracket")
        assert shown.said == "This is the present."
        await shown.press("W")
        assert shown.said.startswith("Nothing is recorded here")


async def test_no_one_goes_back_while_a_change_is_under_way(live: Recorded) -> None:
    live.app.changing = True
    await live.go("left_square_bracket")
    assert "A change is running" in live.said
    assert not live.app.playback.past


async def test_another_cluster_in_the_past_loses_no_marks_of_wrong_rows(live: Recorded) -> None:
    await live.backend.stop()
    live.backend.cluster.cluster_id = "another-cluster-id"
    live.backend.snapshot = live.backend.cluster.step()
    live.time.now += 10
    await live.backend.start()
    await live.until(lambda: "another-cluster-id" in live.frame(), "the new cluster is named")
    await live.press("space")
    await live.quiet()
    await live.go("left_square_bracket")
    assert "kSh-9xQmT4uB2vWcE0aLrg" in live.frame()
    assert not live.grid.marked


@pytest.mark.parametrize("size", [(80, 24), (160, 50), (20, 5)])
async def test_the_time_bar(tmp_path: Path, size: tuple[int, int]) -> None:
    async with recorded(tmp_path, scripted(), size=size) as shown:
        for _ in range(4):
            await shown.later(10)
        await shown.go("2", "left_square_bracket", "left_square_bracket")
        await check_frame(f"replay-back-{size[0]}x{size[1]}", shown)
        paths = shown.recorder.paths
    async with replayed(paths, size=size) as replay:
        await replay.go("right_square_bracket")
        await check_frame(f"replay-{size[0]}x{size[1]}", replay)  # type: ignore[arg-type]


async def test_cursor_and_filter_stay_through_time(live: Recorded) -> None:
    await live.press("slash")
    await live.write("orders")
    await live.press("enter", "j", "j")
    cursor = live.cursor
    await live.go("left_curly_bracket", "right_square_bracket", "T")
    await live.until_shown()
    assert live.cursor == cursor
    assert live.app.store.queries["partitions"].filter_text == "orders"
    assert isinstance(live.app.store.facts, Facts)
    assert TopicPartition("orders", 0) in live.app.store.facts.moving_partitions


KEYS_OF_TIME = sorted({key for action in ACTIONS if action.group == "Time" for key in action.keys})
OTHER_KEYS = ["1", "2", "3", "4", "5", "6", "j", "k", "f", "s", "enter", "escape", "r", "c", "e"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
async def test_random_keys_in_time_end_nothing_and_change_nothing(
    live: Recorded, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    await press_at_random(live, lambda: KEYS_OF_TIME * 2 + OTHER_KEYS, 80, seed)


def open_recordings() -> int:
    """Descriptors of this process that a recording is open under."""
    names = [Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd")]
    return sum(name.is_symlink() and os.readlink(name).endswith(".kshunt") for name in names)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts descriptors as Linux does")
async def test_two_keys_at_once_open_the_past_once(live: Recorded) -> None:
    before = open_recordings()
    live.app.playback.toggle()
    live.app.playback.step(-60)
    ways = [worker for worker in live.app.workers if worker.group == "playback"]
    assert len(ways) == 2
    await live.until(lambda: all(way.is_finished for way in ways), "both have arrived")
    assert live.app.playback.past
    assert open_recordings() == before + 1
    live.app.playback.leave()
    await live.until(lambda: open_recordings() == before, "it is let go of")


async def all_have_arrived(live: Recorded) -> None:
    ways = [worker for worker in live.app.workers if worker.group == "playback"]
    assert ways
    await live.until(lambda: all(way.is_finished for way in ways), "all have arrived")


async def test_a_key_that_returns_to_live_counts_while_the_past_is_opened(live: Recorded) -> None:
    playback = live.app.playback
    firsts: tuple[Callable[[], None], ...] = (
        lambda: playback.step(-10),
        lambda: playback.jump("change", -1),
        playback.toggle,
    )
    for first in firsts:
        first()
        playback.toggle()
        await all_have_arrived(live)
        assert not playback.past


async def test_keys_while_the_past_is_opened_count_in_their_order(live: Recorded) -> None:
    playback, before = live.app.playback, open_recordings()
    playback.step(-10)
    playback.toggle()
    playback.step(-20)
    playback.step(10)
    await all_have_arrived(live)
    await live.until(lambda: playback.arrived, "the screens are there")
    assert playback.past
    assert 9 < (playback.last_ms - playback.position_ms) / 1000 < 12
    assert open_recordings() == before + 1


async def test_who_seeks_what_there_is_not_stays_with_what_is_live(tmp_path: Path) -> None:
    async with recorded(tmp_path, scripted()) as calm:
        calm.app.playback.jump("incident", -1)
        await all_have_arrived(calm)
        assert not calm.app.playback.past
        assert "There is none before this." in calm.said


async def test_leaving_from_the_past_lets_go_of_everything(tmp_path: Path) -> None:
    before = {*threading.enumerate()}
    async with recorded(tmp_path, scripted()) as shown:
        await shown.later(10)
        await shown.go("left_square_bracket", "vertical_line")
        await shown.pilot.press("q")
    await threads_have_ended(before)


async def test_a_recording_that_stops_is_said_and_stays_said(live: Recorded) -> None:
    live.app._recording_failed("Recording has stopped: the disk is full.")
    await live.until(lambda: "Recording has stopped" in live.said, "it is said")
    await live.press("exclamation_mark")
    await live.until(lambda: "the disk is full" in live.frame(), "it stays listed")
