"""The audit, and whether its past was rewritten."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel


class AuditModel(BaseModel):
    """The audit, newest last."""

    cluster_id: str
    entries: list[dict[str, Any]]


class VerificationModel(BaseModel):
    """What became of the chain of the audit's lines."""

    lines: int
    """That are proven."""
    problems: list[str]
    """One sentence each; empty where nothing was rewritten."""
