"""Moving in time: through a recording, or back from the present."""

from __future__ import annotations

from typing import Final

from kshunt.tui.actions.action import AWAY, PAST, Action
from kshunt.tui.actions.view_names import BROKERS, VIEWS


def _time(
    id: str, key: str, title: str, help: str, *, hint: str = "", rank: int = 0, when: str = PAST
) -> Action:
    return Action(id, (key,), title, help, "Time", hint=hint, rank=rank, when=(when,))


def _scrub(id: str, key: str, title: str, help: str) -> Action:
    # The matrices of the brokers view have the arrows for their columns.
    views = VIEWS if key.startswith("shift") else tuple(one for one in VIEWS if one != BROKERS)
    return Action(id, (key,), title, help, "Time", views)


TIMES: Final = (
    _time(
        "time_toggle",
        "T",
        "Hold time, or return to live",
        "Holds the view, and time keys move it; kshunt still records live data.",
        hint="live",
        rank=-20,
        when=AWAY,
    ),
    _time(
        "time(-10)", "left_square_bracket", "Back 10 s", "Also from live.", hint="back", rank=-18
    ),
    _time("time(10)", "right_square_bracket", "On 10 s", "Stops at the end.", hint="on", rank=-17),
    _time("time(-60)", "left_curly_bracket", "Back 1 min", "Also from live."),
    _time("time(60)", "right_curly_bracket", "On 1 min", "Stops at the end."),
    _scrub("scrub(-10)", "left", "Scrub back", "10 s, while the past is shown."),
    _scrub("scrub(10)", "right", "Scrub on", "10 s, while the past is shown."),
    _scrub("scrub(-60)", "shift+left", "Scrub back far", "1 min, while the past is shown."),
    _scrub("scrub(60)", "shift+right", "Scrub on far", "1 min, while the past is shown."),
    _time("time_play", "vertical_line", "Play or hold", "From this moment.", hint="play", rank=-19),
    _time("time_faster", "asterisk", "Play faster", "2, 10 or 60 times, and then normal speed."),
    _time(
        "time_jump('change', -1)",
        "left_parenthesis",
        "Previous change",
        "A change of an operation's state, a request, or an incident.",
    ),
    _time(
        "time_jump('change', 1)",
        "right_parenthesis",
        "Next change",
        "A change of an operation's state, a request, or an incident.",
        hint="change",
        rank=-15,
    ),
    _time(
        "time_jump('incident', -1)",
        "comma",
        "Previous incident",
        "Connection lost, broker down, stuck, offline, drift, alert.",
    ),
    _time(
        "time_jump('incident', 1)",
        "full_stop",
        "Next incident",
        "Connection lost, broker down, stuck, offline, drift, alert.",
        hint="incident",
        rank=-16,
    ),
    _time("time_edge(-1)", "circumflex_accent", "Beginning", "Go to the start of the recording."),
    _time("time_edge(1)", "dollar_sign", "End", "Go to the end of the recording."),
    Action(
        "hand_over",
        ("W",),
        "Write a note",
        "A hand-over note, or a timeline of the events, as Markdown.",
        "Time",
    ),
)
