"""The brokers view: what each broker leads, holds, sends and receives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kshunt.backend.domain.replicas.snapshot import BrokerStatus
from kshunt.backend.domain.text.formatting import bytes_text, duration_text
from kshunt.tui.facts.snapshot_facts import Facts
from kshunt.tui.tables.list_table import ListTable
from kshunt.tui.tables.model import Order, RowKey
from kshunt.tui.views.brokers.cells import FIELDS
from kshunt.tui.views.brokers.disks import Disk, disks_of, sizes_of, whole_disk
from kshunt.tui.views.brokers.loads import BrokerLoadColumns, loads_of
from kshunt.tui.views.brokers.pending_transfers import PendingTransfers, pending_transfers_of
from kshunt.tui.views.brokers.row import BrokerRow

if TYPE_CHECKING:
    from kshunt.backend.domain.operations.operation import Operation


def broker_table(
    facts: Facts, order: Order, operations: Sequence[Operation] = ()
) -> ListTable[BrokerRow]:
    """Every broker of the snapshot."""
    ids = sorted(facts.snapshot.brokers)
    loads, queued = loads_of(facts, ids), pending_transfers_of(facts, operations)
    rows: dict[RowKey, BrokerRow] = {
        id: _row(facts, place, loads, queued) for place, id in enumerate(ids)
    }
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


def _row(facts: Facts, place: int, loads: BrokerLoadColumns, queued: PendingTransfers) -> BrokerRow:
    id = int(loads.ids[place])
    status = facts.snapshot.brokers[id]
    state, reason = state_of(status, facts.broker_age_s(id))
    disks = sizes_of(facts, id)
    lag_in = int(loads.lag_in_bytes[place])
    unknown = int(loads.lag_in_unknown[place])
    return BrokerRow(
        id=id,
        rack=status.broker.rack or "",
        address=f"{status.broker.host}:{status.broker.port}" if status.broker.host else "",
        state=state,
        reason=reason,
        leaders=int(loads.leaders[place]),
        preferred=int(loads.preferred[place]),
        replicas=int(loads.replicas[place]),
        moving_in=int(loads.moving_in[place]),
        moving_out=int(loads.moving_out[place]),
        lag_in_bytes=lag_in,
        lag_out_bytes=int(loads.lag_out_bytes[place]),
        rate_in_bytes_per_s=float(loads.rate_in_bytes_per_s[place]),
        rate_out_bytes_per_s=float(loads.rate_out_bytes_per_s[place]),
        throttled_in_bytes_per_s=float(loads.throttled_in_bytes_per_s[place]),
        throttled_out_bytes_per_s=float(loads.throttled_out_bytes_per_s[place]),
        throttle=facts.snapshot.throttles.rates.get(id),
        disk=whole_disk(disks, id, max(lag_in, 0), unknown, queued),
        offline_dirs=sum(1 for disk in disks if disk.error),
        controller=facts.snapshot.controller == id,
    )


def state_of(status: BrokerStatus, age_s: float) -> tuple[str, str]:
    """A broker's state in a word or two, and the reason where it is not up."""
    if not status.stale:
        return "up", status.problem
    if not status.registered:
        return "down", status.problem
    if status.answered_ms is None:
        return "silent", status.problem or "it has not answered yet"
    return f"stale {duration_text(age_s)}", status.problem or "it does not answer"
