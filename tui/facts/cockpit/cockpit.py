"""Everything that the parts of a large overview show of one snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kshunt.backend.domain.operations.operation import Operation
from kshunt.tui.facts.brokers.flows import Sent, flows_of
from kshunt.tui.facts.brokers.row import BrokerRow, broker_rows
from kshunt.tui.facts.cockpit.events import Event
from kshunt.tui.facts.cockpit.moves import Moves, moves_of
from kshunt.tui.facts.cockpit.traffic import Traffic
from kshunt.tui.facts.snapshot_facts import Facts
from kshunt.tui.tables.model import RowKey


@dataclass(frozen=True, slots=True)
class Cockpit:
    """What the parts show."""

    moves: Moves = field(default_factory=Moves)
    flows: Mapping[RowKey, Sent] = field(default_factory=dict)
    """By the broker that sends, and everything under `ALL`; empty where nothing is copied."""
    brokers: tuple[BrokerRow, ...] = ()
    """The lowest id first."""
    traffic: Traffic = field(default_factory=Traffic)
    events: tuple[Event, ...] = ()
    """The newest first."""


def cockpit_of(
    facts: Facts,
    operations: Sequence[Operation],
    ended: int,
    traffic: Traffic,
    events: tuple[Event, ...],
) -> Cockpit:
    """Of a snapshot, with what was remembered of those before it."""
    return Cockpit(
        moves_of(facts, operations, ended),
        flows_of(facts),
        tuple(broker_rows(facts, operations).values()),
        traffic,
        events,
    )
