"""What the cause of a replica that does not advance was found from: numbers, and no words.

Rates are whole bytes a second, as Kafka's configurations have them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from kshunt.backend.domain.replicas.snapshot import UNKNOWN
from kshunt.backend.domain.replicas.stuck_causes import (
    STUCK_CAUSES,
    Cause,
    RateNeed,
    Replica,
    SharedThrottle,
    Stuck,
    StuckEvidence,
)
from kshunt.backend.telemetry.stuck.diagnosis import Diagnosis, free_bytes


def explain(diagnosis: Diagnosis, row: int) -> Stuck | None:
    """The cause of a row and what it was found from, or None if it has none."""
    cause = Cause(int(diagnosis.causes[row]))
    if cause is Cause.NONE:
        return None
    replica = _Replica(diagnosis, row)
    partition = diagnosis.snapshot.partition_of(row)
    evidence = _EVIDENCE.get(cause, _nothing_more)(replica)
    return Stuck(partition, replica.broker, cause, replica.needs(cause), evidence)


def explain_stuck(diagnosis: Diagnosis, most: int) -> dict[Replica, Stuck]:
    """Up to `most` replicas that are stuck."""
    rows = np.flatnonzero(np.isin(diagnosis.causes, STUCK_CAUSES))[:most]
    found = (explain(diagnosis, row) for row in rows.tolist())
    return {(one.partition, one.broker): one for one in found if one is not None}


@dataclass(frozen=True, slots=True)
class _Replica:
    """One row, as evidence needs it."""

    of: Diagnosis
    row: int

    @property
    def broker(self) -> int:
        return int(self.of.snapshot.replicas.broker[self.row])

    @property
    def leader(self) -> int:
        return int(self.of.snapshot.replicas.leader[self.row])

    @property
    def offline_dir(self) -> tuple[str, ...]:
        """The log directory that it lies in, where that is offline."""
        snapshot = self.of.snapshot
        number = int(snapshot.replicas.log_dir[self.row])
        path = snapshot.log_dir_paths[number] if number != UNKNOWN else ""
        failed = {one.path for one in snapshot.log_dirs if one.broker == self.broker and one.error}
        return (path,) if path in failed else ()

    def missed(self, broker: int) -> StuckEvidence:
        """Whether a broker is there, as the sampler saw it."""
        status = self.of.snapshot.brokers.get(broker)
        leader = _known(self.leader)
        if status is None:
            return StuckEvidence(registered=False, answers=False, leader=leader)
        return StuckEvidence(status.registered, not status.stale, status.failed, leader)

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


def _nothing_more(replica: _Replica) -> StuckEvidence:
    """Of causes that rates alone explain."""
    return StuckEvidence()


def _own_broker(replica: _Replica) -> StuckEvidence:
    return replica.missed(replica.broker)


def _leader(replica: _Replica) -> StuckEvidence:
    return replica.missed(replica.leader)


def _log_dir_offline(replica: _Replica) -> StuckEvidence:
    dirs, broker = replica.of.snapshot.log_dirs, replica.broker
    failed = tuple(d.path for d in dirs if d.broker == broker and d.error is not None)
    return StuckEvidence(offline_dirs=failed)


def _no_leader(replica: _Replica) -> StuckEvidence:
    replicas = replica.of.snapshot.replicas
    same = (replicas.topic_index == replicas.topic_index[replica.row]) & (
        replicas.partition == replicas.partition[replica.row]
    )
    in_sync = tuple(int(broker) for broker in replicas.broker[same & replicas.in_isr])
    # An ISR may be empty (KIP-966). Then any replica that the move does not add may have been last.
    others = tuple(int(broker) for broker in replicas.broker[same & ~replicas.adding])
    return StuckEvidence(in_sync=in_sync, could_lead=in_sync or others)


def _controller(replica: _Replica) -> StuckEvidence:
    return StuckEvidence(controller=_known(replica.of.snapshot.controller))


def _remaining_out_of_isr(replica: _Replica) -> StuckEvidence:
    found = (explain(replica.of, row) for row in replica.others_out())
    return StuckEvidence(waits_for=tuple(one for one in found if one is not None))


def _disk_full(replica: _Replica) -> StuckEvidence:
    free = int(free_bytes(replica.of.snapshot)[replica.row])
    lag = int(replica.of.snapshot.replicas.lag_bytes[replica.row])
    return StuckEvidence(
        offline_dirs=replica.offline_dir, free_bytes=_known(free), lag_bytes=_known(lag)
    )


def _waiting_turn(replica: _Replica) -> StuckEvidence:
    shares = [share for share in replica.of.shares[:2] if share.held[replica.row]]
    share = min(shares, key=lambda one: float(one.fair_bytes_per_s()[replica.row]))
    others = int(share.users[replica.row]) - 1
    shared = SharedThrottle(int(share.broker[replica.row]), share.key, others)
    return StuckEvidence(shared=shared)


def _copy_too_slow(replica: _Replica) -> StuckEvidence:
    fetched = float(replica.of.snapshot.replicas.fetched_bytes_per_s[replica.row])
    written = float(replica.of.watched.written_bytes_per_s[replica.row])
    return StuckEvidence(
        leader=replica.leader,
        fetched_bytes_per_s=None if np.isnan(fetched) else max(round(fetched), 0),
        written_bytes_per_s=None if np.isnan(written) else round(written),
    )


def _too_short(replica: _Replica) -> StuckEvidence:
    return StuckEvidence(watched_s=round(float(replica.of.watched.seconds[replica.row])))


def _known(value: int) -> int | None:
    return None if value == UNKNOWN else value


_EVIDENCE: Final[Mapping[Cause, Callable[[_Replica], StuckEvidence]]] = {
    Cause.BROKER_DOWN: _own_broker,
    Cause.LOG_DIR_OFFLINE: _log_dir_offline,
    Cause.NO_LEADER: _no_leader,
    Cause.CONTROLLER: _controller,
    Cause.SOURCE_UNREACHABLE: _leader,
    Cause.REMAINING_OUT_OF_ISR: _remaining_out_of_isr,
    Cause.DISK_FULL: _disk_full,
    Cause.WAITING_TURN: _waiting_turn,
    Cause.COPY_TOO_SLOW: _copy_too_slow,
    Cause.TOO_SHORT: _too_short,
    Cause.DELETION_WAITS: _own_broker,
}
