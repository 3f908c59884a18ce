"""Blast radius: what an action would touch, before it is confirmed; and whether that still holds.

Goals
    One sentence tells an operator the size of what is about to happen. A confirmation that was
    given to one state of the cluster is not used on another.
Constraints
    Pure, and made of the same judgements that the engine acts on (`schedule.judge`,
    `pause.pause_writes`, `undo.cancel_plan`), so that preview and action cannot disagree.
Algorithm
    Each kind of request says what it touches. The fingerprint has one short hash for each aspect
    of the cluster that the preview was computed from, for the touched brokers and partitions only:
    on a busy cluster what happens elsewhere does not make a preview stale. Sizes are left out,
    since they change all the time. `check_fresh` names the aspects that changed.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from kshunt.backend.domain.cluster.metadata import PartitionState, TopicPartition, is_being_deleted
from kshunt.backend.domain.operations.preview import Preview
from kshunt.backend.domain.text.formatting import bytes_text, listed, many
from kshunt.backend.domain.throttles.configs import (
    NO_RATE,
    NO_REPLICAS,
    Move,
    ReplicaSet,
    ThrottledRate,
    ThrottledReplicas,
    brokers_of,
    throttled_replicas_of,
)
from kshunt.backend.errors import Conflict
from kshunt.backend.operations.moves.cluster_view import ClusterView, effective_min_isr
from kshunt.backend.operations.moves.disk_space import room_warnings
from kshunt.backend.operations.moves.pause_throttles import NO_SHARE, pause_writes
from kshunt.backend.operations.moves.schedule import Queue, judge
from kshunt.backend.operations.moves.undo_plans import cancel_plan


@dataclass(frozen=True, slots=True)
class StartRequest:
    """Start a plan."""

    plan: Mapping[TopicPartition, tuple[int, ...]]
    throttle_bytes_per_s: int | None = None


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """Cancel partitions of an operation."""

    partitions: tuple[TopicPartition, ...]
    queue: Queue
    throttles: tuple[str, ...] = ()
    """What lifting the cancelled moves' share would free, as ownership says: `broker 3`."""


@dataclass(frozen=True, slots=True)
class PauseRequest:
    """Pause an operation."""

    partitions: tuple[TopicPartition, ...]
    share: Mapping[str, ReplicaSet] = field(default_factory=lambda: NO_SHARE)
    """Follower entries by topic that the operation alone owns."""


@dataclass(frozen=True, slots=True)
class ElectRequest:
    """Elect preferred leaders; None for every partition of the view."""

    partitions: tuple[TopicPartition, ...] | None


@dataclass(frozen=True, slots=True)
class ThrottleRequest:
    """Set or remove rates of brokers and lists of topics."""

    rates: Mapping[int, ThrottledRate] = field(default_factory=dict)
    replicas: Mapping[str, ThrottledReplicas] = field(default_factory=dict)


Request: TypeAlias = StartRequest | CancelRequest | PauseRequest | ElectRequest | ThrottleRequest


@dataclass(frozen=True, slots=True)
class BlastRadius:
    """What an action would touch."""

    action: str
    """A verb: `start`, `cancel`, `pause`, `elect`, `throttle`."""
    brokers: tuple[int, ...]
    partitions: tuple[TopicPartition, ...]
    """Partitions that would change, or whose copies would be faster or slower."""
    topics: tuple[str, ...]
    copy_bytes: int
    """Bytes that would be copied, as far as sizes are known."""
    unknown_sizes: int
    """Partitions to be copied whose size is not known, and is not in `copy_bytes`."""
    throttles_set: tuple[str, ...]
    """Whose throttle would be set or changed: `broker 3`, `topic orders`."""
    throttles_lifted: tuple[str, ...]
    leaders_moving: tuple[TopicPartition, ...]
    at_min_isr: tuple[TopicPartition, ...]
    """Touched partitions with exactly as many replicas in sync as acks=all needs."""
    under_min_isr: tuple[TopicPartition, ...]
    warnings: tuple[str, ...]
    fingerprint: str
    """See `check_fresh`."""

    @property
    def sentence(self) -> str:
        """For an operator: touches 3 brokers and 2 topics, lifts 1 throttle, ..."""
        touched = [many(len(self.brokers), "broker"), many(len(self.topics), "topic")]
        words = [f"touches {' and '.join(touched)} ({many(len(self.partitions), 'partition')})"]
        if self.copy_bytes or self.unknown_sizes:
            words.append(_copy_words(self.copy_bytes, self.unknown_sizes))
        for verb, names in (("sets", self.throttles_set), ("lifts", self.throttles_lifted)):
            if names:
                words.append(f"{verb} {many(len(names), 'throttle')}")
        if self.leaders_moving:
            words.append(f"moves {many(len(self.leaders_moving), 'leader')}")
        words.append(f"{many(len(self.at_min_isr), 'partition')} at min-ISR")
        if self.under_min_isr:
            words.append(f"{len(self.under_min_isr)} under it")
        return f"{self.action.capitalize()}: {', '.join(words)}."

    @property
    def preview(self) -> Preview:
        """What an operator is shown: partitions are counted."""
        return Preview(
            sentence=self.sentence,
            warnings=self.warnings,
            fingerprint=self.fingerprint,
            action=self.action,
            brokers=self.brokers,
            topics=self.topics,
            partitions=len(self.partitions),
            copy_bytes=self.copy_bytes,
            unknown_sizes=self.unknown_sizes,
            throttles_set=self.throttles_set,
            throttles_lifted=self.throttles_lifted,
            leaders_moving=len(self.leaders_moving),
            at_min_isr=len(self.at_min_isr),
            under_min_isr=len(self.under_min_isr),
        )


