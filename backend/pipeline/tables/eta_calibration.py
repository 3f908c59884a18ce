"""How forecasts of `eta` have turned out, as quantiles that its ranges are made with.

Goals: a range that holds eight times in ten, whatever kind of forecast it is of.

Algorithm: of forecasts whose end is known, ln(actual / forecast) is sorted into bins: of a copy or
of an operation, by stage, throttled or not, watched for long or not. In each bin every operation
weighs the same, however long it took, and the outer quantiles are taken a little further out, as
for a conformal prediction, since there are only so many operations. A bin of few operations is not
believed: what it falls into with one distinction less is taken instead.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.pipeline.result_columns import ETA_MODEL
from kshunt.backend.errors import BadInput
from kshunt.backend.pipeline.kernels.eta import STAGES

SHIPPED: Final = Path(__file__).with_name("calibration.json")
LEVELS: Final = (0.1, 0.5, 0.9)
EXACT: Final = 0.1
FEWEST: Final = 20
"""Operations that a bin is believed of."""
KINDS: Final = ("copy", "operation")

Floats = NDArray[np.float64]


class BadCalibration(BadInput):
    """A file is no calibration, or is one of another model."""

    title = "No calibration"


@dataclass(frozen=True, slots=True)
class Bin:
    """One bin. None where it does not distinguish."""

    kind: str
    stage: int | None
    throttled: bool | None
    young: bool | None
    operations: int
    forecasts: int
    low: float
    """Quantiles of ln(actual / forecast)."""
    middle: float
    high: float

    def used(self) -> tuple[float, float, float]:
        """What forecasts are moved by.

        The middle follows by what it is off beyond `EXACT`: most forecasts are right to a few
        percent, and those that are not lie to one side of them.
        """
        middle = math.copysign(max(abs(self.middle) - EXACT, 0.0), self.middle)
        return min(self.low, middle), middle, max(self.high, middle)


@dataclass(frozen=True, slots=True)
class Calibration:
    """All bins."""

    bins: tuple[Bin, ...] = ()
    about: str = "not calibrated"
    """What it was made from."""
    model: int = ETA_MODEL

    def quantiles(self) -> Floats:
        """Of each finest bin, see `kernels.eta.eta`; 0 where nothing is known."""
        known = {(b.kind, b.stage, b.throttled, b.young): b for b in self.bins}
        found = np.zeros((len(KINDS), STAGES, 2, 2, len(LEVELS)))
        for (k, kind), stage, throttled, young in product(
            enumerate(KINDS), range(STAGES), (False, True), (False, True)
        ):
            for key in _coarser(kind, stage, throttled, young):
                if key in known:
                    one = known[key]
                    found[k, stage, int(throttled), int(young)] = one.used()
                    break
        return found

    def to_json(self) -> str:
        """As it is kept."""
        bins = [asdict(one) for one in self.bins]
        return json.dumps({"model": self.model, "about": self.about, "bins": bins}, indent=1)

    @classmethod
    def read(cls, path: Path = SHIPPED) -> Calibration:
        """What `to_json` wrote.

        Raises:
            BadCalibration: it cannot be read, or is of another model.
        """
        try:
            content = json.loads(path.read_text())
            found = cls(
                tuple(Bin(**one) for one in content["bins"]), content["about"], content["model"]
            )
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise BadCalibration(
                f"{path} cannot be read as a calibration: {error}.",
                advice="Make one: kshunt pipeline backtest --calibrate FILE.",
            ) from None
        if found.model != ETA_MODEL:
            raise BadCalibration(
                f"{path} is of model {found.model}, and this kshunt reckons by {ETA_MODEL}.",
                advice="Make it anew: kshunt pipeline backtest --calibrate FILE.",
            )
        return found


Key = tuple[str, int | None, bool | None, bool | None]


def _coarser(kind: str, stage: int, throttled: bool, young: bool) -> Iterator[Key]:
    """A bin and those that it falls into, finest first."""
    yield kind, stage, throttled, young
    yield kind, stage, throttled, None
    yield kind, stage, None, None
    yield kind, None, None, None


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Forecasts without calibration, and how they turned out. Shape (forecasts,)."""

    kind: NDArray[np.int64]
    """Place in `KINDS`."""
    stage: NDArray[np.int64]
    throttled: NDArray[np.bool_]
    young: NDArray[np.bool_]
    operation: NDArray[np.int64]
    """A number for each operation."""
    log_ratio: Floats
    """ln(actual / forecast)."""


def fitted(outcomes: Outcomes, about: str) -> Calibration:
    """The calibration that these outcomes make."""
    bins = []
    for kind, stage, throttled, young in _keys():
        which = outcomes.kind == KINDS.index(kind)
        for column, wanted in (
            (outcomes.stage, stage),
            (outcomes.throttled, throttled),
            (outcomes.young, young),
        ):
            if wanted is not None:
                which = which & (column == wanted)
        operations = len(np.unique(outcomes.operation[which]))
        if operations < FEWEST:
            continue
        low, middle, high = weighted_quantiles(
            outcomes.log_ratio[which], shares(outcomes.operation[which]), _levels(operations)
        )
        count = int(which.sum())
        bins.append(
            Bin(kind, stage, throttled, young, operations, count, *_rounded(low, middle, high))
        )
    return Calibration(tuple(bins), about)


def _rounded(*values: float) -> tuple[float, float, float]:
    low, middle, high = (round(float(value), 4) for value in values)
    return low, middle, high


def _keys() -> Iterator[Key]:
    for kind in KINDS:
        yield kind, None, None, None
        for stage in range(STAGES):
            yield kind, stage, None, None
            for throttled in (False, True):
                yield kind, stage, throttled, None
                for young in (False, True):
                    yield kind, stage, throttled, young


def _levels(operations: int) -> tuple[float, ...]:
    """The levels with what a next operation may lie outside of these."""
    further = 1 + 1 / operations
    low, middle, high = LEVELS
    return max(0.0, 1 - (1 - low) * further), middle, min(1.0, high * further)


def shares(operation: NDArray[np.int64]) -> Floats:
    """Weights that add up to 1 for each operation."""
    _, places, counts = np.unique(operation, return_inverse=True, return_counts=True)
    found: Floats = 1.0 / counts[places]
    return found


def weighted_quantiles(
    values: Floats, weights: Floats, levels: tuple[float, ...]
) -> tuple[float, ...]:
    """The values below which these shares of the weight lie."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    reached = (reached - 0.5 * weights[order]) / reached[-1]
    return tuple(float(np.interp(level, reached, values[order])) for level in levels)
