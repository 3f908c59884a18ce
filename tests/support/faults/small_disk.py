"""A small volume in the place of a broker's log directory, which a test can fill."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.brokers.launcher import RealKafka

FILLER = "filler"


@contextmanager
def small_disk(
    kafka: RealKafka, broker: int, disk: Path, backup: Path, *, megabytes: int
) -> Iterator[None]:
    """Mount a volume of that many megabytes there, with what the directory holds; needs root.

    Args:
        kafka: The cluster; the broker is started again, twice.
        broker: Whose directory it is.
        disk: The log directory.
        backup: A path that does not exist; it takes the directory's files until the end.
        megabytes: The size of the volume.
    """
    kafka.stop_broker(broker)
    shutil.copytree(disk, backup)
    options = ["-o", f"size={megabytes}m", "tmpfs", str(disk)]
    subprocess.run(["mount", "-t", "tmpfs", *options], check=True)
    try:
        for part in backup.iterdir():
            copy = shutil.copytree if part.is_dir() else shutil.copy2
            copy(part, disk / part.name)
        kafka.start_broker(broker)
        yield
    finally:
        kafka.kill_broker(broker)
        subprocess.run(["umount", "-l", str(disk)], check=True)
        kafka.start_broker(broker)


@contextmanager
def filled(disk: Path) -> Iterator[None]:
    """Nothing is free on a small volume for a while."""
    file = disk / FILLER
    try:
        with file.open("wb", buffering=0) as filler:
            block = bytes(1 << 20)
            while True:
                filler.write(block)
    except OSError:
        pass
    try:
        yield
    finally:
        file.unlink()