@dataclass(slots=True)
class _Touches:
    """What a kind of request says it touches."""

    partitions: set[TopicPartition] = field(default_factory=set)
    brokers: set[int] = field(default_factory=set)
    topics: set[str] = field(default_factory=set)
    copies: list[Move] = field(default_factory=list)
    throttles_set: list[str] = field(default_factory=list)
    throttles_lifted: list[str] = field(default_factory=list)
    leaders_moving: set[TopicPartition] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)
    holds: list[str] = field(default_factory=list)
    """What would keep some of it from happening, in words that change only if it does."""


def blast_radius(request: Request, view: ClusterView) -> BlastRadius:
    """What the request would touch, by what the view says.

    The view must have the partitions of every topic that the request names, of those that list
    throttled replicas, and the throttles of every live broker.
    """
    action, found = _find(request, view)
    sizes = [view.copy_bytes(move) for move in found.copies]
    need = {p: _needed_in_sync(p, view) for p in found.partitions if p in view.partitions}
    in_sync = {p: len(view.partitions[p].isr) for p in need}
    return BlastRadius(
        action=action,
        brokers=tuple(sorted(found.brokers)),
        partitions=tuple(sorted(found.partitions)),
        topics=tuple(sorted(found.topics | {partition.topic for partition in found.partitions})),
        copy_bytes=sum(size for size in sizes if size is not None),
        unknown_sizes=sizes.count(None),
        throttles_set=tuple(found.throttles_set),
        throttles_lifted=tuple(found.throttles_lifted),
        leaders_moving=tuple(sorted(found.leaders_moving)),
        at_min_isr=tuple(sorted(p for p in need if in_sync[p] == need[p])),
        under_min_isr=tuple(sorted(p for p, n in need.items() if n is not None and in_sync[p] < n)),
        warnings=(
            *found.holds,
            *found.warnings,
            *room_warnings(found.copies, view.size_bytes, view.log_dirs),
        ),
        fingerprint=_fingerprint(found, view),
    )


def check_fresh(preview: str, request: Request, view: ClusterView) -> None:
    """Stop an action whose preview was made from another state of the cluster.

    Args:
        preview: the `fingerprint` of the blast radius that the operator confirmed.
        request: what is about to be done.
        view: the cluster now.

    Raises:
        Conflict: something that the preview was made from has changed.
    """
    changed = changed_since(preview, blast_radius(request, view).fingerprint)
    if changed:
        raise Conflict(
            f"Since the preview {listed(changed)} changed. Nothing was done.",
            advice="Look at the new preview and confirm that one.",
        )


def changed_since(preview: str, present: str) -> tuple[str, ...]:
    """The aspects in which two fingerprints differ, in words; every one if `preview` is none."""
    before, now = preview.split("-"), present.split("-")
    if len(before) != len(now):
        return tuple(_ASPECTS)
    return tuple(words for words, old, new in zip(_ASPECTS, before, now, strict=True) if old != new)


# What each kind of request touches


def _find(request: Request, view: ClusterView) -> tuple[str, _Touches]:
    match request:
        case StartRequest():
            return "start", _start(request, view)
        case CancelRequest():
            return "cancel", _cancel(request, view)
        case PauseRequest():
            return "pause", _pause(request, view)
        case ElectRequest():
            return "elect", _elect(request, view)
        case ThrottleRequest():
            return "throttle", _throttle(request, view)


