"""What a planner proposes: the partitions that change, what that costs, and what it cannot do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan, format_plan
from kshunt.backend.domain.text.formatting import bytes_text, listed, many

NAMED: Final = 3
"""Partitions that a note names, if it is about several; the others are counted."""


@dataclass(frozen=True, slots=True)
class PlanNote:
    """A part of the request that is not in the proposal, or an assumption of it."""

    why: str
    """One sentence: the fact and its reason."""
    remedy: str
    """What an operator can do about it; empty where nothing need be done."""
    partition: TopicPartition | None = None
    broker: int | None = None

    def __str__(self) -> str:
        named = []
        if self.partition is not None:
            named.append(f"partition {self.partition}")
        if self.broker is not None:
            named.append(f"broker {self.broker}")
        where = f"{', '.join(named)}: " if named else ""
        return f"{where}{self.why} {self.remedy}".rstrip()


def note_sentences(notes: Iterable[PlanNote]) -> tuple[str, ...]:
    """The notes for people: one that is the same for several partitions is said once."""
    alike: dict[tuple[str, str, int | None, bool], list[PlanNote]] = {}
    for note in notes:
        key = (note.why, note.remedy, note.broker, note.partition is None)
        alike.setdefault(key, []).append(note)
    return tuple(_said_once(some) for some in alike.values())


def _said_once(notes: Sequence[PlanNote]) -> str:
    first, partitions = notes[0], [note.partition for note in notes]
    if len(notes) == 1 or first.partition is None:
        return str(first)
    where = "" if first.broker is None else f" on broker {first.broker}"
    return (
        f"Each of {many(len(notes), 'partition')}{where} ({listed(partitions, NAMED)}): "
        f"{first.why} {first.remedy}"
    ).rstrip()


@dataclass(frozen=True, slots=True)
class Measure:
    """How far a cluster is from a goal; 0 is there. Each planner's text defines its own."""

    name: str
    """What is measured, with its unit: `bytes left on the drained brokers`."""
    before: float
    after: float
    in_bytes: bool = False
    """Whether both numbers are sizes."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a proposal."""

    moved_bytes: int = 0
    """Bytes to be copied between brokers, as far as sizes are known."""
    moved_replicas: int = 0
    """Replicas that a broker gains."""
    unknown_sizes: int = 0
    """Those of `moved_replicas` whose size is not known, and is not in `moved_bytes`."""
    dropped_replicas: int = 0
    """Replicas that are removed without a new one."""
    reordered: int = 0
    """Partitions of which only the order of the replicas changes; no bytes move."""
    log_dir_bytes: int = 0
    """Bytes to be copied between log directories of one broker."""
    log_dir_replicas: int = 0


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan, before anybody has agreed to it."""

    goal: str
    """What it was made for, in words: `drain broker 7`."""
    before: Mapping[TopicPartition, tuple[int, ...]]
    """The replicas of each partition that changes, as they are; same keys as `targets`."""
    targets: Mapping[TopicPartition, tuple[int, ...]]
    """The replicas that each partition that changes will have. Nothing else changes."""
    cost: Cost
    measure: Measure
    notes: tuple[PlanNote, ...] = ()
    log_dirs: Mapping[tuple[TopicPartition, int], str] = field(default_factory=dict)
    """Target directories of replicas that change theirs."""
    log_dirs_before: Mapping[tuple[TopicPartition, int], str] = field(default_factory=dict)
    """Where those replicas lie; same keys as `log_dirs`."""

    @property
    def plan(self) -> ReassignmentPlan:
        """The plan to carry out; empty where nothing has to change."""
        return ReassignmentPlan(self.targets, self.log_dirs)

    @property
    def rollback(self) -> ReassignmentPlan:
        """The plan that leads back, for the same partitions."""
        return ReassignmentPlan(self.before, self.log_dirs_before)

    @property
    def plan_json(self) -> str:
        """`plan` in Kafka's JSON. Kafka's tools refuse one without partitions."""
        return format_plan(self.targets, self.log_dirs)

    @property
    def rollback_json(self) -> str:
        """`rollback` in Kafka's JSON."""
        return format_plan(self.before, self.log_dirs_before)

    @property
    def sentence(self) -> str:
        """For an operator: what changes, what it costs and how much is left undone."""
        notes = many(len(note_sentences(self.notes)), "note")
        if not self.targets:
            return f"To {self.goal}, nothing changes; {notes}."
        cost = self.cost
        words = [f"{many(len(self.targets), 'partition')} change"]
        if len(self.targets) == 1:
            words = ["1 partition changes"]
        if cost.moved_replicas:
            unknown = f" and {cost.unknown_sizes} of unknown size" if cost.unknown_sizes else ""
            moved = many(cost.moved_replicas, "replica")
            words.append(f"{moved} move ({bytes_text(cost.moved_bytes)}{unknown})")
        if cost.log_dir_replicas:
            moved = many(cost.log_dir_replicas, "replica")
            words.append(f"{moved} change directory ({bytes_text(cost.log_dir_bytes)})")
        if cost.dropped_replicas:
            words.append(f"{many(cost.dropped_replicas, 'replica')} go")
        if cost.reordered:
            words.append(f"{many(cost.reordered, 'list')} only reordered")
        return f"To {self.goal}: {', '.join(words)}; {notes}."
