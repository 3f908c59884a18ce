"""The phases in which a topic loses partitions on a cluster that cannot drop one by itself.

Goals
    Every record of the topic is in the smaller one once, each key's in order, and no consumer
    group loses one; whatever crashes in between, and until the source is deleted all can be undone.
Constraints
    - Nothing is deleted before a copy was found equal and somebody typed the topic's name.
    - The journal holds what an effect needs before the effect; each effect may be repeated.
Algorithm
    The records are copied into another topic while the first is still written to; then it is
    sealed, and what came meanwhile is copied too. To keep the name, the source is deleted, created
    anew and copied back. `PHASES` says of each phase what it needs, does and leaves; KIP-694 is
    where the delay, and the partitions that are no longer written to, come from.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

PhaseStatus = Literal["done", "now", "ahead", "failed"]
Unit = Literal["", "records", "ms", "groups"]


class ShrinkPhase(enum.StrEnum):
    """Where a shrink is; in the order in which they come."""

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


@dataclass(frozen=True, slots=True)
class PhaseStep:
    """One phase, in words for the engine's reader and for the audit."""

    phase: ShrinkPhase
    precondition: str
    """What must hold before its effect."""
    effect: str
    """What is written, and where; "none" where only the journal changes."""
    observe: str
    """How it is seen that the phase is over."""
    undo: str
    """What takes the effect back."""
    resume: str
    """How a backend that takes over goes on."""


_P: Final = ShrinkPhase
_NONE: Final = "none"
_IMPOSSIBLE: Final = "nothing: it goes on; the copy is whole"

PHASES: Final[tuple[PhaseStep, ...]] = (
    PhaseStep(
        _P.CHECK,
        "the request can be meant; no other shrink of the topic runs",
        _NONE,
        "the check refuses nothing that was not insisted upon",
        "nothing: the cluster was not touched",
        "checks again",
    ),
    PhaseStep(
        _P.QUIESCE,
        "checked; for a write block: an authorizer, of which we are a super user",
        "where it was asked for, an ACL that denies everybody to write the topic",
        "the log ends of the partitions that go have stood still for the delay",
        "the ACL is removed",
        "repeats the ACL, and counts the delay from the last write that it sees itself",
    ),
    PhaseStep(
        _P.COPY,
        "the topic's own settings, the copy's name and placement, and the cuts are in the journal",
        "the source keeps its records (retention); the copy's topic; the repartition job",
        "the job says that all is copied up to ends that are close to those of now",
        "the copy's topic and the job's group are deleted; the source's settings come back",
        "the job goes on from what it committed with the records",
    ),
    PhaseStep(
        _P.VERIFY,
        "the job has copied up to the ends in the journal",
        "none in the cluster; the offset map in a folder",
        "counts and checksums of each bucket of keys are equal",
        "as for copy",
        "verifies again",
    ),
    PhaseStep(
        _P.CONFIRM,
        "the copy was found equal",
        _NONE,
        "somebody typed the topic's name",
        "as for copy",
        "waits on",
    ),
    PhaseStep(
        _P.SEAL,
        "the name was typed; no group of the topic has members; no transaction is open; the"
        " settings from before are in the journal",
        "max.message.bytes of the source so small that producers are refused (`domain.sealing`)",
        "each leader says so, and the log ends have stood still since",
        "the topic's own settings come back",
        "repeats the seal, and watches the ends anew",
    ),
    PhaseStep(
        _P.COPY_REST,
        "the source is sealed",
        "the repartition job once more, if anything was written since the verification",
        "the job's positions are the source's ends",
        "as for copy",
        "the job goes on from what it committed with the records",
    ),
    PhaseStep(
        _P.VERIFY_REST,
        "everything of the source is copied",
        "none in the cluster; the offset map in a folder",
        "counts and checksums are equal, of the whole of both topics",
        "as for copy",
        "verifies again",
    ),
    PhaseStep(
        _P.DELETE,
        "verified up to the source's ends, which have not moved: else it is sealed anew; each"
        " group's position in the copy"
        " is in the journal, and no group has members",
        "the source topic is deleted: the point of no return",
        "no broker knows the topic that had the source's id",
        _IMPOSSIBLE,
        "a topic of that name with another id is not the source and is never deleted",
    ),
    PhaseStep(
        _P.CREATE,
        "the source is gone",
        "a topic of its name, with its settings, as many partitions as were asked for, and what"
        " the copy back needs",
        "every broker that leads a partition of it knows it",
        _IMPOSSIBLE,
        "a topic that is there with so many partitions is taken as created",
    ),
    PhaseStep(
        _P.COPY_BACK,
        "the topic was created anew",
        "the repartition job from the copy, without its header, into partitions of like number",
        "the job says that all is copied",
        _IMPOSSIBLE,
        "the job goes on from what it committed with the records",
    ),
    PhaseStep(
        _P.VERIFY_BACK,
        "everything was copied back",
        "none in the cluster; the offset map in a folder",
        "counts and checksums are equal",
        _IMPOSSIBLE,
        "verifies again",
    ),
    PhaseStep(
        _P.TRANSLATE,
        "each group's position in the final topic is in the journal; the group has no members",
        "AlterConsumerGroupOffsets of each group; one without a position is left alone",
        "each group was answered without an error",
        "the group's positions of the new topic go with it",
        "a group that was answered is not set again: it may have read on since",
    ),
    PhaseStep(
        _P.CLEAN_UP,
        "every group has its position; or all is to be taken back",
        "settings that only the copy needed go, and those from before return; our ACL, the copy's"
        " topic where it is not the result, the job's groups and the offset map go",
        "each is read back, or the cluster says that it is not there",
        "nothing is left to undo",
        "repeats what is not gone yet",
    ),
)
"""Every phase, in the order in which they come."""

