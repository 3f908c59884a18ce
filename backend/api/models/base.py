"""Requests and answers of the API, for validation and for OpenAPI.

`backend.api.schema.documents` writes and reads the same JSON without these models; a test holds the
two together.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from backend.api.models.claims import ClaimModel, NoteModel
from backend.api.models.partition_modes import ModeKey as ModeKey
from backend.api.models.stuck_causes import CauseKey, RateNeedModel
from backend.domain.throttles.configs import RATE_MAX_BYTES_PER_S, RATE_MIN_BYTES_PER_S, UNTHROTTLED
from backend.settings import LIMITS


def _whole(value: Any) -> Any:
    """JSON knows one kind of number: 3.0 is an integer, although Python reads it as a float."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _meant(value: Any) -> Any:
    """KIP-179 writes Long.MAX_VALUE for no throttle; as an integer, for no float is exact there."""
    return None if type(value) is int and value == UNTHROTTLED else value


# The converter stands last: constraints after it would be missing from the schema.
WHOLE = BeforeValidator(_whole)
Topic = Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[a-zA-Z0-9._-]+$")]
Int32 = Annotated[int, Field(ge=0, le=2**31 - 1), WHOLE]
Rate = Annotated[
    int,
    Field(ge=RATE_MIN_BYTES_PER_S, le=RATE_MAX_BYTES_PER_S, description="bytes a second"),
    WHOLE,
]
RateOrNone = Annotated[
    Rate | None,
    BeforeValidator(_meant),
    Field(description="null, or KIP-179's 9223372036854775807: no throttle"),
]
Replicas = Annotated[
    str,
    Field(
        max_length=1_000_000,
        description="partition:broker pairs, partition:* for all brokers, * for all, or empty",
    ),
]
TimeoutMs = Annotated[
    int, Field(ge=1, le=600_000, description="milliseconds; a second is waited at least"), WHOLE
]
BatchSize = Annotated[
    int, Field(ge=1, le=200_000, description="elections at once; each batch ends first"), WHOLE
]
PauseMs = Annotated[
    int, Field(ge=0, le=60_000, description="milliseconds between two batches"), WHOLE
]
ClusterId = Annotated[
    str | None,
    Field(
        max_length=200,
        description="if given, the request is refused by a backend of another cluster",
    ),
]


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class Intent(Strict):
    """What the audit is told of a change; both are words of the caller, and prove nothing."""

    who: str = Field(default="", max_length=200, description="user and host, as ada@bastion")
    reason: str = Field(default="", max_length=2_000, description="why, in one's own words")
    preview: str = Field(
        default="",
        max_length=500,
        description="fingerprint of a preview: refused where the cluster has changed since",
    )


class PartitionModel(Strict):
    """A partition."""

    topic: Topic
    partition: Int32


class PlanEntryModel(PartitionModel):
    """One partition of a plan."""

    replicas: list[Int32] = Field(min_length=1, max_length=1_000)
    log_dirs: list[str] | None = Field(default=None, max_length=1_000)


class PlanModel(Strict):
    """Kafka's reassignment JSON, version 1."""

    version: Literal[1] = 1
    cluster_id: ClusterId = None
    partitions: list[PlanEntryModel] = Field(min_length=1, max_length=LIMITS.partitions_per_request)


class PlanRequest(Strict):
    """A plan to look at."""

    plan: PlanModel


class CapsModel(Strict):
    """Moves in flight, those that others started included."""

    per_broker: Annotated[int, Field(ge=1, le=10_000), WHOLE]
    in_cluster: Annotated[int, Field(ge=1, le=200_000), WHOLE]
    smallest_first: bool = False


class ReassignRequestModel(PlanRequest, Intent):
    """KIP-179, reassignPartitions."""

    throttle_bytes_per_s: RateOrNone = None
    log_dirs_throttle_bytes_per_s: RateOrNone = None
    auto_remove_throttle: bool = True
    additional: bool = False
    caps: CapsModel | None = Field(default=None, description="null: all moves start at once")
    allow_replication_factor_change: bool = True
    all_or_nothing: bool = Field(
        default=False, description="one partition that cannot be moved holds up the others"
    )
    validate_only: bool = False
    timeout_ms: TimeoutMs = 10_000
    cluster_id: ClusterId = None


