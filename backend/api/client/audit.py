"""The client's questions about the audit."""

from __future__ import annotations

from typing import Literal

from kshunt.backend.api.client.answer_checks import ANSWER_BYTES_MAX
from kshunt.backend.api.client.sending.sender import Subject
from kshunt.backend.api.schema.audit import AuditEntries, AuditVerification, read_audit_line
from kshunt.backend.domain.audit.lines import AuditRow
from kshunt.backend.domain.audit.shown_line import AuditLine
from kshunt.backend.domain.untrusted.strict_json import read_json

Format = Literal["json", "markdown"]


class AuditClient(Subject):
    """Who asked for what, and what came of it."""

    def rows(
        self,
        *,
        since_ms: int | None = None,
        until_ms: int | None = None,
        operation_id: str = "",
    ) -> tuple[str, tuple[AuditRow, ...]]:
        """The cluster's id, and the lines of its audit, newest last.

        Args:
            since_ms: the first millisecond; None for the beginning.
            until_ms: the first millisecond that is left out; None for the end.
            operation_id: of one operation only; empty for all.
        """
        asked = {"since_ms": since_ms, "until_ms": until_ms, "operation": operation_id or None}
        named = {name: str(value) for name, value in asked.items() if value is not None}
        found = self._sender.ask(AuditEntries, "/v1/audit", named)
        return found.cluster_id, found.rows()

    def lines(self, operation_id: str = "") -> tuple[AuditLine, ...]:
        """The audit of one operation, or of all, newest last, in words."""
        text = self.text("json", operation_id)
        entries = read_json(text, bytes_max=ANSWER_BYTES_MAX)["entries"]
        return tuple(map(read_audit_line, entries))

    def text(self, format: Format, operation_id: str = "") -> str:
        """The audit as a document, of one operation or of all."""
        asked = {"format": format} | ({"operation": operation_id} if operation_id else {})
        return self._sender.get_text("/v1/audit", asked)

    def verify(self) -> tuple[int, tuple[str, ...]]:
        """How many lines are proven, and what was found wrong, a sentence each."""
        found = self._sender.ask(AuditVerification, "/v1/audit/verification")
        return found.lines, found.problems
