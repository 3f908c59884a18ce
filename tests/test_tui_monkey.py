"""Any keys at all, in any order, over faults of the backend and terminals of any size.

Whatever is pressed, the dashboard lives, nothing is changed that was not agreed to at a question,
and nothing that the cluster calls itself is taken for markup or for a terminal's command.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from textual import events

from backend.domain.cluster import TopicPartition
from backend.domain.operation import OperationKind, OperationState
from backend.domain.steering import ShownDrift, ShownOrphan
from tests.tui_backend import Problem, ScriptedBackend
from tests.tui_cluster import ScriptedCluster, incident, running_move
from tests.tui_support import ManualTime, Shown
from tui.actions import ACTIONS
from tui.app import KshuntApp
from tui.screens.confirm import ConfirmScreen
from tui.views import VIEWS
from tui.wizard.model import Step
from tui.wizard.screen import WizardScreen

EXAMPLES: Final = int(os.environ.get("KSHUNT_MONKEYS", "12"))
STEPS: Final = 100
"""Keys, resizes and faults of one example; KSHUNT_MONKEYS=100 makes it 10,000 altogether."""

TYPED: Final = [*"abcxyz019", "slash", "colon", "comma", "minus", "full_stop", "greater_than_sign"]
DIALOG: Final = ["y", "n", "tab", "shift+tab", "enter", "escape", "left", "right", "backspace"]
KEYS: Final = sorted({key for action in ACTIONS for key in action.keys} - {"q", "ctrl+q"})
LEAVES: Final = {"q"}
"""Closes dialogues, and else the dashboard; pressed only in dialogues."""

HOSTILE: Final = "cfg[red]x[/red]"
DRIFT = ShownDrift(
    "d1",
    "follower.replication.throttled.rate",
    2,
    None,
    "changed",
    "25000000 B/s",
    "50000000 B/s",
    ("op-1",),
    "[bold]changed[/bold]",
)
ORPHAN = ShownOrphan(
    "o1", "leader.replication.throttled.replicas", None, HOSTILE, "1:2", "left [red]behind[/red]"
)


@dataclass(frozen=True, slots=True)
class Stroke:
    """One thing that happens."""

    kind: str
    """`key`, `resize`, `cut`, `back`, `refuse`, `allow`, `tick` or `note`."""
    key: str = ""
    size: tuple[int, int] = (80, 24)


def strokes() -> st.SearchStrategy[list[Stroke]]:
    """What happens in one example; mostly keys."""
    key = st.sampled_from(KEYS * 2 + DIALOG * 3 + TYPED + sorted(LEAVES))
    # Narrower than that, Textual itself cannot wrap a line of its palette.
    size = st.tuples(st.integers(20, 210), st.integers(5, 60))
    sizes = st.one_of(st.sampled_from([(80, 24), (160, 50), (20, 5)]), size)
    event = st.sampled_from(["cut", "back", "refuse", "allow", "tick", "tick", "note"])
    one = st.one_of(
        *[key.map(lambda name: Stroke("key", name))] * 8,
        sizes.map(lambda found: Stroke("resize", size=found)),
        event.map(Stroke),
    )
    return st.lists(one, min_size=STEPS, max_size=STEPS)


def troubled() -> ScriptedCluster:
    """A move under way, hostile names, a broker that is down."""
    cluster = incident()
    first = TopicPartition("orders", 0)
    cluster.partitions[TopicPartition(HOSTILE, 0)] = cluster.partitions.pop(first)
    cluster.down = {3: "[bold]boom[/x]\x1b[2J\u202eevil"}
    running_move(cluster)
    operation = cluster.operations["op-1"]
    cluster.operations["op-1"] = replace(operation, summary="[red]move[/red] \x1b]0;evil\x07")
    return cluster


@dataclass
class Monkey:
    """Presses, breaks, resizes; and knows how often something was agreed to."""

    shown: Shown
    backend: ScriptedBackend
    agreed: int = 0
    said: list[str] = field(default_factory=list)

    async def do(self, stroke: Stroke) -> None:
        """One stroke."""
        match stroke.kind:
            case "key":
                await self._press(stroke.key)
            case "resize":
                await self.shown.pilot.resize_terminal(*stroke.size)
            case "cut":
                await self.backend.stop()
            case "back" if not self.backend.socket.exists():
                await self.backend.start()
            case "refuse":
                self.backend.refuse = Problem(409, "Not [red]now[/red].", "Wait.")
            case "allow":
                self.backend.refuse = None
            case "note":
                self.backend.cluster.note(
                    OperationKind.ELECTION, HOSTILE, state=OperationState.RUNNING
                )
            case _:
                self.backend.publish()

    async def _press(self, key: str) -> None:
        app = self.shown.app
        dialog = len(app.screen_stack) > 1
        if key in LEAVES and not dialog:
            return
        if self._asks() and key in ("y", "enter", "space"):
            self.agreed += 1
        await self._type(key)

    async def _type(self, key: str) -> None:
        """As the pilot's `press`, without its pauses for the eye: there may be 10,000 of these."""
        app = self.shown.app
        event = events.Key(key, key if len(key) == 1 else None)
        event.set_sender(app)
        assert app._driver is not None
        app._driver.send_message(event)
        # The key goes from the app to the screen to the widget: each hands it on once.
        for _ in range(3):
            await self.shown.pilot._wait_for_screen()

    def _asks(self) -> bool:
        """Whether the next key may agree to a change."""
        screen = self.shown.app.screen
        if isinstance(screen, WizardScreen):
            return screen.step is Step.CONFIRM
        return isinstance(screen, ConfirmScreen)

    def judge(self) -> None:
        """The law."""
        app = self.shown.app
        assert app.is_running, "it died"
        assert app.return_code in (None, 0)
        text = self.shown.frame()
        assert not [c for c in text if ord(c) < 32 and c != "\n"], "control characters"
        assert "\u202e" not in text
        assert "cfgx" not in text, "markup of a name was obeyed"
        changes = self.backend.changes
        assert len(changes) <= self.agreed, f"{len(changes)} changes, {self.agreed} agreed to"


@pytest.mark.parametrize("view", VIEWS)
@settings(
    max_examples=max(EXAMPLES // len(VIEWS), 1),
    # An example takes a second: to shrink one takes minutes, and is for who looks into it.
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@given(strokes=strokes())
async def test_any_keys_in_any_order(view: str, strokes: list[Stroke]) -> None:
    folder = Path(tempfile.mkdtemp(prefix="kshunt-monkey-"))
    before = Path.cwd()
    # An export may be written by chance.
    os.chdir(folder)
    try:
        async with ScriptedBackend(folder / "s", troubled()) as backend:
            backend.drift = {DRIFT.id: DRIFT}
            backend.orphans = {ORPHAN.id: ORPHAN}
            app = KshuntApp(backend.address, now_s=ManualTime(), retry_s=(0.02,), start_view=view)
            async with app.run_test(size=(80, 24)) as pilot:
                monkey = Monkey(Shown(app, pilot, backend, ManualTime()), backend)
                for number, stroke in enumerate(strokes):
                    await monkey.do(stroke)
                    if number % 5 == 0:
                        monkey.judge()
                monkey.judge()
    finally:
        os.chdir(before)