class CancelRequestModel(Intent):
    """Partitions that shall return to their original replicas."""

    partitions: list[PartitionModel] = Field(min_length=1, max_length=LIMITS.partitions_per_request)
    preserve_throttles: bool = False
    validate_only: bool = False
    timeout_ms: TimeoutMs = 10_000
    cluster_id: ClusterId = None


class VerifyRequestModel(PlanRequest):
    """A plan to verify; what it throttled is cleared when it is done."""

    preserve_throttles: bool = False


class GenerateRequestModel(Strict):
    """Topics to spread over brokers."""

    topics: list[Topic] = Field(min_length=1, max_length=10_000)
    brokers: list[Int32] = Field(min_length=1, max_length=10_000)
    rack_aware: bool = True


class ElectionRequestModel(Intent):
    """KIP-183; null partitions mean every partition of the cluster."""

    partitions: list[PartitionModel] | None = Field(max_length=LIMITS.partitions_per_request)
    batch_size: BatchSize | None = None
    pause_ms: PauseMs = 0
    timeout_ms: TimeoutMs = 10_000
    validate_only: bool = False
    cluster_id: ClusterId = None


class UncleanRequestModel(Intent):
    """KIP-460, type UNCLEAN; never of every partition."""

    partitions: list[PartitionModel] = Field(min_length=1, max_length=1_000)
    confirm: list[str] = Field(
        default=[],
        max_length=1_000,
        description="exactly the partitions, each as topic-partition; a preview needs none",
    )
    timeout_ms: TimeoutMs = 10_000
    validate_only: bool = False
    cluster_id: ClusterId = None


class PlanEntryAnswerModel(BaseModel):
    """One partition of a plan that the backend wrote."""

    topic: str
    partition: int
    replicas: list[int]
    log_dirs: list[str] | None = None


class PlanAnswerModel(BaseModel):
    """Kafka's reassignment JSON, as the backend writes it."""

    version: int
    partitions: list[PlanEntryAnswerModel]


class ResultModel(BaseModel):
    """What became of one item."""

    item: str
    error_code: int
    error_name: str
    message: str


class ChangeModel(BaseModel):
    """What became of a change."""

    validate_only: bool
    operation_id: str | None
    results: list[ResultModel]
    notes: list[str]
    rollback_plan: PlanAnswerModel | None


class LeaderCountModel(BaseModel):
    """How many partitions a broker leads before and after; skew is 0 for an even share."""

    broker: int
    leaders_before: int
    leaders_after: int
    leaders_preferred: int
    skew_before: float
    skew_after: float


class ElectionModel(ChangeModel):
    """What became of an election; a preview counts the leaders."""

    leaders: list[LeaderCountModel]


class UncleanLossModel(BaseModel):
    """What a partition may lose; null means unknown, which is never 0."""

    topic: str
    partition: int
    candidate: int
    candidate_end: int | None
    known_end: int | None
    known_ms: int | None
    lost_messages: int | None
    lost_messages_min: int


class UncleanModel(ChangeModel):
    """What became of an unclean election, or what it would lose."""

    losses: list[UncleanLossModel]


class ClusterModel(BaseModel):
    """Which cluster a backend serves, and how fresh its picture is."""

    cluster_id: str
    bootstrap_servers: str
    controller: int
    brokers: int
    topics: int
    replicas: int
    moving_partitions: int
    sampled_ms: int
    backend_pid: int
    backend_version: str


class BrokerModel(BaseModel):
    """A broker."""

    id: int
    host: str
    port: int
    rack: str | None
    answered_ms: int | None
    stale: bool
    problem: str


class BrokersModel(BaseModel):
    """The brokers."""

    version: int
    brokers: list[BrokerModel]


