"""Which broker coordinates what, for the handlers of groups and of transactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kshunt.backend.embedded.coordinator.codes import CoordinatorCode
from kshunt.backend.embedded.coordinator.members import Ticket
from kshunt.backend.embedded.coordinator.routing import coordinator_of
from kshunt.backend.embedded.core.world import World
from kshunt.backend.embedded.net.api import WireReply
from kshunt.backend.embedded.net.server import RequestContext

Answer = TypeVar("Answer")

_LOOK_S = 1.0
"""How often a waiting request moves time by itself; a running cluster does so more often."""


def coordinator_for(world: World, key: str) -> int | None:
    """The broker that coordinates a group or a transactional id, if any broker runs."""
    brokers = world.core.image.brokers
    live = {id for id, one in brokers.items() if not one.fenced and world.core.plane.is_up(id)}
    return coordinator_of(key, list(brokers), live)


def coordinates(world: World, context: RequestContext, key: str) -> bool:
    """Whether the broker that was asked coordinates the key."""
    return coordinator_for(world, key) == context.broker_id


def check_coordinator(world: World, context: RequestContext, key: str) -> None:
    """Let a request pass that was sent to the coordinator of its key.

    Raises:
        WireReply: it was not (NOT_COORDINATOR).
    """
    if not coordinates(world, context, key):
        raise WireReply(CoordinatorCode.NOT_COORDINATOR)


async def ticket_answer(
    world: World,
    context: RequestContext,
    key: str,
    ticket: Ticket[Answer],
    tick: Callable[[float], bool],
) -> Answer:
    """The answer of a ticket, when it comes.

    Raises:
        WireReply: another broker coordinates the key by now (NOT_COORDINATOR).
    """

    def ready() -> bool:
        return ticket.answer is not None or not coordinates(world, context, key)

    while not await world.until(ready, _LOOK_S):
        if tick(world.clock.monotonic_s()):
            world.changed()
    if ticket.answer is None:
        raise WireReply(CoordinatorCode.NOT_COORDINATOR)
    return ticket.answer
