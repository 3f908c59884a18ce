"""Which calibration forecasts are made with, while a backend runs.

Algorithm
    A file that the operator names goes first. It is read again when it changes. While it cannot be
    read, the last one that could is used, and a remark says so. Without a file, the cluster's own
    operations make a calibration once there are enough of them. Until then the shipped one is used.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kshunt.backend.domain.backend.forecast_record import ForecastRecord
from kshunt.backend.domain.forecast.calibration import (
    BadCalibration,
    Calibration,
    shipped,
    shipped_quantiles,
)
from kshunt.backend.domain.forecast.fair_shares import Floats
from kshunt.backend.domain.forecast.scoring.kept_forecasts import record_of
from kshunt.backend.domain.forecast.scoring.milestones import Kept
from kshunt.backend.domain.forecast.scoring.own_calibration import own_calibration
from kshunt.backend.domain.text.formatting import many
from kshunt.backend.limits import LIMITS

log = logging.getLogger(__name__)

SHIPPED_WORDS: Final = "the shipped calibration"
_Signature = tuple[int, int, int] | None


@dataclass(frozen=True, eq=False)
class _Used:
    quantiles: Floats
    words: str


class CalibrationInUse:
    """See the module's text. `quantiles` is asked by one thread; any may read the rest."""

    def __init__(self, file: Path | None, kept: Callable[[], Mapping[str, Kept]]) -> None:
        """`kept` is asked in a thread: the forecasts of operations, by id."""
        self._file, self._kept = file, kept
        self._from_file: _Used | None = None
        self._read: _Signature = None
        """Of the file, when it was read last."""
        self._problem = ""
        self._known: Mapping[str, Kept] | None = None
        self._own: _Used | None = None

    def quantiles(self) -> Floats:
        """Those of the calibration in use, after a look at the file and the operations."""
        if self._file is not None:
            self._look_at(self._file)
        known = self._kept()
        if known is not self._known:
            self._known = known
            self._own = _own(known)
        return self._used.quantiles

    @property
    def record(self) -> ForecastRecord:
        """What ranges are made from, and how often forecasts were right."""
        every = (one for kept in self._kept().values() for one in kept)
        return record_of(self._used.words, every)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What an operator should know of the file; nothing where it is in use."""
        if not self._problem:
            return ()
        return (f"{self._problem} kshunt uses {self._used.words}.",)

    @property
    def _used(self) -> _Used:
        return self._from_file or self._own or _Used(shipped_quantiles(), SHIPPED_WORDS)

    def _look_at(self, file: Path) -> None:
        signature = _signature(file)
        if signature == self._read and (signature is not None or self._problem):
            return
        self._read = signature
        try:
            found = Calibration.read(file)
        except BadCalibration as error:
            self._problem = str(error)
            log.warning("%s kshunt uses %s.", error, self._used.words)
            return
        self._problem = ""
        words = f"{file.name} ({found.about})"
        self._from_file = None if found is shipped() else _Used(found.quantiles(), words)
        log.info("Forecasts use %s.", self._used.words)


def _signature(file: Path) -> _Signature:
    """Differs where another file is there; None: there is none."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _own(known: Mapping[str, Kept]) -> _Used | None:
    found = own_calibration(known.values(), shipped_quantiles(), LIMITS.calibration_operations)
    if found is None:
        return None
    return _Used(found.quantiles, f"{many(found.operations, 'operation')} of this cluster")
