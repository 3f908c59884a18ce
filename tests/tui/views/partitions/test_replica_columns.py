"""What the cells of one replica say, as its facts and the width of the column are."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kshunt.backend.domain.replicas.snapshot import UNKNOWN, ReplicaStatus
from kshunt.backend.domain.replicas.stuck_causes import Cause
from kshunt.tui.facts.snapshot_facts import Facts
from kshunt.tui.tables.model import Cell
from kshunt.tui.views.partitions.replica_columns import CELLS
from tests.support.tui.cluster import incident
from tests.support.tui.tables import facts_of

BASE = facts_of(incident())
PLACE = int(np.flatnonzero((BASE.rows.leader != BASE.rows.broker) & (BASE.rows.position == 1))[0])
"""A follower that is no preferred leader."""
HERE, LEADER = int(BASE.rows.broker[PLACE]), int(BASE.rows.leader[PLACE])
BEHIND = {
    "status": int(ReplicaStatus.BEHIND), "lag_messages": 1_234_567, "lag_bytes": 5_000_000,
    "catch_up_bytes_per_s": 2e6, "catch_up_messages_per_s": 2_500.0, "eta_s": 90.0, "cause": 0,
    "in_isr": False,
}  # fmt: skip
LEADS = {"leader": HERE}
PREFERRED = {"position": 0}


def facts(**columns: Any) -> Facts:
    """The replica with these values in its columns, behind unless said."""
    rows = BASE.rows
    changed = {name: getattr(rows, name).copy() for name in {**BEHIND, **columns}}
    for name, value in {**BEHIND, **columns}.items():
        changed[name][PLACE] = value
    return Facts(replace(BASE.snapshot, replicas=replace(rows, **changed)))


@pytest.mark.parametrize(
    ("column", "changes", "width", "cell"),
    [
        ("broker", {}, 4, Cell(f"{HERE} ")),
        ("broker", PREFERRED, 4, Cell(f"{HERE}*", "warn")),
        ("broker", {**PREFERRED, **LEADS}, 4, Cell(f"{HERE}*")),
        ("role", {}, 8, Cell("follower", "dim")),
        ("role", LEADS, 8, Cell("leader")),
        ("role", {"adding": True}, 8, Cell("adding", "strong")),
        ("role", {"adding": False, "removing": True}, 8, Cell("removing", "dim")),
        ("role", {"adding": False, "removing": True, **LEADS}, 15, Cell("leader -")),
        ("role", {"adding": False, "removing": True, **LEADS}, 16, Cell("leader, removing")),
        ("status", {}, 30, Cell("Behind", "warn")),
        ("status", {"lag_messages": 7}, 24, Cell("Behind", "warn")),
        ("status", {"lag_messages": 7}, 25, Cell("Behind: 7 messages behind", "warn")),
        ("status", {"lag_messages": 0}, 33, Cell("Behind: 0 messages behind", "warn")),
        ("status", {"lag_messages": UNKNOWN}, 33, Cell("Behind", "warn")),
        ("status", {"status": int(ReplicaStatus.IN_SYNC)}, 33, Cell("In sync", "good")),
        ("status", {"status": int(ReplicaStatus.OFFLINE)}, 33, Cell("Offline", "bad")),
        ("status", {"status": int(ReplicaStatus.LAG_UNKNOWN)}, 33, Cell("Lag unknown", "warn")),
        ("status", {"cause": int(Cause.PAUSED)}, 33, Cell("Paused", "warn")),
        ("lag_messages", {}, 9, Cell("1.23M")),
        ("lag_messages", {}, 10, Cell("1,234,567")),
        ("lag_messages", LEADS, 10, Cell("-", "dim")),
        ("lag_bytes", {}, 8, Cell("5.00MB")),
        ("lag_bytes", {}, 9, Cell("5.00 MB")),
        ("rate", {}, 9, Cell("2.00MB")),
        ("rate", {}, 10, Cell("2.00 MB/s")),
        ("rate", {"catch_up_bytes_per_s": -5e3}, 10, Cell("-5.00 kB/s", "bad")),
        ("rate", {"catch_up_bytes_per_s": 0.0}, 10, Cell("0 B/s")),
        ("message_rate", {}, 9, Cell("2,500/s")),
        ("message_rate", {"catch_up_messages_per_s": -40.0}, 9, Cell("-40/s", "bad")),
        ("message_rate", {"catch_up_messages_per_s": 0.0}, 9, Cell("0/s")),
        ("eta", {}, 6, Cell("1m30s")),
        ("eta", {"eta_s": math.inf}, 6, Cell("never", "bad")),
        ("eta", {"eta_s": math.inf}, 16, Cell("not at this rate", "bad")),
        ("eta", {"cause": int(Cause.PAUSED)}, 16, Cell("held", "warn")),
        ("throttled", {"leader_throttled": True, "follower_throttled": True}, 3, Cell("LF")),
        ("throttled", {"leader_throttled": False, "follower_throttled": True}, 3, Cell("F")),
        ("throttled", {"leader_throttled": True, "follower_throttled": False}, 3, Cell("L")),
        ("leader", {}, 6, Cell(str(LEADER), "dim")),
        ("leader", {"leader": 0}, 6, Cell("0", "dim")),
        ("leader", {"leader": -1}, 6, Cell("none", "bad")),
    ],
)
def test_a_cell_says_what_is_so(
    column: str, changes: dict[str, Any], width: int, cell: Cell
) -> None:
    assert CELLS[column](facts(**changes), PLACE, width) == cell


@pytest.mark.parametrize("column", ["rate", "message_rate", "eta"])
def test_a_replica_that_has_nothing_to_copy_has_no_pace(column: str) -> None:
    quiet = facts(status=int(ReplicaStatus.IN_SYNC), lag_bytes=0, lag_messages=0, in_isr=True)
    assert CELLS[column](quiet, PLACE, 16) == Cell("")
    assert CELLS["lag_bytes"](quiet, PLACE, 9) == Cell("0 B", "dim")
