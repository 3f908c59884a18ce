"""What stops a request for a change before anything of it is done."""

from __future__ import annotations

from kshunt.backend.api.core.backend import Backend
from kshunt.backend.api.core.request_values import change_of
from kshunt.backend.api.request_models.base import Strict
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.operations.core.results import check_cluster


async def refuse_other_cluster(backend: Backend, *cluster_ids: str | None) -> None:
    """Stop a request that names another cluster than this.

    Raises:
        WrongCluster: it does.
    """
    if any(cluster_ids):
        actual = await backend.queries.cluster_id()
        for expected in cluster_ids:
            check_cluster(expected, actual)


async def require_active(backend: Backend, body: Strict, *cluster_ids: str | None) -> Change:
    """How a change is asked for, by a request that this backend may carry out.

    `cluster_ids` are further ones that it names.

    Raises:
        WrongCluster: it is of another cluster.
        NotActive, JournalUnusable, NotAuthorized: as `Backend.ready`, unless nothing is changed.
    """
    change = change_of(body)
    await refuse_other_cluster(backend, change.cluster_id, *cluster_ids)
    if not change.validate_only:
        await backend.ready()
    return change
