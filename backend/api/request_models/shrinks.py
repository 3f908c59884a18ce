"""Taking partitions from a topic: the check before it, a durable shrink, and KIP-694's own way."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kshunt.backend.api.request_models.base import (
    WHOLE,
    ChangeModel,
    Int32,
    Strict,
    TimeoutMs,
    Topic,
)
from kshunt.backend.domain.shrink.delete_partitions import DELAY_MS_MAX
from kshunt.backend.domain.shrink.phases import CutOver, ShrinkRequest
from kshunt.backend.domain.topics.partitioners import Partitioner

DelayMs = Annotated[
    int, Field(ge=0, le=DELAY_MS_MAX, description="milliseconds; 0: delete immediately"), WHOLE
]
Code = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[a-z0-9-]+$")]
CODES_MOST = 100


class ShrinkRequestModel(ChangeModel):
    """Give a topic fewer partitions without losing a record: it is copied."""

    total_count: Int32 = Field(description="number of partitions that the topic should have")
    delay_ms: DelayMs = Field(
        default=0,
        description="how long the partitions that are removed must have had no new records",
    )
    cut_over: CutOver = Field(
        default=CutOver.SAME_NAME,
        description="same-name: kshunt deletes the topic, creates it again and copies the "
        "records back; new-name: the copy is the result, and the topic stays "
        "read-only",
        strict=False,
    )
    target: str = Field(
        default="",
        max_length=249,
        pattern=r"^[a-zA-Z0-9._-]*$",
        description="the name of the smaller topic, for new-name; otherwise empty",
    )
    write_block: bool = Field(
        default=False, description="use an ACL to deny all writes to the topic during the operation"
    )
    insisted: list[Code] = Field(
        default=[], max_length=CODES_MOST, description="codes of the findings to overrule"
    )

    partitioner: Partitioner | None = Field(
        default=None,
        description="by which the copy places keys; without it, by the one that the keys follow",
        strict=False,
    )

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
            partitioner=self.partitioner,
        )


class ConfirmRequestModel(ChangeModel):
    """The point of no return of a shrink: its topic's name, typed."""

    typed: str = Field(max_length=249, description="the name of the topic, as a person typed it")


class DeletePartitionsModel(Strict):
    """KIP-694, DeletePartitions: how many partitions a topic keeps."""

    topic: Topic
    total_count: Int32
    delay_ms: DelayMs | None = Field(
        default=None,
        description="milliseconds; 0: delete immediately; without it, partitions that are leaving "
        "already keep their delay, and others go with them or immediately",
    )


class DeletePartitionsRequestModel(ChangeModel):
    """KIP-694, deletePartitions."""

    topics: list[DeletePartitionsModel] = Field(min_length=1, max_length=10_000)
    timeout_ms: TimeoutMs = 10_000
