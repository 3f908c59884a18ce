"""What stops a request for a change before anything of it is done."""

from __future__ import annotations

from typing import Protocol

from kshunt.backend.api.service.backend import Backend
from kshunt.backend.operations.core.results import check_cluster
from kshunt.backend.operations.review.blast_radius import Request


class ChangeBody(Protocol):
    """What every request for a change has."""

    validate_only: bool
    preview: str


async def refuse_other_cluster(backend: Backend, *cluster_ids: str | None) -> None:
    """Stop a request that names another cluster than this.

    Raises:
        WrongCluster: it does.
    """
    if any(cluster_ids):
        actual = await backend.queries.cluster_id()
        for expected in cluster_ids:
            check_cluster(expected, actual)


async def require_active(
    backend: Backend, cluster_id: str | None, *, validate_only: bool = False
) -> None:
    """Stop a request for another cluster, and one that this backend may not carry out.

    Raises:
        WrongCluster: it is of another cluster.
        NotActive, JournalUnusable, NotAuthorized: as `Backend.ready`, unless nothing is changed.
    """
    await refuse_other_cluster(backend, cluster_id)
    if not validate_only:
        await backend.ready()


async def check_preview(
    backend: Backend, body: ChangeBody, request: Request | None
) -> Request | None:
    """Wait until this backend may act, and stop a change whose preview is out of date.

    Args:
        backend: It.
        body: The request.
        request: What it asks for, to compare; None: there is no preview of it.

    Returns:
        What was agreed to, of the request.
    """
    if not body.validate_only:
        await backend.ready()
    return None if request is None else await backend.previews.check(body.preview, request)
