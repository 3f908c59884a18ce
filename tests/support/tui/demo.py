"""Serve the scripted cluster on a socket and show the dashboard on it, to look at by eye.

python -m tests.support.tui.demo [--serve SOCKET] [--replicas N]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from kshunt.backend.clock import SystemClock
from kshunt.tui.__main__ import run
from tests.support.tui.backend import ScriptedBackend
from tests.support.tui.cluster import incident, running_move


async def serve(socket: Path) -> None:
    """An endless incident: a slow broker, one that grows, one that is silent at times."""
    cluster = incident()
    cluster.copy_bytes_per_s = {5: 900_000}
    cluster.growing = {2}
    running_move(cluster)
    async with ScriptedBackend(socket, cluster) as backend:
        second, clock = 0, SystemClock()
        while True:
            await clock.wait_s(1)
            second += 1
            cluster.down = {3: "connection refused"} if 20 < second % 60 < 40 else {}
            backend.publish()


def main() -> int:
    """Serve, or serve in a child and show."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", type=Path)
    parser.add_argument("--read-only", action="store_true")
    options = parser.parse_args()
    if options.serve is not None:
        asyncio.run(serve(options.serve))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        socket = Path(folder, "demo.sock")
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.support.tui.demo", "--serve", str(socket)]
        )
        try:
            return run(f"unix:{socket}", read_only=options.read_only)
        finally:
            os.kill(child.pid, signal.SIGTERM)
            child.wait()


if __name__ == "__main__":
    sys.exit(main())
