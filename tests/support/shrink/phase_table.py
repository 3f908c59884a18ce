"""What each phase of a shrink needs, does and leaves; the README has it as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kshunt.backend.domain.shrink.phases import ShrinkPhase


@dataclass(frozen=True, slots=True)
class PhaseStep:
    """One phase, in words."""

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
    """How a backend that takes over continues."""


_P: Final = ShrinkPhase
_NONE: Final = "none"
_IMPOSSIBLE: Final = "nothing: it continues; the copy is whole"

PHASES: Final[tuple[PhaseStep, ...]] = (
    PhaseStep(
        _P.CHECK,
        "the request can be meant; no other shrink of the topic runs",
        _NONE,
        "the check refuses nothing that was not insisted upon",
        "nothing: the cluster was not changed",
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
        "the job continues from what it committed with the records",
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
        "the job continues from what it committed with the records",
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
        "a topic of its name, with its settings, the requested number of partitions, and what"
        " the copy back needs",
        "every broker that leads a partition of it knows it",
        _IMPOSSIBLE,
        "a topic that is there with that number of partitions is taken as created",
    ),
    PhaseStep(
        _P.COPY_BACK,
        "the topic was created again",
        "the repartition job from the copy, without its header, into partitions of like number",
        "the job says that all is copied",
        _IMPOSSIBLE,
        "the job continues from what it committed with the records",
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
        "settings from before return; what only the copy needed is deleted: settings, our ACL, the"
        " copy's topic where it is not the result, the job's groups, the offset map",
        "each is read back, or the cluster says that it does not exist",
        "nothing is left to undo",
        "repeats what is not gone yet",
    ),
)
"""Every phase, in the order in which they come."""