POINT_OF_NO_RETURN: Final = ShrinkPhase.DELETE
_ONLY_SAME_NAME: Final = frozenset({_P.DELETE, _P.CREATE, _P.COPY_BACK, _P.VERIFY_BACK})
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
    total_count: int
    """How many partitions it shall have."""
    delay_ms: int
    """For so long nobody may have written the partitions that go."""
    cut_over: CutOver = CutOver.SAME_NAME
    target: str = ""
    """The name of the smaller topic, with `NEW_NAME`; else empty."""
    write_block: bool = False
    """Deny everybody to write the topic meanwhile, by an ACL."""
    insisted: tuple[str, ...] = ()
    """Codes of refusals that are overruled, of those that may be."""
    keyless: str = "round-robin"
    """Where records without a key go: `round-robin`, or `as-source`."""


@dataclass(frozen=True, slots=True)
class PhaseShown:
    """One phase, for an operator."""

    phase: ShrinkPhase
    state: PhaseStatus
    words: str = ""
    """What happens in it, or what came of it."""
    done: int | None = None
    total: int | None = None
    """Progress, in `unit`; None where there is none, or it is not known."""
    unit: Unit = ""
    eta_ms: tuple[int, int] | None = None
    """How long it will take yet, from and to; None where it is not known."""


@dataclass(frozen=True, slots=True)
class GroupShown:
    """One consumer group of the topic, for an operator."""

    name: str
    members: int
    """How many it has; they must be none before the topic is sealed."""
    read_twice: int | None
    """Records that it has read and will read again; None: not known yet."""
    committed: bool
    """True once it has its position in the smaller topic."""


@dataclass(frozen=True, slots=True)
class ShrinkProgress:
    """How a shrink stands; in an operation's details as `shrink`."""

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
    """What it waits for: `confirm`, `groups`, `producers`; empty while it goes on by itself."""
    words: str = ""
    """What it does, or waits for, in one line."""
    groups: tuple[GroupShown, ...] = ()
    records: int | None = None
    """How many records the copy was found to have; None before it was verified."""
    verified_ms: int | None = None
    """When source and copy were found equal, milliseconds since the epoch."""

    def as_json(self) -> dict[str, Any]:
        """For an operation's details."""
        return asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> ShrinkProgress:
        """The opposite of `as_json`.

        Raises:
            TypeError, ValueError, KeyError: it is not what `as_json` gives.
        """
        return cls(
            **{
                **found,
                "cut_over": CutOver(found["cut_over"]),
                "phase": ShrinkPhase(found["phase"]),
                "phases": tuple(_phase(one) for one in found["phases"]),
                "groups": tuple(GroupShown(**one) for one in found["groups"]),
            }
        )


def _phase(found: Mapping[str, Any]) -> PhaseShown:
    eta = found["eta_ms"]
    return PhaseShown(
        **{
            **found,
            "phase": ShrinkPhase(found["phase"]),
            "eta_ms": None if eta is None else (int(eta[0]), int(eta[1])),
        }
    )
