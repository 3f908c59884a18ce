"""When what moves will be done, as `kshunt.backend.domain.forecast` expects it: its values.

Seconds count from `ExpectedEnd.at_ms`. None is what is not known, or what does not happen.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

HeldBy: TypeAlias = Literal["other", "throttle", "turn"]
"""What holds up: disks and networks, a throttle on the way, or that moves wait for their turn."""
Writes: TypeAlias = Literal["none", "some", "much", "varying"]
"""What is written to copies until a forecast end: next to nothing, no more than they lack now, or
more than that. It is varying if it is more than nothing, and was another amount lately."""
EVERYTHING: Final = ""
"""The key of all moves together, in the place of an operation's id."""


class ResourceKind(enum.StrEnum):
    """What copies pass through, and what can hold them up there."""

    LEADER_THROTTLE = "leader_throttle"
    FOLLOWER_THROTTLE = "follower_throttle"
    SENDING = "sending"
    """What a broker's disks and network can send."""
    RECEIVING = "receiving"
    LINK = "link"
    """The network from one broker to another, and the follower's fetcher threads for it
    (num.replica.fetchers): from outside they look alike."""
    TURN = "turn"
    """The caps of an operation: the move has not begun."""


_WORDS: Final = {
    ResourceKind.LEADER_THROTTLE: "leader throttle of broker {0}",
    ResourceKind.FOLLOWER_THROTTLE: "follower throttle of broker {0}",
    ResourceKind.SENDING: "broker {0} sending",
    ResourceKind.RECEIVING: "broker {0} receiving",
    ResourceKind.LINK: "link {0}->{1}",
    ResourceKind.TURN: "its turn",
}


@dataclass(frozen=True, slots=True)
class Resource:
    """One of them."""

    kind: ResourceKind
    brokers: tuple[int, ...] = ()
    """Whose it is; of a link the leader's and the follower's."""

    def __str__(self) -> str:
        """For an operator: `leader throttle of broker 3`, `link 1->4`."""
        return _WORDS[self.kind].format(*self.brokers)


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """What holds up the copy that ends last, for a while."""

    resource: Resource
    until_s: float | None
    """None: for good."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """What keeps copies from ever arriving, and what would do."""

    resource: Resource
    rate_bytes_per_s: int
    """What it gives."""
    written_bytes_per_s: int
    """What is written to all that passes there: no less would do."""
    needs_bytes_per_s: int | None
    """A rate under which all of them arrive; None where no rate of a throttle helps."""


@dataclass(frozen=True, slots=True)
class DeadlineCheck:
    """Whether an operation is done in time, with a certainty of 90 %."""

    at_ms: int
    """The moment that was asked for, milliseconds since the epoch."""
    holds: bool | None
    """None: nobody knows, as copies are paused or not measured yet."""
    needs_bytes_per_s: int | None = None
    """Where it does not hold: the lowest throttle that would do; None where none would."""


@dataclass(frozen=True, slots=True)
class ExpectedEnd:
    """When an operation, or all that moves, will be done."""

    at_ms: int
    """When this was worked out, milliseconds since the epoch."""
    copies: int
    """Replicas that are to be copied, those of moves that wait for their turn included."""
    p10_s: float | None = None
    p50_s: float | None = None
    p90_s: float | None = None
    """Nine in ten are done so soon. Of the copies that arrive; None where there are none."""
    never: int = 0
    """Copies that do not arrive before something changes."""
    unknown: int = 0
    """Copies of which too little is known yet."""
    held: int = 0
    """Copies that a paused operation holds."""
    waiting: int = 0
    """Copies of moves that wait for their turn."""
    held_by: HeldBy = "other"
    """What the range was made for: a throttle gives the copy that ends last no more, moves wait for
    their turn, or disks and networks decide."""
    writes: Writes = "some"
    """What is written to its copies until then, likewise."""
    watched_s: float = 0.0
    """For how long the first of its copies has been watched."""
    bottlenecks: tuple[Bottleneck, ...] = ()
    shortage: Shortage | None = None
    why: str = ""
    """What keeps the others from arriving, in words; empty where they all do."""
    burndown: tuple[tuple[float, int], ...] = ()
    """Seconds, and the bytes that are left then, by the middle of the range."""
    deadline: DeadlineCheck | None = None
    """Of an operation that has a deadline."""
    left_bytes: int | None = None
    """What its copies lack, waiting ones included; None where it is not known of all of them."""
    model_s: float | None = None
    """The end as the model computed it, before the calibration moved it."""
