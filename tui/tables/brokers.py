"""The brokers view: what each broker leads, holds, sends and receives."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from backend.domain.cluster import LogDir
from backend.domain.snapshot import UNKNOWN, BrokerStatus
from backend.domain.throttle import BrokerThrottle
from tui.tables.base import Cell, Column, Order, RowKey
from tui.tables.facts import Facts, known_sum, rate_sum
from tui.tables.small import Field, SmallTable
from tui.text import bytes_text, count_text, duration_text, rate_text


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """One broker."""

    id: int
    rack: str
    address: str
    state: str
    """`up`, `stale 12s`, or `down`."""
    reason: str
    """Why it is not up."""
    leaders: int
    replicas: int
    moving_in: int
    """Replicas that are being added to it."""
    moving_out: int
    """Partitions that it leads and that somebody else receives."""
    lag_in_bytes: int
    """What its own replicas still lack."""
    lag_out_bytes: int
    """What replicas that it feeds still lack."""
    rate_in_bytes_per_s: float
    rate_out_bytes_per_s: float
    throttle: BrokerThrottle | None
    """None where it could not be read, which is not "no throttle"."""
    disk_used_bytes: int
    disk_total_bytes: int
    offline_dirs: int
    controller: bool


def broker_table(facts: Facts, order: Order) -> SmallTable[BrokerRow]:
    """Every broker of the snapshot."""
    rows: dict[RowKey, BrokerRow] = {
        id: _row(facts, id, facts.snapshot.brokers[id]) for id in sorted(facts.snapshot.brokers)
    }
    return SmallTable(FIELDS, rows, order, more=lambda row: _more(facts, row))


def _more(facts: Facts, row: BrokerRow) -> list[tuple[str, str]]:
    """Its directories one by one, and where its throttle is configured."""
    throttle = row.throttle
    source = ", ".join(throttle.sources) if throttle is not None else "could not be read"
    directories = [
        (f"Directory {directory.path}", _directory_words(directory))
        for directory in facts.snapshot.log_dirs
        if directory.broker == row.id
    ]
    return [("Throttle set in", source.lower().replace("_", " ") or "nowhere"), *directories]


def _directory_words(directory: LogDir) -> str:
    if directory.error:
        return f"offline: {directory.error}"
    total, usable = bytes_text(directory.total_bytes), bytes_text(directory.usable_bytes)
    return f"{usable} free of {total}"


def _row(facts: Facts, id: int, status: BrokerStatus) -> BrokerRow:
    rows = facts.rows
    here = rows.broker == id
    received = here & facts.behind & (rows.leader != id)
    fed = facts.behind & (rows.leader == id) & ~here
    used, total, offline = _disk(facts, id)
    state, reason = state_of(status, facts.broker_age_s(id))
    return BrokerRow(
        id=id,
        rack=status.broker.rack or "",
        address=f"{status.broker.host}:{status.broker.port}" if status.broker.host else "",
        state=state,
        reason=reason,
        leaders=int((here & (rows.leader == id)).sum()),
        replicas=int(here.sum()),
        moving_in=int((here & rows.adding).sum()),
        moving_out=_fed_partitions(rows.adding & (rows.leader == id), facts),
        lag_in_bytes=known_sum(rows.lag_bytes[received])[0],
        lag_out_bytes=known_sum(rows.lag_bytes[fed])[0],
        rate_in_bytes_per_s=rate_sum(rows.fetched_bytes_per_s[here & rows.adding]),
        rate_out_bytes_per_s=rate_sum(
            rows.fetched_bytes_per_s[rows.adding & (rows.leader == id) & ~here]
        ),
        throttle=facts.snapshot.throttles.rates.get(id),
        disk_used_bytes=used,
        disk_total_bytes=total,
        offline_dirs=offline,
        controller=facts.snapshot.controller == id,
    )


def _fed_partitions(receiving: NDArray[np.bool_], facts: Facts) -> int:
    if not receiving.any():
        return 0
    return int(np.logical_or.reduceat(receiving, facts.starts).sum())


def _disk(facts: Facts, id: int) -> tuple[int, int, int]:
    """Used and total bytes, UNKNOWN unless every directory says; and offline directories."""
    dirs = [directory for directory in facts.snapshot.log_dirs if directory.broker == id]
    offline = sum(1 for directory in dirs if directory.error)
    sized = [directory for directory in dirs if directory.total_bytes >= 0]
    if not sized or any(directory.usable_bytes < 0 for directory in sized):
        return UNKNOWN, UNKNOWN, offline
    total = sum(directory.total_bytes for directory in sized)
    return total - sum(directory.usable_bytes for directory in sized), total, offline


def state_of(status: BrokerStatus, age_s: float) -> tuple[str, str]:
    """A broker's state in a word or two, and the reason where it is not up."""
    if not status.stale:
        return "up", status.problem
    if status.answered_ms is None or not status.broker.host:
        return "down", status.problem or "it has not answered yet"
    return f"stale {duration_text(age_s)}", status.problem or "it does not answer"


def _state(row: BrokerRow, width: int) -> Cell:
    """The word alone where room is short; the head of the screen says the reason."""
    tone = "good" if row.state == "up" else "bad" if row.state == "down" else "warn"
    text = f"{row.state}: {row.reason}" if row.reason else row.state
    text += ", controller" if row.controller else ""
    return Cell(text if width >= 10 else row.state.split(" ")[0], tone)


