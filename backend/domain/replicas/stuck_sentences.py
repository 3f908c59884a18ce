"""Why a replica does not advance, and what to do next, in sentences for an operator.

Sentences are made where they are read: in the dashboard, for answers of the API, by tools. Each
says in a wording of its own how rates, sizes and settings are written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from kshunt.backend.domain.replicas.stuck_causes import (
    CAUSE_TEXTS,
    Cause,
    CauseText,
    Stuck,
    StuckEvidence,
)


@dataclass(frozen=True, slots=True)
class Wording:
    """How values are written in sentences."""

    rate: Callable[[int], str]
    """Of bytes a second."""
    size: Callable[[int], str]
    """Of bytes."""
    setting: Callable[[str], str]
    """Of Kafka's name of a setting."""


WHOLE_BYTES: Final = Wording("{} B/s".format, "{} bytes".format, str)
"""As Kafka's configurations have them, so that they can be typed there."""

Sentences: TypeAlias = tuple[str, str]
"""What holds the replica up, and what to do; the latter is empty where nothing is to be done."""


def stuck_text(stuck: Stuck, wording: Wording = WHOLE_BYTES) -> CauseText:
    """A cause in words: those of this replica, or where nothing is known those of its cause."""
    about = CAUSE_TEXTS[stuck.cause]
    if stuck.evidence is None or stuck.cause not in _SENTENCES:
        return about
    replica = _StuckReplica(stuck, stuck.evidence, wording)
    return CauseText(about.short, *_SENTENCES[stuck.cause](replica))


@dataclass(frozen=True, slots=True)
class _StuckReplica:
    """One replica, as sentences need it."""

    stuck: Stuck
    evidence: StuckEvidence
    wording: Wording

    @property
    def broker(self) -> int:
        return self.stuck.broker

    @property
    def name(self) -> str:
        return str(self.stuck.partition)

    @property
    def missed(self) -> str:
        """Why the broker is missed that it needs, with a full stop."""
        if not self.evidence.registered:
            return "not registered: it is down or fenced."
        failed = self.evidence.failed
        return "it does not answer." if failed is None else failed.message

    @property
    def needs(self) -> str:
        rate, setting = self.wording.rate, self.wording.setting
        return "; ".join(
            f"{setting(one.key)} of broker {one.broker} needs at least "
            f"{rate(one.needs_bytes_per_s)} and has {rate(one.has_bytes_per_s)}"
            for one in self.stuck.rates
        )

    @property
    def raised(self) -> str:
        rate, setting = self.wording.rate, self.wording.setting
        return " and ".join(
            f"{setting(one.key)} of broker {one.broker} to {rate(one.needs_bytes_per_s)}"
            for one in self.stuck.rates
        )


def _broker_down(replica: _StuckReplica) -> Sentences:
    broker = replica.broker
    if replica.evidence.registered:
        return (
            f"Broker {broker} is registered and does not answer: {replica.missed}",
            f"Check broker {broker} and the network between it and this backend.",
        )
    return (
        f"Broker {broker} is down: {replica.missed}",
        f"Start broker {broker}, or cancel the move and choose another one.",
    )


def _log_dir_offline(replica: _StuckReplica) -> Sentences:
    failed, broker = replica.evidence.offline_dirs, replica.broker
    where = f"Log directory {', '.join(failed)}" if failed else "A log directory"
    return (
        f"{where} of broker {broker} is offline, and it holds the replica.",
        f"Free space if the disk is full, or repair it. Then restart broker {broker}, or cancel "
        "the move.",
    )


def _no_leader(replica: _StuckReplica) -> Sentences:
    last = ", ".join(map(str, replica.evidence.in_sync)) or "none"
    names = " or ".join(f"broker {broker}" for broker in replica.evidence.could_lead)
    return (
        f"{replica.name} has no leader; in its ISR: {last}.",
        f"Bring back {names}. An unclean election is the last resort and loses records.",
    )


def _controller(replica: _StuckReplica) -> Sentences:
    controller = replica.evidence.controller
    who = "no controller is named" if controller is None else f"controller {controller} is silent"
    return (
        f"Everything is copied, but the ISR or the move of {replica.name} does not change; {who}.",
        "Check the controller's log, and whether the controllers have a majority.",
    )


def _source_unreachable(replica: _StuckReplica) -> Sentences:
    leader = replica.evidence.leader
    return (
        f"Broker {leader}, which leads {replica.name}, cannot be reached: {replica.missed}",
        f"Bring broker {leader} back. If it is fenced, another replica of the ISR takes over.",
    )


def _throttle_floor(replica: _StuckReplica) -> Sentences:
    return f"The throttle of its move is at the floor: {replica.needs}.", f"Set {replica.raised}."


def _throttle_too_low(replica: _StuckReplica) -> Sentences:
    written = max((one.written_bytes_per_s for one in replica.stuck.rates), default=0)
    return (
        f"The throttle is at or below the {replica.wording.rate(written)} that are written to what "
        f"shares it: {replica.needs}.",
        f"Raise {replica.raised}.",
    )


