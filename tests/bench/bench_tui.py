"""The dashboard in a pseudo-terminal, on 200,000 rows that change every second.

Next to it in the same run: Textual's own table with 2,000 rows, and an app of one line as the
floor.
By hand, with fewer repetitions: `python -m tests.bench.bench_tui --quick`.

Times are medians unless they say otherwise. The machine is shared: for figures that a busy
neighbour spoils, the bench prints the CPU time next to the wall time.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.bench.tui_probe import Load, Probe, loading, median, percentile, probing

pytestmark = pytest.mark.bench

SIZES = ((200, 50), (80, 24))
DOWN, PAGE_DOWN = b"j", b"\x1b[6~"
FIRST_TEXT = b"kshunt"
SETTLED_S = 2.5
LINK_BYTES_PER_S = 8_000
NARROW_BYTES_PER_S = 1_000
"""Below what half of the cells of a large screen need."""
TARGETS = {
    "bytes a tick, 0 % changed": (0, 0),
    "bytes a tick, 5 % changed": (600, 250),
    "bytes a tick, 50 % changed": (3_500, 1_200),
    "bytes a tick, 100 % changed": (6_500, 2_200),
    "key to paint p50, ms": (25, 15),
    "key to paint p99, ms": (100, 50),
}


@dataclass
class Sheet:
    """What was measured: name, size, value, target; None where there is none."""

    quick: bool
    lines: list[tuple[str, str, float, float | None]] = field(default_factory=list)

    def add(
        self, what: str, size: tuple[int, int] | None, value: float, target: float | None = None
    ) -> None:
        """One line of the table."""
        where = f"{size[0]}x{size[1]}" if size else ""
        if target is None and size is not None and what in TARGETS:
            target = TARGETS[what][SIZES.index(size)]
        self.lines.append((what, where, value, target))

    def value(self, what: str, size: tuple[int, int]) -> float:
        """What was measured before."""
        where = f"{size[0]}x{size[1]}"
        return next(value for w, s, value, _ in self.lines if (w, s) == (what, where))

    def times(self, count: int) -> int:
        """`count` repetitions; in a quick run a quarter of them, at least two."""
        return max(count // 4, 2) if self.quick else count

    def text(self) -> str:
        """The table."""
        rows = [f"{'':52}{'size':>8}{'measured':>12}{'target':>10}"]
        for what, where, value, target in self.lines:
            verdict = "" if target is None else "met" if value <= target else "MISSED"
            aim = "" if target is None else f"{target:,.6g}"
            rows.append(f"{what:52}{where:>8}{value:>12,.1f}{aim:>10}  {verdict}".rstrip())
        return "\n".join(rows)


def slow_calls(log: Path, since_s: float) -> list[tuple[float, float]]:
    """CPU and wall milliseconds of the event loop's long calls since then."""
    rows = [line.split(None, 3) for line in log.read_text().splitlines()]
    return [(float(cpu), float(wall)) for at, cpu, wall, *_ in rows if float(at) > since_s]


def measure_starts(sheet: Sheet, address: str) -> None:
    """From the spawn of the process to its first frame."""
    for program, argument in (("floor", "-"), ("ours", address)):
        times_ms = []
        # The first start compiles, and is not counted.
        for number in range(sheet.times(8) + 1):
            with probing(program, argument, SIZES[0]) as probe:
                first_ms = probe.until(FIRST_TEXT) * 1000
                if not number:
                    probe.rest(SETTLED_S)
                else:
                    times_ms.append(first_ms)
        target = 700 if program == "ours" else None
        sheet.add(f"start to first frame, {program}, ms", SIZES[0], median(times_ms), target)


def measure_rivals(sheet: Sheet, size: tuple[int, int]) -> None:
    """The floor, and Textual's own table."""
    with probing("floor", "-", size) as probe:
        probe.until(FIRST_TEXT)
        probe.rest(0.5)
        times_ms = probe.keys_ms(DOWN, sheet.times(200), 0.02)
        sheet.add("floor: key to paint p50, ms", size, median(times_ms))
        sheet.add("floor: key to paint p99, ms", size, percentile(times_ms, 0.99))
    for share in (0.05, 0.5, 1.0):
        with probing("stock", str(share), size) as probe:
            probe.until(b"column 0")
            probe.rest(1.5)
            seconds = sheet.times(4)
            sent = probe.rest(seconds) / seconds
            sheet.add(f"DataTable, 2,000 rows: bytes a tick, {share:.0%} changed", size, sent)
            if share == 0.5:
                times_ms = probe.keys_ms(DOWN, sheet.times(60), 0.05)
                sheet.add(
                    "DataTable, 2,000 rows: down, key to paint p50, ms", size, median(times_ms)
                )
                times_ms = probe.keys_ms(PAGE_DOWN, sheet.times(60), 0.05)
                sheet.add(
                    "DataTable, 2,000 rows: page, key to paint p50, ms", size, median(times_ms)
                )


def measure_quiet_keys(sheet: Sheet, probe: Probe, size: tuple[int, int]) -> None:
    """What a key costs while nothing else happens."""
    for name, key in (("down", DOWN), ("page down", PAGE_DOWN)):
        count, before_s = sheet.times(60), probe.cpu_s
        probe.keys_ms(key, count, 0.02)
        sheet.add(f"CPU a key, {name}, ms", size, (probe.cpu_s - before_s) / count * 1000, 15)