def _amount(value: int, width: int) -> Cell:
    return Cell("-", "dim") if value == 0 else Cell(bytes_text(value, tight=width < 9))


def _speed(value: float, moving: int, width: int) -> Cell:
    if not moving and (value == 0 or math.isnan(value)):
        return Cell("-", "dim")
    return Cell(rate_text(value, tight=width < 10))


def _rate(row: BrokerRow, leader: bool, width: int) -> Cell:
    if row.throttle is None:
        return Cell("?", "warn")
    rate = row.throttle.rate
    value = rate.leader_bytes_per_s if leader else rate.follower_bytes_per_s
    return Cell("none", "dim") if value is None else Cell(rate_text(value, tight=width < 10))


def _rate_value(row: BrokerRow, leader: bool) -> float:
    """No throttle is faster than any; unknown comes first."""
    if row.throttle is None:
        return -1.0
    rate = row.throttle.rate
    value = rate.leader_bytes_per_s if leader else rate.follower_bytes_per_s
    return math.inf if value is None else float(value)


def _disk_cell(row: BrokerRow, width: int) -> Cell:
    """`41% 1.2TB`, or both amounts where there is room."""
    if row.disk_total_bytes <= 0:
        return Cell("?", "dim")
    share = row.disk_used_bytes / row.disk_total_bytes
    tone = "bad" if share >= 0.95 or row.offline_dirs else "warn" if share >= 0.85 else ""
    if width < 23:
        return Cell(f"{share:.0%}", tone)
    used, total = bytes_text(row.disk_used_bytes), bytes_text(row.disk_total_bytes)
    return Cell(f"{used} of {total} {share:4.0%}", tone)


def _disk_share(row: BrokerRow) -> float:
    return row.disk_used_bytes / row.disk_total_bytes if row.disk_total_bytes > 0 else -1.0


def _count(value: int, width: int) -> Cell:
    return Cell(count_text(value, tight=width < 6), "" if value else "dim")


def _known(value: float) -> float:
    return -1.0 if math.isnan(value) else value


FIELDS: Final[tuple[Field[BrokerRow], ...]] = (
    Field(
        Column("broker", "Brk", 4, 7, 0, right=True, label="Broker"),
        lambda row, width: Cell(str(row.id)),
        lambda row: row.id,
    ),
    Field(
        Column("leaders", "Lead", 5, 7, 6, right=True, label="Leaders"),
        lambda row, width: _count(row.leaders, width),
        lambda row: row.leaders,
    ),
    Field(
        Column("replicas", "Repl", 5, 8, 6, right=True, label="Replicas"),
        lambda row, width: _count(row.replicas, width),
        lambda row: row.replicas,
    ),
    Field(
        Column("moving_in", "In", 3, 4, 2, right=True),
        lambda row, width: _count(row.moving_in, width),
        lambda row: row.moving_in,
    ),
    Field(
        Column("moving_out", "Out", 3, 4, 2, right=True),
        lambda row, width: _count(row.moving_out, width),
        lambda row: row.moving_out,
    ),
    Field(
        Column("lag_in", "LagIn", 6, 9, 3, 1, right=True, label="Lag in"),
        lambda row, width: _amount(row.lag_in_bytes, width),
        lambda row: row.lag_in_bytes,
    ),
    Field(
        Column("lag_out", "LagOut", 6, 9, 3, 1, right=True, label="Lag out"),
        lambda row, width: _amount(row.lag_out_bytes, width),
        lambda row: row.lag_out_bytes,
    ),
    Field(
        Column("rate_in", "In/s", 6, 10, 3, 1, right=True, label="Rate in"),
        lambda row, width: _speed(row.rate_in_bytes_per_s, row.moving_in, width),
        lambda row: _known(row.rate_in_bytes_per_s),
    ),
    Field(
        Column("rate_out", "Out/s", 6, 10, 3, 1, right=True, label="Rate out"),
        lambda row, width: _speed(row.rate_out_bytes_per_s, row.moving_out, width),
        lambda row: _known(row.rate_out_bytes_per_s),
    ),
    Field(
        Column("leader_rate", "ThrL", 6, 11, 3, 1, right=True, label="Leader thr"),
        lambda row, width: _rate(row, True, width),
        lambda row: _rate_value(row, True),
    ),
    Field(
        Column("follower_rate", "ThrF", 6, 11, 3, 1, right=True, label="Follow thr"),
        lambda row, width: _rate(row, False, width),
        lambda row: _rate_value(row, False),
    ),
    Field(
        Column("disk", "Disk", 4, 23, 5, 2, right=True, label="Disk used"), _disk_cell, _disk_share
    ),
    Field(
        Column("rack", "Rack", 10, 0, 10, extra=True),
        lambda row, width: Cell(row.rack, "dim"),
        lambda row: row.rack,
    ),
    Field(
        Column("address", "Address", 24, 0, 11, extra=True, sortable=False),
        lambda row, width: Cell(row.address, "dim"),
        lambda row: row.address,
    ),
    Field(
        Column("state", "State", 6, 70, 1, grows=True, comfort=14), _state, lambda row: row.state
    ),
)