def _throttle_orphan(replica: _StuckReplica) -> Sentences:
    wording, topic = replica.wording, replica.stuck.partition.topic
    needs = replica.stuck.rates
    keys = " and ".join(f"{wording.setting(one.key)} of broker {one.broker}" for one in needs)
    rates = " and ".join(wording.rate(one.has_bytes_per_s) for one in needs)
    return (
        f"A throttle holds it, but no move needs that throttle: {keys} at {rates}, with "
        f"{replica.name} in the throttled replicas of {topic}.",
        f"Remove {keys} and the throttled replicas of {topic}, unless somebody needs them.",
    )


def _remaining_out_of_isr(replica: _StuckReplica) -> Sentences:
    found = [stuck_text(one, replica.wording) for one in replica.evidence.waits_for]
    said = " ".join(one.reason for one in found)
    brokers = ", ".join(str(one.broker) for one in replica.evidence.waits_for)
    advice = next((one.action for one in found if one.action), "")
    return (
        f"It is in sync. The move ends only when the replica on broker {brokers}, which stays, is "
        f"in the ISR too. {said}",
        f"{advice} Or move that replica elsewhere in the same reassignment.".strip(),
    )


def _disk_full(replica: _StuckReplica) -> Sentences:
    evidence, broker, size = replica.evidence, replica.broker, replica.wording.size
    free = "an unknown amount" if evidence.free_bytes is None else size(evidence.free_bytes)
    lacks = "" if evidence.lag_bytes is None else f", and it lacks {size(evidence.lag_bytes)}"
    if evidence.offline_dirs:
        return (
            f"Broker {broker} took log directory {', '.join(evidence.offline_dirs)} offline. It "
            f"had {free} free when it last answered{lacks}.",
            f"Free space there and restart broker {broker}, or cancel the move.",
        )
    return (
        f"The log directory on broker {broker} has {free} free{lacks}.",
        f"Free space on broker {broker}, or move the replica to another directory.",
    )


def _log_dir_move(replica: _StuckReplica) -> Sentences:
    return (
        f"Its copy in another directory of broker {replica.broker} never ends: {replica.needs}.",
        f"Raise {replica.raised}.",
    )


def _waiting_turn(replica: _StuckReplica) -> Sentences:
    shared = replica.evidence.shared
    if shared is None:
        return CAUSE_TEXTS[Cause.WAITING_TURN].reason, ""
    return (
        f"It shares {replica.wording.setting(shared.key)} of broker {shared.broker} with "
        f"{shared.others} others that are served first. The throttle is enough for all of them.",
        "",
    )


def _copy_too_slow(replica: _StuckReplica) -> Sentences:
    evidence, broker, rate = replica.evidence, replica.broker, replica.wording.rate
    fetched, written = evidence.fetched_bytes_per_s, evidence.written_bytes_per_s
    carried = "at an unknown rate" if fetched is None else f"at {rate(fetched)}"
    needed = "the write rate is unknown" if written is None else f"{rate(written)} are written"
    return (
        f"No throttle explains it: broker {broker} copies from leader {evidence.leader} "
        f"{carried}, and {needed}.",
        f"Check the network between brokers {evidence.leader} and {broker}, their disks, and the "
        f"log of broker {broker} for ReplicaFetcherThread errors.",
    )


def _too_short(replica: _StuckReplica) -> Sentences:
    return (
        f"It has not come nearer in the {replica.evidence.watched_s} s since kshunt watches it.",
        "",
    )


def _deletion_waits(replica: _StuckReplica) -> Sentences:
    broker = replica.broker
    if replica.evidence.answers:
        return (
            f"The deletion of {replica.name} waits for broker {broker}: its log directory is "
            "offline.",
            f"Repair the disk and restart broker {broker}.",
        )
    return (
        f"The deletion of {replica.name} waits for broker {broker}: {replica.missed}",
        f"Start broker {broker}. If it is gone for good, unregister it.",
    )


_SENTENCES: Final[Mapping[Cause, Callable[[_StuckReplica], Sentences]]] = {
    Cause.BROKER_DOWN: _broker_down,
    Cause.LOG_DIR_OFFLINE: _log_dir_offline,
    Cause.NO_LEADER: _no_leader,
    Cause.CONTROLLER: _controller,
    Cause.SOURCE_UNREACHABLE: _source_unreachable,
    Cause.THROTTLE_FLOOR: _throttle_floor,
    Cause.THROTTLE_TOO_LOW: _throttle_too_low,
    Cause.THROTTLE_ORPHAN: _throttle_orphan,
    Cause.REMAINING_OUT_OF_ISR: _remaining_out_of_isr,
    Cause.DISK_FULL: _disk_full,
    Cause.LOG_DIR_MOVE: _log_dir_move,
    Cause.WAITING_TURN: _waiting_turn,
    Cause.COPY_TOO_SLOW: _copy_too_slow,
    Cause.TOO_SHORT: _too_short,
    Cause.DELETION_WAITS: _deletion_waits,
}
"""Of `PAUSED` there is no more to say than of its cause."""
