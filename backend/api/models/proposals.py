"""Requests about changes that take two people."""

from __future__ import annotations

from kshunt.backend.api.models.base import ChangeModel, ClusterId


class DecisionRequestModel(ChangeModel):
    """Reject a proposal, which needs a reason, or withdraw it."""

    cluster_id: ClusterId = None


class ApproveRequestModel(ChangeModel):
    """Let what was proposed happen; with `preview`, only what was looked at."""

    cluster_id: ClusterId = None
