"""An operation that ends is told in every view, and to a terminal that nobody looks at."""

from __future__ import annotations

from dataclasses import replace
from inspect import getfile
from pathlib import Path, PurePath
from typing import ClassVar

import pytest

from kshunt.backend.domain.operations.operation import Operation, OperationKind, OperationState
from kshunt.tui.app import KshuntApp
from kshunt.tui.facts.endings import Ending, copied_bytes, ended_between
from kshunt.tui.facts.progress import copied_rows
from kshunt.tui.terminal.notices import (
    KEEP_TITLE,
    NOTIFICATIONS,
    OLD_TITLE,
    Notices,
    notification,
    title_codes,
)
from tests.support.tui.app import dashboard
from tests.support.tui.cluster import ScriptedCluster, incident, running_move
from tests.support.tui.replay import Recorded
from tests.support.tui.tables import facts_of

RAN = Operation(
    "op-1",
    OperationKind.REASSIGN,
    OperationState.RUNNING,
    started_ms=1_000,
    summary="drain broker 7",
    throttle_bytes_per_s=50_000_000,
)
DONE = replace(RAN, state=OperationState.DONE, ended_ms=1_000 + 1_147_000)


def test_an_ending_says_what_when_how_much_and_that_the_throttle_is_off() -> None:
    assert Ending(DONE, 97_000_000_000, 0).text == (
        "drain broker 7: done in 19m07s, 97.0 GB copied, throttle off, no ISR drop."
    )


def test_what_is_not_known_is_not_said() -> None:
    assert Ending(replace(DONE, throttle_bytes_per_s=None)).text == (
        "drain broker 7: done in 19m07s."
    )


def test_an_end_that_was_not_meant_says_why_and_not_that_the_throttle_is_off() -> None:
    cancelled = replace(DONE, state=OperationState.CANCELLED, outcome="0 of 28 moved\x1b[2J")
    assert Ending(cancelled, isr_drops_max=3).text == (
        "drain broker 7: cancelled in 19m07s, 0 of 28 moved?[2J, up to 3 partitions "
        "under-replicated."
    )
    partly = replace(cancelled, state=OperationState.PARTLY_CANCELLED)
    assert Ending(partly).parts[0] == "drain broker 7: partly cancelled in 19m07s"
    kept = replace(DONE, auto_remove_throttle=False)
    assert "throttle still set" in Ending(kept).parts


def test_only_moves_that_were_seen_to_run_have_ended() -> None:
    rates = replace(RAN, id="op-2", kind=OperationKind.THROTTLED_RATES)
    before = [RAN, rates, replace(DONE, id="op-3")]
    after = [DONE, replace(DONE, id="op-2", kind=rates.kind), replace(DONE, id="op-4")]
    assert ended_between(before, after) == [RAN]
    assert ended_between(before, before) == []


def test_what_was_left_at_the_last_look_was_copied_if_the_operation_is_done() -> None:
    cluster = incident()
    before = running_move(cluster)
    facts = facts_of(cluster)
    rows = copied_rows(facts, before)
    held, lacked = (
        int(values[rows & (values > 0)].sum())
        for values in (facts.rows.size_bytes, facts.rows.lag_bytes)
    )
    assert lacked > 0
    done, cancelled = (
        replace(before, state=state) for state in (OperationState.DONE, OperationState.CANCELLED)
    )
    assert copied_bytes(facts, done, before) == held + lacked
    assert copied_bytes(facts, cancelled, before) == held


@pytest.mark.parametrize("kind", NOTIFICATIONS)
def test_a_notification_holds_nothing_that_drives_a_terminal(kind: str) -> None:
    codes = notification(kind, "done\x1b]2;x\x07; and more")
    body = codes.removeprefix("\x1b]").removesuffix("\x1b\\")
    assert "\x1b" not in body
    assert "\x07" not in body
    assert body.endswith("done?]2,x?, and more")
    assert len(notification(kind, "x" * 5_000)) < 300


def test_no_notification_is_no_code() -> None:
    assert notification("", "done") == ""


def test_a_notification_reaches_the_terminal_around_tmux() -> None:
    plain = notification("osc777", "done")
    codes = notification("osc777", "done", in_tmux=True)
    body = codes.removeprefix("\x1bPtmux;").removesuffix("\x1b\\")
    assert body.replace("\x1b\x1b", "\x1b") == plain
    assert body.count("\x1b") == 2 * plain.count("\x1b")
    assert notification("", "done", in_tmux=True) == ""


class Telling(KshuntApp):
    """Keeps the codes that the app would send to a terminal in addition to what it paints."""

    CSS_PATH: ClassVar[list[str | PurePath]] = [
        Path(getfile(KshuntApp)).parent / one for one in KshuntApp.CSS_PATH
    ]
    sent: ClassVar[list[str]] = []

    def write_codes(self, codes: str) -> None:
        self.sent.append(codes)


