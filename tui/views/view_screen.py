"""What every view is made of: head, tabs, what it shows, and keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.screen import Screen
from textual.widget import Widget

from kshunt.tui.actions import (
    AWAY,
    BANDED,
    DRIFTED,
    FOREIGN,
    IDLE,
    LED,
    MOVING,
    ORPHANED,
    PAST,
    PROPOSED,
    Action,
    bind,
    footer_actions,
    screen_bindings,
)
from kshunt.tui.data.team import awaits_me
from kshunt.tui.feed.polled_facts import DRIFT, ORPHANS, PROPOSALS
from kshunt.tui.grid.key_bar import KeyBar
from kshunt.tui.grid.plot_panel import REBUILD_MS
from kshunt.tui.grid.tabs import ViewTabs
from kshunt.tui.grid.time_bar import TimeBar
from kshunt.tui.views.status_bar import StatusBar

if TYPE_CHECKING:
    from kshunt.backend.domain.throttles.owners import ShownDrift
    from kshunt.tui.shell.contexts import ClusterChoice
    from kshunt.tui.shell.dashboard import Dashboard
    from kshunt.tui.tables.model import RowKey, Table
    from kshunt.tui.tables.targets import Item
    from kshunt.tui.views.stuck_fixes import Fix


MOUSE_OFF = "off: your terminal selects text with it"


def opener(module: str, name: str) -> Callable[[], Screen[None]]:
    """What makes a view of `kshunt.tui.views`; its module is loaded when it is first opened."""

    def opened() -> Screen[None]:
        screen: Screen[None] = getattr(import_module(f"kshunt.tui.views.{module}.screen"), name)()
        return screen

    return opened


class ViewScreen(Screen[None]):
    """One of the numbered views. Subclasses name themselves and say what they show."""

    VIEW: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        bind(self, screen_bindings(self.VIEW))

    @property
    def kshunt(self) -> Dashboard:
        """The app, by its own type."""
        from kshunt.tui.shell.dashboard import Dashboard

        assert isinstance(self.app, Dashboard)
        return self.app

    @property
    def key_bar(self) -> KeyBar:
        """The last line."""
        return self.query_one(KeyBar)

    def compose(self) -> ComposeResult:
        """Head, tabs, what the view shows, keys."""
        app = self.kshunt
        glyphs = app.glyphs
        yield StatusBar(
            app.store,
            address=app.address,
            name=app.cluster_name,
            read_only=app.read_only,
            glyphs=glyphs,
            past=lambda: app.playback.name,
        )
        yield ViewTabs(self.VIEW, glyphs=glyphs)
        yield from self.compose_body()
        yield TimeBar(app.playback, glyphs=glyphs)
        yield KeyBar(read_only=app.read_only, glyphs=glyphs)

    def compose_body(self) -> Iterable[Widget]:
        """What the view shows between its tabs and its keys."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """Follow the store."""
        self.kshunt.changed.subscribe(self, self._on_changed)
        self.update_view()

    def on_screen_resume(self) -> None:
        """Show what came while another view was in sight."""
        self.kshunt.compute_table(self.VIEW)
        self.update_view()

    def on_resize(self, event: events.Resize) -> None:
        """The head has fewer lines where there are few."""
        self.query_one(StatusBar).update_lines()

    def on_key(self, event: events.Key) -> None:
        """A message has been read once the next key is pressed."""
        self.key_bar.say("")

    def _on_changed(self, view: str) -> None:
        if view in ("", self.VIEW) and self.is_current_view:
            self.update_view()

    @property
    def is_current_view(self) -> bool:
        """True while this view is in sight, perhaps below a dialogue."""
        return self.app.current_mode == self.VIEW

    def update_view(self) -> None:
        """Show what the store holds; widgets repaint only what differs."""
        self.query_one(StatusBar).update_lines()
        self.query_one(ViewTabs).show_note(self.note())
        self.query_one(TimeBar).update_bar()
        self.offer_keys()

    @property
    def looked_at(self) -> str:
        """What is under the cursor, for others to read; empty where nothing is."""
        return ""

    def show_row(self, key: RowKey) -> None:
        """The cursor goes to a row; a view without a table has none."""

    def note(self) -> str:
        """A few words at the right of the tabs."""
        return ""

    def hold_row(self) -> None:
        """The cursor stays on its row."""

    def clear_marks(self) -> None:
        """Unmark every row, where rows can be marked."""

    def offer_keys(self) -> None:
        """What the last line offers."""
        self.key_bar.offer(footer_actions(self.VIEW, self.conditions()))

    def conditions(self) -> set[str]:
        """The conditions that are true now and that keys depend on."""
        store, scene = self.kshunt.store, self.kshunt.store.scene
        moving = store.summary is not None and store.summary.moving_partitions > 0
        found = {MOVING if moving else IDLE}
        found |= {DRIFTED} if scene.answer(DRIFT) else set()
        found |= {ORPHANED} if scene.answer(ORPHANS) else set()
        found |= {PROPOSED} if awaits_me(scene.answer(PROPOSALS)) else set()
        playback, band = self.kshunt.playback, store.band
        found |= {BANDED} if band is not None and band.text(store.now_s()) else set()
        found |= {PAST} if playback.past else set()
        found |= {LED} if self.VIEW in self.kshunt.return_points else set()
        found |= {AWAY} if playback.past and not playback.replay else set()
        return found | ({FOREIGN} if store.foreign else set())

    # What can be done, and why not

    def refusal(self, action: Action) -> str:
        """Why an action cannot be done, or empty."""
        if action.changes and self.kshunt.playback.past:
            return self.kshunt.playback.refusal()
        return ""

    def refused(self, id: str) -> bool:
        """Say why an action cannot be done; True if so."""
        from kshunt.tui.actions import action_named

        action = action_named(id)
        reason = self.refusal(action) if action is not None else ""
        if reason:
            self.say(reason, "warn")
        return bool(reason)

    def say(self, text: str, tone: str = "") -> None:
        """Say something on the last line until the next key."""
        if self.is_mounted:
            self.key_bar.say(text, tone)
        else:
            # It was gone to this moment, and has no lines yet.
            self.call_later(self.say, text, tone)

    @property
    def plot_every_ms(self) -> int:
        """How often plots are drawn anew; a moment of the past has exactly its own."""
        playback = self.kshunt.playback
        return 1 if playback.past and not playback.playing else REBUILD_MS

    # The mouse

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """A message has been read once the mouse is pressed; on it, the release says so."""
        if not self.key_bar.region.contains(event.screen_x, event.screen_y):
            self.key_bar.say("")

    @on(ViewTabs.Clicked)
    def _tab_clicked(self, event: ViewTabs.Clicked) -> None:
        self.key_bar.say("")
        self.action_view(event.view)

    @on(KeyBar.Clicked)
    async def _key_clicked(self, event: KeyBar.Clicked) -> None:
        self.key_bar.say("")
        if event.action:
            await self.doer_of(event.action).run_action(event.action)

    def doer_of(self, action: str) -> Widget:
        """What does an action, by its id."""
        return self

    # Actions of every view

    def action_view(self, view: str) -> None:
        """Go to another view; each keeps its place. `Esc` no longer returns from it."""
        self.kshunt.return_points.clear()
        self.app.switch_mode(view)

    def action_back(self) -> None:
        """Undo the last narrowing of what is shown; else return to the view that led here."""
        from kshunt.tui.shell.navigation import back

        back(self.kshunt, self.VIEW)

    def action_suspend(self) -> None:
        """Back to the shell, where `fg` shows the dashboard again."""
        self.app.action_suspend_process()

    def action_quit(self) -> None:
        """Leave."""
        self.app.exit()

    def action_themes(self) -> None:
        """Choose a theme."""
        from kshunt.tui.dialogs.themes import ThemeScreen

        app = self.kshunt

        def keep(name: str | None) -> None:
            if name and not app.themes.plain:
                app.keep_setting("theme", name)

        self.app.push_screen(ThemeScreen(app.themes, app.theme), keep)

    def action_settings(self) -> None:
        """Show and change settings."""
        from kshunt.tui.dialogs.settings import SettingsScreen

        self.app.push_screen(SettingsScreen(self.kshunt))

    def action_palette(self) -> None:
        """Find an action by its name."""
        self.app.action_command_palette()

    # Time

    @property
    def exported_table(self) -> Table | None:
        """The table that the operator can write to a file instead of the screen, or None."""
        return None

    def action_export_view(self) -> None:
        """Write the table or the screen to a new file."""
        from kshunt.backend.domain.text.formatting import file_time_text
        from kshunt.tui.dialogs.export import export_screen
        from kshunt.tui.text.picture import screenshot

        app = self.kshunt
        lines = [strip.text.rstrip() for strip in self._compositor.render_strips()]
        # Before the first snapshot, nobody has said what time it is.
        known = app.store.scene.snapshot is not None
        at = f"-{file_time_text(app.store.now_ms)}" if known else ""
        name = f"kshunt-{self.VIEW}{at}"
        screen = export_screen(name, self.exported_table, lines, screenshot(app), app.downloads)
        app.push_screen(screen, lambda path: self.say(f"Written: {path}") if path else None)

    def action_time(self, seconds: int) -> None:
        """Move on or back by so much."""
        self.kshunt.playback.step(seconds)

    def action_scrub(self, seconds: int) -> None:
        """Likewise, by the arrows."""
        self.kshunt.playback.scrub(seconds)

    def action_time_toggle(self) -> None:
        """Hold time, or return to live."""
        self.kshunt.playback.toggle()

    def action_time_play(self) -> None:
        """Play from the moment that is shown, or hold time."""
        self.kshunt.playback.play()

    def action_time_faster(self) -> None:
        """Play at the next speed."""
        self.kshunt.playback.faster()

    def action_time_jump(self, kind: str, direction: int) -> None:
        """To the next change or incident, or the last."""
        self.kshunt.playback.jump(kind, direction)

    def action_time_edge(self, direction: int) -> None:
        """To the beginning or the end of the recording."""
        self.kshunt.playback.edge(direction)

    def action_hand_over(self) -> None:
        """Write a hand-over note or a timeline."""
        self.kshunt.playback.write_note()

    # Throttles that are not as they should be

    def chosen_drift(self) -> tuple[ShownDrift, ...]:
        """What has drifted of the row under the cursor."""
        return ()

    def action_reapply(self) -> None:
        """Put our throttle back: of the row, else everywhere."""
        self._decide_drift("reapply", ours=True)

    def action_accept(self) -> None:
        """Keep what somebody else set: of the row, else everywhere."""
        self._decide_drift("accept", ours=False)

    def _decide_drift(self, id: str, *, ours: bool) -> None:
        if self.refused(id):
            return
        drift = self.chosen_drift() or self.kshunt.store.scene.answer(DRIFT)
        if drift:
            self.kshunt.workflows.decide_drift(drift, ours=ours)
        else:
            self.say("Nobody else has changed a throttle of ours.")

    def action_adopt(self) -> None:
        """Take over the throttles of moves that somebody else started."""
        if self.refused("adopt"):
            return
        if self.kshunt.store.foreign:
            self.kshunt.workflows.adopt()
        else:
            self.say("kshunt owns all throttled moves.", "warn")

    def chosen_fix(self) -> Fix | None:
        """What repairs the row under the cursor; None where it has no remedy here."""
        return None

    def no_fix_text(self) -> str:
        """Why no change helps the row under the cursor; empty where nothing is wrong with it."""
        return ""

    def chosen_item(self) -> Item | None:
        """The thing that `F` is about where no row is: the most urgent one."""
        from kshunt.tui.views.attention import attention

        return next(iter(attention(self.kshunt.store)), None)

    def action_fix(self) -> None:
        """Open the change that the diagnosis proposes: of the row, else the most urgent one.

        Never that of another thing than the one that the operator looks at.
        """
        from kshunt.tui.views.stuck_fixes import fix_of_item

        if self.refused("fix"):
            return
        item, fix = self.chosen_item(), self.chosen_fix()
        if fix is None and (text := self.no_fix_text()):
            self.say(text, "warn")
            return
        fix = fix or (fix_of_item(self.kshunt.store, item) if item else None)
        if fix is not None:
            fix(self.kshunt.workflows)
        elif item is None:
            self.say("Nothing needs a fix.")
        else:
            where = f" Press {item.target.keys}." if item.target is not None else ""
            self.say(f"kshunt knows no change for: {item.text}{where}", "warn")

    def action_attention(self) -> None:
        """Everything that is wrong, in full."""
        from kshunt.tui.dialogs.attention_list import AttentionScreen
        from kshunt.tui.views.attention import attention

        def mend(item: Item) -> None:
            from kshunt.tui.views.stuck_fixes import fix_of_item

            fix = fix_of_item(self.kshunt.store, item)
            if fix is None:
                self.say("kshunt knows no change that would help here.", "warn")
            elif not self.refused("fix"):
                fix(self.kshunt.workflows)

        self.app.push_screen(AttentionScreen(attention(self.kshunt.store), mend))

    # Others

    def action_here(self) -> None:
        """Who else is connected."""
        self.kshunt.teamwork.here()

    def action_proposals(self) -> None:
        """Changes that take two people."""
        self.kshunt.teamwork.proposals()

    # Left to the modules that know how

    def action_help(self) -> None:
        """Every key of this view."""
        from kshunt.tui.dialogs.help import HelpScreen

        self.app.push_screen(HelpScreen(self.VIEW, self._about_session()))

    def _about_session(self) -> Sequence[tuple[str, str]]:
        """Which cluster this is, how it is reached, and what the mouse does not do."""
        app = self.kshunt
        scene = app.store.scene
        facts = [
            ("Name", app.cluster_name),
            ("Cluster id", scene.cluster_id),
            ("Brokers", scene.bootstrap_servers),
            ("Backend", app.address),
            ("Mouse", "" if app.own_settings.named("mouse").now else MOUSE_OFF),
        ]
        return [(label, value) for label, value in facts if value]

    def action_contexts(self) -> None:
        """Open another cluster."""
        from kshunt.tui.dialogs.contexts import ContextsScreen

        app = self.kshunt
        if app.contexts is None:
            self.say("This session shows one cluster. Start `kshunt` in a terminal for others.")
        elif app.changing:
            self.say("A change is running; open another cluster after its answer.", "warn")
        else:
            app.push_screen(ContextsScreen(app.contexts), self._open_context)

    def _open_context(self, choice: ClusterChoice | None) -> None:
        contexts = self.kshunt.contexts
        if choice is not None and contexts is not None and choice.command != contexts.present:
            contexts.open(choice)
            self.app.exit()

    def action_reassign(self) -> None:
        """Start from a JSON file."""
        if not self.refused("reassign"):
            self.kshunt.workflows.reassign()

    def action_cancel_all(self) -> None:
        """Cancel every move."""
        if not self.refused("cancel_all"):
            self.kshunt.workflows.cancel(None)

    def action_elect_all(self) -> None:
        """Elect every preferred leader."""
        if not self.refused("elect_all"):
            self.kshunt.workflows.elect(None)
