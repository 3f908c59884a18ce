"""How forecasts have turned out, and the calibration that they make.

Goals: a range that holds eight times in ten, whatever kind of forecast it is of, and whatever
befalls the operation.

Algorithm: of forecasts whose end is known, ln(actual / forecast) is sorted into the bins of a
`Calibration`. Each operation weighs the same, however long it took. Each of its forecasts has a
share of that weight, so that one that was far off for a moment counts for a moment. Some
things come without a warning, as a broker that restarts, and make an end later. So the upper end of
a bin is the latest of those that hold for all its operations, and for each group of harder ones.
A bin of few operations is not believed, and left out, and so is a group of few. So is a stage whose
range says nothing: its forecasts have the range of all stages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.forecast.calibration import Bin, Calibration
from kshunt.backend.domain.forecast.ranges import HOLDS, KINDS, STAGES, WRITES, Kind
from kshunt.backend.domain.forecast.scoring.residual_quantiles import (
    levels_of,
    shares,
    weighted_quantiles,
)
from kshunt.backend.domain.replicas.expected_end_values import HeldBy, Writes

FEWEST: Final = 30
"""Operations that a bin is believed of, and a group in it."""
WIDEST: Final = math.log(20)
"""An end that comes 20 times later than it was said says nothing of a stage."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Forecasts without calibration, and how they turned out. Shape (forecasts,)."""

    kind: NDArray[np.int64]
    """Place in `KINDS`."""
    stage: NDArray[np.int64]
    held_by: NDArray[np.int64]
    """Place in `HOLDS`."""
    writes: NDArray[np.int64]
    """Place in `WRITES`."""
    operation: NDArray[np.int64]
    """A number for each operation."""
    log_ratio: Floats
    """ln(actual / forecast)."""
    hard: NDArray[np.bool_]
    """Shape (forecasts, groups). Whether its operation had something that comes without a warning,
    and makes an end later."""


def fitted(outcomes: Outcomes, about: str) -> Calibration:
    """The calibration that these outcomes make."""
    bins = []
    weights = shares(outcomes.operation * len(KINDS) + outcomes.kind)
    for kind, stage, held_by, writes in _keys():
        which = outcomes.kind == KINDS.index(kind)
        for column, wanted in (
            (outcomes.stage, stage),
            (outcomes.held_by, None if held_by is None else HOLDS.index(held_by)),
            (outcomes.writes, None if writes is None else WRITES.index(writes)),
        ):
            if wanted is not None:
                which = which & (column == wanted)
        if (of_all := _believed(outcomes, weights, which)) is None:
            continue
        operations, low, middle, high = of_all
        for hard in outcomes.hard.T:
            if (of_group := _believed(outcomes, weights, which & hard)) is not None:
                high = max(high, of_group[3])
        if stage is not None and max(-low, high) > WIDEST:
            continue
        count = int(which.sum())
        bins.append(
            Bin(kind, stage, held_by, writes, operations, count, *_rounded(low, middle, high))
        )
    return Calibration(tuple(bins), about)


def _believed(
    outcomes: Outcomes, weights: Floats, which: NDArray[np.bool_]
) -> tuple[int, float, float, float] | None:
    """The number of operations of these forecasts, and the quantiles of ln(actual / forecast).

    None: they are of fewer than `FEWEST`.
    """
    operations = len(np.unique(outcomes.operation[which]))
    if operations < FEWEST:
        return None
    low, middle, high = weighted_quantiles(
        outcomes.log_ratio[which], weights[which], levels_of(operations)
    )
    return operations, low, middle, high


def _rounded(*values: float) -> tuple[float, float, float]:
    low, middle, high = (round(float(value), 4) for value in values)
    return low, middle, high


def _keys() -> Iterator[tuple[Kind, int | None, HeldBy | None, Writes | None]]:
    """Coarse ones first."""
    for kind in KINDS:
        yield kind, None, None, None
        for writes in WRITES:
            yield kind, None, None, writes
            for held_by in HOLDS:
                yield kind, None, held_by, writes
                for stage in range(STAGES):
                    yield kind, stage, held_by, writes