async def test_the_end_of_a_move_is_on_the_first_screen_and_stays(tmp_path: Path) -> None:
    cluster = incident()
    operation = running_move(cluster)
    notices = Notices(bell=True, notification="osc9", title=True)
    sent = Telling.sent
    async with dashboard(
        tmp_path / "s", cluster, size=(120, 24), app_class=Telling, notices=notices
    ) as shown:
        await shown.until(lambda: shown.app.store.isr_drops, "the operation is watched")
        await shown.until(lambda: any("done ≈" in one for one in sent), "the title says when")
        while any(state.copied for state in cluster.partitions.values()):
            await shown.publish(600.0)
        ended = replace(
            operation, state=OperationState.DONE, ended_ms=operation.started_ms + 90_000
        )
        cluster.operations[operation.id] = ended
        shown.backend.announce(ended)
        await shown.until(lambda: "done in 1m30s" in shown.frame(), "the end is told")
        await shown.press("3")
        await shown.publish()
        await shown.until(lambda: "done in 1m30s" in shown.lines()[1], "it stays in other views")
        assert "throttle off" in shown.lines()[1]
        assert "W writes the note" in shown.lines()[1]
        assert title_codes("kshunt") in sent
    assert sent[0] == KEEP_TITLE
    assert sent[-1] == OLD_TITLE
    assert any(one.startswith("\x07\x1b]9;move 6 partitions") for one in sent)


async def test_an_end_beside_other_moves_is_told_on_the_last_line(tmp_path: Path) -> None:
    cluster = incident()
    operation = running_move(cluster)
    async with dashboard(tmp_path / "s", cluster, size=(120, 24)) as shown:
        ended = replace(
            operation, state=OperationState.DONE, ended_ms=operation.started_ms + 90_000
        )
        cluster.operations[operation.id] = ended
        shown.backend.announce(ended)
        await shown.until(lambda: "done in 1m30s" in shown.lines()[-1], "the end is told")
        assert "Moving 6 partitions" in shown.lines()[1]


async def test_a_move_that_starts_takes_the_place_of_the_last_ending(tmp_path: Path) -> None:
    cluster = incident()
    async with dashboard(tmp_path / "s", cluster) as shown:
        shown.app.store.ending = Ending(DONE)
        await shown.publish()
        await shown.until(lambda: shown.app.store.ending is None, "the ending is gone")
        assert "Moving 6 partitions" in shown.lines()[1]


async def test_an_end_is_told_while_the_past_is_shown(live: Recorded) -> None:
    await live.go("left_square_bracket")
    (operation,) = live.app.live_scene.scene.operations
    ended = replace(operation, state=OperationState.DONE, ended_ms=operation.started_ms + 90_000)
    live.backend.cluster.operations[operation.id] = ended
    live.backend.announce(ended)
    await live.until(lambda: "done in 1m30s" in live.lines()[-1], "the end is told")
    assert "ISR" not in live.lines()[-1], "nobody watched it"
    assert "done in" not in live.lines()[1], "the past knows nothing of it"


async def test_why_an_operation_failed_is_on_the_narrowest_line(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", ScriptedCluster(), start_view="overview") as shown:
        outcome = "refused: audit-log-0: INVALID_REPLICA_ASSIGNMENT: no live broker has the id 4"
        failed = replace(DONE, state=OperationState.FAILED, outcome=outcome)
        shown.app.store.ending = Ending(failed)
        await shown.publish()
        await shown.until(lambda: "drain broker 7: failed" in shown.lines()[1], "it is told")
        assert "refused: audit-log-0: INVALID_REPL" in shown.lines()[1]
        assert shown.lines()[1].endswith("…")


async def test_an_end_that_was_not_watched_stays_and_claims_nothing(tmp_path: Path) -> None:
    """As after Ctrl-Z: the end is told before the snapshots of the time since."""
    cluster = incident()
    operation = running_move(cluster)
    async with dashboard(tmp_path / "s", cluster, size=(120, 24)) as shown:
        await shown.until(lambda: shown.app.store.isr_drops, "the operation is watched")
        ended = replace(operation, state=OperationState.DONE, ended_ms=cluster.now_ms + 90_000)
        cluster.operations[operation.id] = ended
        shown.backend.announce(ended)
        await shown.until(lambda: shown.app.store.ending, "the end is told")
        await shown.publish()
        assert shown.app.store.ending is not None, "that snapshot is from before the end"
        assert "copied" not in shown.app.store.ending.text
        assert "ISR" not in shown.app.store.ending.text
        await shown.publish(100.0)
        await shown.until(lambda: shown.app.store.ending is None, "others move since")
