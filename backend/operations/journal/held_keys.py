"""What is held of one key of the journal: a head that we signed, or what else is there."""

from __future__ import annotations

from dataclasses import dataclass, field

from backend.operations.journal.entries import Entry, Unreadable
from backend.operations.journal.records import Seal, part_digest, parts_of


@dataclass(slots=True)
class Head:
    """A head that we signed."""

    value: bytes
    seal: Seal
    digests: tuple[str, ...] | None = None
    """Of its parts; None before anybody asked."""
    body_bytes: int = 0
    parts: dict[int, bytes] = field(default_factory=dict)

    def take(self, number: int, part: bytes) -> None:
        """A part; ignored where the head does not name it."""
        if self.digests is None:
            self.digests, self.body_bytes = parts_of(self.value)
        if number < len(self.digests) and part_digest(part) == self.digests[number]:
            self.parts[number] = part

    @property
    def size_bytes(self) -> int:
        """What its body takes once it is read."""
        return max(len(self.value), self.body_bytes if self.parts else 0)


@dataclass(slots=True)
class Claim:
    """A head that we did not sign, or that was replaced."""

    value: bytes | None = None
    seal: Seal = field(default_factory=lambda: Seal(None))
    parts: dict[int, bytes] = field(default_factory=dict)
    entry: Entry | Unreadable | None = None
    """What it says with its parts, once an operator wants to believe it."""

    @property
    def body_bytes(self) -> int:
        """What its body takes about, once it is read."""
        packed = sum(map(len, self.parts.values()))
        return len(self.value or b"") + (parts_of(self.value or b"")[1] if packed else 0)

    @property
    def size_bytes(self) -> int:
        """What it takes here."""
        return len(self.value or b"") + sum(map(len, self.parts.values()))
