"""Drift and orphans in an operator's words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kshunt.backend.domain.text.formatting import UNKNOWN, limit_text
from kshunt.backend.domain.throttles.configs import SETTING_WORDS
from kshunt.backend.domain.throttles.owners import (
    DriftKind,
    OrphanOrigin,
    SettingValue,
    ShownDrift,
    ShownOrphan,
)
from kshunt.tui.text.glyphs import Glyphs

ORIGINS: Final[Mapping[OrphanOrigin, str]] = {
    OrphanOrigin.LEFT_BY_US: "left by an operation of ours that was asked to keep it",
    OrphanOrigin.ENDED_MOVE: ("left by an ended move, as Kafka's own tool does until --verify"),
    OrphanOrigin.CANCELLED_MOVE: "left by a move that was cancelled",
    OrphanOrigin.UNLISTED_RATE: "a rate on a broker that no list uses: it has no effect",
    OrphanOrigin.NO_SUCH_PARTITION: "names a partition that does not exist",
    OrphanOrigin.UNKNOWN: "unknown; perhaps set by an operator",
}
"""Where an orphan is likely to be from."""
BRIEF_ORIGINS: Final[Mapping[OrphanOrigin, str]] = {
    OrphanOrigin.LEFT_BY_US: "kept on request",
    OrphanOrigin.ENDED_MOVE: "move ended",
    OrphanOrigin.CANCELLED_MOVE: "move cancelled",
    OrphanOrigin.UNLISTED_RATE: "no effect",
    OrphanOrigin.NO_SUCH_PARTITION: "no partition",
    OrphanOrigin.UNKNOWN: "unknown",
}
"""The same where there is no room."""


def setting_words(one: ShownDrift | ShownOrphan) -> str:
    """`follower rate of broker 2`."""
    whose = f"topic {one.topic}" if one.broker is None else f"broker {one.broker}"
    return f"{SETTING_WORDS.get(one.setting, one.setting)} of {whose}"


def value_words(value: SettingValue | None) -> str:
    """`25.0 MB/s`, a list of replicas, or `none`; `?` where it is not known."""
    if value is None:
        return UNKNOWN
    if value.replicas is None:
        return limit_text(value.rate_bytes_per_s)
    return value.replicas or "none"


def drift_words(drift: ShownDrift) -> str:
    """What somebody else did: both rates, or what is new about a list."""
    if drift.broker is not None:
        wanted, found = value_words(drift.wanted_value), value_words(drift.found_value)
        return f"{setting_words(drift)}: wanted {wanted}, found {found}"
    words = f"{setting_words(drift)} was {drift.kind}"
    if not drift.changed_replicas:
        return words
    verb = "also lists" if drift.kind is DriftKind.WIDENED else "lacks"
    return f"{words}: it {verb} {drift.changed_replicas}"


def change_words(drift: ShownDrift, glyphs: Glyphs) -> str:
    """What it should be and what it is: `25.0 MB/s → none`."""
    return f"{value_words(drift.wanted_value)} {glyphs.arrow} {value_words(drift.found_value)}"


def orphan_words(orphan: ShownOrphan) -> str:
    """What it is and where it is likely to be from; a list, which may be long, comes last."""
    what, value = setting_words(orphan), value_words(orphan.present_value)
    if orphan.broker is not None:
        return f"{what} is {value}, {ORIGINS[orphan.origin]}"
    return f"{what}, {ORIGINS[orphan.origin]}: {value}"


def owner_words(operations: Iterable[str]) -> str:
    """`operation ab12cd34`, or nothing."""
    ids = list(operations)
    return f"operation{'s' if len(ids) > 1 else ''} {', '.join(ids)}" if ids else ""
