"""Which settings hold in this session, where each comes from, and what the next one will have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

from kshunt.tui.settings import DashboardSettings, SettingValue, named_values


class Origin(Enum):
    """Where a value comes from."""

    DEFAULT = "default"
    FILE = "file"
    HELD = "held"
    """A flag or the terminal decides, whatever the file says."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a flag or the terminal decides for this session."""

    value: SettingValue
    by: str
    """What decides, as it is written: `--no-mouse`, `NO_COLOR`."""


@dataclass(frozen=True, slots=True)
class OwnSetting:
    """One setting."""

    name: str
    """As the file has it: `theme`, `keys.follow`."""
    now: SettingValue
    """What holds."""
    origin: Origin
    held_by: str = ""
    """What decides, where that is not the file."""
    later: SettingValue | None = None
    """What the next session will have, where an operator has chosen that in this one."""


NONE_HELD: Final[Mapping[str, Held]] = MappingProxyType({})
LIVE: Final = frozenset({"theme", "bell", "notification", "title", "mouse"})
"""What can change while the dashboard runs; the rest is read at its start."""
DEFAULTS: Final = named_values(DashboardSettings())


class OwnSettings:
    """See the module's text."""

    def __init__(
        self,
        found: DashboardSettings | None = None,
        path: str = "",
        held: Mapping[str, Held] = NONE_HELD,
    ) -> None:
        """`path` is the file that choices are written to; empty where nothing is written."""
        settings = DashboardSettings() if found is None else found
        self.path = path
        self._file = named_values(settings)
        self._written = set(settings.written)
        self._now = self._file | {name: one.value for name, one in held.items()}
        self._held = dict(held)
        self._chosen: set[str] = set()

    def all(self) -> list[OwnSetting]:
        """Each of them, in the order of the file's documentation."""
        names = [*DEFAULTS, *sorted(self._file.keys() - DEFAULTS.keys())]
        return [self.named(name) for name in names]

    def named(self, name: str) -> OwnSetting:
        """The setting of this name."""
        later, now = self._file.get(name, ()), self._now.get(name, ())
        if (held := self._held.get(name)) is not None:
            chosen = later if name in self._chosen else None
            return OwnSetting(name, now, Origin.HELD, held.by, chosen)
        origin = Origin.FILE if name in self._written else Origin.DEFAULT
        return OwnSetting(name, now, origin, later=later if later != now else None)

    def choose(self, name: str, value: SettingValue | None) -> bool:
        """Take what an operator has chosen, or the default; True where it holds from now on."""
        if value is None:
            self._written.discard(name)
            value = DEFAULTS.get(name)
        else:
            self._written.add(name)
        self._chosen.add(name)
        if value is None:
            self._file.pop(name, None)
            self._now.pop(name, None)
            return True
        self._file[name] = value
        # An order and columns are chosen in their view, and hold there already.
        in_view = name.startswith(("sort.", "columns."))
        live = (name in LIVE or in_view) and name not in self._held
        if live:
            self._now[name] = value
        return live
