"""What schemas share: no web framework is imported for it, and no data library."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
