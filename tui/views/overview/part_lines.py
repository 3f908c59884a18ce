"""Title and lines of each part of the overview, made of what is known of a snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshunt.tui.tables.lines import Line, clipped
from kshunt.tui.text.glyphs import Glyphs
from kshunt.tui.views.overview.broker_tiles import tile_lines
from kshunt.tui.views.overview.event_lines import event_lines
from kshunt.tui.views.overview.flow_map import flow_lines
from kshunt.tui.views.overview.move_lanes import move_lines
from kshunt.tui.views.overview.parts import BROKERS, EVENTS, FLOWS, MOVES
from kshunt.tui.views.overview.traffic_lines import traffic_lines

if TYPE_CHECKING:
    from kshunt.tui.facts.overview import Home

_TITLES = {MOVES: "Moves", FLOWS: "Who feeds whom", BROKERS: "Brokers", EVENTS: "Events"}
_PRODUCED = "Produced"


def part_title(part: str, home: Home | None) -> str:
    """What a part is about; while nothing is copied, the flows are those of producers."""
    idle = home is not None and home.cockpit is not None and not home.cockpit.flows
    return _PRODUCED if part == FLOWS and idle else _TITLES[part]


def part_lines(
    part: str, home: Home | None, width: int, height: int, glyphs: Glyphs, more: str
) -> list[Line]:
    """At most `height` lines of `width` cells; `more` says how to see what does not fit."""
    if home is None or home.overview is None or home.cockpit is None:
        return []
    cockpit, overview = home.cockpit, home.overview
    if part == MOVES:
        lines = move_lines(
            cockpit.moves, cockpit.traffic, overview, home.history, width, height, glyphs, more
        )
    elif part == BROKERS:
        traffic = cockpit.traffic.brokers
        lines = tile_lines(cockpit.brokers, traffic, width, height, glyphs, more)
    elif part == EVENTS:
        lines = event_lines(cockpit.events, overview.now_ms, width, height, glyphs, more)
    elif cockpit.flows:
        lines = flow_lines(cockpit.flows, width, height, glyphs, more, cockpit.moves)
    else:
        rows, health = cockpit.brokers, overview.health
        lines = traffic_lines(cockpit.traffic, health, rows, width, height, glyphs)
    return [clipped(line, width, glyphs) for line in lines[:height]]
