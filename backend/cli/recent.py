"""Clusters that this user opened recently, by the flags that named them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from kshunt.backend.files import make_folder, replace_file, state_folder

KEPT: Final = 10


def recent_path(environment: Mapping[str, str]) -> Path:
    """`$XDG_STATE_HOME/kshunt/recent.json`, or below `~/.local/state`."""
    return state_folder(environment) / "recent.json"


def recent(path: Path) -> tuple[tuple[str, ...], ...]:
    """The flags of each cluster, the last one first; nothing where the file cannot be used."""
    with suppress(OSError, ValueError):
        document = json.loads(path.read_text("utf-8"))
        return tuple(tuple(one) for one in document if _is_words(one))[:KEPT]
    return ()


def _is_words(one: object) -> bool:
    return isinstance(one, list) and bool(one) and all(isinstance(word, str) for word in one)


def remember(path: Path, words: Sequence[str]) -> None:
    """Put a cluster before the others. A file that cannot be written stays as it is."""
    kept = [list(words), *(list(one) for one in recent(path) if one != tuple(words))]
    # Nothing depends on it: it only saves typing.
    with suppress(OSError):
        make_folder(path.parent)
        replace_file(path, json.dumps(kept[:KEPT], indent=1).encode(), mode=0o600)
