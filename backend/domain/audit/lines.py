"""The audit's lines: who asked for what, when and why, what it touched, and what became of it.

Goals
    Every line that was ever written is shown, also one that cannot be read: an audit with gaps
    that nobody sees is worth nothing.
Constraints
    Pure. A line is small whatever it is about, so what it touched is counted, and listed only in
    part. Who and why are the requester's words; nothing here proves them.
Algorithm
    A line has a key (`audit/<time>-<number>`), which alone holds its time and number, and a body.
    The journal keeps both, and the API sends them. Decoding is strict: a body with a field that is
    missing, unknown or of another type is an `UnreadableAudit`. It takes part in nothing but being
    listed.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, TypeAlias, TypeVar

from kshunt.backend.domain.audit.requester_limits import REASON_MAX, WHO_MAX
from kshunt.backend.domain.backend.journal import UnreadableReason
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.text.formatting import listed, many
from kshunt.backend.errors import BadInput

Body: TypeAlias = Mapping[str, Any]
"""A line's JSON object, but for its key."""

FORMAT: Final = 1
"""Raised when a reader of the former format would misunderstand a body."""
OUTCOME_MAX: Final = 4_000
"""Characters."""
WORD_MAX: Final = 200
"""Of an operation's id, its kind and a backend's id."""
TOPIC_MAX: Final = 249
THROTTLE_MAX: Final = 400
"""Of a throttle before and after, with the name of its topic."""
LISTED_MAX: Final = 20
"""Brokers, topics, partitions and throttles that a line names; the others are counted."""

_KEY: Final = re.compile(r"audit/(\d{13})-(\d{4,9})", re.ASCII)
_Value = TypeVar("_Value")


class AuditEvent(enum.StrEnum):
    """What a line is about."""

    REQUESTED = "requested"
    REFUSED = "refused"
    STARTED = "started"
    CHANGED = "changed"
    """A rate, a plan or a setting of a running operation."""
    PAUSED = "paused"
    RESUMED = "resumed"
    CANCELLED = "cancelled"
    LIFTED = "lifted"
    """kshunt removed throttles."""
    ENDED = "ended"
    DRIFT_FOUND = "drift_found"
    PROPOSED = "proposed"
    """What takes two people."""
    APPROVED = "approved"
    """By the second one; it is used from here on."""
    REJECTED = "rejected"
    WITHDRAWN = "withdrawn"
    EXPIRED = "expired"
    CARRIED_OUT = "carried_out"
    """What came of what was approved."""
    CLAIMED = "claimed"
    """Somebody steers an operation."""
    CLAIM_TAKEN = "claim_taken"
    """Somebody else steers it from here on."""
    RELEASED = "released"
    NOTED = "noted"
    """Somebody remarked on an operation."""
    FORECAST = "forecast"
    """The end that was forecast at a point of an operation's way, or how forecasts turned out."""
    JOURNAL_ADOPTED = "journal_adopted"
    """Entries that nobody had signed are trusted and signed from here on."""
    JOURNAL_REPAIRED = "journal_repaired"
    """Entries were written again, since somebody else overwrote them or deleted the journal."""
    PRIOR_DISCARDED = "prior_discarded"
    """Values of before that only a host remembered will not be brought back."""


@dataclass(frozen=True, slots=True)
class Touched:
    """What a line is about: how much of each, and the first of them by name."""

    brokers: tuple[int, ...] = ()
    broker_count: int = 0
    topics: tuple[str, ...] = ()
    topic_count: int = 0
    partitions: tuple[TopicPartition, ...] = ()
    partition_count: int = 0
    throttles: tuple[str, ...] = ()
    """Each before and after, in words: `broker 3 leader rate: none → 50 MB/s`."""
    throttle_count: int = 0

    @classmethod
    def of(
        cls,
        *,
        brokers: Iterable[int] = (),
        topics: Iterable[str] = (),
        partitions: Iterable[TopicPartition] = (),
        throttles: Iterable[str] = (),
    ) -> Touched:
        """All that was touched; the topics of the partitions need not be named again."""
        parts, words = sorted(set(partitions)), list(throttles)
        ids = sorted(set(brokers))
        names = sorted({*topics, *(partition.topic for partition in parts)})
        return cls(
            tuple(ids[:LISTED_MAX]),
            len(ids),
            tuple(names[:LISTED_MAX]),
            len(names),
            tuple(parts[:LISTED_MAX]),
            len(parts),
            tuple(clipped(word, THROTTLE_MAX) for word in words[:LISTED_MAX]),
            len(words),
        )

    def __str__(self) -> str:
        """`2 brokers, 1 topic, 40 partitions, 4 throttles`; empty where nothing was touched."""
        counts = (
            (self.broker_count, "broker"),
            (self.topic_count, "topic"),
            (self.partition_count, "partition"),
            (self.throttle_count, "throttle"),
        )
        return ", ".join(many(count, noun) for count, noun in counts if count)

    def details(self) -> tuple[str, ...]:
        """One sentence for each kind of thing, with the names that are known."""
        lists: tuple[tuple[str, Collection[object], int], ...] = (
            ("broker", self.brokers, self.broker_count),
            ("topic", self.topics, self.topic_count),
            ("partition", self.partitions, self.partition_count),
            ("throttle", self.throttles, self.throttle_count),
        )
        return tuple(
            f"{many(count, noun)}: {_named(names, count)}" for noun, names, count in lists if count
        )


