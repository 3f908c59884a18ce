"""Every setting of the dashboard: what holds, where it comes from, and another value for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from kshunt.backend.errors import ConfigError
from kshunt.tui.actions import bind, dialog_bindings, key_of
from kshunt.tui.actions.view_names import TITLES, VIEWS
from kshunt.tui.dialogs.choose import ChooseScreen
from kshunt.tui.dialogs.dialog import Dialog, Lines
from kshunt.tui.dialogs.options import DialogOptionList
from kshunt.tui.dialogs.themes import ThemeScreen
from kshunt.tui.shell.own_settings import LIVE, Origin, OwnSetting
from kshunt.tui.shell.theme_files import DEFAULT
from kshunt.tui.terminal.notices import NOTIFICATIONS
from kshunt.tui.text.fitting import printable

if TYPE_CHECKING:
    from kshunt.tui.settings import SettingValue
    from kshunt.tui.shell.dashboard import Dashboard
    from kshunt.tui.text.glyphs import Glyphs

HINT: Final = "Enter changes it, x takes the default, Esc closes"
AROUND: Final = 9
"""Lines of the frame, and of the texts above and below the list."""
NAME_CELLS: Final = 23
VALUE_CELLS: Final = 26
THEME: Final = "theme"


@dataclass(frozen=True, slots=True)
class Described:
    """What the dialogue says about a setting."""

    meaning: str
    choices: Mapping[str, str] | None = None
    """By value: its words. None: on or off."""


DESCRIBED: Final[Mapping[str, Described]] = {
    THEME: Described("The colours. Your own are files in the folder themes.", {}),
    "start_view": Described(
        "The view that the dashboard opens on.", {view: TITLES[view].full for view in VIEWS}
    ),
    "all_partitions": Described(
        "The partitions view opens on every replica, and not on what moves or ails."
    ),
    "read_only": Described("The dashboard changes nothing in a cluster."),
    "record": Described("kshunt records what you see, for `kshunt replay`."),
    "bell": Described("The terminal rings when an operation ends."),
    "notification": Described(
        "The terminal shows a notification when an operation ends, if it knows the code.",
        {"": "off", **{name: name for name in NOTIFICATIONS}},
    ),
    "title": Described("The terminal's title has the progress and the end of the moves."),
    "mouse": Described(
        "The mouse chooses tabs, rows and columns. Off: your terminal selects text with it."
    ),
}


class SettingsScreen(Dialog[None]):
    """A list of settings; what the one under the cursor means stands below."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "move(1)", "Down", show=False),
        Binding("k", "move(-1)", "Up", show=False),
        Binding("space", "change", "Change it", show=False),
        Binding("x", "take_default", "Take the default", show=False),
        Binding("q", "close", "Close", show=False),
    ]

    def __init__(self, app: Dashboard) -> None:
        super().__init__("Settings")
        bind(self, dialog_bindings("settings"))
        self._kshunt = app
        self._shown: list[OwnSetting] = []
        self._meant = ""
        """The setting whose meaning is said."""

    def compose_body(self) -> Iterable[Widget]:
        """The file, the settings, what the chosen one means, what became of a change."""
        path = self._kshunt.own_settings.path
        yield Lines(path or "Nothing is written to a file from here.", classes="hint")
        yield DialogOptionList(compact=True)
        yield Lines("", id="meaning", classes="headline")
        yield Lines("", id="outcome", classes="-good")
        yield Lines(HINT, classes="hint")

    def on_mount(self) -> None:
        """The first one is chosen."""
        self._show()
        self._list.focus()

    @property
    def _list(self) -> DialogOptionList:
        return self.query_one(DialogOptionList)

    @property
    def _chosen(self) -> OwnSetting:
        return self._shown[self._list.highlighted or 0]

    def _show(self) -> None:
        """What holds by now; the cursor stays."""
        place = self._list.highlighted or 0
        self._shown = self._kshunt.own_settings.all()
        glyphs = self._kshunt.glyphs
        self._list.set_options([Option(row_text(one, glyphs)) for one in self._shown])
        self._list.highlighted = min(place, len(self._shown) - 1)

    def action_move(self, rows: int) -> None:
        """Move as the arrow keys do."""
        self._list.move(rows)

    def on_resize(self) -> None:
        """The list scrolls on a low terminal. The lines below the list stay in sight."""
        self._list.styles.max_height = max(self.app.size.height - AROUND, 1)

    @on(OptionList.OptionHighlighted)
    def _highlighted(self) -> None:
        # The list is filled anew after a change; what became of that stays until one moves on.
        if self._meant != self._chosen.name:
            self._meant = self._chosen.name
            self.query_one("#meaning", Lines).say(meaning(self._chosen))
            self._say("")

    @on(OptionList.OptionSelected)
    def _selected(self) -> None:
        self.action_change()

    def action_change(self) -> None:
        """Turn it on or off, or choose another value from a list."""
        one = self._chosen
        described = DESCRIBED.get(one.name)
        if described is None:
            self._say(elsewhere(one.name), "warn")
        elif one.name == THEME:
            self._choose_theme(one)
        elif described.choices is None:
            self._change(one.name, not _next(one))
        else:
            present = str(_next(one))
            choices = list(described.choices.items())
            self.app.push_screen(
                ChooseScreen(one.name, choices, present),
                lambda value: None if value is None else self._change(one.name, value),
            )

    def _choose_theme(self, one: OwnSetting) -> None:
        themes = self._kshunt.themes
        if one.origin is Origin.HELD:
            self._say(f"{one.held_by} decides: the terminal's own colours are used.", "warn")
            return
        self.app.push_screen(
            ThemeScreen(themes, self.app.theme),
            lambda name: None if name is None else self._change(THEME, name),
        )

    def action_take_default(self) -> None:
        """Take the setting out of the file."""
        one = self._chosen
        if one.name.startswith("keys."):
            self._say(elsewhere(one.name), "warn")
        elif one.name == THEME and one.origin is Origin.HELD:
            self._choose_theme(one)
        else:
            self._change(one.name, None)

    def _change(self, name: str, value: SettingValue | None) -> None:
        async def change() -> None:
            own = self._kshunt.own_settings
            try:
                await self._kshunt.change_setting(name, value)
            except ConfigError as error:
                self._say(str(error), "bad")
                return
            self._show()
            self._say(*outcome(own.named(name), written=bool(own.path)))

        self.run_worker(change(), group="setting")

    def _say(self, text: str, tone: str = "good") -> None:
        line = self.query_one("#outcome", Lines)
        line.say(text)
        for one in ("good", "warn", "bad"):
            line.set_class(one == tone, f"-{one}")


