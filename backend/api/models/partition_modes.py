"""The mode of a partition, for the API's description; `backend.domain.cluster.partition_modes` says what it means."""

from __future__ import annotations

from typing import Literal

ModeKey = Literal["readwrite", "readonly", "none"]
"""A `PartitionMode.key`."""
