"""How often a backend's forecasts were right."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ForecastRecord:
    """How often the forecasts of a cluster's operations were right."""

    calibration: str = ""
    """What the ranges are made from, in words; empty where the backend does not say."""
    right: int = 0
    counted: int = 0
    """Forecasts whose end is known and that are not void."""

    def __str__(self) -> str:
        """`right 82 % of 41 forecasts; ranges from the shipped calibration`."""
        if not self.counted:
            said = "none checked yet"
        else:
            share, many = 100 * self.right / self.counted, "" if self.counted == 1 else "s"
            said = f"right {share:.0f} % of {self.counted:,} forecast{many}"
        return f"{said}; ranges from {self.calibration}" if self.calibration else said
