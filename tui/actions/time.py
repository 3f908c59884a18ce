"""Moving in time: through a recording, or back from the present."""

from __future__ import annotations

from typing import Final

from kshunt.tui.actions.action import AWAY, PAST, Action


def _time(
    id: str, key: str, title: str, help: str, *, hint: str = "", rank: int = 0, when: str = PAST
) -> Action:
    return Action(id, (key,), title, help, "Time", hint=hint, rank=rank, when=(when,))


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
    _time("time(-10)", "left_square_bracket", "Back 10 s", "From live too.", hint="back", rank=-18),
    _time(
        "time(10)", "right_square_bracket", "On 10 s", "To the end at most.", hint="on", rank=-17
    ),
    _time("time(-60)", "left_curly_bracket", "Back 1 min", "From live too."),
    _time("time(60)", "right_curly_bracket", "On 1 min", "To the end at most."),
    _time("time_play", "vertical_line", "Play or hold", "From here on.", hint="play", rank=-19),
    _time("time_faster", "asterisk", "Play faster", "Twice, 10 times, 60 times, and as it was."),
    _time(
        "time_jump('change', -1)",
        "left_parenthesis",
        "Last change",
        "An operation's state, what somebody asked for, or an incident.",
    ),
    _time(
        "time_jump('change', 1)",
        "right_parenthesis",
        "Next change",
        "An operation's state, what somebody asked for, or an incident.",
        hint="change",
        rank=-15,
    ),
    _time(
        "time_jump('incident', -1)",
        "comma",
        "Last incident",
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
    _time("time_edge(-1)", "circumflex_accent", "Beginning", "Of what was recorded."),
    _time("time_edge(1)", "dollar_sign", "End", "Of what was recorded."),
    Action(
        "hand_over",
        ("W",),
        "Write a note",
        "A hand-over note, or a timeline of what happened, as Markdown.",
        "Time",
    ),
)
