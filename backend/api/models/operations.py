"""Requests and answers of the routes that steer operations, for validation and for OpenAPI."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from backend.api.models.base import (
    WHOLE,
    ClusterId,
    Int32,
    Intent,
    PartitionModel,
    PlanModel,
    RateOrNone,
    Strict,
    TimeoutMs,
    Topic,
)
from backend.api.models.throttles import BrokerRateModel, TopicReplicasModel
from backend.settings import LIMITS

Id = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]


class SteerRequestModel(Intent):
    """Pause, resume, cancel or undo an operation."""

    preserve_throttles: bool = False
    validate_only: bool = False
    timeout_ms: TimeoutMs = 10_000
    cluster_id: ClusterId = None


class AbandonRequestModel(Intent):
    """End an operation although brokers that are gone for good still have its throttle."""

    brokers: list[Int32] = Field(min_length=1, max_length=10_000)
    validate_only: bool = False
    cluster_id: ClusterId = None


class AdoptRequestModel(Intent):
    """Take over the throttle of moves that somebody else started; null means all of them."""

    partitions: list[PartitionModel] | None = Field(
        default=None, max_length=LIMITS.partitions_per_request
    )
    validate_only: bool = False
    cluster_id: ClusterId = None


class MendRequestModel(Intent):
    """Drift or orphans, by the ids that they were listed with."""

    ids: list[Id] = Field(min_length=1, max_length=10_000)
    validate_only: bool = False
    cluster_id: ClusterId = None


class PriorRequestModel(Intent):
    """What becomes of settings whose value of before only this host remembers."""

    discard: bool = False
    """They stay as they are, and this host forgets them."""
    validate_only: bool = False
    cluster_id: ClusterId = None


class PreviewRequestModel(Strict):
    """What is to be looked at; which fields are needed depends on the action."""

    action: Literal["start", "cancel", "pause", "undo", "elect", "throttle"]
    plan: PlanModel | None = None
    throttle_bytes_per_s: RateOrNone = None
    operation_id: Id | None = None
    partitions: list[PartitionModel] | None = Field(
        default=None, max_length=LIMITS.partitions_per_request
    )
    rates: list[BrokerRateModel] = Field(default=[], max_length=10_000)
    replicas: list[TopicReplicasModel] = Field(default=[], max_length=10_000)


class AssignmentModel(Strict):
    """Replicas of one partition."""

    partition: Int32
    replicas: list[Int32] = Field(min_length=1, max_length=1_000)


class AlteredTopicModel(Strict):
    """KIP-179 early draft, AlteredTopic: -1 and an empty assignment leave things as they are."""

    topic: Topic
    partitions: Annotated[int, Field(ge=-1, le=2**31 - 1), WHOLE] = -1
    replication_factor: Annotated[int, Field(ge=-1, le=2**15 - 1), WHOLE] = -1
    assignment: list[AssignmentModel] = Field(default=[], max_length=LIMITS.partitions_per_request)


class AlterTopicsRequestModel(Intent):
    """KIP-179 early draft, alterTopics."""

    topics: list[AlteredTopicModel] = Field(min_length=1, max_length=10_000)
    validate_only: bool = False
    timeout_ms: TimeoutMs = 10_000
    cluster_id: ClusterId = None


class StatusRequestModel(Strict):
    """KIP-179 early draft, replicaStatus."""

    partitions: list[PartitionModel] = Field(min_length=1, max_length=10_000)


class BlastRadiusModel(BaseModel):
    """What an action would touch."""

    action: str
    sentence: str
    brokers: list[int]
    topics: list[str]
    partitions: int
    copy_bytes: int
    unknown_sizes: int
    throttles_set: list[str]
    throttles_lifted: list[str]
    leaders_moving: int
    at_min_isr: int
    under_min_isr: int
    warnings: list[str]
    fingerprint: str


class ActorModel(BaseModel):
    """The backend that acts."""

    backend: str
    host: str
    address: str
    started_ms: int


class UnreadableModel(BaseModel):
    """An entry of the journal that is neither acted upon nor written over."""

    key: str
    why: str
    detail: str


class NotOfferedModel(BaseModel):
    """What cannot be done on this cluster by the way that this backend reaches it."""

    what: str
    why: str


class BackendModel(BaseModel):
    """This backend's part among those of its cluster."""

    backend: str
    duty: str = Field(description="`act`: it changes the cluster; `idle`: nobody has to")
    acting: ActorModel | None
    journal_topic: str = Field(description="the journal's topic; through ZooKeeper, its znode")
    remarks: list[str]
    unreadable: list[UnreadableModel]
    not_offered: list[NotOfferedModel] = Field(description="through ZooKeeper; else empty")


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


class ShareModel(BaseModel):
    """What one operation wants of one setting."""

    operation: str
    who: str
    wants: str
    state: str = Field(description="`held`, `ending` or `left`")


class OwnedThrottleModel(BaseModel):
    """One rate of a broker, or one list of a topic, in which operations have a share."""

    setting: str
    broker: int | None
    topic: str | None
    value: str | None = Field(description="in force; null where it could not be read")
    source: str
    prior: str | None = Field(description="what comes back; null where it was never read")
    prior_source: str
    shares: list[ShareModel]
    drift: str = Field(description="`deleted`, `changed`, `widened`, `narrowed`, or empty")


class OwnedThrottlesModel(BaseModel):
    """Every setting in which an operation has a share; what is not here is not ours."""

    throttles: list[OwnedThrottleModel]


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


class VerificationModel(BaseModel):
    """What became of the chain of the audit's lines."""

    lines: int
    """That are proven."""
    problems: list[str]
    """One sentence each; empty where nothing was rewritten."""


class ReplicaStatusModel(BaseModel):
    """KIP-179 early draft, ReplicaStatus."""

    topic: str
    partition: int
    broker: int = Field(description="-1 where there is no such partition")
    in_isr: bool = Field(description="level with its leader, as replica.lag.time.max.ms has it")
    lag_messages: int | None
    status_time_ms: int | None
    error_code: int
    error_name: str
    message: str


class StatusesModel(BaseModel):
    """The lag of every replica that was asked for."""

    replicas: list[ReplicaStatusModel]


class AuditModel(BaseModel):
    """The audit, newest last."""

    cluster_id: str
    entries: list[dict[str, Any]]
