"""One line above the keys while the screens do not show the present: which moment, how it moves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.text import Text
from textual.widget import Widget

from kshunt.backend.domain.text.formatting import duration_text
from kshunt.tui.text.fitting import fit, join_fitting
from kshunt.tui.text.glyphs import Glyphs

if TYPE_CHECKING:
    from kshunt.tui.data.playback import Playback
    from kshunt.tui.recorder.reader import Stop

LINE_LEAST: Final = 10
LINE_MOST: Final = 60
NARROW: Final = 40
WIDE: Final = 100


@dataclass(frozen=True, slots=True)
class TimeBarState:
    """What the bar says."""

    replay: bool
    wall_ms: int
    """Of the moment that is shown."""
    ago_s: float
    """How far that lies back; means nothing in a replay."""
    position_ms: int
    first_ms: int
    last_ms: int
    playing: bool
    speed: float
    stops: tuple[Stop, ...] = ()
    """What happened, in the order of time."""


SIGNS: Final[Mapping[str, str]] = {
    "isr": "i",
    "incident": "!",
    "end": "e",
    "start": "s",
    "throttle": "t",
    "change": ":",
}
"""What the line has of a stop, by its sign or its kind; the first ones hide those after them."""


def bar_text(moment: TimeBarState, width: int, glyphs: Glyphs) -> str:
    """The bar in exactly `width` cells, the most important words first."""
    at = datetime.fromtimestamp(moment.wall_ms / 1000, UTC)
    name = "REPLAY" if moment.replay else "BACK IN TIME"
    ago = "" if moment.replay else f"{rounded_text(moment.ago_s)} ago"
    how = f"playing x{moment.speed:g}" if moment.playing else f"held, x{moment.speed:g}"
    span = max(moment.last_ms - moment.first_ms, 0)
    gone = min(max(moment.position_ms - moment.first_ms, 0), span)
    of = f"{duration_text(gone / 1000)} of {duration_text(span / 1000)}"
    if width < NARROW:
        parts = ["REPLAY" if moment.replay else "PAST", ago, f"{at:%H:%M:%S}Z"]
    else:
        long = moment.replay or width >= WIDE
        day = f"{at:%Y-%m-%d %H:%M:%S}Z" if long else f"{at:%H:%M:%S}Z"
        parts = [name, ago, day, how, of]
    separator = f" {glyphs.dot} "
    line = " " + join_fitting([part for part in parts if part], width - 1, separator)
    room = min(width - cell_len(line) - 5, LINE_MOST)
    if room >= LINE_LEAST:
        place = round(gone / span * (room - 1)) if span else room - 1
        cells = ["="] * place + ["|"] + ["-"] * (room - 1 - place)
        for there, sign in _signs(moment, span, room):
            cells[there] = sign if there != place else "|"
        line += f"  [{''.join(cells)}]"
    return fit(line, width, glyphs)


def _signs(moment: TimeBarState, span_ms: int, room: int) -> Iterable[tuple[int, str]]:
    """Places on the line, and the sign of what matters most there."""
    found: dict[int, int] = {}
    ranks = list(SIGNS)
    for stop in moment.stops if span_ms else ():
        share = (stop.time_ms - moment.first_ms) / span_ms
        if 0 <= share <= 1:
            there, rank = round(share * (room - 1)), ranks.index(stop.mark.sign or stop.mark.kind)
            found[there] = min(rank, found.get(there, rank))
    return ((there, SIGNS[ranks[rank]]) for there, rank in found.items())


def rounded_text(seconds: float) -> str:
    """A duration that does not change every second: what does is sent every second."""
    step = 1 if seconds < 10 else 5 if seconds < 60 else 10 if seconds < 3600 else 60
    return duration_text(seconds // step * step)


class TimeBar(Widget):
    """Shown only while the past is."""

    def __init__(self, playback: Playback, *, glyphs: Glyphs) -> None:
        super().__init__()
        self._playback = playback
        self._glyphs = glyphs
        self._said: object = None

    def on_mount(self) -> None:
        """How far the past lies back changes by itself."""
        self.set_interval(1.0, self.update_bar)
        self.update_bar()

    def on_resize(self) -> None:
        """Fit the line again."""
        self.update_bar()

    def update_bar(self) -> None:
        """Repaint if what is said has changed."""
        shown = self._playback.measured
        self.set_class(shown, "-shown")
        said = self._text() if shown else ""
        if said != self._said:
            self._said = said
            self.refresh()

    def render(self) -> Text:
        """The line."""
        return Text(self._text(), no_wrap=True, end="")

    def _text(self) -> str:
        playback = self._playback
        moment = TimeBarState(
            playback.replay,
            playback.wall_ms,
            playback.ago_s(),
            playback.position_ms,
            playback.first_ms,
            playback.last_ms,
            playback.playing,
            playback.speed,
            playback.stops,
        )
        return bar_text(moment, max(self.size.width, 1), self._glyphs)
