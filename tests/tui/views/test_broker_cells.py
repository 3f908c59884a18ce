"""What the cells of one broker say, as it stands and as wide as their columns are."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from kshunt.backend.domain.replicas.snapshot import UNKNOWN
from kshunt.backend.domain.throttles.configs import BrokerThrottle, ThrottledRate
from kshunt.tui.facts.brokers.disks import Disk, peak_tone, whole_disk
from kshunt.tui.facts.brokers.pending_transfers import PendingTransfers
from kshunt.tui.facts.brokers.row import BrokerRow
from kshunt.tui.tables.model import Cell, Placed
from kshunt.tui.views.brokers.columns import FIELDS

GB = 10**9
DISK = Disk(5, "", 40 * GB, 100 * GB)
ROW = BrokerRow(
    id=5, rack="rack-a", address="b5:9092", state="up", reason="", leaders=12, preferred=12,
    replicas=30, moving_in=2, moving_out=1, lag_in_bytes=5_000_000, lag_out_bytes=0,
    rate_in_bytes_per_s=2e6, rate_out_bytes_per_s=0.0, throttled_in_bytes_per_s=5e6,
    throttled_out_bytes_per_s=0.0, throttle=BrokerThrottle(5, ThrottledRate(None, 10_000_000)),
    disk=DISK, offline_dirs=0, controller=False,
)  # fmt: skip
CELLS = {field.column.key: field for field in FIELDS}


def limited(rate: int | None) -> dict[str, Any]:
    return {"throttle": BrokerThrottle(5, ThrottledRate(None, rate))}


def disk(**changes: Any) -> dict[str, Any]:
    return {"disk": replace(DISK, **changes)}


@pytest.mark.parametrize(
    ("column", "changes", "width", "cell"),
    [
        ("state", {}, 10, Cell("up")),
        ("state", {"controller": True}, 20, Cell("up, controller")),
        ("state", {"state": "down", "reason": "fenced"}, 20, Cell("down: fenced", "bad")),
        ("state", {"state": "stale 12s", "reason": "silent"}, 9, Cell("stale", "warn")),
        (
            "state",
            {"state": "stale 12s", "reason": "silent"},
            10,
            Cell("stale 12s: silent", "warn"),
        ),
        ("leaders", {}, 5, Cell("12/12")),
        ("leaders", {}, 4, Cell("12")),
        ("leaders", {"leaders": 11}, 5, Cell("11/12")),
        ("leaders", {"leaders": 13}, 5, Cell("13/12")),
        ("replicas", {}, 5, Cell("30")),
        ("replicas", {"replicas": 0}, 5, Cell("0", "dim")),
        ("replicas", {"replicas": 123_456}, 5, Cell("123k")),
        ("replicas", {"replicas": 123_456}, 6, Cell("123,456")),
        ("lag_in", {}, 8, Cell("5.00MB")),
        ("lag_in", {}, 9, Cell("5.00 MB")),
        ("lag_out", {}, 9, Cell("-", "dim")),
        ("lag_out", {"lag_out_bytes": 1}, 9, Cell("1 B")),
        ("rate_in", {}, 9, Cell("2.00MB")),
        ("rate_in", {}, 10, Cell("2.00 MB/s")),
        ("rate_in", {"moving_in": 0}, 10, Cell("2.00 MB/s")),
        ("rate_in", {"moving_in": 0, "rate_in_bytes_per_s": math.nan}, 10, Cell("-", "dim")),
        ("rate_in", {"rate_in_bytes_per_s": math.nan}, 10, Cell("?")),
        ("rate_out", {}, 10, Cell("0 B/s")),
        ("rate_out", {"moving_out": 0}, 10, Cell("-", "dim")),
        ("follower_rate", {}, 9, Cell("10.0MB")),
        ("follower_rate", {}, 10, Cell("10.0 MB/s")),
        ("leader_rate", {}, 10, Cell("none", "dim")),
        ("leader_rate", {"throttle": None}, 10, Cell("?", "warn")),
        ("used_in", {}, 11, Cell("50%")),
        ("used_in", {}, 12, Cell("━━━━───  50%")),
        ("used_in", {"throttled_in_bytes_per_s": 0.0}, 11, Cell("0%", "dim")),
        ("used_in", {"throttled_in_bytes_per_s": 9.5e6}, 11, Cell("95%", "strong")),
        ("used_in", {"throttled_in_bytes_per_s": 8e6}, 11, Cell("80%")),
        ("used_in", {"throttled_in_bytes_per_s": 1e9}, 11, Cell("999%", "strong")),
        ("used_in", limited(0), 11, Cell("?", "dim")),
        ("used_in", {"throttle": None}, 11, Cell("?", "dim")),
        ("used_out", {}, 11, Cell("-", "dim")),
        ("disk", {}, 22, Cell("40%")),
        ("disk", {}, 23, Cell("40.0 GB of 100 GB  40%")),
        ("disk", disk(used_bytes=85 * GB), 4, Cell("85%", "warn")),
        ("disk", disk(used_bytes=85 * GB - 1), 4, Cell("85%")),
        ("disk", disk(used_bytes=95 * GB), 4, Cell("95%", "bad")),
        ("disk", disk(used_bytes=95 * GB - 1), 4, Cell("95%", "warn")),
        ("disk", {"offline_dirs": 1}, 4, Cell("40%", "bad")),
        ("disk", disk(total_bytes=-1), 4, Cell("?", "dim")),
        ("peak", {}, 16, Cell("-", "dim")),
        ("peak", disk(arriving_bytes=10 * GB), 15, Cell("50%")),
        ("peak", disk(arriving_bytes=10 * GB), 16, Cell("50.0 GB 50%")),
        ("peak", disk(arriving_bytes=51 * GB), 16, Cell("91.0 GB 91% near full", "warn")),
        ("peak", disk(arriving_bytes=50 * GB), 16, Cell("90.0 GB 90%")),
        ("peak", disk(arriving_bytes=60 * GB), 16, Cell("100 GB 100% FULL", "bad")),
        ("peak", disk(arriving_bytes=GB, arriving_unknown=1), 15, Cell(">41%")),
        ("peak", disk(total_bytes=-1), 15, Cell("?", "dim")),
        ("rack", {}, 10, Cell("rack-a", "dim")),
        ("address", {}, 24, Cell("b5:9092", "dim")),
    ],
)
def test_a_cell_says_what_is_so(
    column: str, changes: dict[str, Any], width: int, cell: Cell
) -> None:
    assert CELLS[column].cell(replace(ROW, **changes), width) == cell


@pytest.mark.parametrize(
    ("column", "changes", "value"),
    [
        ("leader_rate", {}, math.inf),
        ("leader_rate", {"throttle": None}, -1.0),
        ("follower_rate", {}, 1e7),
        ("used_in", {}, 0.5),
        ("used_in", {"throttle": None}, None),
        ("used_out", {}, -1.0),
        ("rate_in", {"rate_in_bytes_per_s": math.nan}, -1.0),
        ("rate_in", {}, 2e6),
        ("disk", disk(total_bytes=-1), -1.0),
        ("disk", {}, 0.4),
    ],
)
def test_what_is_not_known_is_sorted_before_what_is(
    column: str, changes: dict[str, Any], value: float | None
) -> None:
    found = CELLS[column].value(replace(ROW, **changes))
    assert math.isnan(found) if value is None else found == value


def test_a_column_is_as_wide_as_it_is_placed() -> None:
    placed = [Placed(field.column, 30) for field in FIELDS]
    assert len({column.key for column, _ in placed}) == len(FIELDS)


def test_a_peak_is_unknown_where_nobody_says_what_is_used() -> None:
    known = Disk(5, "/d", 40 * GB, 100 * GB, arriving_bytes=10 * GB)
    assert (known.peak_bytes, known.peak_share) == (50 * GB, 0.5)
    unused = replace(known, used_bytes=UNKNOWN)
    assert unused.peak_bytes == UNKNOWN
    unsized = replace(unused, total_bytes=UNKNOWN)
    assert (unsized.peak_bytes, unsized.share, unsized.peak_share) == (UNKNOWN, None, None)


@pytest.mark.parametrize(
    ("share", "tone"), [(None, "dim"), (0.9, ""), (0.901, "warn"), (0.999, "warn"), (1.0, "bad")]
)
def test_more_than_nine_tenths_at_the_peak_warn(share: float | None, tone: str) -> None:
    assert peak_tone(share) == tone


def test_a_broker_is_as_full_as_its_working_directories_together() -> None:
    first = Disk(5, "/a", 30 * GB, 100 * GB)
    second = Disk(5, "/b", 20 * GB, 50 * GB)
    offline = Disk(5, "/c", error="KAFKA_STORAGE_ERROR")
    queued = PendingTransfers({5: 2}, {5: 4 * GB}, {5: 2}, 1)
    whole = whole_disk([first, second, offline], 5, 6 * GB, 1, queued)
    assert (whole.used_bytes, whole.total_bytes) == (50 * GB, 150 * GB)
    assert (whole.arriving_bytes, whole.queued_bytes) == (10 * GB, 4 * GB)
    assert (whole.arriving_unknown, whole.waiting) == (3, 1)
    silent = Disk(5, "/d")
    unsaid = whole_disk([first, silent], 5, 0, 0, queued)
    assert (unsaid.used_bytes, unsaid.total_bytes) == (UNKNOWN, UNKNOWN)
    assert whole_disk([offline], 5, 0, 0, queued).used_bytes == UNKNOWN
