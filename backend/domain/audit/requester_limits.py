"""How many characters a requester may say of themselves; tools import it without the lines."""

from __future__ import annotations

from typing import Final

WHO_MAX: Final = 200
"""Characters."""
REASON_MAX: Final = 2_000
"""Characters."""
