"""The application: views, wiring between link and store, themes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import PurePath
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import App
from textual.command import Provider
from textual.message import Message
from textual.signal import Signal

from tui.link import (
    RETRY_S,
    AlertArrived,
    Connected,
    Disconnected,
    Link,
    OperationsArrived,
    SnapshotArrived,
)
from tui.palette import ActionProvider
from tui.rounds import TICK_S, Rounds
from tui.screens.brokers import BrokersScreen
from tui.screens.history import HistoryScreen
from tui.screens.operations import OperationsScreen
from tui.screens.overview import OverviewScreen
from tui.screens.partitions import PartitionsScreen
from tui.screens.throttles import ThrottlesScreen
from tui.screens.view import ViewScreen
from tui.store import REFRESH_S, Connection, ConnectionState, Derived, DeriveFailed, Deriver, Store
from tui.text import UNICODE, Glyphs
from tui.theme import ANSI, DEFAULT, TONE_DEFAULTS, builtin_themes
from tui.views import (
    BROKERS,
    HISTORY,
    OPERATIONS,
    OVERVIEW,
    PARTITIONS,
    THROTTLES,
    VIEWS,
)

if TYPE_CHECKING:
    from textual.screen import Screen

    from tui.flows import Flows


class KshuntApp(App[None]):
    """The dashboard of one backend."""

    TITLE = "kshunt"
    CSS_PATH: ClassVar[list[str | PurePath]] = [
        "css/frame.tcss",
        "css/tables.tcss",
        "css/overview.tcss",
        "css/history.tcss",
        "css/dialogs.tcss",
    ]
    MODES: ClassVar[dict[str, str | Callable[[], Screen[None]]]] = {
        OVERVIEW: OverviewScreen,
        PARTITIONS: PartitionsScreen,
        BROKERS: BrokersScreen,
        THROTTLES: ThrottlesScreen,
        OPERATIONS: OperationsScreen,
        HISTORY: HistoryScreen,
    }
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {ActionProvider}
    # Textual declares these as instance attributes, so they cannot be ClassVar here.
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-short"), (8, "-normal"), (36, "-tall")]  # noqa: RUF012
    COMMAND_PALETTE_BINDING = "ctrl+p"
    ENABLE_COMMAND_PALETTE = True

    def __init__(
        self,
        address: str,
        *,
        read_only: bool = False,
        plain: bool = False,
        theme: str = "",
        start_view: str = OVERVIEW,
        glyphs: Glyphs = UNICODE,
        now_s: Callable[[], float] = time.monotonic,
        retry_s: Sequence[float] = RETRY_S,
        revive: Callable[[], object] | None = None,
    ) -> None:
        """`plain` starts in the terminal's own colours, which is also right for NO_COLOR."""
        # Textual has this on the class; the operator chooses.
        self.DEFAULT_MODE = start_view  # type: ignore[misc]
        super().__init__(ansi_color=True if plain else None)
        self.address = address
        self.read_only = read_only
        self.glyphs = glyphs
        self.animation_level = "none"
        for shipped in builtin_themes():
            self.register_theme(shipped)
        self.theme = ANSI if plain else theme or DEFAULT
        self.set_class(not glyphs.spark, "-ascii")
        self.store = Store(now_s)
        self.link = Link(address, self.post_message, retry_s=retry_s, revive=revive)
        self.rounds = Rounds(self)
        self._deriver = Deriver(self._post_derived)
        self._shown_s = float("-inf")
        self._refresh_due = False
        self.changing = False
        """True while a change is being asked for, sent or answered."""

    @property
    def flows(self) -> Flows:
        """What changes the cluster; loaded when it is first wanted."""
        from tui.flows import Flows

        return Flows(self)

    def views(self) -> Iterator[ViewScreen]:
        """The views that were opened so far."""
        for mode in VIEWS:
            with suppress(KeyError):
                view = self.get_screen_stack(mode)[0]
                assert isinstance(view, ViewScreen)
                yield view

    @property
    def view(self) -> ViewScreen:
        """The view in sight, perhaps below a dialogue."""
        view = self.get_screen_stack(self.current_mode)[0]
        assert isinstance(view, ViewScreen)
        return view

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our own colours, for themes that do not name them."""
        return TONE_DEFAULTS

    def on_load(self) -> None:
        """Create what screens subscribe to."""
        self.changed: Signal[str] = Signal(self, "changed")
        """The store changed: the name of a view, or empty for all of them."""

    def on_mount(self) -> None:
        """Connect once the first frame is out: data libraries are loaded after it."""
        self.call_after_refresh(self._connect)

    def _connect(self) -> None:
        self._deriver.start()
        self.link.start()
        self.set_interval(TICK_S, self.rounds.look)

    async def on_unmount(self) -> None:
        """Let go of the backend; its threads may take a moment."""
        await asyncio.to_thread(self.link.stop)
        await asyncio.to_thread(self._deriver.stop)

    def derive(self, view: str) -> None:
        """Compute a view's table from the newest snapshot."""
        job = self.store.job(view)
        if job is not None:
            self._deriver.submit(job)

    def _post_derived(self, derived: Message) -> None:
        try:
            self.post_message(derived)
        except RuntimeError:
            # The event loop was closed meanwhile; nobody is left to look.
            return

    # Facts

    @on(SnapshotArrived)
    def _snapshot_arrived(self, message: SnapshotArrived) -> None:
        before = self.store.cluster_id
        self.store.take_snapshot(message.snapshot)
        if before not in ("", self.store.cluster_id):
            self._cluster_changed()
        self._refresh_soon()

    def _cluster_changed(self) -> None:
        """Marks were made on another cluster: names that are equal mean something else here."""
        for view in self.views():
            view.clear_marks()
        self.store.audits.clear()
        self.rounds.nudge()
        self.say(f"This is another cluster now: {self.store.cluster_id}.", "bad")

    def _refresh_soon(self) -> None:
        """Show the newest snapshot, at most once in `REFRESH_S`."""
        wait = self._shown_s + REFRESH_S - time.monotonic()
        if wait <= 0:
            self._refresh_now()
        elif not self._refresh_due:
            self._refresh_due = True
            self.set_timer(wait, self._refresh_now)

    def _refresh_now(self) -> None:
        self._refresh_due = False
        self._shown_s = time.monotonic()
        self.derive(self.current_mode)

    @on(Derived)
    def _derived(self, message: Derived) -> None:
        self.store.take_derived(message)
        self.changed.publish(message.job.view)
        self.rounds.look()

    @on(DeriveFailed)
    def _derive_failed(self, message: DeriveFailed) -> None:
        self.say(f"The {message.view} view cannot be computed: {message.reason}", "bad")

    @on(OperationsArrived)
    def _operations_arrived(self, message: OperationsArrived) -> None:
        self.store.operations = message.operations
        self.rounds.look()
        if self.current_mode == OPERATIONS:
            self.derive(OPERATIONS)

    @on(Connected)
    def _connected(self, message: Connected) -> None:
        self.store.info = message.info
        self._connection(Connection(ConnectionState.LIVE))

    @on(Disconnected)
    def _disconnected(self, message: Disconnected) -> None:
        self._connection(Connection(ConnectionState.LOST, message.reason))

    def _connection(self, connection: Connection) -> None:
        self.store.connection = connection
        self.changed.publish("")

    @on(AlertArrived)
    def _alert_arrived(self, message: AlertArrived) -> None:
        self.say(message.text, "warn")

    def action_help_quit(self) -> None:
        """Ctrl-C, which means many things to many people."""
        self.say("q leaves; moves go on in the cluster.")

    def say(self, text: str, tone: str = "") -> None:
        """Say something on the last line of the view in sight."""
        self.view.say(text, tone)
