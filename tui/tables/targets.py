"""What an operator should look at, and where it is to be seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kshunt.tui.actions import key_of, view_key

if TYPE_CHECKING:
    from kshunt.tui.tables.model import RowKey


FIX: Final = "fix"
"""The action that repairs, from every view, what only needs other rates."""


@dataclass(frozen=True, slots=True)
class ReturnPoint:
    """Where a line led from, to return there."""

    view: str
    filter_text: str
    """The filter that the line set."""


@dataclass(frozen=True, slots=True)
class ScreenTarget:
    """Where an operator can see something, and repair it."""

    view: str
    key: RowKey | None = None
    """The row that the cursor goes to; None for wherever it was."""
    filter_text: str | None = None
    """The filter that is set; None leaves the filter as it is, where it shows the row."""
    mends: str = ""
    """The id of the action that repairs it there, or empty."""

    @property
    def keys(self) -> str:
        """The keys that lead there and then repair it: `4 d`; for `FIX`, its key alone."""
        if self.mends == FIX:
            return key_of(FIX)
        return f"{view_key(self.view)} {key_of(self.mends) if self.mends else ''}".rstrip()


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that an operator should look at."""

    text: str
    """A sentence."""
    tone: str = "warn"
    target: ScreenTarget | None = None
    """None where no view shows more of it."""
    id: str = ""
    """What stays the same about it through refreshes; empty where that is its text."""

    def __str__(self) -> str:
        return self.text

    @property
    def key(self) -> str:
        """What identifies it."""
        return self.id or self.text
