"""The routes of elections: of preferred leaders, and unclean ones."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from kshunt.backend.access.roles import Role
from kshunt.backend.api.core import two_person_changes
from kshunt.backend.api.core.backend import Backend
from kshunt.backend.api.core.change_checks import require_active
from kshunt.backend.api.core.request_values import partitions_of, timeout_s_of
from kshunt.backend.api.http.route_roles import Routes
from kshunt.backend.api.request_models.elections import (
    ElectionRequestModel,
    UncleanRequestModel,
)
from kshunt.backend.domain.operations.approval import ShownProposal
from kshunt.backend.domain.operations.election import ElectionAnswer, UncleanAnswer
from kshunt.backend.operations.elections.preferred import Pacing
from kshunt.backend.operations.review.blast_radius import ElectRequest


def install(app: FastAPI, backend: Backend) -> None:
    """Add the routes."""
    changes = Routes(app, Role.OPERATOR)
    admins = Routes(app, Role.ADMIN)
    previews = backend.previews

    @changes.post("/v1/elections/preferred", ElectionAnswer)
    async def elect(body: ElectionRequestModel) -> Any:
        """Elect preferred leaders; of every partition where `partitions` is null."""
        change = await require_active(backend, body)
        wanted = None if body.partitions is None else tuple(partitions_of(body.partitions))
        agreed = await previews.check(change.preview, previews.elect(wanted))
        partitions = agreed.partitions if isinstance(agreed, ElectRequest) else wanted
        return await backend.elections.elect(
            partitions,
            change,
            pacing=Pacing(body.batch_size, body.pause_ms / 1000),
            timeout_s=timeout_s_of(body.timeout_ms),
        )

    @admins.post("/v1/elections/unclean", UncleanAnswer, also={202: ShownProposal})
    async def elect_unclean(body: UncleanRequestModel) -> Any:
        """Elect leaders that may lack messages; `validate_only` reports how many would be lost."""
        return await two_person_changes.request_change(
            backend, two_person_changes.UNCLEAN, "", body
        )
