"""Which partitions a plan leaves out because they are leaving (KIP-694), in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.text.formatting import listed, many

_LEFT_OUT: Final = {
    PartitionMode.READ_ONLY: "read-only and about to be deleted",
    PartitionMode.NONE: "being deleted",
}


def left_out_notes(leaving: Mapping[TopicPartition, PartitionMode]) -> tuple[str, ...]:
    """That a plan has none of these partitions, and which they are: a sentence a mode."""
    notes = []
    for mode, words in _LEFT_OUT.items():
        if found := [partition for partition, its in sorted(leaving.items()) if its is mode]:
            verb = "is" if len(found) == 1 else "are"
            names = listed((f"{topic}-{number}" for topic, number in found), 20)
            notes.append(
                f"{many(len(found), 'partition')} {verb} {words}, and not part of the plan: "
                f"{names}."
            )
    return tuple(notes)
