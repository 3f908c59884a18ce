"""Requests of the routes that plan and rehearse, for validation and for OpenAPI."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from kshunt.backend.api.request_models.base import (
    WHOLE,
    ClusterId,
    EpochMs,
    Int32,
    PlanModel,
    RateOrNone,
    Strict,
)
from kshunt.backend.api.request_models.reassignments import CapsModel
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.planning.goals import (
    DISK_FRACTION,
    THROTTLES_MAX,
    TOLERANCE,
    Goal,
    Weighing,
)
from kshunt.backend.domain.planning.requests import PlanRequest, RehearsalRequest
from kshunt.backend.domain.reassignment.move_caps import MoveCaps

Pattern = Annotated[
    str,
    Field(
        min_length=1,
        max_length=249,
        pattern=r"^[a-zA-Z0-9._*?\[\]!-]+$",
        description="a topic, or a pattern with *, ? and [...]",
    ),
]
Patterns = Annotated[list[Pattern], Field(max_length=1_000)]
Seed = Annotated[
    int, Field(ge=0, le=2**31 - 1, description="another value breaks ties differently"), WHOLE
]


class FactorModel(Strict):
    """Topics and the replication factor to set."""

    topics: Pattern
    replication_factor: Annotated[int, Field(ge=1, le=1_000), WHOLE]


class PlanRequestModel(Strict):
    """A goal, and what it may change; nothing is changed yet."""

    goal: Literal[
        "drain",
        "expand",
        "replication-factor",
        "rebalance",
        "leaders",
        "rack-repair",
        "replace",
        "move-log-dirs",
    ]
    brokers: list[Int32] = Field(
        default=[],
        max_length=10_000,
        description="drain: brokers that lose replicas; expand: brokers that get some; replace: "
        "the old broker and the new one; move-log-dirs: the broker that has the "
        "directories",
    )
    topics: Patterns = Field(default=["*"], min_length=1)
    exclude: Patterns = Field(default=[])
    factors: list[FactorModel] = Field(default=[], max_length=1_000)
    by: Literal["bytes", "replicas", "load"] = "bytes"
    tolerance: float = Field(default=TOLERANCE, ge=0, le=10)
    max_moved_bytes: Annotated[int, Field(ge=0, le=2**53), WHOLE] | None = None
    directories: list[Annotated[str, Field(min_length=1, max_length=4_096)]] = Field(
        default=[], max_length=1_000
    )
    disk_fraction: float = Field(default=DISK_FRACTION, gt=0, le=1)
    keep_racks: bool = True
    seed: Seed = 0
    caps: CapsModel | None = Field(
        default=None,
        description="divides the preview into phases; null: all moves start at the same time",
    )
    cluster_id: ClusterId = None

    def request(self) -> PlanRequest:
        """The question.

        Raises:
            BadInput: it lacks something, or has what its goal has no use for.
        """
        caps = None if self.caps is None else MoveCaps(**self.caps.model_dump())
        return PlanRequest(
            Goal(self.goal),
            tuple(self.brokers),
            tuple(self.topics),
            tuple(self.exclude),
            {each.topics: each.replication_factor for each in self.factors},
            Weighing(self.by),
            self.tolerance,
            self.max_moved_bytes,
            tuple(self.directories),
            self.disk_fraction,
            self.keep_racks,
            self.seed,
            caps,
        )


class RehearsalRequestModel(Strict):
    """A plan to rehearse; nothing is changed."""

    plan: PlanModel
    throttles_bytes_per_s: list[RateOrNone] = Field(
        default=[],
        max_length=THROTTLES_MAX,
        description="one rehearsal for each rate; null: no throttle",
    )
    deadline_ms: EpochMs | None = Field(
        default=None,
        description="also find the lowest throttle with which the plan is done by this moment, "
        "with 90 % certainty",
    )
    quick: bool = Field(default=False, description="forecast the ends alone, without a twin")
    seed: Seed = 0
    cluster_id: ClusterId = None

    def request(self, targets: dict[TopicPartition, tuple[int, ...]]) -> RehearsalRequest:
        """The question.

        Raises:
            BadInput: neither a throttle nor a deadline is given.
        """
        throttles = tuple(self.throttles_bytes_per_s)
        return RehearsalRequest(targets, throttles, self.deadline_ms, self.quick, self.seed)
