"""The rows of `rates` that `eta` is made from, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kshunt.backend.domain.forecast.fair_shares import Floats, Ints, Mask
from kshunt.backend.domain.replicas.stuck_causes import IDLE_CAUSES, Cause

_IDLE: Final = tuple(cause.name for cause in IDLE_CAUSES)
LATELY: Final = 0.3
"""Weight of the shorter window in what is written: bursts pass."""

COLUMNS: Final = (
    "at", "tick", "rid", "topic", "partition", "broker", "leader", "segment_start",
    "remaining_bytes", "elapsed_s", "advanced_bytes", "span_5m_s", "catch_up_30s_bytes_per_s",
    "catch_up_5m_bytes_per_s", "produced_30s_bytes_per_s", "produced_5m_bytes_per_s", "in_isr",
    "adding", "removing", "leader_throttle_bytes_per_s", "follower_throttle_bytes_per_s", "cause",
    "operation_id",
)  # fmt: skip
"""Of `rates`, what is needed."""


@dataclass(frozen=True, eq=False)
class Tick:
    """The rows of a tick, or of some, as arrays. Shape (rows,); NaN where it is not known."""

    at_ms: Floats
    tick_ms: Floats
    age_s: Floats
    leader: Floats
    broker: Floats
    remaining: Floats
    step: Floats
    """Bytes a second since the tick before."""
    seen_30s: Floats
    seen_5m: Floats
    written_30s: Floats
    written_5m: Floats
    sends: Floats
    """The throttle on its leader's side."""
    takes: Floats
    """The throttle on its own side."""
    in_isr: Mask
    adding: Mask
    removing: Mask
    copies: Mask
    """Who is out of the ISR, and has a leader to copy from."""
    partition: Ints
    """A number for each partition."""
    operation: Ints
    """A number for each operation, -1 where there is none."""
    dead: Mask
    """Its cause is one of `IDLE_CAUSES`."""
    waits: Mask
    """Its cause is `Cause.WAITING_TURN`."""
    cause: Any
    """An Arrow array."""

    @classmethod
    def of(cls, rates: Any) -> Tick:
        """The rows of a `pyarrow.Table` with `COLUMNS`, in its order."""
        at_ms, leader, broker = _millis(rates, "at"), *_numbers(rates, "leader", "broker")
        in_isr, adding, removing = (
            _mask(rates[name].combine_chunks()) for name in ("in_isr", "adding", "removing")
        )
        cause = rates["cause"].combine_chunks()
        return cls(
            at_ms=at_ms,
            tick_ms=_millis(rates, "tick"),
            age_s=(at_ms - _millis(rates, "segment_start")) / 1000,
            leader=leader,
            broker=broker,
            **_rates(rates),
            in_isr=in_isr,
            adding=adding,
            removing=removing,
            copies=~in_isr & (leader != broker),
            partition=_partitions(rates),
            operation=_codes(rates, "operation_id"),
            dead=_mask(pc.is_in(cause, pa.array(_IDLE))),
            waits=_mask(pc.equal(cause, Cause.WAITING_TURN.name)),
            cause=cause,
        )

    def part(self, begin: int, end: int) -> Tick:
        """Some of the rows."""
        return Tick(*(getattr(self, name)[begin:end] for name in Tick.__dataclass_fields__))

    @property
    def steady(self) -> Mask:
        """Followers in the ISR."""
        followers: Mask = self.in_isr & (self.leader != self.broker)
        return followers

    @property
    def written(self) -> Floats:
        """What leaders will continue to write, B/s."""
        return mean(self.written_30s, self.written_5m, LATELY)


def mean(last: Floats, longer: Floats, share: float = 0.5) -> Floats:
    """Of both windows, where both are known; `share` is the weight of `last`."""
    both = share * last + (1 - share) * longer
    return np.where(np.isnan(both), np.where(np.isnan(last), longer, last), both)


def _rates(rates: Any) -> dict[str, Any]:
    advanced, elapsed_s = _numbers(rates, "advanced_bytes", "elapsed_s")
    step = np.full(len(advanced), np.nan)
    np.divide(advanced, elapsed_s, out=step, where=elapsed_s > 0)
    names = {
        "remaining": "remaining_bytes",
        "seen_30s": "catch_up_30s_bytes_per_s",
        "seen_5m": "catch_up_5m_bytes_per_s",
        "written_30s": "produced_30s_bytes_per_s",
        "written_5m": "produced_5m_bytes_per_s",
        "sends": "leader_throttle_bytes_per_s",
        "takes": "follower_throttle_bytes_per_s",
    }
    return {"step": step, **dict(zip(names, _numbers(rates, *names.values()), strict=True))}


def _numbers(rates: Any, *names: str) -> list[Floats]:
    return [rates[name].to_numpy().astype(np.float64) for name in names]


def _millis(rates: Any, name: str) -> Floats:
    times = pc.cast(rates[name], pa.timestamp("ms", "UTC"), safe=False)
    found: Floats = times.cast(pa.int64()).to_numpy().astype(np.float64)
    return found


def _mask(values: Any) -> Mask:
    found: Mask = pc.fill_null(values, False).to_numpy(zero_copy_only=False).astype(np.bool_)
    return found


def _codes(rates: Any, name: str) -> Ints:
    """A number for each value, -1 for null."""
    codes = rates[name].combine_chunks().dictionary_encode().indices
    found: Ints = pc.fill_null(codes, -1).to_numpy().astype(np.int64)
    return found


def _partitions(rates: Any) -> Ints:
    (numbers,) = _numbers(rates, "partition")
    keys = _codes(rates, "topic") * 2**32 + numbers.astype(np.int64)
    return np.unique(keys, return_inverse=True)[1]
