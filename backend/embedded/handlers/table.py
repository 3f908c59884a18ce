"""Every API that the cluster's brokers answer, by key."""

from __future__ import annotations

from backend.embedded.coordinator.groups import GroupCoordinator
from backend.embedded.coordinator.transactions import TransactionCoordinator
from backend.embedded.handlers import (
    acls,
    configs,
    fetch,
    groups,
    log_dirs,
    metadata,
    moves,
    offsets,
    produce,
    sasl,
    seeds,
    topics,
    transactions,
)
from backend.embedded.handlers._rights import GUARDS
from backend.embedded.handlers.guard import guarded
from backend.embedded.net.server import Handler
from backend.embedded.world import World


def handler_table(
    world: World, group_coordinator: GroupCoordinator, coordinator: TransactionCoordinator
) -> dict[int, Handler]:
    """The handlers of all brokers of a cluster; the seeds' are in it even if they are hidden.

    With an authorizer each stands behind what its API needs.
    """
    table: dict[int, Handler] = {}
    for part in (metadata, topics, configs, moves, log_dirs, fetch, offsets, seeds, acls):
        table.update(part.handlers(world))
    table.update(sasl.handlers())
    table.update(produce.handlers(world, may_write=coordinator.may_write))
    table.update(groups.handlers(world, group_coordinator))
    table.update(transactions.handlers(world, group_coordinator, coordinator))
    return guarded(world, table, GUARDS)
