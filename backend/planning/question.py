"""What a backend asks a planner's process and is answered, without what the process works with.

That is the whole of an embedded cluster: a backend that loads it starts later.
"""

from __future__ import annotations

import struct
from typing import Final

from kshunt.backend.domain.planning.requests import (
    PlanAnswer,
    PlanRequest,
    RehearsalAnswer,
    RehearsalRequest,
)

LENGTH: Final = struct.Struct("!Q")
"""Comes before a question, and is its length in bytes."""

Question = PlanRequest | RehearsalRequest
Answer = PlanAnswer | RehearsalAnswer
