"""Styles that are read once for each theme.

Textual reads every style sheet anew whenever a theme is put on and whenever a screen is opened for
the first time, which costs a tenth of a second before the first frame, and again for each view.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from textual.cache import LRUCache
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet

KEPT_THEMES: Final = 8
"""How many themes keep their rules; their files may change all the time."""
KEPT_SHEETS: Final = 256
"""More than there are style sheets of views, dialogues and Textual's own widgets."""


@lru_cache(KEPT_THEMES)
def _rules_read(_variables: frozenset[tuple[str, str]]) -> LRUCache[tuple[Any, ...], list[RuleSet]]:
    """What was read with these values, in any dashboard of the process; nobody changes a rule."""
    return LRUCache(KEPT_SHEETS)


class CachedStylesheet(Stylesheet):
    """A style sheet that reads each source once with the values of a theme."""

    def __init__(self, *, variables: Mapping[str, str]) -> None:
        super().__init__(variables=dict(variables))
        self._given = dict(variables)
        self._parse_cache = _rules_read(frozenset(variables.items()))

    def set_variables(self, variables: dict[str, str]) -> None:
        """Values of a theme; those that are set already change nothing."""
        if variables != self._given:
            self._given = dict(variables)
            # Textual empties what it holds; that of the last theme is kept for its return.
            self._parse_cache = LRUCache(1)
            super().set_variables(variables)
            self._parse_cache = _rules_read(frozenset(variables.items()))

    def reparse(self) -> None:
        """Read again what another value may have changed.

        Raises:
            StylesheetError: a style sheet cannot be read; the rules stay as they were.
        """
        # What was read with these values is remembered.
        self.parse()
