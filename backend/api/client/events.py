"""The client's side of `/v1/events`: server-sent events out of the bytes of an answer.

The format: https://html.spec.whatwg.org/multipage/server-sent-events.html, as far as a backend
writes it: every event has an id, a kind, and one JSON object as its data.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.untrusted.json_codec import from_document

EVENT_BYTES_MAX: Final = 1 << 27
"""Of one event: an operation of 200,000 partitions takes some 20 MB."""


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event."""

    id: int
    """Grows by one with each event of a backend; resume from it with `Last-Event-ID`."""
    kind: str
    """`operation`, `alert`, or `reset` (events were missed: read the lists anew)."""
    document: Mapping[str, Any]

    @property
    def operation(self) -> Operation:
        """The operation that changed, for an event of that kind."""
        return from_document(Operation, self.document)


def read_events(chunks: Iterable[bytes], *, bytes_max: int = EVENT_BYTES_MAX) -> Iterator[Event]:
    """The events of a stream; comments keep the connection alive, and this function skips them.

    Raises:
        ValueError: the bytes are no such events, or one of them takes more than `bytes_max`.
    """
    fields: dict[str, str] = {}
    size = 0
    for line in _lines(chunks, bytes_max):
        if line:
            name, _, value = line.decode().partition(":")
            size += len(line)
            if size > bytes_max:
                raise ValueError(f"an event has more than {bytes_max} bytes")
            if name:
                fields[name] = value.removeprefix(" ")
            continue
        if "data" in fields:
            yield _event(fields)
        fields, size = {}, 0


def _event(fields: Mapping[str, str]) -> Event:
    number = fields.get("id", "")
    if not (number.isascii() and number.isdigit() and len(number) <= len(str(2**63))):
        raise ValueError("an event has no number")
    try:
        document = json.loads(fields["data"])
    except RecursionError:
        raise ValueError("an event is nested too deeply") from None
    if not isinstance(document, dict):
        raise ValueError("an event is not a JSON object")
    return Event(int(number), fields.get("event", "message"), document)


def _lines(chunks: Iterable[bytes], bytes_max: int) -> Iterator[bytes]:
    """Lines without their ends (LF, or CR LF); what has no end when the bytes end is dropped."""
    parts: list[bytes] = []
    size = 0
    for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            parts.append(line)
            yield b"".join(parts).removesuffix(b"\r")
            parts, size = [], 0
        if rest:
            parts.append(rest)
            size += len(rest)
            if size > bytes_max:
                raise ValueError(f"an event has more than {bytes_max} bytes")
