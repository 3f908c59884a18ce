"""What identifies a row of a table, whatever the table shows of it."""

from __future__ import annotations

from typing import NamedTuple


class ReplicaKey(NamedTuple):
    """What identifies a replica."""

    topic: str
    partition: int
    broker: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} on broker {self.broker}"


class RateRowKey(NamedTuple):
    """A broker's row."""

    broker: int


class ListRowKey(NamedTuple):
    """A topic's row."""

    topic: str
