"""Every view of the dashboard on a demo, by size: what a key costs, what a second sends.

The overview at 200x50 is the cockpit. The cluster is that of `kshunt demo --scenario drain`: 750
partitions move. By hand: `python -m tests.bench.bench_tui_views 200x50 1`, for sizes and views.

Times are medians. The machine is shared: where a neighbour is busy, CPU time tells more.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from kshunt.tui.actions.view_names import OPERATIONS, TABLES, VIEWS
from tests.support.bench.tui_probe import Probe, median, probing

pytestmark = pytest.mark.bench

Size = tuple[int, int]
SCENARIO = "drain"
SIZES: tuple[Size, ...] = ((80, 24), (120, 36), (200, 50))
KEYS = tuple(str(number) for number in range(1, len(VIEWS) + 1))
MOVES = b"Moving \\d+ partitions"
SETTLED_S, WATCHED_S = 5.0, 10
TURNS = 6
"""So often each view is opened, from another one."""
TARGETS: dict[tuple[Size, str], float] = {((80, 24), "1"): 900, ((200, 50), "1"): 6_000}
"""Bytes a second, by size and view."""


@contextmanager
def demo(size: Size) -> Iterator[Probe]:
    """The dashboard on the scenario, once its moves are on the screen."""
    with probing("demo", SCENARIO, size) as probe:
        probe.until(MOVES)
        probe.rest(SETTLED_S)
        yield probe


def measured(probe: Probe, key: str) -> tuple[float, float, float]:
    """Of one view: bytes a second, % of a core, milliseconds to open it."""
    other = KEYS[KEYS.index(key) - 1]
    opened_ms = []
    for _ in range(TURNS):
        probe.key_ms(other.encode())
        probe.rest(0.3)
        opened_ms.append(probe.key_ms(key.encode()))
        probe.rest(0.3)
    probe.rest(SETTLED_S)
    before_s = probe.cpu_s
    sent = probe.rest(WATCHED_S) / WATCHED_S
    core = (probe.cpu_s - before_s) / WATCHED_S * 100
    return sent, core, median(opened_ms)


def report(size: Size, keys: Sequence[str]) -> list[str]:
    """A line for each view."""
    lines = []
    with demo(size) as probe:
        for key in keys:
            sent, core, opened_ms = measured(probe, key)
            view = VIEWS[KEYS.index(key)]
            # A scenario may have a single operation, which `j` does not leave: nothing is painted.
            has_lines = view in TABLES and view != OPERATIONS
            moves_ms = probe.keys_ms(b"j", TURNS, 0.2) if has_lines else []
            moved = f"{median(moves_ms):6.1f}" if moves_ms else f"{'-':>6}"
            most = TARGETS.get((size, key))
            verdict = "" if most is None else f"  {'met' if sent <= most else 'MISSED'} {most:g}"
            where = f"{size[0]}x{size[1]} {view}"
            lines.append(
                f"{where:24} {sent:8,.0f} B/s {core:5.1f} % of a core  opens {opened_ms:6.1f} ms  "
                f"j {moved} ms  {probe.rss_mb:5.0f} MB{verdict}"
            )
    return lines


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_every_view_of_a_demo(size: Size) -> None:
    print("\n" + "\n".join(report(size, KEYS)))


if __name__ == "__main__":
    wide, _, high = sys.argv[1].partition("x")
    print("\n".join(report((int(wide), int(high)), sys.argv[2:] or KEYS)))
