"""What can be asked of the planners, and what they answer; see `kshunt.backend.planning`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.planning.goals import (
    DISK_FRACTION,
    THROTTLES_MAX,
    TOLERANCE,
    Goal,
    Weighing,
)
from kshunt.backend.domain.planning.impact import Impact
from kshunt.backend.domain.planning.proposal import Proposal
from kshunt.backend.domain.planning.rehearsal import Deadline, PlanForecast, Rehearsal
from kshunt.backend.domain.reassignment.move_caps import MoveCaps
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan, format_plan
from kshunt.backend.domain.text.formatting import many
from kshunt.backend.errors import BadInput

NOTHING: Final = "Nothing was planned."

_BROKERS: Final[Mapping[Goal, tuple[int, int | None, str]]] = {
    Goal.DRAIN: (1, None, "at least one broker, which loses its replicas"),
    Goal.EXPAND: (1, None, "at least one broker, which gets its share"),
    Goal.REPLACE: (2, 2, "two brokers, the old one and the new one"),
    Goal.MOVE_LOG_DIRS: (1, 1, "one broker"),
}
"""The fewest and the most brokers that a goal takes, and what they are; other goals take none."""


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """A goal, and what it may touch.

    Raises:
        BadInput: the goal lacks what it needs, or is given what it has no use for.
    """

    goal: Goal
    brokers: tuple[int, ...] = ()
    """What they are depends on the goal. A drain names the brokers that lose their replicas. An
    expansion names those that take some. A replacement names the old one and the new one. A goal
    for directories names the broker that has them."""
    topics: tuple[str, ...] = ("*",)
    """Topics that may change: names, or patterns with `*`, `?` and `[...]` as in a shell."""
    exclude: tuple[str, ...] = ()
    """Topics that stay as they are, though `topics` names them."""
    factors: Mapping[str, int] = field(default_factory=dict)
    """The replication factor of topics, by pattern; the first one that fits."""
    by: Weighing = Weighing.BYTES
    """What an expansion and a rebalance level."""
    tolerance: float = TOLERANCE
    """How far from the mean a broker, or a directory, may be; 0.1 is 10 % to either side."""
    max_moved_bytes: int | None = None
    """A rebalance stops there."""
    directories: tuple[str, ...] = ()
    """Those to be emptied; none: all of the broker's are evened out."""
    disk_fraction: float = DISK_FRACTION
    """See `DISK_FRACTION`."""
    keep_racks: bool = True
    """False lets a partition span fewer racks where a broker cannot be drained or replaced in any
    other way."""
    seed: int = 0
    """Which of two equally good brokers is taken; the same seed gives the same plan."""
    caps: MoveCaps | None = None
    """How many move at the same time, for the preview's phases; None: all of them."""

    def __post_init__(self) -> None:
        fewest, most, words = _BROKERS.get(self.goal, (0, 0, "no broker"))
        if not fewest <= len(self.brokers) <= (len(self.brokers) if most is None else most):
            raise BadInput(f"The goal {self.goal} needs {words}.", advice=NOTHING)
        if self.caps is not None and min(self.caps.per_broker, self.caps.in_cluster) < 1:
            raise BadInput("At least one move at a time is needed.", advice=NOTHING)
        if not self.topics:
            raise BadInput("No topic may be changed.", advice=NOTHING)
        if bool(self.factors) != (self.goal is Goal.REPLICATION_FACTOR):
            needs = "needs a topic and its factor" if not self.factors else "does not use a factor"
            raise BadInput(f"The goal {self.goal} {needs}.", advice=NOTHING)
        if self.directories and self.goal is not Goal.MOVE_LOG_DIRS:
            raise BadInput(f"The goal {self.goal} does not use a log directory.", advice=NOTHING)
        if self.max_moved_bytes is not None and self.goal is not Goal.REBALANCE:
            raise BadInput(f"The goal {self.goal} does not use a limit of bytes.", advice=NOTHING)


@dataclass(frozen=True, slots=True)
class PlanAnswer:
    """A proposal and what it does."""

    proposal: Proposal
    impact: Impact
    cluster_id: str
    """Of the cluster that it was made for."""
    taken_ms: int
    """When that cluster was looked at; milliseconds since the epoch."""

    @property
    def plan(self) -> ReassignmentPlan:
        """The plan; its own cluster's name is in it, so that no other one starts it."""
        plan = self.proposal.plan
        return ReassignmentPlan(plan.replicas, plan.log_dirs, self.cluster_id or None)

    @property
    def plan_json(self) -> str:
        """`plan` in Kafka's JSON. Kafka's tools refuse one without partitions."""
        proposal = self.proposal
        return format_plan(proposal.targets, proposal.log_dirs, cluster_id=self.cluster_id)

    @property
    def rollback_json(self) -> str:
        """The plan that leads back, likewise."""
        proposal = self.proposal
        return format_plan(proposal.before, proposal.log_dirs_before, cluster_id=self.cluster_id)


@dataclass(frozen=True, slots=True)
class RehearsalRequest:
    """Which moves to rehearse, and how.

    Raises:
        BadInput: it moves nothing, or asks for too many rehearsals.
    """

    targets: Mapping[TopicPartition, tuple[int, ...]]
    throttles_bytes_per_s: tuple[int | None, ...] = ()
    """One rehearsal each; None is without a throttle."""
    deadline_ms: int | None = None
    """Also find the throttle with which it is done by this moment, milliseconds since the epoch."""
    quick: bool = False
    """Forecast the ends alone, without a twin."""
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.targets:
            raise BadInput("There is nothing to rehearse: the plan moves no partition.")
        if not self.throttles_bytes_per_s and self.deadline_ms is None:
            raise BadInput("A rehearsal needs a throttle or a deadline.")
        if len(self.throttles_bytes_per_s) > THROTTLES_MAX:
            asked = many(len(self.throttles_bytes_per_s), "throttle")
            raise BadInput(
                f"{asked} are too many for one request; the maximum is {THROTTLES_MAX}.",
                advice="Nothing was rehearsed; ask again with fewer.",
            )


@dataclass(frozen=True, slots=True)
class RehearsalAnswer:
    """When the moves are done, and their course in a twin of the cluster."""

    forecasts: tuple[PlanForecast, ...]
    """By throttle, in the order of the question; that of the deadline comes last, unless somebody
    asked for it."""
    rehearsals: tuple[Rehearsal, ...]
    """In the same order; none where only forecasts were asked for."""
    deadline: Deadline | None
    impact: Impact
    cluster_id: str
    taken_ms: int
    notes: tuple[str, ...] = ()
    """What is not known of the cluster, and what is assumed."""

    def forecast_of(self, throttle_bytes_per_s: int | None) -> PlanForecast:
        """The forecast of one of the throttles."""
        of = (one for one in self.forecasts if one.throttle_bytes_per_s == throttle_bytes_per_s)
        return next(of)