def measure_ticks(sheet: Sheet, probe: Probe, load: Load, size: tuple[int, int], log: Path) -> None:
    """What a second of changes sends, and costs."""
    seconds = sheet.times(8)
    for share in (0.0, 0.05, 0.5, 1.0):
        load.change(share)
        probe.rest(SETTLED_S)
        since_s, before_s = time.monotonic(), probe.cpu_s
        bursts = probe.ticks(seconds)
        sent = sum(bursts) / max(len(bursts), 1)
        percent = (probe.cpu_s - before_s) / seconds * 100
        sheet.add(f"bytes a tick, {share * 100:.0f} % changed", size, sent)
        sheet.add(
            f"CPU at 1 Hz, {share * 100:.0f} % changed, % of a core",
            size,
            percent,
            5 if share <= 0.05 else None,
        )
        calls = slow_calls(log, since_s)
        longest_cpu_ms = max((cpu for cpu, _ in calls), default=0.0)
        name = f"longest block of the loop, {share * 100:.0f} % changed"
        sheet.add(f"{name}, CPU ms", size, longest_cpu_ms, 10)
        sheet.add(f"{name}, wall ms", size, max((wall for _, wall in calls), default=0.0))
        sheet.add(f"RSS, {share * 100:.0f} % changed, MB", size, probe.rss_mb, 120)


def measure_busy_keys(sheet: Sheet, probe: Probe, load: Load, size: tuple[int, int]) -> None:
    """Keys while half of all cells change every second: the numbers of every row."""
    load.change(1.0, fixed=True)
    probe.rest(SETTLED_S)
    taken = [ms for key in (DOWN, PAGE_DOWN) for ms in probe.keys_ms(key, sheet.times(150), 0.04)]
    p50, p99 = median(taken), percentile(taken, 0.99)
    sheet.add("key to paint p50, ms", size, p50)
    sheet.add("key to paint p99, ms", size, p99)
    floor50 = sheet.value("floor: key to paint p50, ms", size)
    floor99 = sheet.value("floor: key to paint p99, ms", size)
    sheet.add("key to paint p50, times the floor's", size, p50 / floor50, 5)
    sheet.add("key to paint p99, times the floor's", size, p99 / floor99, 5)


def measure_links(sheet: Sheet, probe: Probe, load: Load, size: tuple[int, int]) -> None:
    """A link that is slow, and one that is slower than what there is to say."""
    load.change(1.0, fixed=True)
    probe.shown.press(b"g")
    probe.rest(SETTLED_S)
    probe.bytes_per_s = LINK_BYTES_PER_S
    taken = probe.keys_ms(DOWN, sheet.times(24), 0.8)
    sheet.add("8 kB/s, 50 % changed: key to paint p95, ms", size, percentile(taken, 0.95), 500)
    probe.bytes_per_s = NARROW_BYTES_PER_S
    early = probe.keys_ms(DOWN, 2, 4.0)
    probe.rest(sheet.times(20))
    late = probe.keys_ms(DOWN, 2, 1.0)
    sheet.add("1 kB/s, below its demand: key to paint early, s", size, max(early) / 1000)
    sheet.add("1 kB/s, below its demand: and after a while, s", size, max(late) / 1000)
    probe.bytes_per_s = 0


def best_ms(call: Callable[[], object], times: int = 9) -> float:
    """The median of several calls, by the CPU time of this thread."""
    taken = []
    for _ in range(times):
        started_s = time.thread_time()
        call()
        taken.append((time.thread_time() - started_s) * 1000)
    return median(taken)


def measure_sorting(sheet: Sheet) -> None:
    """The largest table, sorted and filtered as the thread of tables does it."""
    from kshunt.tui.facts.filter_terms import parse_filter
    from kshunt.tui.facts.snapshot_facts import Facts
    from kshunt.tui.tables.model import NATURAL, Order
    from kshunt.tui.views.partitions.filter_masks import mask_of
    from tests.support.bench.tui_load import LoadCluster
    from tests.support.tui.tables import partition_table

    facts = Facts(LoadCluster().step())
    partition_table(facts, (), Order("status"), False)
    keys = ("partition", "broker", "status", "lag_bytes", "rate", "eta", "size")
    sorts = [
        best_ms(lambda key=key: partition_table(facts, (), Order(key, True), False), 3)  # type: ignore[misc]
        for key in keys
    ]
    sheet.add("sort of 200,000 rows, the slowest column, ms", None, max(sorts), 50)
    filters = ("payments-017", "topic:pay*7-*", "behind:>1000 broker:7 moving", "-stuck")
    masks = [best_ms(lambda text=text: mask_of(parse_filter(text), facts)) for text in filters]  # type: ignore[misc]
    sheet.add("filter of 200,000 rows, the slowest of four, ms", None, max(masks), 10)
    assert len(partition_table(facts, (), NATURAL, False)) == 200_000


def run(quick: bool) -> Sheet:
    """Everything, one after the other."""
    sheet = Sheet(quick)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for size in SIZES:
            log = folder / f"loop-{size[0]}"
            with loading(folder) as load:
                if size == SIZES[0]:
                    measure_starts(sheet, load.address)
                measure_rivals(sheet, size)
                with probing("ours", load.address, size, log) as probe:
                    probe.until(b"payments")
                    probe.rest(2.0)
                    measure_quiet_keys(sheet, probe, size)
                    probe.shown.press(b"g")
                    measure_ticks(sheet, probe, load, size, log)
                    measure_busy_keys(sheet, probe, load, size)
                    if size == SIZES[0]:
                        measure_links(sheet, probe, load, size)
    measure_sorting(sheet)
    return sheet


def test_the_dashboard_over_a_slow_link() -> None:
    sheet = run(quick=False)
    print("\n" + sheet.text())


if __name__ == "__main__":
    print(run(quick="--quick" in sys.argv).text())