def _start(request: StartRequest, view: ClusterView) -> _Touches:
    known = {p: target for p, target in request.plan.items() if p in view.partitions}
    moves = [view.move_to(partition, target) for partition, target in known.items()]
    moves = [m for m in moves if view.partitions[m.partition].replicas != m.target]
    found = _Touches(
        partitions={move.partition for move in moves},
        brokers=set(brokers_of(moves)),
        copies=moves,
        leaders_moving={m.partition for m in moves if _leaves_leader(m.partition, m.target, view)},
        warnings=_start_warnings(request, moves, view),
        holds=_start_holds(request, moves, view),
    )
    if request.throttle_bytes_per_s is not None:
        found.throttles_set = [f"broker {b}" for b in sorted(found.brokers)]
        found.throttles_set += [f"topic {t}" for t in sorted(throttled_replicas_of(moves))]
    return found


def _start_holds(request: StartRequest, moves: list[Move], view: ClusterView) -> list[str]:
    waits = Counter(held.text for move in moves if (held := judge(move, view)) is not None)
    holds = [f"{many(n, 'partition')} would wait for {text}." for text, n in waits.items()]
    if gone := sorted(request.plan.keys() - view.partitions.keys()):
        holds.append(f"The cluster does not have {listed(gone, 3)}.")
    if elsewhere := sorted(view.under_min_isr - request.plan.keys()):
        names = listed(elsewhere, 3)
        holds.append(f"No move would start while {names} is under min.insync.replicas.")
    return holds


def _start_warnings(request: StartRequest, moves: list[Move], view: ClusterView) -> list[str]:
    warnings = []
    fewer = sorted(m.partition for m in moves if len(m.target) < len(m.current))
    if fewer:
        warnings.append(f"The replication factor of {listed(fewer, 3)} becomes smaller.")
    if others := sorted(view.ongoing.keys() - request.plan.keys()):
        warnings.append(f"{many(len(others), 'partition')} of other plans on the move.")
    return warnings


def _cancel(request: CancelRequest, view: ClusterView) -> _Touches:
    plan = cancel_plan(request.partitions, request.queue, view)
    moving = [view.ongoing[p] for p in plan.returns if p in view.ongoing]
    holds = [
        f"{many(n, 'partition')} left as {'it is' if n == 1 else 'they are'}: {reason}."
        for reason, n in Counter(plan.refused.values()).items()
    ]
    warnings = []
    if lost := sorted(m.partition for m in moving if m.adding):
        warnings.append(f"What was copied for {listed(lost, 3)} is thrown away.")
    return _Touches(
        partitions={*plan.returns, *plan.dropped},
        brokers={broker for move in moving for broker in move.replicas},
        throttles_lifted=list(request.throttles),
        leaders_moving={
            m.partition for m in moving if _leaves_leader(m.partition, m.original, view)
        },
        warnings=warnings,
        holds=holds,
    )


def _pause(request: PauseRequest, view: ClusterView) -> _Touches:
    pause = pause_writes(request.partitions, view, request.share)
    return _Touches(
        partitions={partition for partition, _ in pause.held | pause.not_held.keys()},
        brokers={broker for _, broker in pause.held | pause.not_held.keys()},
        throttles_set=[
            *(f"broker {broker}" for broker in sorted(pause.rates)),
            *(f"topic {topic}" for topic in sorted(pause.topics)),
        ],
        holds=list(pause.notes),
    )


def _elect(request: ElectRequest, view: ClusterView) -> _Touches:
    wanted = view.partitions.keys() if request.partitions is None else set(request.partitions)
    found = _Touches()
    unable = []
    being_deleted = [
        p for p in wanted if p in view.partitions and is_being_deleted(view.partitions[p])
    ]
    for partition in wanted:
        state = view.partitions.get(partition)
        if state is None or is_being_deleted(state) or state.leader == state.replicas[0]:
            continue
        found.partitions.add(partition)
        if state.replicas[0] in state.isr:
            found.leaders_moving.add(partition)
            found.brokers |= {state.replicas[0], state.leader} & view.live
        else:
            unable.append(partition)
    if unable:
        found.holds.append(
            f"The preferred replica of {listed(sorted(unable), 3)} is not in sync; "
            "there the leader stays."
        )
    if being_deleted and request.partitions is not None:
        found.holds.append(
            f"{listed(sorted(being_deleted), 3)} is being deleted, and stays without leader."
        )
    if gone := sorted(wanted - view.partitions.keys()):
        found.holds.append(f"The cluster does not have {listed(gone, 3)}.")
    return found


