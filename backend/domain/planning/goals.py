"""What a plan can be for, in the words and the units of the command line."""

from __future__ import annotations

import enum
import re
from typing import Final

from kshunt.backend.errors import BadInput

TOLERANCE: Final = 0.1
DISK_FRACTION: Final = 0.85
"""Of a volume's size: what may be used once everything that is added has arrived."""
THROTTLES_MAX: Final = 8
"""Rehearsals in one question."""


class Goal(enum.StrEnum):
    """What a plan is for; the words of the command line."""

    DRAIN = "drain"
    EXPAND = "expand"
    REPLICATION_FACTOR = "replication-factor"
    REBALANCE = "rebalance"
    LEADERS = "leaders"
    RACK_REPAIR = "rack-repair"
    REPLACE = "replace"
    MOVE_LOG_DIRS = "move-log-dirs"


class Weighing(enum.StrEnum):
    """What a replica weighs."""

    BYTES = "bytes"
    """Its size. One of unknown size is left where it is, and weighs nothing."""
    REPLICAS = "replicas"
    """One. An unknown size counts as the largest known one where the cheapest are looked for."""
    LOAD = "load"
    """Bytes a second: what producers write, and at the first of the list, which is to lead, also
    what consumers read. A partition of which one of the two is unknown is left where it is, and
    weighs nothing; but where nothing at all is known of reading, writing alone weighs."""


_SIZE: Final = re.compile(r"(?i)(\d{1,15}(?:\.\d{1,6})?)\s*(?:([kmgtp])(i?))?b?", re.ASCII)


def parse_size(text: str) -> int:
    """Bytes from what an operator types: `500GB`, `2TiB`, `1.5 gb`, `10k`, `1000`.

    GB is 10**9 and GiB is 2**30, as SI and IEC say.

    Raises:
        BadInput: it is no size.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise BadInput(f"'{text}' is not a size.", advice="Write 500GB, 2TiB, or bytes.")
    power: int = " kmgtp".index((match[2] or " ").lower())
    return round(float(match[1]) * float((1024 if match[3] else 1000) ** power))
