"""The caller of the request that is being answered."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

from kshunt.backend.access.roles import LOCAL, Caller

CURRENT_CALLER: Final[ContextVar[Caller]] = ContextVar("kshunt_caller", default=LOCAL)
"""Set for each request before anything of it is answered."""
