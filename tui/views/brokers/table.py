"""The brokers view: what each broker leads, holds, sends and receives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kshunt.backend.domain.text.formatting import bytes_text
from kshunt.tui.facts.brokers.disks import Disk, disks_of
from kshunt.tui.facts.brokers.row import BrokerRow, broker_rows
from kshunt.tui.facts.snapshot_facts import Facts
from kshunt.tui.tables.list_table import ListTable
from kshunt.tui.tables.model import Order
from kshunt.tui.views.brokers.columns import FIELDS

if TYPE_CHECKING:
    from kshunt.backend.domain.operations.operation import Operation


def broker_table(
    facts: Facts, order: Order, operations: Sequence[Operation] = ()
) -> ListTable[BrokerRow]:
    """Every broker of the snapshot."""
    rows = broker_rows(facts, operations)
    return ListTable(FIELDS, rows, order, more=lambda row: _more(facts, row, operations))


def _more(facts: Facts, row: BrokerRow, operations: Sequence[Operation]) -> list[tuple[str, str]]:
    """Its directories one by one, and where its throttle is configured."""
    throttle = row.throttle
    source = ", ".join(throttle.sources) if throttle is not None else "could not be read"
    directories = [
        (f"Directory {disk.path}", disk_words(disk)) for disk in disks_of(facts, row.id, operations)
    ]
    return [("Throttle set in", source.lower().replace("_", " ") or "nowhere"), *directories]


def disk_words(disk: Disk) -> str:
    """`41% of 1.00 TB used, 24.8 GB to come, 43% at the peak`."""
    if disk.error:
        return f"offline: {disk.error}"
    if disk.share is None or disk.peak_share is None:
        used = "its size is unknown"
    else:
        used = f"{bytes_text(disk.used_bytes)} of {bytes_text(disk.total_bytes)}, {disk.share:.0%}"
    more = ">" if disk.at_least else ""
    if not disk.receives:
        return used
    peak = "" if disk.peak_share is None else f", at the peak {more}{disk.peak_share:.0%}"
    waits = f", {bytes_text(disk.queued_bytes)} of it waits" if disk.queued_bytes else ""
    return f"{used}; {more}{bytes_text(disk.arriving_bytes)} to come{waits}{peak}"
