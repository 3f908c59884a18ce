"""Throttles of ours that somebody else changed, and orphans, which are nobody's."""

from __future__ import annotations

from pydantic import BaseModel, Field

from kshunt.backend.api.models.base import ClusterId, Id, Intent


class MendRequestModel(Intent):
    """Drift or orphans, by the ids that they were listed with."""

    ids: list[Id] = Field(min_length=1, max_length=10_000)
    validate_only: bool = False
    cluster_id: ClusterId = None


class DriftModel(BaseModel):
    """Our throttle was changed by somebody else."""

    id: str
    setting: str
    broker: int | None
    topic: str | None
    kind: str
    wanted: str
    found: str
    operations: list[str]
    text: str


class DriftsModel(BaseModel):
    """What somebody else did to throttles of running operations."""

    drift: list[DriftModel]


class OrphanModel(BaseModel):
    """A throttle that no move justifies."""

    id: str
    setting: str
    broker: int | None
    topic: str | None
    value: str
    origin: str
    operations: list[str]


class OrphansModel(BaseModel):
    """Rates and listed replicas that no move justifies."""

    orphans: list[OrphanModel]