def _named(names: Collection[object], count: int) -> str:
    rest = count - len(names)
    words = [listed(names, LISTED_MAX)] if names else []
    return " and ".join([*words, f"{rest} more"] if rest else words)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One line of the audit."""

    time_ms: int
    """Milliseconds since the epoch; with `number` from `next_number`."""
    number: int
    """Orders the entries of one millisecond."""
    event: AuditEvent
    operation_id: str = ""
    kind: str = ""
    """Of the operation (`OperationKind`), or another word for what was asked."""
    who: str = ""
    """User and host as the caller gave them: `ada@bastion`."""
    reason: str = ""
    """Why, in the caller's words."""
    touched: Touched = Touched()
    outcome: str = ""
    """What became of it, or nothing yet."""
    backend: str = ""
    """Id of the backend that saw to it."""

    @property
    def key(self) -> str:
        """Its key in the journal.

        Raises:
            BadInput: the time or the number cannot be.
        """
        return audit_key(self.time_ms, self.number)

    def body(self) -> Body:
        """What it says but for its key; texts that are too long are cut, and marked as cut."""
        return {
            "format": FORMAT,
            "event": self.event.value,
            **{name: clipped(getattr(self, name), most) for name, most in _TEXTS.items()},
            "touched": _touched_body(self.touched),
        }


@dataclass(frozen=True, slots=True)
class UnreadableAudit:
    """A line that is there and cannot be read."""

    key: str
    place: tuple[int, int] | None
    """Time and number, as far as the key tells them."""
    why: UnreadableReason
    detail: str
    """One sentence for an operator."""

    @property
    def time_ms(self) -> int | None:
        """Milliseconds since the epoch, where the key tells."""
        return None if self.place is None else self.place[0]


AuditRow: TypeAlias = AuditEntry | UnreadableAudit

_TEXTS: Final[Mapping[str, int]] = {
    "operation_id": WORD_MAX,
    "kind": WORD_MAX,
    "who": WHO_MAX,
    "reason": REASON_MAX,
    "outcome": OUTCOME_MAX,
    "backend": WORD_MAX,
}
"""The most characters of each text."""


def clipped(text: str, most: int) -> str:
    """The text with at most `most` characters, all of which UTF-8 can write."""
    sound = text.encode("utf-8", "replace").decode("utf-8")
    return sound if len(sound) <= most else f"{sound[: most - 1]}…"


def audit_key(time_ms: int, number: int) -> str:
    """The key of a line; keys sort by time, and by number within a millisecond.

    Raises:
        BadInput: the time is not of this era, or the number is negative.
    """
    key = f"audit/{time_ms:013d}-{number:04d}"
    if place_of(key) is None:
        raise BadInput(f"'{key}' is not a key of an audit line.")
    return key


def place_of(key: str) -> tuple[int, int] | None:
    """Time and number of a line's key, or None for another key."""
    match = _KEY.fullmatch(key)
    return None if match is None else (int(match[1]), int(match[2]))


def selected(
    rows: Iterable[AuditRow],
    *,
    since_ms: int | None = None,
    until_ms: int | None = None,
    operation_id: str = "",
) -> tuple[AuditRow, ...]:
    """The lines from one time until before another, and of one operation.

    A line that cannot be read stays unless its time is known and outside: it may belong here.
    """
    return tuple(
        row
        for row in rows
        if _within(row.time_ms, since_ms, until_ms)
        and (isinstance(row, UnreadableAudit) or operation_id in ("", row.operation_id))
    )


