"""Requests about changes that take two people."""

from __future__ import annotations

from kshunt.backend.api.request_models.base import Intent


class DecisionRequestModel(Intent):
    """Reject a proposal, which needs a reason, or withdraw it."""


class ApproveRequestModel(Intent):
    """Carry out a proposal; with `preview`, only with the effect that was shown."""
