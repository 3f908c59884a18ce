"""What an answer of a webhook means, and how long to wait before the next attempt. Pure.

Goals
    A message arrives if its receiver is ever there. A receiver that is down is not hammered. One
    message that a receiver will never take does not hold up the others for long.
Constraints
    Order is kept within a hook, so a message that is tried again holds up what came after it. What
    a receiver asks for (`Retry-After`) counts within a bound.
Algorithm
    Pauses grow with the failures in a row of the hook, not of the message. Each failure doubles
    the pause, up to a bound. A hook waits half of the pause and a random part of the other half,
    so that hooks of several backends do not come together. Source: AWS, "Exponential Backoff And
    Jitter", equal jitter. A refusal that a repetition is not likely to change (4xx) is repeated a
    few times only.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from random import Random
from typing import Final


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Every time and bound of sending."""

    attempts: int = 12
    """Of a message where the receiver is not there or in trouble: half an hour and more."""
    attempts_refused: int = 3
    """Of a message that the receiver does not take."""
    pause_s: float = 2.0
    """After the first failure in a row."""
    pause_s_max: float = 300.0
    retry_after_s_max: float = 600.0
    """The longest pause that a receiver gets when it asks for one."""
    answer_s: float = 10.0
    """Of one attempt: to connect, to send, and the answer's head; of a refusal, what it says."""
    waiting_max: int = 1_000
    """Messages of a hook that wait."""
    grace_s: float = 3.0
    """At a stop, the backend tries the messages that wait once more, for this long at most."""


class AttemptResult(enum.Enum):
    """What an attempt came to."""

    DELIVERED = enum.auto()
    AGAIN = enum.auto()
    """The receiver is not there, in trouble, or asks for time."""
    REFUSED = enum.auto()
    """The receiver does not take it, so that a repetition is not likely to help."""
    GONE = enum.auto()
    """The receiver wants nothing any more."""


@dataclass(frozen=True, slots=True)
class AttemptOutcome:
    """What came of one attempt."""

    result: AttemptResult
    words: str = ""
    """Why it was not delivered."""
    retry_after_s: float = 0.0
    """How long the receiver asks to be left alone."""


_GONE: Final = 410
_TIMES: Final = frozenset({408, 409, 421, 423, 425, 429})
"""Refusals (4xx) that say "not now"."""


def judged(status: int, said: str, retry_after: str, now_ms: int) -> AttemptOutcome:
    """What an answer means.

    Args:
        status: Its HTTP status.
        said: What else it says, for an operator.
        retry_after: Its `Retry-After`; empty for none.
        now_ms: The time, for one that names a moment.
    """
    if 200 <= status < 300:
        return AttemptOutcome(AttemptResult.DELIVERED)
    words = f"HTTP {status}{f': {said}' if said else ''}"
    if status == _GONE:
        return AttemptOutcome(AttemptResult.GONE, words)
    if 300 <= status < 400:
        return AttemptOutcome(AttemptResult.REFUSED, f"{words} (a redirect, which is not followed)")
    wait_s = retry_after_s(retry_after, now_ms)
    refused = 400 <= status < 500 and status not in _TIMES
    return AttemptOutcome(AttemptResult.REFUSED if refused else AttemptResult.AGAIN, words, wait_s)


def retry_after_s(text: str, now_ms: int) -> float:
    """Seconds that a `Retry-After` asks for (RFC 9110, 10.2.3); 0 where it cannot be read."""
    if text.isascii() and text.isdigit() and len(text) < 10:
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return max(0.0, moment.timestamp() - now_ms / 1000)
    except (ValueError, TypeError, OverflowError, IndexError):
        return 0.0


def pause_s(failures: int, asked_s: float, policy: RetryPolicy, random: Random) -> float:
    """How long to leave a hook alone after this number of failures in a row, at least 1."""
    # Doubled often enough the bound is reached, and a float would overflow later.
    grown_s = policy.pause_s * 2.0 ** min(failures - 1, 30)
    whole_s = min(grown_s, policy.pause_s_max)
    return max(whole_s * (0.5 + random.random() / 2), min(asked_s, policy.retry_after_s_max))


def given_up(attempts: int, answer: AttemptOutcome, policy: RetryPolicy) -> bool:
    """Whether a message was tried often enough."""
    most = policy.attempts_refused if answer.result is AttemptResult.REFUSED else policy.attempts
    return attempts >= most
