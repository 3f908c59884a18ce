"""The phases in which a topic loses partitions on a cluster that cannot drop one by itself.

Goals
    Every record of the topic is in the smaller one once, each key's in order. No consumer group
    loses a record. Both hold whatever crashes in between. Until the source is deleted, all can be
    undone.
Constraints
    - Nothing is deleted before a copy was found equal and somebody typed the topic's name.
    - The journal holds what an effect needs before the effect; each effect may be repeated.
Algorithm
    The records are copied into another topic while the first is still written to; then it is
    sealed, and what came meanwhile is copied too. To keep the name, the source is deleted, created
    anew and copied back. The manual says of each phase what it needs, does and leaves; KIP-694 is
    where the delay, and the partitions that are no longer written to, come from.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, Literal

from kshunt.backend.domain.topics.partitioners import Partitioner
from kshunt.backend.domain.untrusted.json_codec import Id, Whole

PhaseStatus = Literal["done", "now", "ahead", "failed"]
Unit = Literal["", "records", "ms", "groups"]


class ShrinkPhase(enum.StrEnum):
    """The phases of a shrink, in their order."""

    CHECK = "check"
    QUIESCE = "quiesce"
    COPY = "copy"
    VERIFY = "verify"
    CONFIRM = "confirm"
    SEAL = "seal"
    COPY_REST = "copy rest"
    VERIFY_REST = "verify rest"
    DELETE = "delete"
    CREATE = "create"
    COPY_BACK = "copy back"
    VERIFY_BACK = "verify back"
    TRANSLATE = "translate"
    CLEAN_UP = "clean up"


class CutOver(enum.StrEnum):
    """What becomes of the topic's name."""

    SAME_NAME = "same-name"
    """The topic is deleted and created anew; there is a point of no return."""
    NEW_NAME = "new-name"
    """The copy is the smaller topic; the old one stays, read-only."""


POINT_OF_NO_RETURN: Final = ShrinkPhase.DELETE
_ONLY_SAME_NAME: Final = frozenset(
    {ShrinkPhase.DELETE, ShrinkPhase.CREATE, ShrinkPhase.COPY_BACK, ShrinkPhase.VERIFY_BACK}
)
_ORDER: Final = tuple(ShrinkPhase)


def phases_of(cut_over: CutOver) -> tuple[ShrinkPhase, ...]:
    """The phases of a shrink, in their order."""
    if cut_over is CutOver.SAME_NAME:
        return _ORDER
    return tuple(phase for phase in _ORDER if phase not in _ONLY_SAME_NAME)


def after(phase: ShrinkPhase, cut_over: CutOver) -> ShrinkPhase:
    """The phase that follows; the last one follows itself."""
    phases = phases_of(cut_over)
    return phases[min(phases.index(phase) + 1, len(phases) - 1)]


def is_past(phase: ShrinkPhase, other: ShrinkPhase) -> bool:
    """Whether a phase comes after another."""
    return _ORDER.index(phase) > _ORDER.index(other)


@dataclass(frozen=True, slots=True)
class ShrinkRequest:
    """What an operator asks for."""

    topic: str
    total_count: Id
    """How many partitions it will have."""
    delay_ms: Whole
    """How long the partitions that are removed must have had no new records."""
    cut_over: CutOver = CutOver.SAME_NAME
    target: str = ""
    """The name of the smaller topic, with `NEW_NAME`; else empty."""
    write_block: bool = False
    """Deny everybody to write the topic meanwhile, by an ACL."""
    insisted: tuple[str, ...] = ()
    """Codes of refusals that are overruled, of those that may be."""
    keyless: str = "round-robin"
    """Where records without a key go: `round-robin`, or `as-source`."""
    partitioner: Partitioner | None = None
    """By which the copy places keys; None: by the one that the topic's keys follow."""


@dataclass(frozen=True, slots=True)
class PhaseShown:
    """One phase, for an operator."""

    phase: ShrinkPhase
    state: PhaseStatus
    words: str = ""
    """What happens in it, or its result."""
    done: int | None = None
    total: int | None = None
    """Progress, in `unit`; None where there is none, or it is not known."""
    unit: Unit = ""
    eta_ms: tuple[int, int] | None = None
    """The time that is left, from and to; None if unknown."""


@dataclass(frozen=True, slots=True)
class GroupShown:
    """One consumer group of the topic, for an operator."""

    name: str
    members: int
    """How many it has; they must be none before the topic is sealed."""
    read_twice: int | None
    """Records that it has read and will read again; None: not known yet."""
    committed: bool
    """True when it has its offsets in the smaller topic."""


@dataclass(frozen=True, slots=True)
class ShrinkProgress:
    """The progress of a shrink; in an operation's details as `shrink`."""

    topic: str
    current: int
    """Partitions that it had."""
    wanted: int
    cut_over: CutOver
    copy: str
    """The topic with the copy; with `NEW_NAME` it is the result."""
    phase: ShrinkPhase
    phases: tuple[PhaseShown, ...]
    past_no_return: bool
    """True from the moment when the source may be deleted."""
    needs: str = ""
    """What it waits for: `confirm`, `groups`, `producers`, `operator`; empty without a need."""
    words: str = ""
    """What it does, or waits for, in one line."""
    groups: tuple[GroupShown, ...] = ()
    records: int | None = None
    """How many records the copy was found to have; None before it was verified."""
    verified_ms: int | None = None
    """When source and copy were found equal, milliseconds since the epoch."""
    halted: bool = False
    """Whether somebody paused or cancelled it, so that `words` are not those of its phase."""
