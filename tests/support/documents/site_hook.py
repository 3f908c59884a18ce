"""What mkdocs does to a page before it reads it: options that tests need leave the fences."""

from __future__ import annotations

import re
from typing import Any, Final

_FENCE: Final = re.compile(r"^(```sh) .*$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with fences that mkdocs understands."""
    return _FENCE.sub(r"\1", markdown)
