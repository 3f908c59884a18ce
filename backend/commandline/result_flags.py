"""Flags of how long results of the data pipeline are kept: of `kshunt pipeline` and `serve`."""

from __future__ import annotations

from typing import Final

from kshunt.backend.commandline.table import Flag
from kshunt.backend.commandline.values import days

KEEP_RESULTS: Final = (
    Flag(
        "keep-rates",
        "Delete older results of tables with a row for each tick.",
        "DAYS",
        value=days,
        default=14,
    ),
    Flag("keep-results", "Delete older results of other tables.", "DAYS", value=days, default=730),
)
"""Hours of results that are older are deleted."""
