"""How forecasts have turned out, as the quantiles that ranges are made with.

Goals
    A range that holds eight times in ten, whatever kind of forecast it is of.
Constraints
    A file comes from anybody: what is no calibration, or is one of another model, is refused.
Algorithm
    Of forecasts whose end is known, ln(actual / forecast) lies in bins. A bin is of a copy or an
    operation, by stage, by what holds it up, by how much is written. The middle and both outer
    quantiles of its bin are put on a forecast. Where a bin is missing, the one that it falls
    into with one distinction less is taken.

A forecast is of throttles as they are. What became of one after somebody had changed a throttle
is not counted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Annotated, Final

import numpy as np
from msgspec import Meta, Struct

from kshunt.backend.domain.forecast.fair_shares import Floats
from kshunt.backend.domain.forecast.ranges import HOLDS, KINDS, QUANTILES, STAGES, WRITES, Kind
from kshunt.backend.domain.pipeline.result_columns import ETA_MODEL
from kshunt.backend.domain.replicas.expected_end_values import HeldBy, Writes
from kshunt.backend.domain.untrusted.json_codec import UnreadableValue, from_document
from kshunt.backend.domain.untrusted.strict_json import UnreadableJson, read_json
from kshunt.backend.errors import BadInput

SHIPPED: Final = Path(__file__).with_name("calibration.json")
LEVELS: Final = (0.1, 0.5, 0.9)
EXACT: Final = 0.1
LARGEST: Final = math.log(1_000)
"""The ln of 1,000: a valid calibration has no forecast that is off by a larger factor."""
BYTES_MAX: Final = 1 << 20
BINS_MAX: Final = 1_000
_ADVICE: Final = "Make one: kshunt pipeline backtest --calibrate FILE."

_Stage = Annotated[int, Meta(ge=0, lt=STAGES)]
_Count = Annotated[int, Meta(ge=0)]
_LogRatio = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]


class BadCalibration(BadInput):
    """A file is no calibration, or is one of another model."""

    title = "No calibration"


@dataclass(frozen=True, slots=True)
class Bin:
    """One bin. None where it does not distinguish."""

    kind: Kind
    stage: _Stage | None
    held_by: HeldBy | None
    writes: Writes | None
    operations: _Count
    forecasts: _Count
    low: _LogRatio
    """Quantiles of ln(actual / forecast)."""
    middle: _LogRatio
    high: _LogRatio

    def used(self) -> tuple[float, float, float]:
        """What forecasts are moved by.

        The middle follows by what it is off beyond `EXACT`: most forecasts are right to a few
        percent, and those that are not lie to one side of them.
        """
        middle = math.copysign(max(abs(self.middle) - EXACT, 0.0), self.middle)
        return min(self.low, middle), middle, max(self.high, middle)


class _File(Struct, forbid_unknown_fields=True):
    """As it is kept."""

    model: int
    about: Annotated[str, Meta(max_length=1_000)]
    bins: Annotated[tuple[Bin, ...], Meta(max_length=BINS_MAX)]


@dataclass(frozen=True, slots=True)
class Calibration:
    """All bins."""

    bins: tuple[Bin, ...] = ()
    about: str = "not calibrated"
    """What it was made from."""

    def quantiles(self) -> Floats:
        """Of each finest bin, as `ranges` takes them; 0 where nothing is known."""
        known = {(b.kind, b.stage, b.held_by, b.writes): b for b in self.bins}
        found = np.zeros(QUANTILES)
        for (k, kind), stage, (h, held), (w, writes) in product(
            enumerate(KINDS), range(STAGES), enumerate(HOLDS), enumerate(WRITES)
        ):
            for key in _coarser(kind, stage, held, writes):
                if key in known:
                    one = known[key]
                    found[k, stage, h, w] = one.used()
                    break
        return found

    def to_json(self) -> str:
        """As it is kept."""
        bins = [asdict(one) for one in self.bins]
        return json.dumps({"model": ETA_MODEL, "about": self.about, "bins": bins}, indent=1)

    @classmethod
    def read(cls, path: Path = SHIPPED) -> Calibration:
        """What `to_json` wrote; the shipped one where it has no bins.

        Raises:
            BadCalibration: it cannot be read, or is of another model.
        """
        try:
            with path.open("rb") as file:
                data = file.read(BYTES_MAX + 1)
            found = from_document(_File, read_json(data, bytes_max=BYTES_MAX))
        except (OSError, UnreadableJson, UnreadableValue) as error:
            raise BadCalibration(
                f"{path} cannot be read as a calibration: {error}.", advice=_ADVICE
            ) from None
        if found.model != ETA_MODEL:
            raise BadCalibration(
                f"{path} is of model {found.model}, and this kshunt uses {ETA_MODEL}.",
                advice=_ADVICE,
            )
        for one in found.bins:
            if not one.low <= one.middle <= one.high:
                raise BadCalibration(
                    f"{path} has a bin whose quantiles {one.low}, {one.middle}, {one.high} do not "
                    "ascend.",
                    advice=_ADVICE,
                )
        return cls(found.bins, found.about) if found.bins else shipped()


@lru_cache(1)
def shipped() -> Calibration:
    """The one that comes with kshunt."""
    return Calibration.read(SHIPPED)


@lru_cache(1)
def shipped_quantiles() -> Floats:
    """Those of `shipped`."""
    return shipped().quantiles()


Key = tuple[str, int | None, str | None, str | None]


def _coarser(kind: str, stage: int, held_by: str, writes: str) -> Iterator[Key]:
    """A bin and those that it falls into, finest first: how far it is tells the least."""
    yield kind, stage, held_by, writes
    yield kind, None, held_by, writes
    yield kind, None, None, writes
    yield kind, None, None, None
