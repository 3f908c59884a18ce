"""A mapping that may hold secrets, and shows none."""

from __future__ import annotations

from typing import Any


class Redacted(dict[str, Any]):
    """Its repr has its keys only, so that no log, traceback or test report has a value."""

    def __repr__(self) -> str:
        return f"Redacted({', '.join(self)})"

    __str__ = __repr__
