"""Requests to repair throttles that somebody else changed, or that no operation owns."""

from __future__ import annotations

from pydantic import Field

from kshunt.backend.api.request_models.base import ChangeModel, Id


class MendRequestModel(ChangeModel):
    """Drift or orphans, by the ids that they were listed with."""

    ids: list[Id] = Field(min_length=1, max_length=10_000)
