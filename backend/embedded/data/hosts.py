"""Brokers and log directories by the numbers that replication gave them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kshunt.backend.embedded.replication.columns import NOWHERE
from kshunt.backend.embedded.replication.model import Replication


@dataclass(frozen=True, slots=True)
class Hardware:
    """What a broker's machine can do; `math.inf` is no limit."""

    network_in_bytes_per_s: float = math.inf
    network_out_bytes_per_s: float = math.inf
    disk_bytes_per_s: float = math.inf
    """Of each log directory, reads and writes together."""
    disk_bytes: int = 4_000_000_000_000
    """How much fits on the disk of each log directory; it is said, and nothing stops there."""


class Hosts:
    """Which broker and which directory has which number; they are never taken away."""

    def __init__(self, replication: Replication, hardware: Mapping[int, Hardware]) -> None:
        self._replication = replication
        self._hardware = dict(hardware)
        self._numbers: dict[int, int] = {}
        self._ids: list[int] = []
        self._dirs: dict[tuple[int, str], int] = {}
        self._paths: list[str] = []

    def __contains__(self, broker: object) -> bool:
        return broker in self._numbers

    def __iter__(self) -> Iterator[int]:
        return iter(self._numbers)

    def add(self, broker: int, log_dirs: Sequence[str]) -> None:
        """A broker with its directories; what is known already stays."""
        machine = self.hardware(broker)
        if broker not in self._numbers:
            rates = machine.network_in_bytes_per_s, machine.network_out_bytes_per_s
            self._numbers[broker] = self._replication.add_broker(*rates)
            self._ids.append(broker)
        for path in log_dirs:
            if (broker, path) not in self._dirs:
                rate = machine.disk_bytes_per_s
                self._dirs[broker, path] = self._replication.add_log_dir(
                    self._numbers[broker], rate
                )
                self._paths.append(path)

    def hardware(self, broker: int) -> Hardware:
        """What a broker runs on."""
        return self._hardware.get(broker, Hardware())

    def number(self, broker: int) -> int:
        """A broker's number.

        Raises:
            KeyError: it never registered.
        """
        return self._numbers[broker]

    def id(self, number: int) -> int:
        """The broker of a number."""
        return self._ids[number]

    def dir(self, broker: int, path: str) -> int:
        """A directory's number, or NOWHERE."""
        return self._dirs.get((broker, path), NOWHERE)

    def path(self, number: int) -> str:
        """The path of a directory's number."""
        return self._paths[number]
