"""What a scenario writes to its topics, as rates that follow the cluster's clock.

Goals: partitions differ as they do in practice: keyed records make some hot, days make a swing.

Constraints: everything is drawn from the seed, so that the same seed and the same times give the
same rates.

Algorithm: a topic's rate is its base, times a factor of the scenario, times a sine of the time of
day, times jitter that is drawn anew at each look. Partitions share it evenly, or by a Zipf
distribution whose order the seed shuffles. What is not open for writing gets nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from kshunt.backend.embedded.core.cluster_core import Core
from kshunt.backend.embedded.metadata.image_values import TopicImage
from kshunt.backend.embedded.metadata.records import PartitionModeCode
from kshunt.backend.embedded.scenario.model import TopicSpec

INTERVAL_MS: Final = 10_000
"""How often rates are looked at, in the cluster's time."""


@dataclass(slots=True)
class _Stream:
    """What is written to one topic."""

    topic: str
    spec: TopicSpec
    bytes_per_s: float
    shares: list[float] = field(default_factory=list)
    """Of each partition; they add up to 1."""
    factor: float = 1.0
    stale: bool = True
    """Whether its rates are to be set at the next look though they do not vary."""


class Traffic:
    """See the module."""

    def __init__(self, core: Core, topics: Iterable[TopicSpec], seed: int) -> None:
        self._core = core
        self._random = Random(f"{seed}:traffic")
        self._started_ms = core.now_ms
        self._streams: dict[str, _Stream] = {}
        for spec in topics:
            if spec.bytes_per_s > 0:
                for name in spec.names:
                    self._streams[name] = self._stream(name, spec)

    def start(self) -> None:
        """Set the first rates, and look at them again and again."""
        self.look()
        if self._streams:
            self._core.every(INTERVAL_MS, self.look)

    def multiply(self, factor: float, topics: Sequence[str] = ()) -> None:
        """Write `factor` times the ordinary to these topics, or to all."""
        for stream in self._streams.values():
            if not topics or stream.topic in topics:
                stream.factor, stream.stale = factor, True
        self.look()

    def look(self) -> None:
        """Set the rates of this moment."""
        by_size: dict[int, tuple[list[tuple[str, int]], list[float]]] = {}
        deleting = self._core.image.is_deleting
        for stream in self._streams.values():
            topic = self._core.image.topic(stream.topic)
            if topic is None:
                continue
            varies = stream.spec.swing > 0 or stream.spec.noise > 0 or stream.stale
            changes = deleting or len(topic.partitions) != len(stream.shares)
            if varies or changes:
                keys, rates = by_size.setdefault(stream.spec.record_bytes, ([], []))
                self._add(stream, topic, keys, rates)
        for record_bytes, (keys, rates) in by_size.items():
            self._core.plane.set_traffic(keys, rates, record_bytes)

    def _add(
        self, stream: _Stream, topic: TopicImage, keys: list[tuple[str, int]], rates: list[float]
    ) -> None:
        count = len(topic.partitions)
        if count != len(stream.shares):
            stream.shares = self._shares(stream.spec.skew, count)
        total = self._rate(stream)
        stream.stale = False
        for share, (number, partition) in zip(
            stream.shares, sorted(topic.partitions.items()), strict=True
        ):
            writable = partition.mode is PartitionModeCode.READ_WRITE
            # It goes, or will be written to again: look next time, too.
            stream.stale |= not writable
            keys.append((topic.topic_id, number))
            rates.append(total * share if writable else 0.0)

    def _rate(self, stream: _Stream) -> float:
        spec = stream.spec
        # Up first: every topic has the same day.
        elapsed_s = (self._core.now_ms - self._started_ms) / 1000
        turn = 2 * math.pi * elapsed_s / spec.period_s
        jitter = spec.noise * self._random.uniform(-1, 1) if spec.noise else 0.0
        wave = 1 + spec.swing * math.sin(turn) + jitter
        return stream.bytes_per_s * stream.factor * max(0.0, wave)

    def _stream(self, name: str, spec: TopicSpec) -> _Stream:
        rate = spec.bytes_per_s
        if spec.rate_spread:
            rate *= self._random.lognormvariate(0.0, spec.rate_spread)
        return _Stream(name, spec, rate)

    def _shares(self, skew: float, count: int) -> list[float]:
        weights = [1 / rank**skew for rank in range(1, count + 1)]
        if skew:
            self._random.shuffle(weights)
        total = sum(weights)
        return [weight / total for weight in weights]