def _within(time_ms: int | None, since_ms: int | None, until_ms: int | None) -> bool:
    if time_ms is None:
        return True
    return (since_ms is None or since_ms <= time_ms) and (until_ms is None or time_ms < until_ms)


# --- bodies


def read_line(key: str, body: Body) -> AuditRow:
    """The line of a key and a body; one that cannot be read is one too."""
    place = place_of(key)
    try:
        if place is None:
            raise _LineRefused(
                UnreadableReason.FOREIGN, "Its key is not the key of an audit entry."
            )
        return _decoded(place, body)
    except _LineRefused as refused:
        return UnreadableAudit(key, place, refused.why, refused.detail)


class _LineRefused(Exception):
    def __init__(self, why: UnreadableReason, detail: str) -> None:
        super().__init__(detail)
        self.why = why
        self.detail = detail


def _touched_body(touched: Touched) -> dict[str, Any]:
    body = {field.name: getattr(touched, field.name) for field in fields(touched)}
    named = {name: list(value) for name, value in body.items() if isinstance(value, tuple)}
    named["partitions"] = [list(partition) for partition in touched.partitions]
    return body | named


def _decoded(place: tuple[int, int], body: Body) -> AuditEntry:
    version = body.get("format")
    if type(version) is int and version > FORMAT:
        raise _LineRefused(
            UnreadableReason.NEWER,
            f"It has format {version}, and this kshunt reads formats up to {FORMAT}: upgrade it.",
        )
    _check_names(body, ("format", "event", "touched", *_TEXTS), "")
    if type(version) is not int or version != FORMAT:
        raise _damaged("format", "is not a value that ever existed")
    try:
        event = AuditEvent(body["event"])
    except ValueError:
        raise _damaged("event", "is unknown") from None
    texts: dict[str, Any] = {name: _text(body[name], name, _TEXTS[name]) for name in _TEXTS}
    return AuditEntry(*place, event, touched=_touched(body["touched"]), **texts)


def _touched(body: Any) -> Touched:
    if not isinstance(body, dict):
        raise _damaged("touched", "is not a JSON object")
    _check_names(body, tuple(field.name for field in fields(Touched)), "touched.")
    return Touched(
        *_some(body, "brokers", "broker_count", _whole),
        *_some(body, "topics", "topic_count", _topic),
        *_some(body, "partitions", "partition_count", _partition),
        *_some(body, "throttles", "throttle_count", _throttle),
    )


def _some(
    body: Mapping[str, Any], name: str, count_name: str, decode: Callable[[Any, str], _Value]
) -> tuple[tuple[_Value, ...], int]:
    where = f"touched.{name}"
    items, count = body[name], _whole(body[count_name], f"touched.{count_name}")
    if not isinstance(items, list) or len(items) > LISTED_MAX:
        raise _damaged(where, f"is not a list of at most {LISTED_MAX}")
    if count < len(items):
        raise _damaged(f"touched.{count_name}", "is less than what is listed")
    return tuple(decode(item, where) for item in items), count


def _partition(value: Any, where: str) -> TopicPartition:
    if not isinstance(value, list) or len(value) != 2:
        raise _damaged(where, "does not hold a topic and a partition")
    return TopicPartition(_topic(value[0], where), _whole(value[1], where))


def _topic(value: Any, where: str) -> str:
    return _text(value, where, TOPIC_MAX)


def _throttle(value: Any, where: str) -> str:
    return _text(value, where, THROTTLE_MAX)


def _text(value: Any, where: str, most: int) -> str:
    if type(value) is not str or value != clipped(value, most):
        raise _damaged(where, f"is not a text of at most {most} characters")
    return value


def _whole(value: Any, where: str) -> int:
    if type(value) is not int or not 0 <= value < 2**31:
        raise _damaged(where, "is not a whole number from 0 to 2^31-1")
    return value


def _check_names(body: Mapping[str, Any], names: Collection[str], where: str) -> None:
    for name in names:
        if name not in body:
            raise _damaged(f"{where}{name}", "is missing")
    for name in body:
        if name not in names:
            raise _damaged(
                f"{where}{clipped(name, 50)}", "is a field that this kshunt does not know"
            )


def _damaged(where: str, problem: str) -> _LineRefused:
    return _LineRefused(UnreadableReason.DAMAGED, f"Its field {where} {problem}.")
