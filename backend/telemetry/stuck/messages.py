"""What an operator is told of a replica that does not advance: what is so, and what to do next.

Rates are whole bytes a second, as Kafka's configurations have them, so that they can be typed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from kshunt.backend.domain.replicas.snapshot import UNKNOWN
from kshunt.backend.domain.replicas.stuck_causes import (
    CAUSE_TEXTS,
    STUCK_CAUSES,
    Cause,
    RateNeed,
    Replica,
    Stuck,
)
from kshunt.backend.telemetry.stuck.diagnosis import Diagnosis, free_bytes

Words = tuple[str, str]
"""What is so, and what to do."""


def explain(diagnosis: Diagnosis, row: int) -> Stuck | None:
    """The cause of a row in words, or None if it has none."""
    cause = Cause(int(diagnosis.causes[row]))
    if cause is Cause.NONE:
        return None
    replica = _Replica(diagnosis, row)
    reason, action = _WORDS[cause](replica)
    partition = diagnosis.snapshot.partition_of(row)
    return Stuck(partition, replica.broker, cause, reason, action, replica.needs(cause))


def explain_stuck(diagnosis: Diagnosis, most: int) -> dict[Replica, Stuck]:
    """Up to `most` replicas that are stuck."""
    rows = np.flatnonzero(np.isin(diagnosis.causes, STUCK_CAUSES))[:most]
    found = (explain(diagnosis, row) for row in rows.tolist())
    return {(one.partition, one.broker): one for one in found if one is not None}


@dataclass(frozen=True, slots=True)
class _Replica:
    """One row, as words need it."""

    of: Diagnosis
    row: int

    @property
    def broker(self) -> int:
        return int(self.of.snapshot.replicas.broker[self.row])

    @property
    def leader(self) -> int:
        return int(self.of.snapshot.replicas.leader[self.row])

    @property
    def name(self) -> str:
        return str(self.of.snapshot.partition_of(self.row))

    @property
    def topic(self) -> str:
        return self.of.snapshot.topic_of(self.row)

    @property
    def offline_dir(self) -> str:
        """The log directory that it lies in, where that is offline; else empty."""
        snapshot = self.of.snapshot
        number = int(snapshot.replicas.log_dir[self.row])
        path = snapshot.log_dir_paths[number] if number != UNKNOWN else ""
        failed = {one.path for one in snapshot.log_dirs if one.broker == self.broker and one.error}
        return path if path in failed else ""

    @property
    def lag_bytes(self) -> int:
        return int(self.of.snapshot.replicas.lag_bytes[self.row])

    def problem_of(self, broker: int) -> str:
        """Why a broker is down, as the sampler saw it."""
        status = self.of.snapshot.brokers.get(broker)
        return (status.problem if status is not None else "") or "it does not answer"

    def written(self) -> str:
        rate = float(self.of.watched.written_bytes_per_s[self.row])
        return "an unknown rate" if np.isnan(rate) else f"{round(rate)} B/s"

    def needs(self, cause: Cause) -> tuple[RateNeed, ...]:
        """The throttles of this row that its cause is about, and would be about next."""
        if cause in (Cause.THROTTLE_FLOOR, Cause.THROTTLE_TOO_LOW, Cause.THROTTLE_ORPHAN):
            shares = self.of.shares[:2]
        else:
            shares = self.of.shares[2:] if cause is Cause.LOG_DIR_MOVE else ()
        needs = [share.need(self.row) for share in shares if share.held[self.row]]
        return tuple(one for one in needs if one.has_bytes_per_s <= one.needs_bytes_per_s)

    def others_out(self) -> list[int]:
        """The replicas that stay, and are out of the ISR: their rows."""
        replicas = self.of.snapshot.replicas
        same = (replicas.topic_index == replicas.topic_index[self.row]) & (
            replicas.partition == replicas.partition[self.row]
        )
        rows = same & ~replicas.in_isr & ~replicas.removing & ~replicas.adding
        found: list[int] = np.flatnonzero(rows).tolist()
        return found


def _broker_down(replica: _Replica) -> Words:
    broker = replica.broker
    status = replica.of.snapshot.brokers.get(broker)
    if status is not None and status.broker.host:
        return (
            f"Broker {broker} is registered and does not answer: {replica.problem_of(broker)}.",
            f"Look at broker {broker} and at the network between it and this backend.",
        )
    return (
        f"Broker {broker} is down: {replica.problem_of(broker)}.",
        f"Start broker {broker}, or cancel the move and choose another one.",
    )


def _log_dir_offline(replica: _Replica) -> Words:
    snapshot, broker = replica.of.snapshot, replica.broker
    failed = [d.path for d in snapshot.log_dirs if d.broker == broker and d.error is not None]
    where = f"Log directory {', '.join(failed)}" if failed else "A log directory"
    return (
        f"{where} of broker {broker} is offline, and the replica lies there.",
        f"Free space if the disk is full, or repair it. Then restart broker {broker}, or cancel "
        "the move.",
    )


def _no_leader(replica: _Replica) -> Words:
    snapshot = replica.of.snapshot
    replicas = snapshot.replicas
    same = (replicas.topic_index == replicas.topic_index[replica.row]) & (
        replicas.partition == replicas.partition[replica.row]
    )
    in_sync = [int(broker) for broker in replicas.broker[same & replicas.in_isr]]
    last = ", ".join(map(str, in_sync)) or "none"
    # An ISR may be empty (KIP-966). Then any replica that the move does not add may have been last.
    wanted = in_sync or [int(broker) for broker in replicas.broker[same & ~replicas.adding]]
    names = " or ".join(f"broker {broker}" for broker in wanted)
    return (
        f"{replica.name} has no leader; in its ISR: {last}.",
        f"Bring back {names}. An unclean election is the last resort and loses records.",
    )


def _controller(replica: _Replica) -> Words:
    controller = replica.of.snapshot.controller
    who = (
        "no controller is named" if controller == UNKNOWN else f"controller {controller} is silent"
    )
    return (
        f"Everything is copied, and the ISR or the move of {replica.name} stays as it was; {who}.",
        "Look at the controller's log, and whether the controllers have a majority.",
    )


def _source_unreachable(replica: _Replica) -> Words:
    leader = replica.leader
    return (
        f"Broker {leader}, which leads {replica.name}, cannot be reached: "
        f"{replica.problem_of(leader)}.",
        f"Bring broker {leader} back; if it is fenced, another replica of the ISR takes over.",
    )


def _rates(needs: tuple[RateNeed, ...]) -> str:
    return "; ".join(
        f"{one.key} of broker {one.broker} needs at least {one.needs_bytes_per_s} B/s and has "
        f"{one.has_bytes_per_s}"
        for one in needs
    )


def _raise(needs: tuple[RateNeed, ...]) -> str:
    return " and ".join(
        f"{one.key} of broker {one.broker} to {one.needs_bytes_per_s} B/s" for one in needs
    )


def _throttle_floor(replica: _Replica) -> Words:
    needs = replica.needs(Cause.THROTTLE_FLOOR)
    return (
        f"The throttle of its move is at the floor: {_rates(needs)}.",
        f"Set {_raise(needs)}.",
    )


def _throttle_too_low(replica: _Replica) -> Words:
    needs = replica.needs(Cause.THROTTLE_TOO_LOW)
    written = max((one.written_bytes_per_s for one in needs), default=0)
    return (
        f"The throttle is at or below the {written} B/s that are written to what shares it: "
        f"{_rates(needs)}.",
        f"Raise {_raise(needs)}.",
    )


def _throttle_orphan(replica: _Replica) -> Words:
    needs = replica.needs(Cause.THROTTLE_ORPHAN)
    keys = " and ".join(f"{one.key} of broker {one.broker}" for one in needs)
    rates = " and ".join(f"{one.has_bytes_per_s} B/s" for one in needs)
    return (
        f"A throttle holds it that no move needs: {keys} at {rates}, with {replica.name} in the "
        f"throttled replicas of {replica.topic}.",
        f"Take {keys} off, and the throttled replicas of {replica.topic}, unless they are meant.",
    )


def _remaining_out_of_isr(replica: _Replica) -> Words:
    out = replica.others_out()
    found = [explain(replica.of, row) for row in out]
    said = " ".join(one.reason for one in found if one is not None)
    brokers = ", ".join(str(one.broker) for one in found if one is not None)
    advice = next((one.action for one in found if one is not None and one.action), "")
    return (
        f"It is in sync, and the move ends only when the replica on broker {brokers}, which "
        f"stays, is in the ISR too. {said}",
        f"{advice} Or move that replica elsewhere in the same reassignment.".strip(),
    )


def _disk_full(replica: _Replica) -> Words:
    free = int(free_bytes(replica.of.snapshot)[replica.row])
    lacks = "" if replica.lag_bytes == UNKNOWN else f", and it lacks {replica.lag_bytes}"
    offline = replica.offline_dir
    if offline:
        return (
            f"Broker {replica.broker} took log directory {offline} offline. It had {free} bytes "
            f"free when it last answered{lacks}.",
            f"Free space there and restart broker {replica.broker}, or cancel the move.",
        )
    return (
        f"The log directory on broker {replica.broker} has {free} bytes free{lacks}.",
        f"Free space on broker {replica.broker}, or move the replica to another directory.",
    )


def _log_dir_move(replica: _Replica) -> Words:
    needs = replica.needs(Cause.LOG_DIR_MOVE)
    return (
        f"Its copy in another directory of broker {replica.broker} does not come to an end: "
        f"{_rates(needs)}.",
        f"Raise {_raise(needs)}.",
    )


def _waiting_turn(replica: _Replica) -> Words:
    shares = [share for share in replica.of.shares[:2] if share.held[replica.row]]
    share = min(shares, key=lambda one: float(one.fair_bytes_per_s()[replica.row]))
    others = int(share.users[replica.row]) - 1
    return (
        f"It shares {share.key} of broker {int(share.broker[replica.row])} with {others} others "
        "that are served first; the throttle is enough for all of them in the end.",
        "",
    )


def _copy_too_slow(replica: _Replica) -> Words:
    fetched = float(replica.of.snapshot.replicas.fetched_bytes_per_s[replica.row])
    carried = "at an unknown rate" if np.isnan(fetched) else f"at {max(round(fetched), 0)} B/s"
    return (
        f"No throttle explains it: broker {replica.broker} copies from leader {replica.leader} "
        f"{carried}, and {replica.written()} are written.",
        f"Look at the network between brokers {replica.leader} and {replica.broker}, at their "
        f"disks, and for ReplicaFetcherThread errors in the log of broker {replica.broker}.",
    )


def _too_short(replica: _Replica) -> Words:
    seconds = round(float(replica.of.watched.seconds[replica.row]))
    return f"It has not come nearer in the {seconds} s for which it was watched.", ""


def _paused(replica: _Replica) -> Words:
    return CAUSE_TEXTS[Cause.PAUSED].reason, ""


def _deletion_waits(replica: _Replica) -> Words:
    broker, partition = replica.broker, replica.name
    status = replica.of.snapshot.brokers.get(broker)
    if status is not None and not status.stale:
        return (
            f"The deletion of {partition} waits for broker {broker}: its log directory is offline.",
            f"Mend the disk and restart broker {broker}.",
        )
    return (
        f"The deletion of {partition} waits for broker {broker}: {replica.problem_of(broker)}.",
        f"Start broker {broker}. If it is gone for good, unregister it.",
    )


_WORDS: Final[Mapping[Cause, Callable[[_Replica], Words]]] = {
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
    Cause.PAUSED: _paused,
    Cause.DELETION_WAITS: _deletion_waits,
}
