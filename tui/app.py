"""The application: views, wiring between link and store, themes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.command import Provider
from textual.events import Resize
from textual.message import Message
from textual.signal import Signal

from kshunt.backend.errors import ConfigError
from kshunt.tui.actions.view_names import (
    BROKERS,
    HISTORY,
    OPERATIONS,
    OVERVIEW,
    PARTITIONS,
    THROTTLES,
    TOPICS,
    VIEWS,
)
from kshunt.tui.data.live_scene import LiveScene
from kshunt.tui.data.playback import Playback
from kshunt.tui.data.polling import TICK_S, Polling
from kshunt.tui.data.store import Store, TableFailed, TableReady
from kshunt.tui.feed.backend_link import RETRY_S, Link
from kshunt.tui.feed.messages import (
    AlertArrived,
    AnswerArrived,
    AnswerFailed,
    AuditArrived,
    Connected,
    Disconnected,
    Feed,
    OperationsArrived,
    RecordingStopped,
    SnapshotArrived,
)
from kshunt.tui.feed.scene import Scene
from kshunt.tui.palette import ActionProvider, Palette, PlaceProvider
from kshunt.tui.settings import SettingValue
from kshunt.tui.shell.dashboard import Dashboard
from kshunt.tui.shell.own_settings import OwnSettings
from kshunt.tui.shell.theme_files import DEFAULT, TONE_DEFAULTS, ThemeFolder
from kshunt.tui.shell.theme_manager import ThemeManager
from kshunt.tui.stylesheet import CachedStylesheet
from kshunt.tui.table_thread import REFRESH_S, TableThread
from kshunt.tui.tables.model import NATURAL
from kshunt.tui.terminal.diff_output import SLOW_REFRESH_S
from kshunt.tui.terminal.downloads import Downloads
from kshunt.tui.terminal.mouse import report_mouse
from kshunt.tui.terminal.notices import KEEP_TITLE, OLD_TITLE, Notices, title_codes
from kshunt.tui.terminal.size_classes import size_classes
from kshunt.tui.text.glyphs import UNICODE, Glyphs
from kshunt.tui.views.view_screen import ViewScreen, opener

if TYPE_CHECKING:
    from textual.screen import Screen

    from kshunt.tui.changes.fader import Fader
    from kshunt.tui.changes.teamwork import Teamwork
    from kshunt.tui.changes.workflows import ChangeWorkflows
    from kshunt.tui.recorder.reader import RecordingReader
    from kshunt.tui.recorder.recorder import Recorder
    from kshunt.tui.shell.contexts import Contexts
    from kshunt.tui.tables.column_choice import ColumnChoice
    from kshunt.tui.tables.model import Order, RowKey
    from kshunt.tui.tables.targets import ReturnPoint


Keep = Callable[[str, SettingValue | None], object]
"""Writes a setting down: its table or nothing, its name, what it is from now on."""


class KshuntApp(Dashboard):
    """The dashboard of one backend."""

    TITLE = "kshunt"
    CSS_PATH: ClassVar[list[str | PurePath]] = [
        "css/frame.tcss",
        "css/tables.tcss",
        "css/overview.tcss",
        "css/history.tcss",
        "css/dialogs.tcss",
        "css/time.tcss",
    ]
    MODES: ClassVar[dict[str, str | Callable[[], Screen[None]]]] = {
        OVERVIEW: opener("overview", "OverviewScreen"),
        PARTITIONS: opener("partitions", "PartitionsScreen"),
        BROKERS: opener("brokers", "BrokersScreen"),
        THROTTLES: opener("throttles", "ThrottlesScreen"),
        OPERATIONS: opener("operations", "OperationsScreen"),
        HISTORY: opener("history", "HistoryScreen"),
        TOPICS: opener("topics", "TopicsScreen"),
    }
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {
        ActionProvider,
        PlaceProvider,
    }
    COMMAND_PALETTE_BINDING = "ctrl+p"
    ENABLE_COMMAND_PALETTE = True

    _told = Scene()
    """The newest live scene of which endings were told."""

    def __init__(
        self,
        address: str,
        *,
        read_only: bool = False,
        in_browser: bool = False,
        plain: bool = False,
        theme: str = "",
        themes: ThemeFolder | None = None,
        start_view: str = OVERVIEW,
        opens_on_all: bool = False,
        orders: Mapping[str, Order] | None = None,
        columns: Mapping[str, ColumnChoice] | None = None,
        keep: Keep | None = None,
        glyphs: Glyphs = UNICODE,
        now_s: Callable[[], float] = time.monotonic,
        retry_s: Sequence[float] = RETRY_S,
        revive: Callable[[], object] | None = None,
        recorder: Recorder | None = None,
        reel: RecordingReader | None = None,
        freeze: Callable[[], object] | None = None,
        notices: Notices | None = None,
        own_settings: OwnSettings | None = None,
        name: str = "",
        contexts: Contexts | None = None,
    ) -> None:
        """`plain` starts in the terminal's own colours, which is also right for NO_COLOR.

        `in_browser` keeps the files of this host out of reach: texts are downloaded instead.

        `opens_on_all`: the partitions view opens on every replica. `orders` and `columns` are
        the first ones of tables; `keep` writes down what the operator chooses, on a thread.

        `recorder` writes what comes. `reel` is a recording that is shown in place of a backend.
        `freeze` is called when what a view needs has been loaded. `notices` says how the terminal
        reports an operation's end. `own_settings` says which settings hold. `name` is what the
        operator calls the cluster; `contexts` are others that can be opened.

        Raises:
            ConfigError: there is no theme of that name.
        """
        # Textual has this on the class; the operator chooses.
        self.DEFAULT_MODE = start_view  # type: ignore[misc]
        super().__init__(ansi_color=True if plain else None)
        self.address = address
        self.cluster_name = name
        self.contexts = contexts
        self.read_only = read_only
        self.opens_on_all = opens_on_all
        self.downloads = Downloads(self) if in_browser else None
        self.glyphs = glyphs
        self.animation_level = "none"
        self.themes = ThemeManager(self, themes, plain=plain, say=self.say)
        self.themes.open(theme)
        self.stylesheet = CachedStylesheet(variables=self.get_css_variables())
        self.set_class(not glyphs.spark, "-ascii")
        self.store = Store(now_s)
        self.store.begin_with(orders, columns)
        self.own_settings = own_settings or OwnSettings()
        self._keep = keep
        self._keeping = asyncio.Lock()
        self.live_scene = LiveScene(now_s, self.post_message, recorder)
        self.live = Link(address, self.live_scene.tell, retry_s=retry_s, revive=revive)
        self.playback = Playback(self, self.live_scene, _write_notes, reel)
        self.polling = Polling(self, self.live_scene, self.playback)
        self._table_thread = TableThread(self._post_table, self.store.lags, freeze)
        self._notices = notices or Notices()
        self._terminal_title, self._shown_s = "", float("-inf")
        self.return_points: dict[str, ReturnPoint] = {}
        self._refresh_due = self.changing = self.underway = False

    @property
    def link(self) -> Feed:
        """Whom to ask about what is shown; in the past nobody answers."""
        return self.playback if self.playback.past else self.live

    @cached_property
    def workflows(self) -> ChangeWorkflows:
        """What changes the cluster; loaded when it is first wanted."""
        from kshunt.tui.changes.workflows import ChangeWorkflows

        return ChangeWorkflows(self)

    @cached_property
    def fader(self) -> Fader:
        """Rates that follow the keys; loaded when it is first wanted."""
        from kshunt.tui.changes.fader import Fader

        return Fader(self)

    @cached_property
    def teamwork(self) -> Teamwork:
        """What others see; loaded when it is first wanted."""
        from kshunt.tui.changes.teamwork import Teamwork

        return Teamwork(self)

    @property
    def seen(self) -> tuple[str, str]:
        """The view in sight, and what is under its cursor, for others to read."""
        view = self._view_if_any()
        return self.current_mode, "" if view is None else view.looked_at

    def views(self) -> Iterator[ViewScreen]:
        """The views that were opened so far."""
        for mode in VIEWS:
            with suppress(KeyError):
                view = self.get_screen_stack(mode)[0]
                assert isinstance(view, ViewScreen)
                if view.is_mounted:
                    yield view

    @property
    def view(self) -> ViewScreen:
        """The view in sight, perhaps below a dialogue."""
        view = self._view_if_any()
        assert view is not None
        return view

    def _view_if_any(self) -> ViewScreen | None:
        """The view in sight; None while the screens are being taken down.

        Timers and messages of the link's thread come until the very end.
        """
        stack = self.get_screen_stack(self.current_mode)
        return stack[0] if stack and isinstance(stack[0], ViewScreen) else None

    def keep_setting(self, name: str, value: SettingValue | None) -> None:
        """Write down what the operator chose, for the next dashboard."""
        if self._keep is not None:
            self.run_worker(self._keep_or_say(name, value))

    async def _keep_or_say(self, name: str, value: SettingValue | None) -> None:
        try:
            await self._kept(name, value)
        except ConfigError as error:
            self.say(str(error), "warn")
            return
        self.own_settings.choose(name, value)

    async def _kept(self, name: str, value: SettingValue | None) -> None:
        if self._keep is not None:
            # One after another: a later choice is not overtaken by an earlier one.
            async with self._keeping:
                await asyncio.to_thread(self._keep, name, value)

    async def change_setting(self, name: str, value: SettingValue | None) -> None:
        """Write another value into the file, and let it hold where that can be; None: the default.

        Raises:
            ConfigError: it cannot be written. Nothing has changed.
        """
        await self._kept(name, value)
        if self.own_settings.choose(name, value):
            self._apply(name, self.own_settings.named(name).now)

    def _apply(self, name: str, value: SettingValue) -> None:
        """Let a setting hold that can change while the dashboard runs."""
        table, _, view = name.rpartition(".")
        match name:
            case "theme":
                self.themes.wear(str(value) or DEFAULT)
            case "mouse":
                report_mouse(self._driver, on=bool(value))
            case "title":
                self.write_codes(KEEP_TITLE if value else OLD_TITLE)
                self._terminal_title = ""
                self._notices = replace(self._notices, title=bool(value))
                self._show_title()
            case "bell":
                self._notices = replace(self._notices, bell=bool(value))
            case "notification":
                self._notices = replace(self._notices, notification=str(value))
            case _ if table == "sort":
                self.store.ask(view, order=NATURAL)
                self.compute_table(view)
            case _ if table == "columns":
                self.store.columns.pop(view, None)
                self.changed.publish("")

    def clear_marks(self) -> None:
        """Nothing is marked in the view in sight."""
        self.view.clear_marks()

    def hold_row(self) -> None:
        """The cursor of the view in sight stays on its row, whatever comes before it."""
        self.view.hold_row()

    def show_row(self, key: RowKey) -> None:
        """The cursor of the view in sight goes to a row, or the view says that it is gone."""
        self.view.show_row(key)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our own colours, for themes that do not name them."""
        return TONE_DEFAULTS

    def on_load(self) -> None:
        """Create what screens subscribe to."""
        self.changed = Signal(self, "changed")

    def on_resize(self, event: Resize) -> None:
        """Say in classes how large the terminal is."""
        self.update_classes(size_classes(event.size), animate=False)

    def on_mount(self) -> None:
        """Connect once the first frame is out: data libraries are loaded after it."""
        if self._notices.title:
            self.write_codes(KEEP_TITLE)
        self.call_after_refresh(self._connect)
        self.themes.watch()

    def _connect(self) -> None:
        self._table_thread.start()
        if self.playback.replay:
            self.playback.begin_replay()
        else:
            self._start_recorder()
            self.live.start()
        self.set_interval(TICK_S, self.polling.look)

    async def on_unmount(self) -> None:
        """Let go of the backend; its threads may take a moment."""
        if self._notices.title:
            self.write_codes(OLD_TITLE)
        await self.polling.leave()
        await asyncio.to_thread(self.live.stop)
        await asyncio.to_thread(self._table_thread.stop)
        if self.live_scene.recorder is not None:
            await asyncio.to_thread(self.live_scene.recorder.stop)
        await self.playback.close()

    def _start_recorder(self) -> None:
        if (recorder := self.live_scene.recorder) is not None:
            recorder.failed = self._recording_failed
            recorder.start()

    def _recording_failed(self, reason: str) -> None:
        """The recorder's thread calls it; the event loop may be closed by then."""
        with suppress(RuntimeError):
            self.post_message(RecordingStopped(reason))

    def compute_table(self, view: str) -> None:
        """Compute a view's table from the newest snapshot."""
        job = self.store.job(view, past=self.playback.past)
        if job is not None:
            self._table_thread.submit(job)

    def _post_table(self, table: Message) -> None:
        try:
            self.post_message(table)
        except RuntimeError:
            # The event loop was closed meanwhile; nobody is left to look.
            return

    # Facts

    def show_scene(self, scene: Scene, now_s: Callable[[], float]) -> None:
        """Show all that was known at one moment; `now_s` is the clock of the scene's times."""
        self.store.now_s = now_s
        self._take_scene(scene)
        self.compute_table(self.current_mode)
        self.changed.publish("")

    @on(SnapshotArrived)
    @on(OperationsArrived)
    @on(AnswerArrived)
    @on(AnswerFailed)
    @on(AuditArrived)
    @on(Connected)
    @on(Disconnected)
    def show_live(self) -> None:
        """Show what is new of the live scene; while the past is shown, only an ending is told."""
        told, self._told = self._told, self.live_scene.scene
        if self.playback.past:
            self._tell_endings(told, self._told)
            return
        before, scene = self.store.scene, self.live_scene.scene
        self._take_scene(scene)
        if scene.snapshot is not before.snapshot:
            self._refresh_soon()
        answered = _answers(scene) != _answers(before)
        operated = scene.operations != before.operations
        self._tell_endings(told, scene)
        if operated:
            self.polling.look()
        if answered or (operated and self.current_mode in (OPERATIONS, OVERVIEW)):
            self.compute_table(self.current_mode)
        if answered or scene.connection != before.connection:
            self.changed.publish("")

    def _tell_endings(self, before: Scene, scene: Scene) -> None:
        """Say which operations have ended since, and ring where the settings want it."""
        if before.cluster_id != scene.cluster_id or before.operations == scene.operations:
            return
        from kshunt.tui.facts.endings import ended_between
        from kshunt.tui.terminal.notices import BELL, notification

        for ran in ended_between(before.operations, scene.operations):
            if (ended := scene.operation(ran.id)) is not None:
                past, notices = self.playback.past, self._notices
                ending = self.store.end(ended, None if past else ran)
                # The second line has it where nothing moves, and the operations view lists it.
                if past or (self._moves_go_on and self.current_mode != OPERATIONS):
                    self.say(ending.text, "good" if ending.good else "warn")
                bell = BELL if notices.bell else ""
                shown = notification(notices.notification, ending.text, in_tmux=notices.in_tmux)
                self.write_codes(bell + shown)

    @property
    def _moves_go_on(self) -> bool:
        summary = self.store.summary
        return summary is not None and summary.moving_partitions > 0

    def _take_scene(self, scene: Scene) -> None:
        """From here on this scene is shown."""
        before, self.store.scene = self.store.scene.cluster_id, scene
        # Of a damaged recording, a moment may be without a cluster.
        if scene.cluster_id and before not in ("", scene.cluster_id):
            self._cluster_changed()

    def _cluster_changed(self) -> None:
        """Marks were made on another cluster: names that are equal mean something else here."""
        for view in self.views():
            view.clear_marks()
        self.polling.nudge()
        self.say(f"This is another cluster now: {self.store.scene.cluster_id}.", "bad")

    def _refresh_soon(self) -> None:
        """Show the newest snapshot, at most once in `REFRESH_S`, or `SLOW_REFRESH_S`."""
        # A terminal that cannot keep up is told less often, not late.
        every_s = SLOW_REFRESH_S if self.output_behind else REFRESH_S
        wait = self._shown_s + every_s - time.monotonic()
        if wait <= 0:
            self._refresh_now()
        elif not self._refresh_due:
            self._refresh_due = True
            self.set_timer(wait, self._refresh_now)

    def _refresh_now(self) -> None:
        self._refresh_due = False
        self._shown_s = time.monotonic()
        self.compute_table(self.current_mode)

    @on(TableReady)
    def _table_ready(self, message: TableReady) -> None:
        self.store.take_table(message)
        self._show_title()
        self.changed.publish(message.job.view)
        self.polling.look()

    def _show_title(self) -> None:
        """Set the terminal's title where it has changed."""
        if not self._notices.title:
            return
        from kshunt.tui.facts.done_words import title_text

        text = title_text(self.store.home, self.store.summary, self.store.now_ms, self.glyphs)
        if text != self._terminal_title:
            self._terminal_title = text
            self.write_codes(title_codes(text))

    @on(TableFailed)
    def _table_failed(self, message: TableFailed) -> None:
        self.say(f"The {message.view} view cannot be computed: {message.reason}", "bad")

    @on(AlertArrived)
    def _alert_arrived(self, message: AlertArrived) -> None:
        if not self.playback.past:
            self.say(message.text, "warn")

    @on(RecordingStopped)
    def _recording_stopped(self, message: RecordingStopped) -> None:
        self.store.recording = message.reason
        self.say(message.reason, "warn")
        self.changed.publish("")

    def action_command_palette(self) -> None:
        """Ctrl-P from anywhere."""
        # Without an id: the one before it may be closed and not yet gone.
        if not any(isinstance(screen, Palette) for screen in self.screen_stack):
            self.push_screen(Palette())

    def action_help_quit(self) -> None:
        """Ctrl-C, which means many things to many people."""
        self.say("Press q to quit. Moves continue in the cluster.")

    def say(self, text: str, tone: str = "") -> None:
        """Say something on the last line of the view in sight."""
        if (view := self._view_if_any()) is not None:
            view.say(text, tone)


def _answers(scene: Scene) -> tuple[object, ...]:
    """What came of questions."""
    return scene.answers, scene.unanswered, scene.audits


def _write_notes(reel: RecordingReader, time_ms: int, folder: Path) -> Sequence[Path]:
    """Write a hand-over note and a timeline; what that takes is loaded when it is first wanted."""
    from kshunt.tui.handover_notes.writer import write_both

    return write_both(reel, time_ms, folder)
