"""What the engine has to remember of a shrink, so that any backend can finish it or take it back.

A `ShrinkWork` is in the journal before each effect that it speaks of. Everything here is a value,
or a pure function of values. Strict on the way back, as
`kshunt.backend.operations.state.reassignment_work` is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kshunt.backend.domain.shrink.offset_maps import Offsets
from kshunt.backend.domain.shrink.phases import CutOver, ShrinkPhase, ShrinkRequest, is_past
from kshunt.backend.domain.untrusted.json_codec import (
    Id,
    TimeMs,
    Whole,
    from_document,
    is_same,
    to_document,
)
from kshunt.backend.operations.state.reassignment_work import MALFORMED, UnreadableWork

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Compared:
    """Two topics that were found equal."""

    positions: Offsets
    """Of every partition of the first: up to where it was compared."""
    ends: Offsets
    """Of every partition of the second: the whole of it."""
    records: Whole
    at_ms: TimeMs


@dataclass(frozen=True, slots=True)
class GroupPlace:
    """Where a consumer group continues."""

    committed: Offsets
    """Its positions in the source."""
    copied: Offsets
    """In the copy."""
    read_twice: Whole
    """Records that it has read and will read again."""
    final: Offsets | None = None
    """In the final topic; None while that is not known."""
    asked: bool = False
    """True once its positions may have been committed."""
    done: bool = False
    """True once they were."""


@dataclass(frozen=True, slots=True)
class ShrinkWork:
    """One shrink, and how far it was taken."""

    request: ShrinkRequest
    current: Id
    """Partitions that the topic had when it was asked for."""
    copy: str
    """The topic with the copy; the target itself, with a new name."""
    phase: ShrinkPhase = ShrinkPhase.CHECK
    source_id: str = ""
    """Kafka's id of the source; empty before the check is over, or where there are no ids."""
    copy_id: str = ""
    """Kafka's id of the copy, once it was seen."""
    final_id: str = ""
    """Kafka's id of the topic that was created anew, once it was seen."""
    blocked_before: bool | None = None
    """Whether somebody's entry denied everybody to write; None before it was read."""
    overrides: Mapping[str, str] | None = None
    """What was set on the source before anything of ours; None before it was read."""
    in_force: Mapping[str, str] = field(default_factory=dict)
    """What was in force for it, of what the copy needs to know."""
    assignment: tuple[tuple[Id, ...], ...] = ()
    """The replicas of each partition of the smaller topics."""
    cuts: tuple[Offsets, ...] = ()
    until: Offsets | None = None
    """Up to where the job copies; None before that was decided."""
    rounds: Whole = 0
    """How often it was decided."""
    verified: Compared | None = None
    """Source and copy."""
    confirmed: str = ""
    """Who typed the topic's name, and why; empty while nobody has."""
    sealed: Offsets | None = None
    """The source's ends, once no producer can write any more."""
    groups: Mapping[str, GroupPlace] = field(default_factory=dict)
    """Where the groups of the source continue, once that is settled."""
    verified_back: Compared | None = None
    """Copy and final topic."""
    differs: str = ""
    """How the final topic differs from the copy; empty while it does not."""
    accepted: bool = False
    """True where somebody accepted that difference; the copy is kept then."""
    failed: str = ""
    """Why it came to nothing; all of it is taken back, and it ends as FAILED."""
    cancelled: bool = False
    """An operator does not want it any more."""

    @property
    def topic(self) -> str:
        """The source's name."""
        return self.request.topic

    @property
    def final(self) -> str:
        """The name of the smaller topic in the end."""
        return self.copy if self.request.cut_over is CutOver.NEW_NAME else self.topic

    @property
    def same_name(self) -> bool:
        """True where the source is deleted and created anew."""
        return self.request.cut_over is CutOver.SAME_NAME

    @property
    def past_no_return(self) -> bool:
        """True from the moment when the source may be deleted."""
        return (
            self.same_name and not is_past(ShrinkPhase.DELETE, self.phase) and not self.rolled_back
        )

    @property
    def rolled_back(self) -> bool:
        """True where all of it goes away again."""
        return bool(self.failed) or self.cancelled

    @property
    def needs_name(self) -> bool:
        """True while it waits for the topic's name to be typed."""
        if self.phase is ShrinkPhase.CONFIRM:
            return not self.confirmed
        return self.phase is ShrinkPhase.VERIFY_BACK and bool(self.differs) and not self.accepted


# --- in the journal


def document(work: ShrinkWork) -> Document:
    """For an entry of the journal.

    A partitioner that is not known is absent, as in entries from before there was a choice.
    """
    found = to_document(work)
    request = {k: v for k, v in found["request"].items() if (k, v) != ("partitioner", None)}
    return _with_offsets({**found, "request": request}, _as_rows)


def read_shrink(written: Document) -> ShrinkWork:
    """The opposite of `document`.

    Raises:
        UnreadableWork: it is not what `document` writes; it must not be acted upon.
    """
    try:
        work = from_document(ShrinkWork, _with_offsets(written, _from_rows))
        if not is_same(document(work), written):
            raise ValueError("a field is missing, unknown, or has another form")
    except MALFORMED as error:
        raise UnreadableWork(f"The stored state of the shrink cannot be read: {error}.") from None
    return work


def _with_offsets(written: Document, change: Callable[[Any], Any]) -> Document:
    """A work's document with all its offsets written in another way."""

    def within(one: Any, *names: str) -> Any:
        if one is None:
            return None
        return {**one, **{name: None if one[name] is None else change(one[name]) for name in names}}

    return {
        **within(written, "until", "sealed"),
        "cuts": [change(cut) for cut in written["cuts"]],
        "verified": within(written["verified"], "positions", "ends"),
        "verified_back": within(written["verified_back"], "positions", "ends"),
        "groups": {
            name: within(place, "committed", "copied", "final")
            for name, place in written["groups"].items()
        },
    }


def _as_rows(offsets: Mapping[str, int]) -> list[list[int]]:
    return sorted([int(partition), offset] for partition, offset in offsets.items())


def _from_rows(rows: Sequence[Sequence[int]]) -> Offsets:
    return dict(from_document(list[tuple[Id, Whole]], rows))
