"""Every API that the cluster's brokers answer, by key."""

from __future__ import annotations

from kshunt.backend.embedded.coordinator.group_coordinator import GroupCoordinator
from kshunt.backend.embedded.coordinator.transaction_coordinator import TransactionCoordinator
from kshunt.backend.embedded.core.world import World
from kshunt.backend.embedded.handlers.admin import acls, configs, log_dirs, metadata, topics
from kshunt.backend.embedded.handlers.admin import kip_rpcs as seeds
from kshunt.backend.embedded.handlers.admin import reassignments as moves
from kshunt.backend.embedded.handlers.coordination import groups, transactions
from kshunt.backend.embedded.handlers.data import fetch, produce
from kshunt.backend.embedded.handlers.data import list_offsets as offsets
from kshunt.backend.embedded.handlers.security import sasl
from kshunt.backend.embedded.handlers.security.guard import guarded
from kshunt.backend.embedded.handlers.security.rights import GUARDS
from kshunt.backend.embedded.net.server import Handler


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
