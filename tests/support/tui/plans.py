"""Plans for the dashboard's tests: a quiet cluster, a proposal that drains a broker, rehearsals of
it, and a backend that answers with them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from kshunt.backend.api.schema.plans import PlanProposal, Rehearsals
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.planning.impact import BrokerImpact, Impact
from kshunt.backend.domain.planning.proposal import Cost, Measure, PlanNote, Proposal
from kshunt.backend.domain.planning.rehearsal import (
    Deadline,
    IsrEvent,
    PlanForecast,
    Rehearsal,
    Timeline,
)
from kshunt.backend.domain.planning.requests import PlanAnswer, RehearsalAnswer
from kshunt.backend.domain.replicas.expected_end_values import ExpectedEnd
from kshunt.backend.domain.untrusted.json_codec import to_document
from kshunt.tui.changes.plan.goals import PlanStep
from kshunt.tui.changes.plan.screen import PlanScreen
from kshunt.tui.dialogs.form import FormPart
from tests.support.tui.app import Shown, dashboard
from tests.support.tui.backend import Json, Problem, ScriptedBackend
from tests.support.tui.cluster import START_MS, ScriptedCluster

MB = 1_000_000
DRAINED = 4
DISK_BYTES = 400_000_000_000
POINTS = 40
NOTE = PlanNote(
    "It is being reassigned, and stays as it is.",
    "Plan again when that is done, or cancel it.",
    TopicPartition("audit-log", 3),
    DRAINED,
)


def quiet() -> ScriptedCluster:
    """Five brokers on three racks, nothing moves."""
    topics = {"orders": 6, "payments.transactions.settled.v2": 8, "audit-log": 4}
    return ScriptedCluster.of(5, topics)


def proposal_of(
    cluster: ScriptedCluster, drained: int = DRAINED, notes: Sequence[PlanNote] = (NOTE,)
) -> Proposal:
    """Every replica of a broker goes to the next one that has none of its partition."""
    before: dict[TopicPartition, tuple[int, ...]] = {}
    targets: dict[TopicPartition, tuple[int, ...]] = {}
    moved = 0
    for partition, state in sorted(cluster.partitions.items()):
        if drained in state.replicas:
            others = [id for id in cluster.racks if id not in state.replicas]
            newcomer = others[len(targets) % len(others)]
            before[partition] = tuple(state.replicas)
            targets[partition] = tuple(newcomer if b == drained else b for b in state.replicas)
            moved += state.size_bytes
    cost = Cost(moved_bytes=moved, moved_replicas=len(targets))
    measure = Measure("bytes left on the drained brokers", float(moved), 0.0, in_bytes=True)
    return Proposal(f"drain broker {drained}", before, targets, cost, measure, tuple(notes))


def impact_of(cluster: ScriptedCluster, proposal: Proposal) -> Impact:
    """What a proposal does to each broker, added up one by one."""
    brokers = tuple(_broker_impact(cluster, proposal, id) for id in sorted(cluster.racks))
    left = [p for p, was in proposal.before.items() if was[0] not in proposal.targets[p]]
    return Impact(
        partitions=len(proposal.targets),
        reordered=0,
        added=len(proposal.targets),
        removed=len(proposal.targets),
        moved_bytes=proposal.cost.moved_bytes,
        unknown_sizes=0,
        leaders_moved=len(left),
        preferred_moved=len(left),
        fewer_racks=(),
        more_racks=0,
        under_min_isr=(),
        on_the_edge=tuple(sorted(proposal.targets))[:3],
        brokers=brokers,
    )


def _broker_impact(cluster: ScriptedCluster, proposal: Proposal, id: int) -> BrokerImpact:
    present = {p: tuple(state.replicas) for p, state in cluster.partitions.items()}
    after = {**present, **proposal.targets}
    sizes = {p: state.size_bytes for p, state in cluster.partitions.items()}

    def held(places: Mapping[TopicPartition, Sequence[int]]) -> int:
        return sum(sizes[p] for p, replicas in places.items() if id in replicas)

    comes = [p for p in proposal.targets if id in after[p] and id not in present[p]]
    feeds = [p for p in proposal.targets if present[p][0] == id]
    received = sum(sizes[p] for p in comes)
    return BrokerImpact(
        broker=id,
        replicas_before=sum(id in replicas for replicas in present.values()),
        replicas_after=sum(id in replicas for replicas in after.values()),
        leaders_before=sum(replicas[0] == id for replicas in present.values()),
        leaders_after=sum(replicas[0] == id for replicas in after.values()),
        bytes_before=held(present),
        bytes_peak=held(present) + received,
        bytes_after=held(after),
        received_bytes=received,
        sent_bytes=sum(sizes[p] for p in feeds),
        disk_bytes=DISK_BYTES,
    )


def plan_answer(cluster: ScriptedCluster, **changes: Any) -> PlanAnswer:
    """A proposal with what it does; `changes` are of the proposal."""
    proposal = replace(proposal_of(cluster), **changes)
    return PlanAnswer(proposal, impact_of(cluster, proposal), cluster.cluster_id, cluster.now_ms)


def rehearsed(
    answer: PlanAnswer, throttle: int | None, finish_s: float | None, **changes: Any
) -> Rehearsal:
    """Brokers receive at the throttle, one after the other, until it is done."""
    brokers = tuple(row.broker for row in answer.impact.brokers)
    rate = float(throttle or 400 * MB)
    end_s = finish_s if finish_s is not None else 3_600.0
    at_s = np.linspace(0.0, end_s, POINTS)
    left = 1.0 - at_s / end_s
    begun = np.array([[place * 5 <= n for place in range(len(brokers))] for n in range(POINTS)])
    received = np.where(begun, rate, rate / 10) * (left[:, None] > 0)
    before = np.array([row.bytes_before for row in answer.impact.brokers], np.float64)
    peak = np.array([row.bytes_peak for row in answer.impact.brokers], np.float64)
    run = Rehearsal(
        throttle,
        brokers,
        Timeline(
            at_s,
            answer.impact.moved_bytes * left,
            received,
            received[:, ::-1].copy(),
            before + (peak - before) * (1 - left[:, None]),
            np.zeros(POINTS, np.int64),
            np.zeros(POINTS, np.int64),
        ),
        dict.fromkeys(answer.proposal.targets, end_s) if finish_s is not None else {},
        finish_s,
    )
    return replace(run, **changes)


def dropping(count: int) -> tuple[IsrEvent, ...]:
    """Replicas that leave an ISR, and come back a minute later."""
    left = [IsrEvent("orders", n, 30.0 * n, 2, True) for n in range(count)]
    back = [replace(event, at_s=event.at_s + 60.0, left=False) for event in left]
    return tuple(sorted([*left, *back], key=lambda event: event.at_s))


def forecast_at(throttle: int | None, middle_s: float) -> PlanForecast:
    """An end with a range, from a tenth before to a fifth after."""
    end = ExpectedEnd(START_MS, 3, middle_s * 0.9, middle_s, middle_s * 1.2)
    return PlanForecast(throttle, end)


def rehearsal_answer(
    answer: PlanAnswer, *, deadline_s: float | None = None, possible: bool = True
) -> RehearsalAnswer:
    """Three throttles: a slow one, a fast one, and none, with which replicas fall behind."""
    runs = [
        rehearsed(answer, 25 * MB, 6_720.0),
        rehearsed(answer, 100 * MB, 1_500.0),
        rehearsed(answer, None, 420.0, isr_events=dropping(3)),
    ]
    forecasts = [forecast_at(r.throttle_bytes_per_s, r.finish_s or 0.0) for r in runs]
    deadline = None
    if deadline_s is not None:
        rate = 40 * MB if possible else None
        if possible:
            runs.append(rehearsed(answer, rate, 2_800.0))
            forecasts.append(forecast_at(rate, 2_800.0))
        needs = {5: (12.0 * MB, 1.0 * MB), 1: (30.0 * MB, 0.0)}
        deadline = Deadline(START_MS + round(deadline_s * 1000), rate, 0.9, needs)
    return RehearsalAnswer(
        tuple(forecasts),
        tuple(runs),
        deadline,
        answer.impact,
        answer.cluster_id,
        START_MS,
        ("Rates of brokers.",),
    )


@dataclass(repr=False)
class Planning:
    """What a backend answers who plans."""

    backend: ScriptedBackend
    answer: PlanAnswer = field(init=False)
    rehearsal: RehearsalAnswer = field(init=False)
    refuses: Problem | None = None
    """Answers every question with this."""

    def __post_init__(self) -> None:
        self.answer = plan_answer(self.backend.cluster)
        self.rehearsal = rehearsal_answer(self.answer)
        self.backend.scripted |= {"/v1/plans": self._plan, "/v1/rehearsals": self._rehearse}

    @property
    def asked(self) -> Json:
        """The last question."""
        return self.backend.questions[-1][1]

    def _plan(self, body: Json) -> Json:
        if self.refuses is not None:
            raise self.refuses
        return to_document(PlanProposal.of(self.answer))

    def _rehearse(self, body: Json) -> Json:
        if self.refuses is not None:
            raise self.refuses
        return to_document(Rehearsals.of(self.rehearsal))


@asynccontextmanager
async def planning_shown(
    folder: Path, *, size: tuple[int, int] = (80, 24), **options: Any
) -> AsyncIterator[tuple[Shown, Planning]]:
    """The dashboard on a quiet cluster, and its planners."""
    async with dashboard(folder / "s", quiet(), size=size, **options) as shown:
        yield shown, Planning(shown.backend)


# Keys


async def until(shown: Shown, words: str) -> None:
    """Wait for words on the screen."""
    await shown.until(lambda: words in shown.frame(), f"'{words}' is shown")


async def at_plan(shown: Shown, step: PlanStep) -> PlanScreen:
    """The plan wizard, once it has come so far and shows what belongs there."""
    screen = await shown.dialog(PlanScreen)
    assert isinstance(screen, PlanScreen)
    await shown.until(lambda: screen.step is step and screen.ready, f"it has come to {step.title}")
    return screen


async def choose(shown: Shown, number: int = 1) -> FormPart:
    """From the key to the choices of a goal."""
    await shown.press("P")
    await at_plan(shown, PlanStep.GOAL)
    await shown.pilot.press(str(number))
    screen = await at_plan(shown, PlanStep.CHOICES)
    return screen.form(PlanStep.CHOICES)


async def fill(shown: Shown, form: FormPart, *texts: str | None) -> None:
    """Type into the fields from the first on, and go through them all; None leaves one alone."""
    for place, text in enumerate(texts):
        if text is not None:
            form.input(place).value = text
    form.input(max(form.fields)).focus()
    await shown.until(lambda: form.input(max(form.fields)).has_focus, "the last field is there")
    await shown.pilot.press("enter")


async def proposed(shown: Shown) -> PlanScreen:
    """To the proposal that drains a broker."""
    await fill(shown, await choose(shown), str(DRAINED))
    return await at_plan(shown, PlanStep.PROPOSAL)


async def compared(shown: Shown, throttles: str = "", deadline: str = "none") -> PlanScreen:
    """On to rehearsals of it."""
    await proposed(shown)
    await shown.pilot.press("enter")
    screen = await at_plan(shown, PlanStep.THROTTLES)
    form = screen.form(PlanStep.THROTTLES)
    await fill(shown, form, throttles or "25MB/s, 100MB/s, none", deadline)
    return await at_plan(shown, PlanStep.REHEARSAL)
