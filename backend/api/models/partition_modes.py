"""The mode of a partition, for the API's description; see `PartitionMode`."""

from __future__ import annotations

from typing import Literal

ModeKey = Literal["readwrite", "readonly", "none"]
"""A `PartitionMode.key`."""
