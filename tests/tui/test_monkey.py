"""Any keys at all, in any order, over faults of the backend and terminals of any size.

Whatever the test presses, the dashboard lives. It changes nothing that the user did not agree to
at a question. It never takes a name of the cluster for markup or for a terminal's command.
"""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, chdir
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.throttles.owners import SettingValue
from kshunt.tui.actions import ACTIONS
from kshunt.tui.actions.view_names import VIEWS
from kshunt.tui.app import KshuntApp
from kshunt.tui.recorder.recorder import Recorder
from kshunt.tui.terminal.input import LEAST
from kshunt.tui.views.view_screen import ViewScreen
from tests.support.tui.app import RETRY_S, ManualTime, Shown, plan_file
from tests.support.tui.backend import ScriptedBackend
from tests.support.tui.cluster import (
    DRIFT,
    HOSTILE,
    ORPHAN,
    ScriptedCluster,
    incident,
    running_move,
)
from tests.support.tui.monkey import Monkey, Stroke, WatchedDriver
from tests.support.tui.plans import Planning
from tests.support.tui.replay import WALL_S

pytestmark = pytest.mark.slow

STROKES: Final = int(os.environ.get("KSHUNT_STROKES", "2880"))
"""Keys, sizes and faults altogether; KSHUNT_STROKES=10000 makes them that many."""
STEPS: Final = 240
"""Of them in one example: as long as a dashboard is open."""
EXAMPLES: Final = max(-(-STROKES // (STEPS * len(VIEWS))), 1)
"""From each view."""
READ_EVERY: Final = 5
"""Strokes between two screens that are read."""

KEYS: Final = sorted({key for action in ACTIONS for key in action.keys} - {"ctrl+q"})
CHANGES: Final = sorted({action.keys[0] for action in ACTIONS if action.changes})
DIALOG: Final = ["y", "n", "tab", "shift+tab", "enter", "escape", "left", "right", "backspace"]
TYPED: Final = [*"abcxyz019", "slash", "colon", "comma", "minus", "full_stop", "greater_than_sign"]
USUAL: Final = [(80, 24), (80, 24), (160, 50), (LEAST.width, LEAST.height)]
KINDS: Final = [
    *["key"] * 68,
    *["ahead"] * 4,
    *["on"] * 8,
    *["out"] * 4,
    *("resize", "any size", "pinch", "paste"),
    *["click"] * 4,
    *("double", "drag"),
    *(
        "cut",
        "back",
        "refuse",
        "allow",
        "hold",
        "release",
        "shift",
        "note",
        "alert",
        "tick",
        "tick",
    ),
]
"""What may happen, as often as it is to be."""


@st.composite
def stroke(draw: st.DrawFn) -> Stroke:
    """One thing that happens; mostly a key."""
    key = st.sampled_from(KEYS * 2 + DIALOG * 3 + TYPED)
    match draw(st.sampled_from(KINDS)):
        case "key":
            return Stroke("keys", (draw(key),))
        case "on":
            return Stroke("on", (draw(st.sampled_from(CHANGES)),))
        case "ahead":
            return Stroke("keys", tuple(draw(st.lists(key, min_size=2, max_size=5))))
        case "resize":
            return Stroke("resize", size=draw(st.sampled_from(USUAL)))
        case "any size":
            return Stroke("resize", size=draw(_sizes(LEAST.width, 210, LEAST.height, 60)))
        case "pinch":
            tiny = draw(_sizes(1, LEAST.width, 1, LEAST.height - 1))
            return Stroke("pinch", (draw(key),), tiny)
        case "click" | "double" | "drag" as kind:
            return Stroke(kind, size=draw(_sizes(0, 120, 0, 40)))
        case kind:
            return Stroke(kind)


def _sizes(
    width_least: int, width_most: int, height_least: int, height_most: int
) -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(st.integers(width_least, width_most), st.integers(height_least, height_most))


def strokes() -> st.SearchStrategy[list[Stroke]]:
    """What happens in one example."""
    # The first one that is made would be the same key all the time.
    made = st.lists(stroke(), min_size=STEPS, max_size=STEPS)
    return made.filter(lambda found: len(set(found)) > STEPS // 10)


def troubled() -> ScriptedCluster:
    """A move under way, hostile names, a broker that is down."""
    cluster = incident()
    first = TopicPartition("orders", 0)
    cluster.partitions[TopicPartition(HOSTILE, 0)] = cluster.partitions.pop(first)
    cluster.down = {3: "[bold]boo[/bold]mer[/x]\x1b[2J\u202eevil"}
    operation = running_move(cluster)
    cluster.operations[operation.id] = replace(
        operation, summary="[red]mop[/red]ing \x1b]0;evil\x07", who=HOSTILE, reason=HOSTILE
    )
    return cluster


@asynccontextmanager
async def caged(folder: Path, view: str, *, recorded: bool) -> AsyncIterator[Monkey]:
    """A monkey at a dashboard that has trouble already."""
    time = ManualTime()
    async with ScriptedBackend(folder / "s", troubled()) as backend:
        drift = replace(DRIFT, broker=None, topic=HOSTILE, changed_replicas="[bold]1[/bold]:2")
        orphan = replace(
            ORPHAN, topic=HOSTILE, present_value=SettingValue(replicas="[red]1[/red]:2")
        )
        backend.drift, backend.orphans = {drift.id: drift}, {orphan.id: orphan}
        recorder = None
        if recorded:
            recorder = Recorder(folder / "r", now_s=time, wall_s=lambda: WALL_S + time.now)
        Planning(backend)
        app = KshuntApp(
            backend.address, now_s=time, retry_s=(RETRY_S,), start_view=view, recorder=recorder
        )
        app.driver_class = WatchedDriver
        async with app.run_test(size=(80, 24), headless=False) as pilot:
            yield Monkey(Shown(app, pilot, backend, time))


@pytest.fixture(autouse=True)
def few_collections() -> Iterator[None]:
    """Leave out of the collections of garbage what was there before: it is much, and stays."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def staying(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody leaves: by key, from the palette or by the mouse."""
    monkeypatch.setattr(ViewScreen, "action_quit", lambda view: None)


@pytest.mark.parametrize("view", VIEWS)
@settings(
    max_examples=EXAMPLES,
    # An example takes seconds: to shrink one takes minutes, and is for who looks into it.
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@given(strokes=strokes(), recorded=st.sampled_from([False, False, True]))
async def test_any_keys_in_any_order(view: str, strokes: list[Stroke], recorded: bool) -> None:
    # A plan to start from; an export may be written by chance.
    with tempfile.TemporaryDirectory(prefix="kshunt-monkey-") as name, chdir(name):
        plan_file(Path(name), {("audit-log", 0): [2, 3, 4]})
        async with caged(Path(name), view, recorded=recorded) as monkey:
            for number, stroke in enumerate(strokes):
                await monkey.do(stroke)
                monkey.judge()
                if number % READ_EVERY == 0:
                    monkey.read()
            await monkey.recover()
