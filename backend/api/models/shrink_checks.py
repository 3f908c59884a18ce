"""The answer of the check before a shrink, for validation and for OpenAPI."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


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
