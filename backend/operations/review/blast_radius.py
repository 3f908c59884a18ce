"""Blast radius: what an action would touch, before it is confirmed.

Goals
    One sentence tells an operator the size of what is about to happen.
Constraints
    Pure, and made of the same judgements that the engine acts on (`schedule.judge`,
    `pause.pause_writes`, `undo.cancel_plan`), so that preview and action cannot disagree.
Algorithm
    Each kind of request says what it touches, and which facts of the cluster it depends on. Sizes
    are none of them, since they change all the time. `preview_facts` says whether they still hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from kshunt.backend.domain.cluster.metadata import TopicPartition, is_being_deleted
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
from kshunt.backend.operations.moves.disk_space import ChosenDirs, room_warnings
from kshunt.backend.operations.moves.pause_throttles import NO_SHARE, pause_writes
from kshunt.backend.operations.moves.schedule import Queue, judge
from kshunt.backend.operations.moves.undo_plans import cancel_plan
from kshunt.backend.operations.review.preview_facts import (
    BROKER,
    HOLDS,
    IN_SYNC,
    LEADER,
    REASSIGNMENT,
    REPLICAS,
    THROTTLE,
    PreviewFacts,
    fingerprint_of,
    what_changed,
)


@dataclass(frozen=True, slots=True)
class StartRequest:
    """Start a plan."""

    plan: Mapping[TopicPartition, tuple[int, ...]]
    throttle_bytes_per_s: int | None = None
    log_dirs: ChosenDirs = field(default_factory=dict)
    """Log directories that the plan names."""


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
    """Touched partitions with exactly `min.insync.replicas` in sync."""
    under_min_isr: tuple[TopicPartition, ...]
    warnings: tuple[str, ...]
    facts: PreviewFacts
    """What it was made from."""

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
            fingerprint=fingerprint_of(self.facts),
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
    log_dirs: ChosenDirs = field(default_factory=dict)
    """Where a plan wants them."""
    throttles_set: list[str] = field(default_factory=list)
    throttles_lifted: list[str] = field(default_factory=list)
    leaders_moving: set[TopicPartition] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)
    holds: list[str] = field(default_factory=list)
    """What would keep some of it from happening, in words that change only if it does."""
    facts: PreviewFacts = field(default_factory=dict)
    """What the change reads and writes."""


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
            *room_warnings(found.copies, view.size_bytes, view.log_dirs, found.log_dirs),
        ),
        facts=found.facts,
    )


def check_fresh(
    preview: str, request: Request, view: ClusterView, shown: PreviewFacts | None = None
) -> Request:
    """Stop an action whose preview was made from another state of the cluster.

    Args:
        preview: The fingerprint of the preview that the operator confirmed.
        request: What is about to be done.
        view: The cluster now.
        shown: The facts of that preview. None where this backend did not make it a short time ago.

    Returns:
        What was agreed to: of an election of all, the partitions whose leaders were to move.

    Raises:
        Conflict: something that the preview was made from has changed.
    """
    if request == ElectRequest(None) and shown is not None:
        agreed = tuple(sorted(view.partitions.keys() & shown.get(LEADER, {}).keys()))
        request = ElectRequest(agreed or None)
    changed = what_changed(preview, blast_radius(request, view).facts, shown)
    if changed:
        raise Conflict(
            f"The cluster has changed since the preview: {listed(changed)}. Nothing was done.",
            advice="Check the new preview and confirm that one.",
        )
    return request


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
        log_dirs=request.log_dirs,
        leaders_moving={m.partition for m in moves if _leaves_leader(m.partition, m.target, view)},
        warnings=_start_warnings(request, moves, view),
        holds=_start_holds(request, moves, view),
    )
    if request.throttle_bytes_per_s is not None:
        found.throttles_set = [f"broker {b}" for b in sorted(found.brokers)]
        found.throttles_set += [f"topic {t}" for t in sorted(throttled_replicas_of(moves))]
    return replace(found, facts=_start_facts(found, view))


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
        warnings.append(f"{many(len(others), 'partition')} of other plans are moving.")
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
        warnings.append(f"The data already copied for {listed(lost, 3)} is thrown away.")
    return _Touches(
        partitions={*plan.returns, *plan.dropped},
        brokers={broker for move in moving for broker in move.replicas},
        throttles_lifted=list(request.throttles),
        leaders_moving={
            m.partition for m in moving if _leaves_leader(m.partition, m.original, view)
        },
        warnings=warnings,
        holds=holds,
        facts={
            BROKER: _cluster(view),
            # A partition that starts meanwhile goes back to where it is in the preview.
            REASSIGNMENT: dict(plan.returns)
            | {p: view.partitions[p].replicas for p in plan.dropped if p in view.partitions},
            THROTTLE: _throttle_facts(
                (b for b in view.throttles.rates if f"broker {b}" in request.throttles), (), view
            ),
        },
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
        facts={
            BROKER: _cluster(view),
            REASSIGNMENT: dict.fromkeys(request.partitions),
            THROTTLE: _throttle_facts(pause.rates, (), view),
        },
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
            f"The preferred replica of {listed(sorted(unable), 3)} is not in sync, so the leader "
            "stays."
        )
    if being_deleted and request.partitions is not None:
        found.holds.append(
            f"{listed(sorted(being_deleted), 3)} is being deleted, and stays without a leader."
        )
    if gone := sorted(wanted - view.partitions.keys()):
        found.holds.append(f"The cluster does not have {listed(gone, 3)}.")
    preferred = {p: view.partitions[p].replicas[0] for p in sorted(found.leaders_moving)}
    return replace(found, facts={BROKER: _cluster(view), LEADER: preferred})


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
    brokers: dict[object, object] = {b: b in view.live for b in sorted(request.rates)}
    return replace(
        found,
        facts={
            BROKER: _cluster(view) | brokers,
            THROTTLE: _throttle_facts(request.rates, request.replicas, view),
        },
    )


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


# What each kind depends on


def _start_facts(found: _Touches, view: ClusterView) -> PreviewFacts:
    states = [view.partitions[p] for p in sorted(found.partitions)]
    topics = found.topics | {partition.topic for partition in found.partitions}
    return {
        BROKER: _cluster(view) | {broker: broker in view.live for broker in sorted(found.brokers)},
        REPLICAS: {state.partition: state.replicas for state in states},
        LEADER: {state.partition: state.leader for state in states},
        IN_SYNC: {
            state.partition: (sorted(state.isr), _needed_in_sync(state.partition, view))
            for state in states
        },
        REASSIGNMENT: {state.partition: _ongoing(state.partition, view) for state in states},
        THROTTLE: _throttle_facts(found.brokers, topics, view),
        HOLDS: {"all": found.holds},
    }


def _cluster(view: ClusterView) -> dict[object, object]:
    return {"cluster": view.cluster_id}


def _ongoing(partition: TopicPartition, view: ClusterView) -> object:
    move = view.ongoing.get(partition)
    return None if move is None else (move.replicas, move.adding, move.removing)


def _throttle_facts(
    brokers: Iterable[int], topics: Iterable[str], view: ClusterView
) -> dict[object, object]:
    rates, lists = view.throttles.rates, view.throttles.replicas
    facts: dict[object, object] = {
        broker: None if broker not in rates else rates[broker].rate for broker in sorted(brokers)
    }
    return facts | {topic: str(lists.get(topic, NO_REPLICAS)) for topic in sorted(topics)}
