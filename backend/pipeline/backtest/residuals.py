"""How forecasts have turned out, and the calibration that they make.

Goals: a range that holds eight times in ten, whatever kind of forecast it is of.

Algorithm: of forecasts whose end is known, ln(actual / forecast) is sorted into the bins of a
`Calibration`. An operation weighs what `Outcomes.weight` says, however long it took. Each of its
forecasts has a share of that weight, so that one that was far off for a moment counts for a moment.
A bin of few operations is not believed, and left out. So is a stage whose range says nothing: its
forecasts have the range of all stages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.forecast.calibration import Bin, Calibration
from kshunt.backend.domain.forecast.ranges import HOLDS, KINDS, STAGES, WANDERS, Kind
from kshunt.backend.domain.forecast.scoring.residual_quantiles import (
    levels_of,
    shares,
    weighted_quantiles,
)
from kshunt.backend.domain.replicas.expected_end_values import HeldBy, Wander

FEWEST: Final = 30
"""Operations that a bin is believed of."""
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
    wander: NDArray[np.int64]
    """Place in `WANDERS`."""
    operation: NDArray[np.int64]
    """A number for each operation."""
    log_ratio: Floats
    """ln(actual / forecast)."""
    weight: Floats
    """How much its operation counts; 1 where all count alike."""


def fitted(outcomes: Outcomes, about: str) -> Calibration:
    """The calibration that these outcomes make."""
    bins = []
    weights = outcomes.weight * shares(outcomes.operation * len(KINDS) + outcomes.kind)
    for kind, stage, held_by, wander in _keys():
        which = outcomes.kind == KINDS.index(kind)
        for column, wanted in (
            (outcomes.stage, stage),
            (outcomes.held_by, None if held_by is None else HOLDS.index(held_by)),
            (outcomes.wander, None if wander is None else WANDERS.index(wander)),
        ):
            if wanted is not None:
                which = which & (column == wanted)
        operations = len(np.unique(outcomes.operation[which]))
        if operations < FEWEST:
            continue
        low, middle, high = weighted_quantiles(
            outcomes.log_ratio[which], weights[which], levels_of(operations)
        )
        if stage is not None and max(-low, high) > WIDEST:
            continue
        count = int(which.sum())
        bins.append(
            Bin(kind, stage, held_by, wander, operations, count, *_rounded(low, middle, high))
        )
    return Calibration(tuple(bins), about)


def _rounded(*values: float) -> tuple[float, float, float]:
    low, middle, high = (round(float(value), 4) for value in values)
    return low, middle, high


def _keys() -> Iterator[tuple[Kind, int | None, HeldBy | None, Wander | None]]:
    """Coarse ones first."""
    for kind in KINDS:
        yield kind, None, None, None
        for wander in WANDERS:
            yield kind, None, None, wander
            for held_by in HOLDS:
                yield kind, None, held_by, wander
                for stage in range(STAGES):
                    yield kind, stage, held_by, wander
