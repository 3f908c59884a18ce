"""Whose a throttle is, and what comes back, in an operator's words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from kshunt.backend.domain.cluster.config_names import ConfigSource
from kshunt.backend.domain.throttles.configs import SETTING_WORDS
from kshunt.backend.domain.throttles.owners import OwnedThrottle, Share, ShareState
from kshunt.tui.facts.drift_words import value_words

NOT_OURS: Final = "not ours"


def owner_text(cells: Sequence[OwnedThrottle], set_here: int) -> str:
    """At a glance: `op-1 ada`, `2 operations`, `left by op-1`; of `set_here` settings that stand.

    Empty where nothing stands, `not ours` where nobody here has a share of what does.
    """
    if not cells:
        return NOT_OURS if set_here else ""
    shares = {share.operation: share for cell in cells for share in cell.shares}
    held = [share for share in shares.values() if share.state is not ShareState.LEFT]
    if not held:
        words = f"left by {', '.join(shares)}"
    elif len(held) > 1:
        words = f"{len(held)} operations"
    else:
        words = f"{held[0].operation} {held[0].who.partition('@')[0]}".rstrip()
    return f"{words}, part {NOT_OURS}" if set_here > len(cells) else words


def before_text(cells: Sequence[OwnedThrottle]) -> str:
    """What comes back: one value where all are alike, else each."""
    return " / ".join(dict.fromkeys(value_words(cell.prior_value) for cell in cells))


def owned_lines(cells: Iterable[OwnedThrottle]) -> list[tuple[str, str]]:
    """Label and text: who owns what of it, and what comes back; settings that are alike once."""
    alike: dict[tuple[object, ...], list[OwnedThrottle]] = {}
    for cell in cells:
        shares = tuple((share.operation, share.state, _short(share)) for share in cell.shares)
        alike.setdefault((shares, cell.prior_value, cell.prior_source), []).append(cell)
    lines = []
    for same in alike.values():
        what = " and ".join(SETTING_WORDS.get(cell.setting, cell.setting) for cell in same)
        owners = "; ".join(map(share_words, same[0].shares))
        lines.append(("Owner", f"{what}: {owners}"))
        before = f"{value_words(same[0].prior_value)}{_source(same[0])}"
        lines.append(("Before", f"{before}, restored at the end"))
    return lines


def share_words(share: Share) -> str:
    """`op-1 of ada@bastion-1 wants 25.0 MB/s`."""
    whose = f"{share.operation} of {share.who or 'somebody'}"
    if share.state is ShareState.ENDING:
        return f"{whose} is removing its share"
    if share.state is ShareState.LEFT:
        return f"{whose} has ended and left {_short(share)} set"
    return f"{whose} wants {_short(share)}"


def _short(share: Share) -> str:
    """A rate, or how many replicas a list names; the list itself stands in its column."""
    replicas = None if share.wanted_value is None else share.wanted_value.replicas
    if not replicas or replicas == "*":
        return value_words(share.wanted_value)
    count = replicas.count(",") + 1
    return f"{count:,} replica{'' if count == 1 else 's'}"


def _source(cell: OwnedThrottle) -> str:
    """Where it is from, unless it was the broker's own."""
    source = cell.prior_source
    if not source or source == ConfigSource.DYNAMIC_BROKER:
        return ""
    return f" ({source.lower().replace('_', ' ')})"
