"""The names of the views, which keys, tables and screens share."""

from __future__ import annotations

from typing import Final

PARTITIONS: Final = "partitions"
BROKERS: Final = "brokers"
THROTTLES: Final = "throttles"
OPERATIONS: Final = "operations"
VIEWS: Final = (PARTITIONS, BROKERS, THROTTLES, OPERATIONS)
"""In the order of their number keys."""