class ReplicaModel(BaseModel):
    """One replica; null means unknown, which is never 0."""

    topic: str
    partition: int
    broker: int
    position: int
    leader: int | None
    in_isr: bool
    adding: bool
    removing: bool
    leader_throttled: bool
    follower_throttled: bool
    status: Literal["in_sync", "behind", "lag_unknown", "offline"]
    log_end_offset: int | None
    lag_messages: int | None
    size_bytes: int | None
    lag_bytes: int | None
    log_dir: str | None
    catch_up_messages_per_s: float | None
    catch_up_bytes_per_s: float | None
    fetched_bytes_per_s: float | None
    eta_s: float | None
    never: bool = Field(description="true where it falls behind faster than it catches up")
    sampled_ms: int | None
    stale: bool
    mode: ModeKey = Field(description="of the partition (KIP-694); readwrite is the usual one")
    deletes_ms: int | None = Field(description="when the data of a readonly partition goes")
    stuck: bool = Field(description="true where somebody must act before it can arrive")
    cause: CauseKey | None = Field(description="why it does not advance; null where it does")
    reason: str | None
    action: str | None = Field(description="what to do next; empty where nothing is to be done")
    rates: list[RateNeedModel] = Field(description="the throttles that are too low")


class ReplicasModel(BaseModel):
    """A page of replicas."""

    version: int
    taken_ms: int
    matching: int
    replicas: list[ReplicaModel]


class ReassignmentModel(BaseModel):
    """A partition that moves."""

    topic: str
    partition: int
    replicas: list[int]
    adding: list[int]
    removing: list[int]


class ReassignmentsModel(BaseModel):
    """Every partition that moves."""

    reassignments: list[ReassignmentModel]


class ProgressRowModel(BaseModel):
    """One line of --progress."""

    topic: str
    partition: int
    broker: int
    status: str
    lag_messages: int | None
    in_sync: bool
    cause: CauseKey | None = Field(description="why it is stuck; null where it is not")
    reason: str
    action: str


class ProgressModel(BaseModel):
    """The lines of --progress."""

    rows: list[ProgressRowModel]


class VerifyRowModel(BaseModel):
    """One partition of --verify."""

    topic: str
    partition: int
    state: Literal["completed", "in_progress", "differs", "missing"]
    replicas: list[int]
    target: list[int]


class LogDirRowModel(BaseModel):
    """One replica of --verify with a log directory."""

    topic: str
    partition: int
    broker: int
    text: str
    done: bool


class VerifyModel(BaseModel):
    """What --verify found and did."""

    rows: list[VerifyRowModel]
    log_dirs: list[LogDirRowModel]
    active_elsewhere: bool
    cleared_brokers: list[int]
    cleared_topics: list[str]
    notes: list[str]


class GeneratedModel(BaseModel):
    """Both plans of --generate."""

    current: PlanAnswerModel
    proposed: PlanAnswerModel
    notes: list[str]


class RateModel(BaseModel):
    """A broker's configured rates, and Kafka's config source of each; empty without a rate."""

    broker: int
    leader_bytes_per_s: int | None
    follower_bytes_per_s: int | None
    log_dir_bytes_per_s: int | None
    source: str
    """Of the leader's rate."""
    follower_source: str
    log_dir_source: str


class TopicReplicasAnswerModel(BaseModel):
    """A topic's configured throttled replicas."""

    topic: str
    leaders: str
    followers: str


class ThrottlesModel(BaseModel):
    """Every replication throttle."""

    rates: list[RateModel]
    replicas: list[TopicReplicasAnswerModel]
    unknown_brokers: list[int]


class OperationModel(BaseModel):
    """An operation."""

    id: str
    kind: str
    state: str
    started_ms: int
    ended_ms: int | None
    summary: str
    partitions: list[PartitionModel]
    throttle_bytes_per_s: int | None
    auto_remove_throttle: bool
    outcome: str
    details: dict[str, Any] = Field(description="rollback_plan and waiting_plan are Kafka's JSON")
    who: str
    reason: str
    actions: list[str] = Field(description="what can be done with it now")
    waiting: int = Field(description="of its partitions, how many wait for their turn")
    claim: ClaimModel | None = Field(description="who steers it; others have to take it over first")
    notes: list[NoteModel]


class OperationsModel(BaseModel):
    """The operations of this backend, newest first."""

    operations: list[OperationModel]


class ProblemModel(BaseModel):
    """An error (RFC 9457, problem details)."""

    type: str
    title: str
    status: int
    detail: str
    advice: str = ""
    kafka_code: int = -1
    retriable: bool = False
