"""A program in a pseudo-terminal, measured: what a key costs, what a second sends."""

from __future__ import annotations

import re
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.support.paths import ROOT
from tests.support.terminal import Terminal, terminal

TOKEN = re.compile(rb"\x1b\]777;(\d+)\x07")
SYNC_QUESTION, SYNC_ANSWER = b"\x1b[?2026$p", b"\x1b[?2026;2$y"
PARTIAL_BYTES = 64
DEADLINE_S = 30.0
SLICE_S = 0.01
BURST_PAUSE_S = 0.4


class Probe:
    """The terminal of one program, read as fast as it writes or as slowly as a link."""

    def __init__(self, shown: Terminal, started_s: float) -> None:
        self.shown = shown
        self.started_s = started_s
        self.bytes_per_s = 0.0
        """How fast it is read; 0 for as fast as may be."""
        self.sent = 0
        """Bytes that were read, without the tokens."""
        self.keys_reported = 0
        self._tail = b""
        self._allowed = 0.0
        self._at_s = time.perf_counter()

    def read(self, seconds: float) -> bytes:
        """Read for that time, or until the next bytes; returns what was read."""
        data = self._read_slowly() if self.bytes_per_s else self.shown.take(seconds) or b""
        self.sent += len(data) - sum(len(found[0]) for found in TOKEN.finditer(self._tail + data))
        self._understand(data)
        return data

    def _read_slowly(self) -> bytes:
        """What the link lets through; a link that was idle owes nothing."""
        now_s = time.perf_counter()
        self._allowed += (now_s - self._at_s) * self.bytes_per_s
        self._allowed = min(self._allowed, self.bytes_per_s * SLICE_S * 4)
        self._at_s = now_s
        if self._allowed < 1:
            # The link is full; what is written waits meanwhile.
            select.select([], [], [], SLICE_S)
            return b""
        data = self.shown.take(SLICE_S, int(self._allowed)) or b""
        self._allowed -= len(data)
        return data

    def _understand(self, data: bytes) -> None:
        text = self._tail + data
        if SYNC_QUESTION in text:
            self.shown.press(SYNC_ANSWER)
            text = text.replace(SYNC_QUESTION, b"")
        last = 0
        for found in TOKEN.finditer(text):
            self.keys_reported, last = int(found[1]), found.end()
        self._tail = text[last:][-PARTIAL_BYTES:]

    def until(self, pattern: bytes) -> float:
        """Seconds from its start to the first bytes that hold this."""
        seen, give_up = b"", time.perf_counter() + DEADLINE_S
        while not re.search(pattern, seen):
            assert time.perf_counter() < give_up, f"not written: {pattern!r}, but {seen[-200:]!r}"
            seen += self.read(0.1)
        return time.perf_counter() - self.started_s

    def rest(self, seconds: float) -> int:
        """Read for that time; returns how many bytes came."""
        sent, until_s = self.sent, time.perf_counter() + seconds
        while (left_s := until_s - time.perf_counter()) > 0:
            self.read(min(left_s, 0.1))
        return self.sent - sent

    def ticks(self, seconds: float) -> list[int]:
        """Read for that time; returns the bytes of each burst, which a long enough pause ends."""
        bursts: list[int] = []
        now_s = last_s = time.perf_counter()
        until_s = now_s + seconds
        while now_s < until_s:
            sent = self.sent
            self.read(0.05)
            now_s = time.perf_counter()
            if self.sent == sent:
                continue
            if not bursts or now_s - last_s > BURST_PAUSE_S:
                bursts.append(0)
            bursts[-1] += self.sent - sent
            last_s = now_s
        return bursts

    def key_ms(self, key: bytes, deadline_s: float = DEADLINE_S) -> float:
        """Press a key; milliseconds until its effect has been read."""
        wanted, started_s = self.keys_reported + 1, time.perf_counter()
        self.shown.press(key)
        while self.keys_reported < wanted and time.perf_counter() < started_s + deadline_s:
            self.read(0.1)
        return (time.perf_counter() - started_s) * 1000

    def keys_ms(self, key: bytes, count: int, pause_s: float) -> list[float]:
        """Press a key so often, with uneven pauses between."""
        taken: list[float] = []
        for number in range(count):
            self.rest(pause_s * (0.5 + number * 0.618 % 1))
            taken.append(self.key_ms(key))
        return taken

    # The process

    @property
    def cpu_s(self) -> float:
        """Seconds of a core that it has used, all threads together."""
        tasks = Path(f"/proc/{self.shown.process.pid}/task")
        spent = [(task / "schedstat").read_text().split()[0] for task in tasks.iterdir()]
        return sum(map(int, spent)) / 1e9

    @property
    def rss_mb(self) -> float:
        """Megabytes of memory that it holds."""
        status = Path(f"/proc/{self.shown.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024 / 1e6


@cache
def _compiled() -> tempfile.TemporaryDirectory[str]:
    """Where what was compiled is kept for the next start."""
    return tempfile.TemporaryDirectory()


@contextmanager
def probing(
    program: str, argument: str, size: tuple[int, int], log: Path | None = None
) -> Iterator[Probe]:
    """One of the programs of `tests.support.bench.tui_apps` in a terminal of this size."""
    environ = {
        "COLORTERM": "truecolor",
        "KSHUNT_BENCH_LOOP": str(log) if log else "",
        # As it is when it is installed: compiled, whatever this checkout does.
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": _compiled().name,
    }
    command = [sys.executable, "-m", "tests.support.bench.tui_apps", program, argument]
    started_s = time.perf_counter()
    with terminal(command, environ, size) as shown:
        probe = Probe(shown, started_s)
        yield probe
        shown.press(b"q")
        probe.bytes_per_s = 0
        probe.rest(0.3)


class Load:
    """The process that serves the rows."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self._process = process
        self.address = address

    def change(self, share: float, *, fixed: bool = False) -> None:
        """Change this share of the rows every second; `fixed` rows only change their numbers."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{share}{' fixed' if fixed else ''}\n")
        self._process.stdin.flush()


@contextmanager
def loading(folder: Path) -> Iterator[Load]:
    """200,000 rows behind a socket."""
    socket = folder / "load"
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.bench.tui_load", str(socket)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    try:
        yield Load(process, f"unix:{socket}")
    finally:
        process.kill()
        process.communicate()


def percentile(values: list[float], share: float) -> float:
    """The nearest-rank percentile."""
    ordered = sorted(values)
    return ordered[min(round(share * len(ordered)), len(ordered) - 1)]


def median(values: list[float]) -> float:
    """The middle one."""
    return statistics.median(values)
