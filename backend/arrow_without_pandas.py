"""Arrow looks for pandas as it makes its first array, and loads it where it is installed.

kshunt has no use for pandas; PySpark needs it, so it often lies next to kshunt. To load it takes a
backend half a second of a processor, and 60 MB.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

import pyarrow as pa

_PANDAS: Final = "pandas"


class _WithoutPandas(MetaPathFinder):
    """Among the finders of this process, it hides pandas from every import."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == _PANDAS:
            raise ModuleNotFoundError(f"{fullname} is hidden", name=fullname)
        return None


def forgo_pandas() -> None:
    """Let Arrow look for pandas now, and find none. It does not look for it again.

    Others can import pandas afterwards. An Arrow table that has to become a frame still does.
    """
    hidden = _WithoutPandas()
    sys.meta_path.insert(0, hidden)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(hidden)
