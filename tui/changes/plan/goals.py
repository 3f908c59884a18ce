"""What a plan can be for, in an operator's words, and what each goal asks. Pure."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from kshunt.backend.domain.planning.goals import (
    DISK_FRACTION,
    TOLERANCE,
    Goal,
    Weighing,
)
from kshunt.backend.domain.planning.requests import PlanRequest
from kshunt.backend.domain.reassignment.move_caps import parse_caps
from kshunt.backend.domain.text.formatting import listed
from kshunt.tui.changes.plan import fields
from kshunt.tui.changes.plan.fields import ALL, NOTHING, ShownCluster
from kshunt.tui.changes.wizard.parsing import default_caps
from kshunt.tui.dialogs.form import FormField


class PlanStep(enum.IntEnum):
    """Where an operator is; at the last one the frame of every change takes over."""

    GOAL = 0
    CHOICES = 1
    PROPOSAL = 2
    THROTTLES = 3
    REHEARSAL = 4
    START = 5

    @property
    def title(self) -> str:
        """`1 Goal`."""
        return f"{self + 1} {self.name.capitalize()}"


TITLES: Final[Mapping[Goal, tuple[str, str]]] = {
    Goal.DRAIN: ("Drain brokers", "move their replicas to the other brokers"),
    Goal.EXPAND: ("Expand onto brokers", "give new brokers their share of the replicas"),
    Goal.REPLICATION_FACTOR: ("Replication factor", "more or fewer replicas for topics"),
    Goal.REBALANCE: ("Rebalance", "even out bytes, replicas or load over all brokers"),
    Goal.LEADERS: ("Spread the leaders", "change the order of replicas; copies nothing"),
    Goal.RACK_REPAIR: ("Repair racks", "separate replicas that share a rack without need"),
    Goal.REPLACE: ("Replace a broker", "give all its replicas to another broker"),
    Goal.MOVE_LOG_DIRS: ("Move directories", "empty directories of a broker, or even them out"),
}
"""Every goal: what it is called, and what it does."""

BROKERS: Final = "brokers"
FACTOR: Final = "factor"
_DISK: Final = "disk_fraction"
_ASKED: Final[Mapping[Goal, tuple[str, ...]]] = {
    Goal.DRAIN: (BROKERS, "topics", "exclude", "keep_racks", _DISK),
    Goal.EXPAND: (BROKERS, "by", "topics", "exclude", _DISK),
    Goal.REPLICATION_FACTOR: ("topics", FACTOR, "exclude", _DISK),
    Goal.REBALANCE: ("by", "tolerance", "max_moved_bytes", "topics", "exclude", _DISK),
    Goal.LEADERS: ("tolerance", "topics", "exclude"),
    Goal.RACK_REPAIR: ("topics", "exclude", _DISK),
    Goal.REPLACE: (BROKERS, "topics", "exclude", "keep_racks", _DISK),
    Goal.MOVE_LOG_DIRS: (BROKERS, "directories", "tolerance", "topics", "exclude", _DISK),
}
"""By goal: what is asked, by the names of a request, in this order."""

_BROKERS_ASKED: Final[Mapping[Goal, tuple[str, str]]] = {
    Goal.DRAIN: ("Brokers to drain", "ids with commas between them; Up goes to the list"),
    Goal.EXPAND: ("Brokers to fill", "ids with commas between them; Up goes to the list"),
    Goal.REPLACE: ("Old and new", "two ids, the old one first: 4, 7; Up goes to the list"),
    Goal.MOVE_LOG_DIRS: ("Broker", "an id; Up goes to the list"),
}


def asked_of(goal: Goal) -> tuple[str, ...]:
    """What a goal asks, by the names of a request."""
    return _ASKED[goal]


def fields_of(goal: Goal, about: ShownCluster, texts: Mapping[str, str]) -> list[FormField]:
    """The fields of a goal; `texts` holds their texts by name, where they are known."""
    found = []
    for name in _ASKED[goal]:
        field = _broker_field(goal, about) if name == BROKERS else _field(name, about)
        found.append(replace(field, value=texts.get(name, field.value)))
    return found


def request_of(goal: Goal, values: tuple[Any, ...]) -> PlanRequest:
    """The request that these values of the fields make.

    Raises:
        BadInput: the values make no valid request.
    """
    named = dict(zip(_ASKED[goal], values, strict=True))
    factor = named.pop(FACTOR, None)
    factors = {} if factor is None else dict.fromkeys(named["topics"], factor)
    # Those with which it would be started, unless others are typed there.
    caps = parse_caps(default_caps())
    return PlanRequest(goal, factors=factors, caps=caps, **named)


def _broker_field(goal: Goal, about: ShownCluster) -> FormField:
    label, hint = _BROKERS_ASKED[goal]
    return FormField(label, "", hint, lambda text: fields.brokers(text, goal, about.brokers))


def _field(name: str, about: ShownCluster) -> FormField:
    match name:
        case "topics":
            hint = "names or patterns (orders, pay*), with commas between them; * is all"
            return FormField("Topics", "*", hint, lambda text: fields.patterns(text, about.topics))
        case "exclude":
            hint = f"topics that must not change, in the same form; or {NOTHING}"
            return FormField("Except", NOTHING, hint, fields.excluded)
        case "by":
            hint = "bytes, replicas, or load (what is written and read a second)"
            return FormField("Level", Weighing.BYTES.value, hint, fields.a_weighing)
        case "tolerance":
            hint = "the allowed distance from the mean, in both directions"
            return FormField("Tolerance", f"{TOLERANCE:.0%}", hint, fields.a_tolerance)
        case "max_moved_bytes":
            hint = f"the plan stops there: 500GB, 2TiB, or {NOTHING}"
            return FormField("Copy at most", NOTHING, hint, fields.a_limit)
        case "keep_racks":
            hint = "yes: a partition that cannot leave otherwise may span fewer racks"
            return FormField("Allow fewer racks", "no", hint, lambda t: not fields.yes_or_no(t))
        case "directories":
            return _directories(about)
        case _ if name == FACTOR:
            most = len(about.brokers)
            hint = f"replicas of each partition: 1 to {most}"
            return FormField("Factor", "", hint, lambda text: fields.a_factor(text, most))
        case _:
            hint = "of each disk, when all copies are complete"
            return FormField("Fill up to", f"{DISK_FRACTION:.0%}", hint, fields.a_share)


def _directories(about: ShownCluster) -> FormField:
    known = listed(about.paths, 2)
    hint = (
        f"{ALL} evens them out; or the directories to empty: {known}"
        if known
        else f"{ALL} evens them out"
    )
    return FormField("Directories", ALL, hint, lambda text: fields.directories(text, about.paths))
