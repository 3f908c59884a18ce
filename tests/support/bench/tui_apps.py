"""What the benchmark runs in a pseudo-terminal, each a process of its own.

`ours ADDRESS`: the dashboard, its partitions sorted by lag. `demo SCENARIO`: the dashboard on a
cluster and a backend of its own. `stock`: a DataTable of 2,000 rows, of which a share of the cells
changes every second. `floor`: a widget of one line.

After each frame that shows the effect of a key, the number of keys is written as an OSC 777
sequence, which the benchmark does not count. At the end of the file in `KSHUNT_BENCH_LOOP`, a line
for each call of the event loop that took longer than a millisecond: when, and its CPU and wall
milliseconds.
"""

from __future__ import annotations

import os
import random
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from textual.app import App

STOCK_ROWS = 2_000
STOCK_COLUMNS = 10


def key_reporting(base: type[Any]) -> type[Any]:
    """An app that says when the effect of a key is on the screen."""

    class KeyReporting(base):  # type: ignore[misc]
        keys_done = 0
        keys_reported = 0

        def _display(self, screen: Any, renderable: Any) -> None:
            done = self.keys_done
            super()._display(screen, renderable)
            diff = getattr(self, "_diff", None)
            if diff is None or not diff.pending:
                self._tell(done)

        def _tell(self, done: int) -> None:
            if done != self.keys_reported and self._driver is not None:
                self.keys_reported = done
                self._driver.write(f"\x1b]777;{done}\x07")

        def _send_held(self) -> None:
            done = self.keys_done
            super()._send_held()
            if not self._diff.pending:
                self._tell(done)

    # Textual looks for the styles next to the module of the class.
    KeyReporting.__module__ = base.__module__
    return KeyReporting


def counting_dashboard(address: str, **options: Any) -> App[Any]:
    """The dashboard, in which keys that move a cursor or open a view are counted."""
    from kshunt.tui.app import KshuntApp
    from kshunt.tui.grid.grid import Grid
    from kshunt.tui.grid.selectable_lines import SelectableLines
    from kshunt.tui.views.view_screen import ViewScreen

    app: KshuntApp = key_reporting(KshuntApp)(address, **options)
    for owner, name in ((Grid, "go_to"), (SelectableLines, "move"), (ViewScreen, "action_view")):
        count_calls(app, owner, name)
    return app


def count_calls(app: App[Any], owner: type[Any], name: str) -> None:
    """Count the calls of this method as keys whose effect is to be painted."""
    call = getattr(owner, name)

    def counted(self: Any, *arguments: Any) -> None:
        call(self, *arguments)
        app.keys_done += 1  # type: ignore[attr-defined]

    setattr(owner, name, counted)


def demo(scenario: str) -> int:
    """The dashboard on a scenario; the exit code."""
    os.environ["TEXTUAL_ANIMATIONS"] = "none"
    from kshunt.backend.cli.demo import run_demo

    def show(address: str, _: object) -> int:
        counting_dashboard(address).run()
        return 0

    return run_demo(scenario, 1, lambda: None, show)


def ours(address: str) -> App[Any]:
    """The dashboard, on its partitions."""
    os.environ["TEXTUAL_ANIMATIONS"] = "none"
    from kshunt.tui import memory
    from kshunt.tui.actions.view_names import PARTITIONS
    from kshunt.tui.facts.view_query import Query
    from kshunt.tui.tables.model import Order

    memory.prepare()
    app = counting_dashboard(address, start_view=PARTITIONS, freeze=memory.freeze)
    app.store.queries[PARTITIONS] = Query(Order("lag_bytes", reverse=True))  # type: ignore[attr-defined]
    return app


def stock(share: str) -> App[Any]:
    """Textual's own table."""
    from textual.app import App, ComposeResult
    from textual.coordinate import Coordinate
    from textual.widgets import DataTable

    class Stock(key_reporting(App)):  # type: ignore[misc]
        BINDINGS = [("j", "key('down')"), ("q", "quit")]  # noqa: RUF012

        def compose(self) -> ComposeResult:
            yield DataTable(cursor_type="row")

        def on_mount(self) -> None:
            table = self.query_one(DataTable)
            table.add_columns(*(f"column {place}" for place in range(STOCK_COLUMNS)))
            for row in range(STOCK_ROWS):
                table.add_row(*(f"{row * 7919 + place}" for place in range(STOCK_COLUMNS)))
            if float(share):
                self.set_interval(1.0, self.change)

        def change(self) -> None:
            table = self.query_one(DataTable)
            for row in range(60):
                for place in range(STOCK_COLUMNS):
                    if random.random() < float(share):
                        value = f"{random.randrange(10**7)}"
                        table.update_cell_at(Coordinate(row, place), value)

        def action_key(self, key: str) -> None:
            self.query_one(DataTable).action_cursor_down()

        def on_data_table_row_highlighted(self) -> None:
            self.keys_done += 1

    app: App[Any] = Stock()
    return app


def floor(_: str) -> App[Any]:
    """As little as an app can show."""
    from textual.app import App, ComposeResult
    from textual.widgets import Static

    class Floor(key_reporting(App)):  # type: ignore[misc]
        BINDINGS = [("j,pagedown", "next"), ("q", "quit")]  # noqa: RUF012

        def compose(self) -> ComposeResult:
            yield Static("kshunt 0")

        def action_next(self) -> None:
            self.keys_done += 1
            self.query_one(Static).update(f"kshunt {self.keys_done}")

    app: App[Any] = Floor()
    return app


def watch_loop(path: str) -> None:
    """Write down every call of the event loop that takes long."""
    import asyncio

    log = open(path, "w", buffering=1)  # noqa: SIM115
    run = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        cpu_s, wall_s = time.thread_time(), time.perf_counter()
        run(handle)
        cpu_ms = (time.thread_time() - cpu_s) * 1000
        wall_ms = (time.perf_counter() - wall_s) * 1000
        if wall_ms > 1:
            log.write(f"{time.monotonic():.3f} {cpu_ms:.2f} {wall_ms:.2f} {handle!r:.300}\n")

    asyncio.Handle._run = timed  # type: ignore[assignment,method-assign]


if __name__ == "__main__":
    if os.environ.get("KSHUNT_BENCH_LOOP"):
        watch_loop(os.environ["KSHUNT_BENCH_LOOP"])
    if sys.argv[1] == "demo":
        sys.exit(demo(sys.argv[2]))
    {"ours": ours, "stock": stock, "floor": floor}[sys.argv[1]](sys.argv[2]).run()
