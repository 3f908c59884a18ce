"""What nobody looked at while it was recorded: a replay says so, and shows no empty place."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from kshunt.backend.domain.audit.shown_line import AuditLine
from kshunt.tui.views.audit.screen import AuditScreen
from kshunt.tui.views.operations.operation_dialog import WatchScreen
from tests.support.tui.cluster import START_MS, ScriptedCluster, incident, running_move
from tests.support.tui.replay import Replayed, recorded, replayed

WORDS = "not recorded: this was not shown during the recording"
TALL = (100, 50)


def scripted() -> ScriptedCluster:
    """An incident with an operation that somebody asked for."""
    cluster = incident()
    running_move(cluster)
    return cluster


@asynccontextmanager
async def replay_of(
    folder: Path, *keys: str, size: tuple[int, int] = TALL
) -> AsyncIterator[Replayed]:
    """A recording of a dashboard in which these keys were pressed."""
    async with recorded(folder, scripted()) as shown:
        line = AuditLine(
            time_ms=START_MS, event="requested", operation="op-1", who="ada", text="Drain."
        )
        shown.backend.audit.append(("op-1", line))
        for key in keys:
            await shown.press(key)
            await shown.quiet()
        await shown.later(5)
        paths = shown.recorder.paths
    async with replayed(paths, size=size) as replay:
        await replay.go("dollar_sign")
        yield replay


def flat(replay: Replayed) -> str:
    """The screen without line breaks, so that wrapped words are found."""
    return " ".join(" ".join(replay.lines()).replace("│", " ").split())


def in_sight(replay: Replayed, kind: type[object]) -> bool:
    """Whether a dialogue of this kind is open."""
    return isinstance(replay.app.screen, kind)


async def test_configurations_are_said_not_to_be_recorded(tmp_path: Path) -> None:
    async with replay_of(tmp_path) as replay:
        await replay.go("2", "enter")
        assert "Configs" in replay.frame()
        assert "? not recorded: a recording holds no configurations" in flat(replay)


async def test_the_past_shows_no_configuration_of_the_present(tmp_path: Path) -> None:
    async with recorded(tmp_path, scripted(), size=TALL) as shown:
        await shown.later(10)
        await shown.press("enter")
        await shown.until(lambda: "asking" not in shown.frame(), "the topic was asked for")
        live = shown.frame()
        assert "Configs" in live
        assert "not recorded" not in live
        await shown.go("left_square_bracket")
        assert "not recorded: a recording holds no configurations" in " ".join(
            shown.frame().split()
        )
        await shown.go("T")
        assert "not recorded" not in shown.frame()


async def test_an_audit_that_was_not_looked_at_is_said_so(tmp_path: Path) -> None:
    async with replay_of(tmp_path) as replay:
        await replay.go("5")
        assert f"Audit {WORDS}" in flat(replay)
        await replay.go("v")
        assert in_sight(replay, AuditScreen)
        assert f"N{WORDS[1:]}." in flat(replay)
        await replay.go("escape", "enter")
        assert in_sight(replay, WatchScreen)
        assert f"Audit {WORDS}" in flat(replay)


async def test_an_audit_that_was_looked_at_is_shown_as_far_as_it_was(tmp_path: Path) -> None:
    async with replay_of(tmp_path, "5") as replay:
        await replay.go("5")
        assert WORDS not in flat(replay)
        assert "requested by ada" in flat(replay)
        await replay.go("v")
        assert "1 of 1 recorded" in flat(replay)
        assert "Drain." in flat(replay)


async def test_owners_that_nobody_looked_at_are_said_so(tmp_path: Path) -> None:
    async with replay_of(tmp_path) as replay:
        await replay.go("4")
        assert f"owners, orphans: {WORDS}" in flat(replay)


async def test_owners_that_somebody_looked_at_are_shown(tmp_path: Path) -> None:
    async with replay_of(tmp_path, "4") as replay:
        await replay.go("4")
        assert WORDS not in flat(replay)


async def test_whether_a_pipeline_ran_is_recorded(tmp_path: Path) -> None:
    async with replay_of(tmp_path) as replay:
        await replay.go("6")
        assert "absent: This backend records no samples" in flat(replay)
