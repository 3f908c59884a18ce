"""The routes of the audit: its lines, and whether its past was rewritten."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import FastAPI, Query, Response

from kshunt.backend.access.roles import Role
from kshunt.backend.api.core.backend import Backend
from kshunt.backend.api.http.route_roles import Routes
from kshunt.backend.api.schema.audit import AuditEntries, AuditVerification
from kshunt.backend.domain.audit.lines import selected
from kshunt.backend.domain.audit.report import as_markdown
from kshunt.backend.operations.audit.lines import read_audit
from kshunt.backend.operations.journal.audit_chain import verified
from kshunt.backend.operations.journal.second_copy import path_of, read_file

MARKDOWN: Final = "text/markdown; charset=utf-8"


def install(app: FastAPI, backend: Backend) -> None:
    """Add the routes."""
    views = Routes(app, Role.VIEWER)

    @views.get("/v1/audit", AuditEntries, also_as="text/markdown")
    async def audit(
        since_ms: Annotated[int | None, Query(ge=0, le=2**53)] = None,
        until_ms: Annotated[int | None, Query(ge=0, le=2**53)] = None,
        operation: Annotated[str, Query(max_length=64)] = "",
        format: Annotated[str, Query(pattern="^(json|markdown)$")] = "json",
    ) -> Any:
        """Changes with their caller, time, reason and result; newest last."""
        rows = selected(
            read_audit(backend.membership.state),
            since_ms=since_ms,
            until_ms=until_ms,
            operation_id=operation,
        )
        cluster_id = (await backend.snapshot()).cluster_id
        if format == "markdown":
            return Response(as_markdown(rows, cluster_id), media_type=MARKDOWN)
        return AuditEntries.of(rows, cluster_id)

    @views.get("/v1/audit/verification", AuditVerification)
    async def verification() -> Any:
        """Whether lines of the audit were changed, removed or added since they were written."""
        state = backend.membership.state
        cluster_id = (await backend.snapshot()).cluster_id
        known = read_file(path_of(cluster_id), cluster_id, backend.keys)
        found = verified(state, "" if known is None else known.newest)
        return AuditVerification(found.lines, tuple(found.problems))
