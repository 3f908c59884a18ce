"""Drift and orphans in an operator's words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from kshunt.backend.domain.throttles.owners import ShownDrift, ShownOrphan
from kshunt.tui.text.formatting import Glyphs, rate_text

SETTINGS: Final = {
    "leader.replication.throttled.rate": "leader rate",
    "follower.replication.throttled.rate": "follower rate",
    "replica.alter.log.dirs.io.max.bytes.per.second": "log directory rate",
    "leader.replication.throttled.replicas": "leader list",
    "follower.replication.throttled.replicas": "follower list",
}
"""Kafka's config names as the columns call them."""

_RATE: Final = re.compile(r"\b(\d+) B/s")


def readable(text: str) -> str:
    """A backend's sentence with rates as they are written here, and short names of settings."""
    for name, words in SETTINGS.items():
        text = text.replace(name, words)
    return _RATE.sub(lambda found: rate_text(int(found[1])), text)


def setting_words(one: ShownDrift | ShownOrphan) -> str:
    """`follower rate of broker 2`."""
    whose = f"topic {one.topic}" if one.broker is None else f"broker {one.broker}"
    return f"{SETTINGS.get(one.setting, one.setting)} of {whose}"


def drift_words(drift: ShownDrift) -> str:
    """What somebody else did: both rates, or what is new about a list."""
    if drift.broker is not None:
        wanted, found = readable(drift.wanted), readable(drift.found)
        return f"{setting_words(drift)}: wanted {wanted}, found {found}"
    return readable(drift.text) or f"{setting_words(drift)} was {drift.kind}"


def change_words(drift: ShownDrift, glyphs: Glyphs) -> str:
    """What it should be and what it is: `25.0 MB/s → none`."""
    return f"{readable(drift.wanted)} {glyphs.arrow} {readable(drift.found)}"


def orphan_words(orphan: ShownOrphan) -> str:
    """What it is and where it is likely to be from; a list, which may be long, comes last."""
    what, value = setting_words(orphan), readable(orphan.value)
    if orphan.broker is not None:
        return f"{what} is {value}, {orphan.origin}"
    return f"{what}, {orphan.origin}: {value}"


def owner_words(operations: Iterable[str]) -> str:
    """`operation ab12cd34`, or nothing."""
    ids = list(operations)
    return f"operation{'s' if len(ids) > 1 else ''} {', '.join(ids)}" if ids else ""
