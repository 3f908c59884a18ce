"""What becomes of the throttles of moves that somebody else started, once these end. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kshunt.backend.domain.operations.operation import Operation, OperationKind
from kshunt.backend.domain.text.formatting import listed, many
from kshunt.backend.domain.throttles.configs import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    Throttles,
)
from kshunt.backend.domain.throttles.owners import ShareState

if TYPE_CHECKING:
    from kshunt.backend.domain.throttles.owners import OwnedThrottle

PASSING: Final = (OperationKind.THROTTLED_RATES, OperationKind.THROTTLED_REPLICAS)
"""An operation of these kinds keeps running only to remove what it set, once moves of others end.
Where what it set stays, the operation ends with its answer."""


class Left(NamedTuple):
    """What stays on in the end."""

    operations: tuple[str, ...] = ()
    """Ids of those that take off what they set when the moves end."""
    stays: int | None = None
    """How many rates and lists nobody here removes; None where that is not known."""

    @property
    def nothing(self) -> bool:
        """True where it is known that operations here remove all of it."""
        return bool(self.operations) and self.stays == 0


def foreign_throttles_left(
    operations: Iterable[Operation],
    throttles: Throttles | None,
    owned: Sequence[OwnedThrottle] | None,
) -> Left:
    """What stays of the throttles that stand; `owned` None where nobody has said whose they are."""
    ids = tuple(
        one.id
        for one in operations
        if one.kind in PASSING and not one.state.ended and one.auto_remove_throttle
    )
    if throttles is None or owned is None:
        return Left(ids)
    held = {
        (cell.setting, cell.topic if cell.broker is None else cell.broker)
        for cell in owned
        if any(share.state is not ShareState.LEFT for share in cell.shares)
    }
    return Left(ids, sum(1 for cell in _set_cells(throttles) if cell not in held))


def _set_cells(throttles: Throttles) -> Iterator[tuple[str, int | str]]:
    """Every rate and every list that is set."""
    for broker, throttle in throttles.rates.items():
        rate = throttle.rate
        if rate.leader_bytes_per_s is not None:
            yield LEADER_RATE, broker
        if rate.follower_bytes_per_s is not None:
            yield FOLLOWER_RATE, broker
    for topic, lists in throttles.replicas.items():
        if lists.leaders:
            yield LEADER_REPLICAS, topic
        if lists.followers:
            yield FOLLOWER_REPLICAS, topic


def left_words(left: Left) -> str:
    """`op-3 removes the throttles when they end`, or that nobody does; without a full stop."""
    if not left.operations:
        return "their throttles stay set when they end"
    who = listed(left.operations, 2)
    removes = "removes" if len(left.operations) == 1 else "remove"
    if left.nothing:
        return f"{who} {removes} the throttles when they end"
    own = "its own" if len(left.operations) == 1 else "their own"
    if left.stays is None:
        return f"some throttles may stay set, {who} {removes} {own}"
    # What nobody removes comes first: a narrow line is cut at its end.
    stay = "stays" if left.stays == 1 else "stay"
    return f"{many(left.stays, 'throttle')} {stay} set, {who} {removes} {own}"
