"""The one confirmation of a band of rates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from textual import on
from textual.widget import Widget

from kshunt.backend.domain.throttles.configs import parse_rate
from kshunt.backend.errors import BadInput
from kshunt.tui.dialogs.dialog import Dialog, Lines
from kshunt.tui.dialogs.form import FormField, FormPart

MINUTES_MOST: Final = 60


@dataclass(frozen=True, slots=True)
class TypedBand:
    """What was typed; no minutes end the present band."""

    low_bytes_per_s: int
    high_bytes_per_s: int
    minutes: int
    why: str


class RateBandScreen(Dialog[TypedBand]):
    """Answers with the band, or None."""

    def __init__(self, who: str, low: str, high: str, minutes: str, why: str) -> None:
        """`who`: `broker 2`. The others are what the fields begin with."""
        super().__init__(f"Band of rates for {who}")
        self._fields = (
            FormField("Lowest rate", low, "such as 20MB/s", _a_limit),
            FormField("Highest rate", high, "such as 80MB/s", _a_limit),
            FormField("Minutes", minutes, f"1 to {MINUTES_MOST}; 0 ends the band", _minutes),
            FormField("Why", why, "for the audit; may be empty", str.strip),
        )

    def compose_body(self) -> Iterable[Widget]:
        """What it allows, and four fields."""
        line = "Within the band + and - are applied immediately, without another question."
        yield FormPart((line,), self._fields)
        yield Lines("Enter confirms the last field, Esc cancels", id="hint", classes="hint")

    def on_mount(self) -> None:
        """Type immediately."""
        self.query_one(FormPart).begin()

    @on(FormPart.Filled)
    def _filled(self, message: FormPart.Filled) -> None:
        typed = TypedBand(*message.values)
        if typed.minutes and typed.low_bytes_per_s > typed.high_bytes_per_s:
            hint = self.query_one("#hint", Lines)
            hint.say("The lowest rate is above the highest one.")
            hint.add_class("-bad")
            message.part.begin()
            return
        self.dismiss(typed)


def _a_limit(text: str) -> int:
    """A rate; a band has two ends.

    Raises:
        BadInput: the text is not a rate, or says that there is no limit.
    """
    found = parse_rate(text)
    if found is None:
        raise BadInput("A band needs a rate here, such as 20MB/s.")
    return found


def _minutes(text: str) -> int:
    typed = text.strip()
    if not (typed.isascii() and typed.isdigit() and len(typed) <= 3 and int(typed) <= MINUTES_MOST):
        raise BadInput(f"Type a whole number from 0 to {MINUTES_MOST}.")
    return int(typed)
