"""The head of the screen: which cluster, how fresh, what moves, what is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from rich.text import Span, Text
from textual.widget import Widget

from kshunt.backend.domain.text.formatting import (
    NEVER,
    NOT_AT_THIS_RATE,
    bytes_text,
    duration_text,
    many,
    rate_text,
)
from kshunt.tui.data.store import Store
from kshunt.tui.data.team import presence_forms
from kshunt.tui.feed.polled_facts import BACKEND_STATUS, PRESENCE
from kshunt.tui.text.bars import sparkline
from kshunt.tui.text.fitting import fit, join_fitting, printable
from kshunt.tui.text.glyphs import Glyphs
from kshunt.tui.views.attention import attention, wrong

if TYPE_CHECKING:
    from kshunt.tui.facts.snapshot_facts import Summary

LIVE_S = 3.0
"""A backend sends at least every 2 s; data older than this is not called live."""
STALE_S = 10.0
"""Data older than this is an alarm."""

FRESH_S = 2.0
"""Data younger than this is as fresh as it gets."""

NAME_LEAST = 10
"""Cells that the name of the cluster keeps next to the band of rates."""
CLUSTER_LEAST = 30
"""Cells that the name of the cluster keeps next to the names of who else is here."""
SPARK_WIDTH = 24
SPARK_WIDTH_LEAST = 6
SPARK_MS = 4_000
SPARK_SPAN_S = 900.0
"""At least so much of the past, in seconds."""


def _present() -> str:
    """What is shown is what is."""
    return ""


class StatusBar(Widget):
    """Up to three lines: cluster and connection; moves; problems, only where there are any."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "status--dim",
        "status--good",
        "status--warn",
        "status--bad",
        "status--alarm",
        "status--name",
    }

    def __init__(
        self,
        store: Store,
        *,
        address: str,
        name: str,
        read_only: bool,
        glyphs: Glyphs,
        past: Callable[[], str] = _present,
    ) -> None:
        """Watch a store.

        Args:
            store: what is shown.
            address: of the backend; without a name, it is shown until the cluster is known.
            name: what the operator calls the cluster; empty: its id is said.
            read_only: nothing can be changed here.
            glyphs: what the terminal can draw.
            past: `PAST` or `REPLAY` while that is what the store holds, else empty.
        """
        super().__init__()
        self._store = store
        self._past = past
        self._address = address
        self._name = name
        self._read_only = read_only
        self._glyphs = glyphs
        self._lines: list[Text] = []

    def on_mount(self) -> None:
        """Watch the age of the data."""
        self.set_interval(1.0, self.update_lines)
        self.update_lines()

    def on_resize(self) -> None:
        """Fit the lines again."""
        self.update_lines()

    def notify_style_update(self) -> None:
        """Colours changed: they are in the lines."""
        super().notify_style_update()
        # The styles of its parts are put on after its own.
        if self._lines:
            self.call_after_refresh(self.update_lines)

    def update_lines(self) -> None:
        """Repaint if what is said has changed."""
        lines = [self._cluster_line()]
        if self.app.size.height >= 8:
            lines.append(self._moves_line())
            problem = self._problem_line()
            lines += [problem] if problem is not None else []
        if _look(lines) == _look(self._lines):
            return
        if len(lines) != len(self._lines):
            self.styles.height = len(lines)
        self._lines = lines
        self.refresh()

    def render(self) -> Text:
        """The lines."""
        return Text("\n", end="").join(self._lines)

    def _style(self, name: str):  # type: ignore[no-untyped-def]
        return self.get_component_rich_style(f"status--{name}", partial=True)

    def _cluster_line(self) -> Text:
        width = max(self.size.width, 1)
        right, tone = self._connection_words()
        right = f" {right} "
        line = Text(no_wrap=True, end="")
        line.append(" kshunt ", self._style("name"))
        room = width - cell_len(line.plain) - cell_len(right)
        if room > 8:
            band = self._band_words(room - NAME_LEAST)
            room -= cell_len(band)
            here = self._here_words(room - CLUSTER_LEAST)
            line.append(fit(" " + self._cluster_words(), room - cell_len(here), self._glyphs))
            line.append(band, self._style("warn"))
            line.append(here, self._style("dim"))
            line.append(right, self._style(tone))
        else:
            line = Text(fit(right, width, self._glyphs), self._style(tone), no_wrap=True, end="")
        return line

    def _band_words(self, room: int) -> str:
        """The band of rates and the time that it lasts; empty without a band, and in the past."""
        band = self._store.band
        if band is None or self._past() or self._store.scene.cluster_id != band.cluster_id:
            return ""
        text = band.text(self._store.now_s())
        forms = (f" {text} ", f" {text.rpartition(', ')[2]} ") if text else ()
        return next((form for form in forms if cell_len(form) <= room), "")

    def _here_words(self, room: int) -> str:
        """Who else is here, as far as there is room; nothing where nobody is, or in the past."""
        if self._past():
            return ""
        forms = presence_forms(self._store.scene.answer(PRESENCE))
        return next((f" {form} " for form in forms if cell_len(form) + 2 <= room), "")

    def _cluster_words(self) -> str:
        scene = self._store.scene
        if scene.snapshot is None:
            return printable(self._name or self._address)
        words = self._name or f"cluster {scene.cluster_id}"
        backend_status = scene.answer(BACKEND_STATUS)
        if backend_status is not None and backend_status.follows:
            # What the operator does is done by that one, so it stands where it is not cut.
            words = f"follows {backend_status.acting} on {backend_status.host}, {words}"
        return printable(f"READ-ONLY  {words}" if self._read_only else words)

    def _connection_words(self) -> tuple[str, str]:
        """How fresh it is; in the past, how it was then, never in the colour of what is live."""
        words, tone = self._freshness()
        past = self._past()
        if not past:
            return words, tone
        return (past, "warn") if tone == "good" else (f"{past}: {words}", tone)

    def _freshness(self) -> tuple[str, str]:
        store = self._store
        age = duration_text(store.data_age_s)
        if store.scene.lost:
            if store.scene.snapshot is None:
                return "no backend, trying again", "alarm"
            return f"CONNECTION LOST, frozen {age} ago", "alarm"
        if store.scene.snapshot is None:
            return "connecting", "dim"
        if store.data_age_s > STALE_S:
            return f"stale, {age} old", "alarm"
        if store.data_age_s > LIVE_S:
            return f"late, {age} old", "warn"
        return f"live, {age if store.data_age_s >= FRESH_S else '<2s'} old", "good"

    def _moves_line(self) -> Text:
        summary = self._store.summary
        width = max(self.size.width, 1)
        if summary is None:
            return Text("", end="")
        home = self._store.home
        waiting = 0 if home is None else home.total.waiting
        if not summary.moving_partitions and not waiting:
            return self._idle_line(summary, width)
        wait = f", {waiting:,} wait" if waiting else ""
        begins = [
            f" Moving {many(summary.moving_partitions, 'partition')}{wait}",
            *_stuck(summary),
            f"{self._share()}{self._remaining(summary)} left",
        ]
        ends = self._end(summary)
        if cell_len(self._separator.join([*begins, *ends])) > width:
            ends = self._end(summary, brief=True)
        more = [rate_text(summary.rate_bytes_per_s), many(summary.moving_replicas, "replica")]
        parts = [*begins, *ends, *more]
        line = Text(join_fitting(parts, width, self._separator), no_wrap=True, end="")
        line.highlight_words([NOT_AT_THIS_RATE, f"{NEVER}: ", *_stuck(summary)], self._style("bad"))
        self._add_spark(line, width)
        return line

    def _add_spark(self, line: Text, width: int) -> None:
        """The course of the bytes that remain, at the right, where there is room for it."""
        room = min(width - cell_len(line.plain) - 4, SPARK_WIDTH)
        snapshot = self._store.scene.snapshot
        if snapshot is None or room < SPARK_WIDTH_LEAST or len(snapshot.history) < 2:
            return
        from kshunt.tui.facts.transfer_history import (
            SeenTransfer,
            evenly,
            remaining,
            running_s,
            within,
        )

        # It moves as a whole: oftener, it would cost a slow line more than it tells.
        last = snapshot.taken_ms // SPARK_MS * SPARK_MS
        running = running_s(self._store.scene.operations, self._store.now_ms)
        span_s = max(running, SPARK_SPAN_S)
        seen = [point for point in snapshot.history if point.at_ms <= last] or snapshot.history
        moments = within([SeenTransfer(point) for point in seen], span_s)
        values = evenly(moments, remaining(moments), room * 2)
        line.append(" " * (width - cell_len(line.plain) - room - 1))
        line.append(sparkline(values, room, self._glyphs), self._style("dim"))

    @property
    def _separator(self) -> str:
        return f" {self._glyphs.dot} "

    def _idle_line(self, summary: Summary, width: int) -> Text:
        ending = None if self._past() else self._store.ending
        begins = [" Nothing moves"] if ending is None else [f" {part}" for part in ending.parts[:1]]
        parts = [*begins, *(ending.parts[1:] if ending is not None else ()), *_stuck(summary)]
        calm = len(parts)
        if summary.leaderless_partitions:
            parts.append(f"{many(summary.leaderless_partitions, 'partition')} without a leader")
        if summary.offline_replicas:
            parts.append(f"{many(summary.offline_replicas, 'replica')} offline")
        if summary.behind_replicas:
            parts.append(f"{many(summary.behind_replicas, 'replica')} behind")
        if len(parts) == calm:
            parts.append("all in sync" if ending is None else "W writes the note")
        if summary.leaving:
            leaving = many(sum(one.count for one in summary.leaving), "partition")
            parts.append(f"{leaving} about to be deleted")
        if summary.misled_partitions:
            led = many(summary.misled_partitions, "partition")
            parts.append(f"{led} not led by the preferred replica")
        line = join_fitting(parts, width, self._separator)
        if ending is None:
            return Text(line, no_wrap=True, end="")
        if not ending.good and parts[1] not in line:
            # Why it failed is worth a part of a sentence.
            line = fit(self._separator.join(parts[:2]), width, self._glyphs)
        return Text(line, self._style("good" if ending.good else "warn"), no_wrap=True, end="")

    def _remaining(self, summary: Summary) -> str:
        """What is left of all moves, at least: replicas that do not say how much add to it."""
        home = self._store.home
        left, unknown = summary.remaining_bytes, summary.remaining_unknown
        if home is not None and home.total.known:
            left, unknown = home.total.left_bytes, home.total.left_unknown
        text = bytes_text(left)
        return f">{text}" if unknown and left >= 0 else text

    def _share(self) -> str:
        """`45%, `: how much of all that moves was copied; nothing while nobody knows."""
        from kshunt.tui.facts.overview import share_text

        home = self._store.home
        if home is None or math.isnan(home.total.share):
            return ""
        return f"{share_text(home.total)}, "

    def _end(self, summary: Summary, *, brief: bool = False) -> list[str]:
        """When it will be done; replicas that never arrive do not hide when the others do."""
        from kshunt.tui.facts.done_words import HELD_TEXT, done_cells

        home, now_ms = self._store.home, self._store.now_ms
        if home is not None and home.held:
            return [HELD_TEXT]
        cells = done_cells(
            summary.end, now_ms, self._glyphs, summary.stuck, stuck_said=True, brief=brief
        )
        return [cell.text for cell in cells]

    def _problem_line(self) -> Text | None:
        store = self._store
        problems, tone = [str(item) for item in wrong(store)], "warn"
        if store.scene.lost:
            problems, tone = [store.scene.connection.reason], "bad"
        if not problems:
            return None
        others = max(len(problems), len(attention(store))) - 1
        more = f" (and {others} more: !)" if others else ""
        if len(problems) == 1 and cell_len(problems[0] + more) + 3 > self.size.width:
            # The others are not wrong; what is wrong is said in full.
            more = ""
        room = max(self.size.width - cell_len(more) - 3, 1)
        text = fit(printable(problems[0]), room, self._glyphs).rstrip()
        return Text(f" {self._glyphs.alert} {text}{more}", self._style(tone), no_wrap=True, end="")


def _stuck(summary: Summary) -> list[str]:
    return [f"{summary.stuck_replicas:,} stuck"] if summary.stuck_replicas else []


def _look(lines: list[Text]) -> list[tuple[str, list[Span]]]:
    """What makes two sets of lines the same on the screen."""
    return [(line.plain, line.spans) for line in lines]
