"""What a broker's row says in each column of the brokers view."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kshunt.backend.domain.text.formatting import bytes_text, count_text, rate_text
from kshunt.tui.facts.brokers.disks import disk_tone, peak_tone
from kshunt.tui.tables.list_table import ListColumn
from kshunt.tui.tables.model import Cell, Column, Unit
from kshunt.tui.text.bars import bar
from kshunt.tui.text.glyphs import UNICODE

if TYPE_CHECKING:
    from kshunt.tui.facts.brokers.row import BrokerRow

FULL: Final = 0.9
"""From this share of its rate on, a throttle holds the copies back, which is its purpose."""


def _state(row: BrokerRow, width: int) -> Cell:
    """The word alone where room is short; the head of the screen says the reason."""
    tone = "" if row.state == "up" else "bad" if row.state == "down" else "warn"
    text = f"{row.state}: {row.reason}" if row.reason else row.state
    text += ", controller" if row.controller else ""
    return Cell(text if width >= 10 else row.state.split(" ")[0], tone)


def _leaders(row: BrokerRow, width: int) -> Cell:
    """Led, and preferred for: `12/14`; what is led alone where there is no room for both.

    While moves run the two differ on each broker, and nobody has to do anything.
    """
    both = f"{row.leaders}/{row.preferred}"
    return Cell(both if len(both) <= width else count_text(row.leaders, tight=True))


def _amount(value: int, width: int) -> Cell:
    return Cell("-", "dim") if value == 0 else Cell(bytes_text(value, tight=width < 9))


def _speed(value: float, moving: int, width: int) -> Cell:
    if not moving and (value == 0 or math.isnan(value)):
        return Cell("-", "dim")
    return Cell(rate_text(value, tight=width < 10))


def _limit(row: BrokerRow, leader: bool, width: int) -> Cell:
    if row.throttle is None:
        return Cell("?", "warn")
    value = row.limit(leader)
    return Cell("none", "dim") if value is None else Cell(rate_text(value, tight=width < 10))


def _used(row: BrokerRow, leader: bool, width: int) -> Cell:
    """How much of a throttle is used: `78%`, with a bar before it where there is room."""
    share = row.used_share(leader)
    if share is None:
        return Cell("-", "dim")
    if math.isnan(share):
        return Cell("?", "dim")
    tone = "strong" if share >= FULL else "" if share else "dim"
    percent = f"{min(share, 9.99):4.0%}"
    if width < 12:
        return Cell(percent.strip(), tone)
    return Cell(f"{bar(share, width - 5, UNICODE)} {percent}", tone)


def _rate_value(row: BrokerRow, leader: bool) -> float:
    """No throttle is faster than any; unknown comes first."""
    value = row.limit(leader)
    return math.inf if value is None else _known(value)


def _disk(row: BrokerRow, width: int) -> Cell:
    """`41%`, or both amounts where there is room."""
    disk = row.disk
    if disk.share is None:
        return Cell("?", "dim")
    tone = "bad" if row.offline_dirs else disk_tone(disk.share)
    if width < 23:
        return Cell(f"{disk.share:.0%}", tone)
    used, total = bytes_text(disk.used_bytes), bytes_text(disk.total_bytes)
    return Cell(f"{used} of {total} {disk.share:4.0%}", tone)


def _peak(row: BrokerRow, width: int) -> Cell:
    """How full the disks will be while the move runs; the same as now where nothing comes."""
    disk = row.disk
    if disk.peak_share is None:
        return Cell("?", "dim")
    if not disk.receives:
        return Cell("-", "dim")
    more = ">" if disk.at_least else ""
    tone = peak_tone(disk.peak_share)
    if width < 16:
        return Cell(f"{more}{disk.peak_share:.0%}", tone)
    alarm = " FULL" if disk.peak_share >= 1 else " near full" if tone else ""
    return Cell(f"{more}{bytes_text(disk.peak_bytes)} {disk.peak_share:.0%}{alarm}", tone)


def _share(value: float | None) -> float:
    return -1.0 if value is None else value


def _count(value: int, width: int) -> Cell:
    return Cell(count_text(value, tight=width < 6), "" if value else "dim")


def _known(value: float) -> float:
    return -1.0 if math.isnan(value) else value


def _throttle(row: BrokerRow, leader: bool) -> float | None:
    """Infinite where none is set."""
    return None if row.throttle is None else _rate_value(row, leader)


def _field(
    column: Column,
    cell: Callable[[BrokerRow, int], Cell],
    value: Callable[[BrokerRow], Any],
    number: Callable[[BrokerRow], float | None] | None = None,
) -> ListColumn[BrokerRow]:
    return ListColumn(column, cell, value, number)


FIELDS: Final = (
    _field(
        Column("broker", "Brk", 3, 4, right=True, label="Broker", unit=Unit.ID, identifies=True),
        lambda row, width: Cell(str(row.id)),
        lambda row: row.id,
    ),
    _field(
        Column("leaders", "Lead", 5, 8, 7, 4, right=True, label="Led/pref", unit=Unit.COUNT),
        _leaders,
        lambda row: row.leaders,
    ),
    _field(
        Column(
            "replicas", "Repl", 5, 0, 13, right=True, extra=True, label="Replicas", unit=Unit.COUNT
        ),
        lambda row, width: _count(row.replicas, width),
        lambda row: row.replicas,
    ),
    _field(
        Column("moving_in", "In", 3, 0, 12, right=True, extra=True, label="In", unit=Unit.COUNT),
        lambda row, width: _count(row.moving_in, width),
        lambda row: row.moving_in,
    ),
    _field(
        Column("moving_out", "Out", 3, 0, 12, right=True, extra=True, label="Out", unit=Unit.COUNT),
        lambda row, width: _count(row.moving_out, width),
        lambda row: row.moving_out,
    ),
    _field(
        Column("lag_in", "LagIn", 6, 9, 3, 1, right=True, label="Lag in", unit=Unit.BYTES),
        lambda row, width: _amount(row.lag_in_bytes, width),
        lambda row: row.lag_in_bytes,
    ),
    _field(
        Column("lag_out", "LagOut", 6, 9, 6, 1, right=True, label="Lag out", unit=Unit.BYTES),
        lambda row, width: _amount(row.lag_out_bytes, width),
        lambda row: row.lag_out_bytes,
    ),
    _field(
        Column("rate_in", "In/s", 6, 10, 2, 1, right=True, label="Rate in", unit=Unit.RATE),
        lambda row, width: _speed(row.rate_in_bytes_per_s, row.moving_in, width),
        lambda row: _known(row.rate_in_bytes_per_s),
        lambda row: row.rate_in_bytes_per_s,
    ),
    _field(
        Column(
            "follower_rate", "ThrF", 6, 10, 4, 1, right=True, label="Follow thr", unit=Unit.RATE
        ),
        lambda row, width: _limit(row, False, width),
        lambda row: _rate_value(row, False),
        lambda row: _throttle(row, False),
    ),
    _field(
        Column("used_in", "Use", 4, 14, 3, 2, right=True, label="Used in", unit=Unit.SHARE),
        lambda row, width: _used(row, False, width),
        lambda row: _share(row.used_share(False)),
        lambda row: row.used_share(False),
    ),
    _field(
        Column("rate_out", "Out/s", 6, 10, 2, 1, right=True, label="Rate out", unit=Unit.RATE),
        lambda row, width: _speed(row.rate_out_bytes_per_s, row.moving_out, width),
        lambda row: _known(row.rate_out_bytes_per_s),
        lambda row: row.rate_out_bytes_per_s,
    ),
    _field(
        Column("leader_rate", "ThrL", 6, 10, 4, 1, right=True, label="Leader thr", unit=Unit.RATE),
        lambda row, width: _limit(row, True, width),
        lambda row: _rate_value(row, True),
        lambda row: _throttle(row, True),
    ),
    _field(
        Column("used_out", "Use", 4, 14, 3, 2, right=True, label="Used out", unit=Unit.SHARE),
        lambda row, width: _used(row, True, width),
        lambda row: _share(row.used_share(True)),
        lambda row: row.used_share(True),
    ),
    _field(
        Column("disk", "Disk", 4, 23, 5, 5, right=True, label="Disk used", unit=Unit.BYTES),
        _disk,
        lambda row: _share(row.disk.share),
        lambda row: row.disk.used_bytes,
    ),
    _field(
        Column("peak", "Peak", 4, 0, 5, right=True, label="Disk peak", unit=Unit.BYTES),
        _peak,
        lambda row: _share(row.disk.peak_share),
        lambda row: row.disk.peak_bytes,
    ),
    _field(
        Column("rack", "Rack", 10, 0, 14, extra=True),
        lambda row, width: Cell(row.rack, "dim"),
        lambda row: row.rack,
    ),
    _field(
        Column("address", "Address", 24, 0, 15, extra=True, sortable=False),
        lambda row, width: Cell(row.address, "dim"),
        lambda row: row.address,
    ),
    _field(
        Column("state", "State", 6, 70, 1, grows=True, comfort=14), _state, lambda row: row.state
    ),
)
