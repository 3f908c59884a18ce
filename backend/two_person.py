"""What takes two people: one asks for it, and another one approves it."""

from __future__ import annotations

import enum
import re
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kshunt.backend.commandline.reading import UsageError
from kshunt.backend.commandline.table import Flag


class TwoPersonKind(enum.StrEnum):
    """What can be made to take two people."""

    UNCLEAN = "unclean"
    """Unclean elections, which lose messages."""
    SHRINK = "shrink"
    """Topics with fewer partitions: a shrink's start and its cut-over, and KIP-694's deletions."""


EXPIRY_S: Final = 900.0
EXPIRY_S_MAX: Final = 30 * 86_400.0
_SPAN: Final = re.compile(r"([1-9][0-9]{0,6})([smhd])", re.ASCII)
_UNITS_S: Final[Mapping[str, float]] = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


@dataclass(frozen=True, slots=True)
class TwoPersonRule:
    """What takes two people on one backend."""

    guarded: frozenset[TwoPersonKind] = frozenset()
    """Empty: nothing does."""
    expiry_s: float = EXPIRY_S
    """A proposal that nobody has approved by then is dead."""


FLAGS: Final = (
    Flag(
        "two-person",
        "One person proposes it and another one approves it: unclean (elections), shrink (topics).",
        "WHAT[,...]",
        repeatable=True,
    ),
    Flag(
        "proposal-expiry",
        "How long a proposal can be approved, as 90s, 15m or 2h.",
        "SPAN",
        default="15m",
    ),
)


def rule_of(options: Namespace, *, identified: bool) -> TwoPersonRule:
    """What the flags say.

    Args:
        options: what was read of `FLAGS`.
        identified: whether every caller shows a credential of their own.

    Raises:
        UsageError: a flag cannot be meant, or callers are not told apart and have to be.
    """
    words = [word.strip() for text in options.two_person for word in text.split(",")]
    try:
        guarded = frozenset(TwoPersonKind(word.lower()) for word in words)
    except ValueError:
        raise UsageError(
            f"--two-person '{','.join(options.two_person)}' is not valid.",
            advice=f"These changes can need a second person: {', '.join(TwoPersonKind)}.",
        ) from None
    rule = TwoPersonRule(guarded, _expiry_s(options.proposal_expiry))
    if guarded and not identified:
        raise UsageError(
            "--two-person needs callers that can be told apart. On a socket, and on a port "
            "without credentials, one person could propose and then approve under another name. "
            "Nothing was started.",
            advice="Give --listen HOST:PORT with --tokens or --oidc-issuer.",
        )
    return rule


def _expiry_s(text: str) -> float:
    match = _SPAN.fullmatch(text.strip())
    seconds = 0.0 if match is None else int(match[1]) * _UNITS_S[match[2]]
    if not 0 < seconds <= EXPIRY_S_MAX:
        raise UsageError(
            f"--proposal-expiry '{text}' must be a duration of at most 30 days.",
            advice="Write 90s, 15m or 2h.",
        )
    return seconds
