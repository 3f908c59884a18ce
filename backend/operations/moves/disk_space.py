"""Whether what a plan copies fits where it goes.

Goals
    An operator hears before a move what would fill a log directory: Kafka takes a directory that
    is full offline, and the move then never ends.
Constraints
    Pure. Sizes and free space are those of the newest sample; what is not known is no warning.
Algorithm
    Two directories of a broker with the same total and free bytes are taken for one volume, which
    counts once. A plan may name a directory for a replica. For the others Kafka chooses the
    directory with the fewest partitions, whatever is free there (`LogManager.nextLogDirs`), so a
    directory that is too small for the largest copy is named.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kshunt.backend.domain.cluster.metadata import LogDir, TopicPartition
from kshunt.backend.domain.text.formatting import bytes_text
from kshunt.backend.domain.throttles.configs import Move

ChosenDirs = Mapping[tuple[TopicPartition, int], str]
"""The log directories that a plan names, by partition and broker."""


@dataclass(slots=True)
class _Incoming:
    """What one broker would receive."""

    named: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Bytes by the directory that the plan names."""
    anywhere: int = 0
    """Bytes of copies for which Kafka chooses."""
    largest: tuple[int, TopicPartition | None] = (0, None)
    """The largest of those."""

    def total(self) -> int:
        return self.anywhere + sum(self.named.values())


def room_warnings(
    moves: Iterable[Move],
    size_bytes: Mapping[TopicPartition, int],
    log_dirs: Iterable[LogDir],
    chosen: ChosenDirs | None = None,
) -> list[str]:
    """One sentence for each broker or directory that lacks room, or is offline.

    Args:
        moves: What is copied.
        size_bytes: The size of each partition's log. Absent where it is not known.
        log_dirs: The directories of all brokers, as far as they told.
        chosen: The directories that the plan names.
    """
    incoming = _incoming(moves, size_bytes, chosen or {})
    dirs: dict[int, list[LogDir]] = defaultdict(list)
    for one in log_dirs:
        dirs[one.broker].append(one)
    return [
        warning
        for broker in sorted(incoming)
        for warning in _of_broker(broker, incoming[broker], dirs[broker])
    ]


def _incoming(
    moves: Iterable[Move], size_bytes: Mapping[TopicPartition, int], chosen: ChosenDirs
) -> dict[int, _Incoming]:
    found: dict[int, _Incoming] = defaultdict(_Incoming)
    for move in moves:
        size = size_bytes.get(move.partition, 0)
        for broker in move.adding:
            receives, path = found[broker], chosen.get((move.partition, broker))
            if path is not None:
                receives.named[path] += size
                continue
            receives.anywhere += size
            if size > receives.largest[0]:
                receives.largest = (size, move.partition)
    return found


def _of_broker(broker: int, receives: _Incoming, dirs: Sequence[LogDir]) -> Iterable[str]:
    working = [one for one in dirs if one.error is None]
    for one in dirs:
        if one.error is not None:
            yield f"Log directory {one.path} of broker {broker} is offline ({one.error})."
    known = [one for one in working if one.usable_bytes >= 0]
    if not known or len(known) < len(working):
        return
    free = sum({(one.total_bytes, one.usable_bytes): one.usable_bytes for one in known}.values())
    if receives.total() > free:
        yield (
            f"Broker {broker} would receive {bytes_text(receives.total())} "
            f"and has {bytes_text(free)} free."
        )
        return
    for one in known:
        named = receives.named.get(one.path, 0)
        if named > one.usable_bytes:
            yield (
                f"Log directory {one.path} of broker {broker} would receive {bytes_text(named)} "
                f"and has {bytes_text(one.usable_bytes)} free."
            )
        elif receives.largest[0] > one.usable_bytes:
            yield (
                f"Log directory {one.path} of broker {broker} has {bytes_text(one.usable_bytes)} "
                f"free, and {receives.largest[1]} has {bytes_text(receives.largest[0])}. Kafka "
                "ignores free space when it chooses a directory: name log_dirs in the plan."
            )
