"""What the engine has to remember of a shrink, so that any backend can finish it or take it back.

A `ShrinkWork` is in the journal before each effect that it speaks of. Everything here is a value,
or a pure function of values. Strict on the way back, as
`kshunt.backend.operations.state.reassignment_work` is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from kshunt.backend.domain.shrink.offset_maps import Offsets
from kshunt.backend.domain.shrink.phases import CutOver, ShrinkPhase, ShrinkRequest, is_past
from kshunt.backend.operations.state.reassignment_work import (
    ID_MAX,
    MALFORMED,
    TIME_MS_MAX,
    UnreadableWork,
    whole,
)

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Compared:
    """Two topics that were found equal."""

    positions: Offsets
    """Of every partition of the first: up to where it was compared."""
    ends: Offsets
    """Of every partition of the second: the whole of it."""
    records: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class GroupPlace:
    """Where a consumer group goes on."""

    committed: Offsets
    """Its positions in the source."""
    copied: Offsets
    """In the copy."""
    read_twice: int
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
    current: int
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
    assignment: tuple[tuple[int, ...], ...] = ()
    """The replicas of each partition of the smaller topics."""
    cuts: tuple[Offsets, ...] = ()
    until: Offsets | None = None
    """Up to where the job copies; None before that was decided."""
    rounds: int = 0
    """How often it was decided."""
    verified: Compared | None = None
    """Source and copy."""
    confirmed: str = ""
    """Who typed the topic's name, and why; empty while nobody has."""
    sealed: Offsets | None = None
    """The source's ends, once no producer can write any more."""
    groups: Mapping[str, GroupPlace] = field(default_factory=dict)
    """Where the groups of the source go on, once that is settled."""
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
            self.same_name and not is_past(ShrinkPhase.DELETE, self.phase) and not self.taken_back
        )

    @property
    def taken_back(self) -> bool:
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
    """For an entry of the journal."""
    request = work.request
    plain = {one.name: getattr(work, one.name) for one in fields(work)}
    return {
        **plain,
        "request": {
            **{one.name: getattr(request, one.name) for one in fields(request)},
            "cut_over": request.cut_over.value,
            "insisted": list(request.insisted),
        },
        "phase": work.phase.value,
        "overrides": None if work.overrides is None else dict(work.overrides),
        "in_force": dict(work.in_force),
        "assignment": [list(replicas) for replicas in work.assignment],
        "cuts": [_pairs(cut) for cut in work.cuts],
        "until": _pairs(work.until),
        "sealed": _pairs(work.sealed),
        "verified": _compared(work.verified),
        "verified_back": _compared(work.verified_back),
        "groups": {name: _place(place) for name, place in work.groups.items()},
    }


def _pairs(offsets: Offsets | None) -> list[list[int]] | None:
    return None if offsets is None else [[p, offset] for p, offset in sorted(offsets.items())]


def _compared(one: Compared | None) -> Document | None:
    if one is None:
        return None
    positions, ends = _pairs(one.positions), _pairs(one.ends)
    return {"positions": positions, "ends": ends, "records": one.records, "at_ms": one.at_ms}


def _place(place: GroupPlace) -> Document:
    return {
        "committed": _pairs(place.committed),
        "copied": _pairs(place.copied),
        "read_twice": place.read_twice,
        "final": _pairs(place.final),
        "asked": place.asked,
        "done": place.done,
    }


def read_shrink(written: Document) -> ShrinkWork:
    """The opposite of `document`.

    Raises:
        UnreadableWork: it is not what `document` writes; it must not be acted upon.
    """
    try:
        return _read(_exactly(written, _FIELDS))
    except MALFORMED as error:
        raise UnreadableWork(f"The shrink cannot be understood: {error}.") from None


_FIELDS: Final = frozenset(one.name for one in fields(ShrinkWork))
_REQUEST: Final = frozenset(one.name for one in fields(ShrinkRequest))
_PLACE: Final = frozenset(one.name for one in fields(GroupPlace))
_COMPARED: Final = frozenset(one.name for one in fields(Compared))
_TEXTS: Final = (
    "copy", "source_id", "copy_id", "final_id", "confirmed", "differs", "failed",
)  # fmt: skip


def _exactly(written: Any, names: frozenset[str]) -> Document:
    if set(written) != names:
        raise ValueError(f"other fields than there must be: {sorted(set(written) ^ names)}")
    found: Document = written
    return found


def _read(written: Document) -> ShrinkWork:
    overrides, blocked = written["overrides"], written["blocked_before"]
    return ShrinkWork(
        request=_read_request(_exactly(written["request"], _REQUEST)),
        current=whole(written["current"], ID_MAX),
        phase=ShrinkPhase(written["phase"]),
        blocked_before=None if blocked is None else _typed(blocked, bool),
        overrides=None if overrides is None else _texts(overrides),
        in_force=_texts(written["in_force"]),
        assignment=tuple(
            tuple(whole(broker, ID_MAX) for broker in replicas)
            for replicas in written["assignment"]
        ),
        cuts=tuple(_offsets(cut) for cut in written["cuts"]),
        until=_optional(written["until"]),
        rounds=whole(written["rounds"]),
        verified=_read_compared(written["verified"]),
        sealed=_optional(written["sealed"]),
        groups={
            _typed(name, str): _read_place(_exactly(place, _PLACE))
            for name, place in written["groups"].items()
        },
        verified_back=_read_compared(written["verified_back"]),
        accepted=_typed(written["accepted"], bool),
        cancelled=_typed(written["cancelled"], bool),
        **{name: _typed(written[name], str) for name in _TEXTS},
    )


def _read_request(written: Document) -> ShrinkRequest:
    return ShrinkRequest(
        topic=_typed(written["topic"], str),
        total_count=whole(written["total_count"], ID_MAX),
        delay_ms=whole(written["delay_ms"]),
        cut_over=CutOver(written["cut_over"]),
        target=_typed(written["target"], str),
        write_block=_typed(written["write_block"], bool),
        insisted=tuple(_typed(code, str) for code in _typed(written["insisted"], list)),
        keyless=_typed(written["keyless"], str),
    )


def _read_compared(written: Document | None) -> Compared | None:
    if written is None:
        return None
    found = _exactly(written, _COMPARED)
    records, at_ms = whole(found["records"]), whole(found["at_ms"], TIME_MS_MAX)
    return Compared(_offsets(found["positions"]), _offsets(found["ends"]), records, at_ms)


def _read_place(written: Document) -> GroupPlace:
    return GroupPlace(
        _offsets(written["committed"]),
        _offsets(written["copied"]),
        whole(written["read_twice"]),
        _optional(written["final"]),
        _typed(written["asked"], bool),
        _typed(written["done"], bool),
    )


def _texts(written: Any) -> dict[str, str]:
    return {_typed(key, str): _typed(value, str) for key, value in written.items()}


def _offsets(written: Sequence[Sequence[Any]]) -> Offsets:
    return {whole(p, ID_MAX): whole(offset) for p, offset in written}


def _optional(written: Any) -> Offsets | None:
    return None if written is None else _offsets(written)


def _typed(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value