def _next(one: OwnSetting) -> SettingValue:
    """What the next change starts from."""
    return one.now if one.later is None else one.later


def value_text(value: SettingValue) -> str:
    """A value as it is written for people."""
    match value:
        case bool():
            return "on" if value else "off"
        case tuple():
            return " ".join(value)
        case _:
            return value


def _shown_value(name: str, value: SettingValue) -> str:
    described = DESCRIBED.get(name)
    choices = {} if described is None or described.choices is None else described.choices
    text = value_text(value)
    return choices.get(text, text) or (DEFAULT if name == THEME else "none")


def origin_text(one: OwnSetting) -> str:
    """Where the value comes from."""
    words = {Origin.DEFAULT: "default", Origin.FILE: "settings file", Origin.HELD: one.held_by}
    return words[one.origin]


def row_text(one: OwnSetting, glyphs: Glyphs) -> Text:
    """Name, value and origin; the value of the next session comes after an arrow."""
    value = _shown_value(one.name, one.now)
    if one.later is not None and one.later != one.now:
        value += f" {glyphs.arrow} {_shown_value(one.name, one.later)}"
    name, value = printable(one.name), printable(value)
    chosen = "" if one.origin is Origin.DEFAULT else "bold"
    return Text.assemble(
        f"{name.ljust(NAME_CELLS)} ",
        (f"{value.ljust(VALUE_CELLS)} ", chosen),
        (printable(origin_text(one)), chosen),
    )


def meaning(one: OwnSetting) -> str:
    """What a setting is for, and when a change of it counts."""
    described = DESCRIBED.get(one.name)
    if described is None:
        return elsewhere(one.name)
    when = "" if one.name in LIVE else " A change takes effect at the next start."
    return f"{described.meaning}{when}"


def elsewhere(name: str) -> str:
    """Where a setting is changed that has no value of its own to choose here."""
    if name.startswith("sort."):
        return f"The order of a table. {key_of('sort_choose')} chooses it in the view; x drops it."
    if name.startswith("columns."):
        return f"The columns of a table. {key_of('columns')} chooses them in the view; x drops it."
    return "The keys of an action. Edit them in the file; they are read at the start."


def outcome(one: OwnSetting, *, written: bool) -> tuple[str, str]:
    """What became of a change, and its tone."""
    where = "Written." if written else "It is not written: it holds for this session."
    if one.origin is Origin.HELD:
        return f"{where} In this session {one.held_by} still decides.", "warn"
    if one.later is not None:
        return f"{where} It takes effect at the next start.", "good"
    return f"{where} It is in force now.", "good"
