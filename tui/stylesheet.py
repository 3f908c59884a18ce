"""Styles that are read once, as long as the theme stays.

Textual reads every style sheet anew whenever a theme is put on and whenever a screen is opened for
the first time, which costs a tenth of a second before the first frame, and again for each view.
"""

from __future__ import annotations

from collections.abc import Mapping

from textual.css.stylesheet import Stylesheet


class CachedStylesheet(Stylesheet):
    """A style sheet that keeps what it has read until a variable has another value."""

    def __init__(self, *, variables: Mapping[str, str]) -> None:
        super().__init__(variables=dict(variables))
        self._given = dict(variables)

    def set_variables(self, variables: dict[str, str]) -> None:
        """Values of a theme; those that are set already change nothing."""
        if variables != self._given:
            self._given = dict(variables)
            super().set_variables(variables)

    def reparse(self) -> None:
        """Read again what another value may have changed.

        Raises:
            StylesheetError: a style sheet cannot be read; the rules stay as they were.
        """
        # What was read with these values is remembered; other values have made it forget.
        self.parse()
