"""Partitions that are read-only or being deleted (KIP-694), in words: how many, when, by whom."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kshunt.backend.domain.cluster.partition_modes import UNKNOWN_MS, PartitionMode, mode_words
from kshunt.backend.domain.operations.operation import OperationKind
from kshunt.backend.domain.text.formatting import duration_text, many
from kshunt.tui.actions.view_names import OPERATIONS, PARTITIONS
from kshunt.tui.tables.targets import Item, ScreenTarget

if TYPE_CHECKING:
    from kshunt.backend.domain.cluster.metadata import TopicPartition
    from kshunt.backend.domain.operations.operation import Operation
    from kshunt.backend.domain.replicas.snapshot import Snapshot

TOPICS_EACH: Final = 3
"""Of more topics than that, all are said in one sentence."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """Partitions of one topic that leave, in one mode."""

    topic: str
    mode: PartitionMode
    count: int
    deletes_ms: int = UNKNOWN_MS
    """When the first of them goes, in milliseconds since the epoch, where that is known."""


def leaving_of(snapshot: Snapshot) -> tuple[Leaving, ...]:
    """The partitions that leave, by topic and mode."""
    found: dict[tuple[str, PartitionMode], list[TopicPartition]] = defaultdict(list)
    for partition, mode in snapshot.leaving().items():
        found[partition.topic, mode].append(partition)
    return tuple(
        Leaving(topic, mode, len(members), _first(snapshot, members))
        for (topic, mode), members in found.items()
    )


def _first(snapshot: Snapshot, members: Iterable[TopicPartition]) -> int:
    times_ms = [snapshot.deletes_ms[p] for p in members if p in snapshot.deletes_ms]
    return min(times_ms, default=UNKNOWN_MS)


def leaving_items(
    leaving: Sequence[Leaving], now_ms: int, operations: Iterable[Operation]
) -> Iterator[Item]:
    """One sentence for each topic and mode, and where to see them."""
    for mode in (PartitionMode.READ_ONLY, PartitionMode.NONE):
        found = [one for one in leaving if one.mode is mode]
        tone = "warn" if mode is PartitionMode.READ_ONLY else ""
        if len(found) > TOPICS_EACH:
            target = ScreenTarget(PARTITIONS, filter_text=f"mode:{mode.key}")
            yield Item(_together(found, now_ms), tone, target, f"leaving {mode.key}")
            continue
        for one in found:
            target = ScreenTarget(PARTITIONS, filter_text=f"mode:{mode.key} topic:{one.topic}")
            text = f"{_subject(one)} {_verb(one, now_ms)}{asked_words(one.topic, operations)}."
            yield Item(text, tone, target, f"leaving {mode.key} {one.topic}")


def removal_of(
    topic: str, leaving: Sequence[Leaving], now_ms: int, operations: Iterable[Operation]
) -> Item | None:
    """What takes partitions of a topic away already, and where to see it; None: nothing does."""
    found = next((one for one in leaving if one.topic == topic), None)
    if found is None:
        return None
    asked = _newest_removal(topic, operations)
    words = f"{_subject(found)} {_verb(found, now_ms)}"
    if asked is None:
        text = f"mode:{found.mode.key} topic:{topic}"
        target = ScreenTarget(PARTITIONS, filter_text=text)
        return Item(f"{words}, started outside kshunt.", "warn", target)
    by = f" by {asked.who}" if asked.who else ""
    return Item(f"{words}: operation {asked.id}{by}.", "warn", ScreenTarget(OPERATIONS, asked.id))


def _subject(one: Leaving) -> str:
    return f"{many(one.count, 'partition')} of {one.topic}"


def _verb(one: Leaving, now_ms: int) -> str:
    are, leave = ("is", "leaves") if one.count == 1 else ("are", "leave")
    if one.mode is PartitionMode.NONE:
        return f"{are} being deleted"
    if one.deletes_ms == UNKNOWN_MS:
        return f"{are} read-only, and about to be deleted"
    left_ms = one.deletes_ms - now_ms
    return f"{leave} in {duration_text(left_ms / 1000)}" if left_ms > 0 else f"{leave} now"


def _together(found: Sequence[Leaving], now_ms: int) -> str:
    count = sum(one.count for one in found)
    subject = f"{many(count, 'partition')} of {many(len(found), 'topic')}"
    if found[0].mode is PartitionMode.NONE:
        return f"{subject} are being deleted."
    times_ms = [one.deletes_ms for one in found if one.deletes_ms != UNKNOWN_MS]
    first = f"; the first is {mode_words(found[0].mode, min(times_ms), now_ms)}" if times_ms else ""
    return f"{subject} are about to be deleted{first}."


def asked_words(topic: str, operations: Iterable[Operation]) -> str:
    """`, as ada@bastion asked`; nothing where no operation here has deleted partitions of it."""
    newest = _newest_removal(topic, operations)
    return "" if newest is None or not newest.who else f", as {newest.who} asked"


def _newest_removal(topic: str, operations: Iterable[Operation]) -> Operation | None:
    """The last operation that has deleted partitions of a topic."""
    asked = [
        one
        for one in operations
        if one.kind is OperationKind.DELETE_PARTITIONS
        and any(partition.topic == topic for partition in one.partitions)
    ]
    return max(asked, key=lambda one: one.started_ms, default=None)
