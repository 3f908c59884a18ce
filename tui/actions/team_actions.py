"""What people who share a backend tell each other."""

from __future__ import annotations

from typing import Final

from kshunt.tui.actions.action import HELD, PROPOSED, Action
from kshunt.tui.actions.view_names import OPERATIONS

_OPERATED: Final = (OPERATIONS,)

TEAM: Final = (
    Action(
        "here",
        ("H",),
        "Who is here",
        "Who else is connected to the backend, and which view they see.",
        "Look",
    ),
    Action(
        "proposals",
        ("Y",),
        "Proposals",
        "Changes that need a second person: approve, reject or withdraw them.",
        "Change",
        hint="proposals",
        rank=-3,
        when=(PROPOSED,),
    ),
    Action(
        "claim",
        ("K",),
        "Claim or release",
        "Claims the operation for you; take it over with a reason; again to release it.",
        "Change",
        _OPERATED,
        hint="take over",
        rank=-1,
        when=(HELD,),
        changes=True,
    ),
    Action(
        "remark",
        ("N",),
        "Note on the operation",
        "One line that everybody sees with the operation, and that the audit keeps.",
        "Change",
        _OPERATED,
        changes=True,
    ),
)
