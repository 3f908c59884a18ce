"""Paths as Spark's readers take them: they read patterns, where everything else reads names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_PATTERN: Final = re.compile(r"([\\{}\[\]*?])")


def literal(path: Path) -> str:
    """The pattern that this path alone fits; for a reader, not for a writer."""
    return _PATTERN.sub(r"\\\1", str(path))
