"""What became of one item of a call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.error_codes import OPERATION_NOT_ATTEMPTED


@dataclass(frozen=True, slots=True)
class ItemResult:
    """What became of one item of a call."""

    error_code: int = 0
    """Kafka's protocol error code; 0 is success."""
    error_name: str = "NONE"
    """Kafka's name of that code."""
    message: str = ""
    """The broker's own words where it sent any, or what kshunt did instead of asking."""
    retriable: bool = False

    @property
    def ok(self) -> bool:
        """True for success."""
        return self.error_code == 0


OK = ItemResult()

PartitionResults: TypeAlias = Mapping[TopicPartition, ItemResult]


def not_attempted(why: str) -> ItemResult:
    """Of an item that was left out for a reason that is not its own."""
    return ItemResult(OPERATION_NOT_ATTEMPTED, "OPERATION_NOT_ATTEMPTED", why)
