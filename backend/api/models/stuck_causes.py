"""Why a replica is stuck, for the API's description; see `Cause`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

CauseKey = Literal[
    "broker_down",
    "log_dir_offline",
    "no_leader",
    "controller",
    "source_unreachable",
    "throttle_floor",
    "throttle_too_low",
    "throttle_orphan",
    "remaining_out_of_isr",
    "disk_full",
    "log_dir_move",
    "waiting_turn",
    "copy_too_slow",
    "too_short",
    "paused",
    "deletion_waits",
]
"""A `Cause.key`."""


class RateNeedModel(BaseModel):
    """A throttle that is too low, and the rate that would do."""

    broker: int
    key: str
    has_bytes_per_s: int
    written_bytes_per_s: int
    needs_bytes_per_s: int
