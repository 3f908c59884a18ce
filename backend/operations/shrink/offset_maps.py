"""Where consumer groups continue, by the offset maps that jobs leave in their folders."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from kshunt.backend.domain.shrink.offset_maps import OFFSET_MAP, OffsetMap, Offsets, translated_of
from kshunt.backend.operations.state.shrink_work import Compared, GroupPlace

_STAMP: Final = "compared.json"


def _stored(folder: Path) -> Iterable[OffsetMap]:
    # It loads what only a shrink needs.
    from kshunt.backend.delivered_files.offset_map import StoredOffsetMap

    return StoredOffsetMap(folder / OFFSET_MAP)


def stamp(folder: Path, found: Compared) -> None:
    """Note which comparison the map in a folder is of."""
    with suppress(OSError):
        (folder / _STAMP).write_text(_text(found))


def map_is_there(folder: Path, found: Compared) -> bool:
    """Whether the whole offset map of a comparison is on this machine: it is not in the cluster.

    One of an earlier comparison lacks records, and a group would lose them.
    """
    try:
        same = (folder / _STAMP).read_text() == _text(found)
    except OSError:
        return False
    return same and (folder / OFFSET_MAP / "_SUCCESS").exists()


def _text(found: Compared) -> str:
    return json.dumps([sorted(found.positions.items()), sorted(found.ends.items()), found.at_ms])


def places(
    folder: Path, committed: Mapping[str, Offsets], ends: Offsets
) -> Mapping[str, GroupPlace]:
    """Where each group continues in the copy; it takes a while for large maps."""
    where = _stored(folder)
    found = {}
    for name, positions in committed.items():
        one = translated_of(where, positions, ends)
        found[name] = GroupPlace(positions, one.positions, one.read_twice)
    return found


def finals(
    folder: Path, known: Mapping[str, GroupPlace], ends: Offsets
) -> Mapping[str, GroupPlace]:
    """The same groups with where they continue in the final topic, by the map of the way back."""
    where = _stored(folder)
    return {
        name: place
        if place.final is not None
        else replace(place, final=translated_of(where, place.copied, ends).positions)
        for name, place in known.items()
    }
