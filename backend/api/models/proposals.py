"""Requests about changes that take two people."""

from __future__ import annotations

from kshunt.backend.api.models.base import Intent


class DecisionRequestModel(Intent):
    """Reject a proposal, which needs a reason, or withdraw it."""


class ApproveRequestModel(Intent):
    """Let what was proposed happen; with `preview`, only what was looked at."""