def _throttle(request: ThrottleRequest, view: ClusterView) -> _Touches:
    found = _Touches(brokers=set(request.rates), topics=set(request.replicas))
    for broker, rate in sorted(request.rates.items()):
        present = view.throttles.rates.get(broker)
        if present is None or present.rate != rate:
            lifts = rate == NO_RATE
            (found.throttles_lifted if lifts else found.throttles_set).append(f"broker {broker}")
        if present is None:
            found.warnings.append(f"The rates of broker {broker} could not be read.")
    for topic, lists in sorted(request.replicas.items()):
        if lists != view.throttles.replicas.get(topic, NO_REPLICAS):
            (found.throttles_set if lists else found.throttles_lifted).append(f"topic {topic}")
    found.partitions = {
        partition
        for partition, move in view.ongoing.items()
        if partition.topic in request.replicas
        or any(b in request.rates for b in (*move.adding, view.leader_of(partition)))
    }
    return found


def _leaves_leader(partition: TopicPartition, replicas: Iterable[int], view: ClusterView) -> bool:
    """True where the present leader is not among the replicas that will remain."""
    leader = view.leader_of(partition)
    return leader in view.partitions[partition].replicas and leader not in replicas


# Min-ISR, room and words


def _needed_in_sync(partition: TopicPartition, view: ClusterView) -> int | None:
    min_isr = view.min_isr.get(partition.topic)
    replicas = len(view.partitions[partition].replicas)
    return None if min_isr is None else effective_min_isr(min_isr, replicas)


def _copy_words(copy_bytes: int, unknown_sizes: int) -> str:
    if not unknown_sizes:
        return f"copies {bytes_text(copy_bytes)}"
    unknown = f"{many(unknown_sizes, 'partition')} of unknown size"
    return f"copies {bytes_text(copy_bytes)} and {unknown}" if copy_bytes else f"copies {unknown}"


# Fingerprint


def _fingerprint(found: _Touches, view: ClusterView) -> str:
    """One short hash an aspect, in the order of `_ASPECTS`."""
    return "-".join(_short_hash(aspect(found, view)) for aspect in _ASPECTS.values())


def _short_hash(facts: object) -> str:
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:10]


def _brokers(found: _Touches, view: ClusterView) -> object:
    return view.cluster_id, sorted(found.brokers & view.live), sorted(found.brokers - view.live)


def _placement(found: _Touches, view: ClusterView) -> object:
    return [(tuple(state.partition), state.replicas) for state in _touched(found, view)]


def _leaders(found: _Touches, view: ClusterView) -> object:
    return [(tuple(state.partition), state.leader) for state in _touched(found, view)]


def _in_sync(found: _Touches, view: ClusterView) -> object:
    return [
        (tuple(state.partition), sorted(state.isr), _needed_in_sync(state.partition, view))
        for state in _touched(found, view)
    ]


def _reassignments(found: _Touches, view: ClusterView) -> object:
    moving = sorted(found.partitions & view.ongoing.keys())
    return [
        (tuple(p), view.ongoing[p].replicas, view.ongoing[p].adding, view.ongoing[p].removing)
        for p in moving
    ]


def _throttles(found: _Touches, view: ClusterView) -> object:
    rates, lists = view.throttles.rates, view.throttles.replicas
    topics = found.topics | {partition.topic for partition in found.partitions}
    brokers = [
        (b, rates[b].rate.leader_bytes_per_s, rates[b].rate.follower_bytes_per_s)
        for b in sorted(found.brokers & rates.keys())
    ]
    return brokers, [(t, str(lists[t])) for t in sorted(topics & lists.keys())]


def _holds(found: _Touches, _: ClusterView) -> object:
    return found.holds


def _touched(found: _Touches, view: ClusterView) -> list[PartitionState]:
    return [view.partitions[p] for p in sorted(found.partitions) if p in view.partitions]


_ASPECTS: Final[Mapping[str, Callable[[_Touches, ClusterView], object]]] = {
    "a broker": _brokers,
    "the replicas of a partition": _placement,
    "a leader": _leaders,
    "an ISR": _in_sync,
    "a reassignment": _reassignments,
    "a throttle": _throttles,
    "what would hold it back": _holds,
}
"""What a preview depends on, in words, and the facts of each."""
