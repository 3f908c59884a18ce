"""The audit as JSON, in answers and in exports; no framework, for the tools read it too."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kshunt.backend.api.schema.base import Json
from kshunt.backend.domain.audit.lines import AuditRow, UnreadableAudit, place_of, read_line
from kshunt.backend.domain.audit.shown_line import AuditLine
from kshunt.backend.domain.backend.journal import UnreadableReason
from kshunt.backend.domain.untrusted.json_codec import to_document

_ENVELOPE: Final = frozenset({"key", "time_ms", "number", "unreadable"})


@dataclass(frozen=True, slots=True)
class AuditEntries:
    """The audit, newest last."""

    cluster_id: str
    entries: tuple[dict[str, Any], ...]
    """Each with `key`, `time_ms`, `number` and what the journal says, or with `unreadable` and
    `detail`."""

    @classmethod
    def of(cls, rows: Iterable[AuditRow], cluster_id: str) -> AuditEntries:
        """What the API answers, and what an export holds."""
        return cls(cluster_id, tuple(map(_row_json, rows)))

    def rows(self) -> tuple[AuditRow, ...]:
        """The opposite of `of`; a line of a newer backend that cannot be read is one."""
        return tuple(map(_read_row_json, self.entries))


@dataclass(frozen=True, slots=True)
class AuditVerification:
    """The result of checking the chain of the audit's lines."""

    lines: int
    """That are proven."""
    problems: tuple[str, ...]
    """One sentence each; empty where nothing was rewritten."""


def _row_json(row: AuditRow) -> Json:
    place = row.place if isinstance(row, UnreadableAudit) else (row.time_ms, row.number)
    time_ms, number = place or (None, None)
    common = {"key": row.key, "time_ms": time_ms, "number": number}
    if isinstance(row, UnreadableAudit):
        return common | {"unreadable": row.why.value, "detail": row.detail}
    return {**common, "unreadable": None, **row.body()}


def _read_row_json(row: Mapping[str, Any]) -> AuditRow:
    if row["unreadable"] is not None:
        known = row["unreadable"] in tuple(UnreadableReason)
        why = UnreadableReason(row["unreadable"]) if known else UnreadableReason.NEWER
        return UnreadableAudit(row["key"], place_of(row["key"]), why, row["detail"])
    body = {name: value for name, value in row.items() if name not in _ENVELOPE}
    return read_line(row["key"], body)


def as_json(rows: Iterable[AuditRow], cluster_id: str) -> str:
    """The export as JSON, in ASCII: what cannot be seen is an escape."""
    return json.dumps(to_document(AuditEntries.of(rows, cluster_id)), indent=2)


def read_audit_line(document: Mapping[str, Any]) -> AuditLine:
    """From an entry of `/v1/audit`."""
    if document["unreadable"] is not None:
        return AuditLine(document["time_ms"], "unreadable", "", document["detail"])
    return AuditLine(
        document["time_ms"],
        document["event"],
        document["who"],
        document["outcome"] or document["reason"],
        document.get("operation_id", ""),
        document.get("kind", ""),
        document["reason"],
        document["outcome"],
        tuple(_touched(document.get("touched", {}))),
        document.get("backend", ""),
    )


def _touched(document: Mapping[str, Any]) -> Iterator[str]:
    """`2 brokers: 1, 3`: each kind of thing with its number and the first names."""
    for noun in ("broker", "topic", "partition", "throttle"):
        count, names = document.get(f"{noun}_count", 0), document.get(f"{noun}s", ())
        if count:
            words = ", ".join(
                "-".join(map(str, n)) if noun == "partition" else str(n) for n in names
            )
            more = f" and {count - len(names):,} more" if count > len(names) else ""
            yield f"{count:,} {noun}{'' if count == 1 else 's'}: {words}{more}"
