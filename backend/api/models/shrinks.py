"""Taking partitions from a topic: the check before it, a durable shrink, and KIP-694's own way."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from kshunt.backend.api.models.base import WHOLE, ClusterId, Int32, Intent, Strict, TimeoutMs, Topic
from kshunt.backend.domain.shrink.delete_partitions import DELAY_MS_MAX
from kshunt.backend.domain.shrink.phases import CutOver, ShrinkRequest

DelayMs = Annotated[
    int, Field(ge=0, le=DELAY_MS_MAX, description="milliseconds; 0 is at once"), WHOLE
]
Mode = Annotated[Literal[-1, 0, 1], Field(description="KIP-694: ReadWrite 0, ReadOnly 1, None -1")]
Code = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[a-z0-9-]+$")]
CODES_MOST = 100


class ShrinkRequestModel(Intent):
    """Let a topic have fewer partitions without losing a record: it is copied."""

    total_count: Int32 = Field(description="partitions that the topic shall have")
    delay_ms: DelayMs = Field(
        default=0, description="so long nobody may have written the partitions that go"
    )
    cut_over: CutOver = Field(
        default=CutOver.SAME_NAME,
        description="same-name: the topic is deleted, created anew and copied back; new-name: the"
        " copy is the result, and the topic stays read-only",
        strict=False,
    )
    target: str = Field(
        default="",
        max_length=249,
        pattern=r"^[a-zA-Z0-9._-]*$",
        description="with new-name: the name of the smaller topic; else empty",
    )
    write_block: bool = Field(
        default=False, description="deny everybody to write the topic meanwhile, by an ACL"
    )
    insisted: list[Code] = Field(
        default=[], max_length=CODES_MOST, description="codes of refusals that are overruled"
    )
    validate_only: bool = False
    cluster_id: ClusterId = None

    def request(self, topic: str) -> ShrinkRequest:
        """As a value of the domain."""
        return ShrinkRequest(
            topic=topic,
            total_count=self.total_count,
            delay_ms=self.delay_ms,
            cut_over=self.cut_over,
            target=self.target,
            write_block=self.write_block,
            insisted=tuple(self.insisted),
        )


class ConfirmRequestModel(Intent):
    """The point of no return of a shrink: its topic's name, typed."""

    typed: str = Field(max_length=249, description="the name of the topic, as somebody typed it")
    validate_only: bool = False
    cluster_id: ClusterId = None


class ShrinkSupportModel(BaseModel):
    """Whether the cluster deletes partitions by itself."""

    support: Literal["enabled", "disabled", "unsupported"]


class DeletePartitionsModel(Strict):
    """KIP-694, DeletePartitions: how many partitions a topic shall keep."""

    topic: Topic
    total_count: Int32
    delay_ms: DelayMs = 0


class DeletePartitionsRequestModel(Intent):
    """KIP-694, deletePartitions."""

    topics: list[DeletePartitionsModel] = Field(min_length=1, max_length=10_000)
    validate_only: bool = False
    timeout_ms: TimeoutMs = 10_000
    cluster_id: ClusterId = None


class DeletedPartitionModel(BaseModel):
    """What became of a partition; partition -1 is a topic that is refused as a whole."""

    topic: str
    partition: int
    mode: Mode
    mode_name: str
    error_code: int
    error_name: str
    message: str


class DeletedPartitionsModel(BaseModel):
    """What became of each partition."""

    validate_only: bool
    operation_id: str | None
    partitions: list[DeletedPartitionModel]
    notes: list[str]


class ShrinkFindingModel(BaseModel):
    """One thing that was found."""

    code: str = Field(description="a name that stays the same")
    severity: Literal["refuse", "warn", "note"]
    words: str = Field(description="what is the case")
    advice: str = Field(description="what to do; empty where there is nothing")
    insistable: bool = Field(description="a refusal that an operator may overrule")


class ActiveProducerModel(BaseModel):
    """A producer that a leader remembers."""

    producer_id: int
    epoch: int
    last_ms: int = Field(description="by the producer's clock; -1 where not known")
    transaction_start: int | None = Field(description="null: it has no transaction open")
    transactional_id: str | None


class DoomedPartitionModel(BaseModel):
    """One partition that would go; null is what is not known."""

    number: int
    size_bytes: int | None
    records: int | None = Field(description="no fewer than it holds: gaps in its offsets count")
    log_end_offset: int | None
    newest_ms: int | None = Field(description="the largest timestamp in it")
    expires_in_ms: int | None = Field(
        description="until retention deletes its last record; null: never, or not known"
    )
    written_meanwhile: int | None = Field(description="records that came during `watched_ms`")
    producers: list[ActiveProducerModel] | None = Field(
        description="those that wrote recently or have a transaction open"
    )
    open_transaction_at: int | None = Field(description="null where none is open")


class GroupMemberModel(BaseModel):
    """A consumer of a group."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    partitions: list[int] = Field(description="of the topic")


class CommittedModel(BaseModel):
    """A committed offset."""

    partition: int
    offset: int


class GroupLagModel(BaseModel):
    """Where one consumer group is."""

    name: str
    state: str
    kind: str = Field(description="classic, or consumer (KIP-848)")
    members: list[GroupMemberModel]
    committed: list[CommittedModel] = Field(description="of the whole topic")
    unread_doomed: int | None = Field(
        description="on the partitions that go; null: nothing committed there, or not known"
    )
    unread_all: int | None
    no_position: list[int] = Field(description="partitions that go and are not committed")


class UnreadModel(BaseModel):
    """Something that could not be read."""

    what: str
    why: str


class ShrinkCheckModel(BaseModel):
    """The safety view of a shrink. Nothing was changed, and nothing is recorded."""

    topic: str
    current: int
    wanted: int
    checked_ms: int
    native: bool = Field(description="the cluster deletes partitions itself, and copies nothing")
    allowed: bool = Field(description="no finding refuses it")
    findings: list[ShrinkFindingModel] = Field(description="refusals first")
    partitions: list[DoomedPartitionModel] = Field(description="those that would go")
    groups: list[GroupLagModel]
    total_bytes: int | None = Field(description="of all partitions, one replica each")
    total_records: int | None
    copy_bytes: int | None = Field(description="on the disks of all brokers")
    copy_ms: int | None = Field(description="the start of its job, then at the assumed rate")
    retention_ms: int | None = Field(description="null: for ever, or not known")
    keys: Literal["all", "some", "none", "unknown"] = Field(
        description="which of the newest records have keys"
    )
    sampled: int = Field(description="how many records were looked at")
    watched_ms: int
    unread: list[UnreadModel] = Field(description="what could not be read")
