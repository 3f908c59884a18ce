"""A broker in full: its throttles and how much of them is used, and its disks one by one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from kshunt.backend.domain.text.formatting import bytes_text, many, rate_text
from kshunt.tui.facts.brokers.disks import Disk, disks_of, peak_tone
from kshunt.tui.facts.brokers.row import BrokerRow
from kshunt.tui.facts.snapshot_facts import Facts
from kshunt.tui.tables.lines import PaneLine
from kshunt.tui.tables.model import NATURAL
from kshunt.tui.views.brokers.table import broker_table, disk_words

if TYPE_CHECKING:
    from kshunt.backend.domain.operations.operation import Operation

LEAST: Final = "the peak assumes that nothing is deleted before the move is over"


def about(facts: Facts, broker: int, operations: Sequence[Operation] = ()) -> list[PaneLine]:
    """Everything about a broker."""
    row = broker_table(facts, NATURAL, operations).value_of(broker)
    if row is None:
        return [PaneLine("", "This broker no longer exists.", "warn")]
    disks = disks_of(facts, broker, operations)
    return [
        PaneLine("State", _state(row), "" if row.state == "up" else "warn"),
        PaneLine("Leads", _leads(row)),
        PaneLine("Receives", _flow(row, leader=False)),
        PaneLine("Sends", _flow(row, leader=True)),
        *_disks(disks),
    ]


def _state(row: BrokerRow) -> str:
    reason = f": {row.reason}" if row.reason else ""
    where = ", ".join(part for part in (row.address, row.rack) if part)
    controller = ", controller" if row.controller else ""
    return f"{row.state}{reason}{controller}; {where or 'its address is unknown'}"


def _leads(row: BrokerRow) -> str:
    led = f"{row.leaders:,} of {many(row.replicas, 'replica')}"
    return f"{led}; it is preferred for {row.preferred:,}"


def _flow(row: BrokerRow, *, leader: bool) -> str:
    """`3 copies, 25.0 MB/s, 23.3 GB left; 25.0 MB/s of its follower rate of 25.0 MB/s: 100%`."""
    moving = row.moving_out if leader else row.moving_in
    rate = row.rate_out_bytes_per_s if leader else row.rate_in_bytes_per_s
    lag = row.lag_out_bytes if leader else row.lag_in_bytes
    noun = "partition" if leader else "copy"
    said = f"{many(moving, noun, 'partitions' if leader else 'copies')}"
    said += f", {rate_text(rate)}, {bytes_text(lag)} left" if moving or lag else ""
    return f"{said}; {_limit(row, leader=leader)}"


def _limit(row: BrokerRow, *, leader: bool) -> str:
    name = "leader rate" if leader else "follower rate"
    limit, share = row.limit(leader), row.used_share(leader)
    if limit is None:
        return f"no {name} is set"
    if math.isnan(limit):
        return f"its {name} could not be read"
    used = row.throttled_out_bytes_per_s if leader else row.throttled_in_bytes_per_s
    percent = "" if share is None or math.isnan(share) else f" ({share:.0%})"
    return f"uses {rate_text(used)} of its {name} of {rate_text(limit)}{percent}"


def _disks(disks: Sequence[Disk]) -> Iterable[PaneLine]:
    """Each directory; and what the peak leaves out."""
    for number, disk in enumerate(disks):
        label = "" if number else "Disks"
        yield PaneLine(label, f"{disk.path}: {disk_words(disk)}", _tone(disk))
    if any(disk.receives for disk in disks):
        waiting = max(disk.waiting for disk in disks)
        more = f"; {many(waiting, 'partition')} that wait may add to it" if waiting else ""
        yield PaneLine("", f"{LEAST}{more}", "dim")
    if not disks:
        yield PaneLine("Disks", "? not reported yet", "dim")


def _tone(disk: Disk) -> str:
    if disk.error:
        return "bad"
    return peak_tone(disk.peak_share) if disk.receives else ""
