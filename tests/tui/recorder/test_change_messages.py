"""Every change that the dashboard sends is recorded in the words of its intent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest
from textual.widgets import Input

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.operations.approval import ProposalState, ShownProposal
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.reassignment.plan import parse_plan
from kshunt.backend.domain.shrink.phases import ShrinkPhase, ShrinkRequest
from kshunt.backend.domain.throttles.configs import ReplicaSet, ThrottledRate, ThrottledReplicas
from kshunt.backend.errors import AwaitsApproval, KshuntError
from kshunt.backend.operator_identity import who_am_i
from kshunt.tui.actions import ACTIONS
from kshunt.tui.actions.view_names import OPERATIONS
from kshunt.tui.changes.intents import (
    election,
    operations,
    proposals,
    reassignment,
    shrink,
    throttles,
)
from kshunt.tui.changes.intents.alter import Present, Wanted, alter_intent
from kshunt.tui.changes.intents.reassignment import Start
from kshunt.tui.changes.wizard.change_service import ChangeService
from kshunt.tui.changes.wizard.intent import Intent, TargetCluster
from kshunt.tui.dialogs.text_prompt import TextPromptScreen
from kshunt.tui.facts.snapshot_facts import Facts
from kshunt.tui.feed.change_messages import with_messages
from kshunt.tui.feed.messages import ActionTaken
from kshunt.tui.recorder.reader import RecordingReader
from kshunt.tui.text.glyphs import ASCII
from tests.support.tui.backend import Problem
from tests.support.tui.cluster import DRIFT, ORPHAN, START_MS
from tests.support.tui.replay import Recorded, recorded, scripted
from tests.support.tui.shrinks import progress_in, shrink_of

RATE: Final = ThrottledRate(25_000_000, 25_000_000)
PLAN: Final = parse_plan(
    '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1,2]}]}'
)
PROPOSAL: Final = ShownProposal(
    id="1a2b3c4d",
    action="delete_partitions",
    subject="",
    summary="shrink orders to 2 partitions",
    state=ProposalState.WAITING,
    who="bob",
    reason="too many",
    proposed_ms=START_MS,
    expires_ms=START_MS + 900_000,
    foreseen=(),
    actions=("approve", "reject"),
)
WITHOUT_INTENT: Final = {"claim", "remark"}
"""These change nothing in the cluster: they are sent as notes."""


@dataclass(frozen=True)
class Given:
    """What is on the screen when an operator asks."""

    facts: Facts
    target: TargetCluster
    operation: Operation


def _reassign(given: Given) -> Intent:
    return reassignment.reassign_intent(given.facts, given.target, Start(PLAN, None, None), ASCII)


def _cancel(given: Given) -> Intent:
    return reassignment.cancel_intent(given.facts, given.target, given.facts.moving_partitions)


def _elect(given: Given) -> Intent:
    return election.election_intent(given.facts, given.target, None)


def _rates(given: Given) -> Intent:
    return throttles.rates_intent(given.facts, given.target, {1: RATE}, ASCII)


def _lists(given: Given) -> Intent:
    lists = ThrottledReplicas(ReplicaSet(), ReplicaSet())
    return throttles.lists_intent(given.facts, given.target, "orders", lists)


def _step(given: Given) -> Intent:
    return throttles.step_intent(given.target, {1: RATE})


def _steered(verb: str) -> Callable[[Given], Intent]:
    return lambda given: operations.operation_intent(
        given.facts, given.target, given.operation, operations.verb_named(verb)
    )


def _cut_over(given: Given) -> Intent:
    progress = progress_in(ShrinkPhase.CONFIRM)
    return shrink.confirm_intent(given.target, shrink_of(progress), progress)


def _shrink(given: Given) -> Intent:
    return shrink.shrink_intent(given.target, ShrinkRequest("orders", 2, 0), 4, "too many")


def _delete(given: Given) -> Intent:
    return shrink.delete_intent(given.target, ShrinkRequest("orders", 2, 0), 4, "too many")


def _alter(given: Given) -> Intent:
    return alter_intent(Present("orders", 4, 3, 5), given.target, Wanted(6, 3), ASCII)


def _drift(given: Given) -> Intent:
    return throttles.drift_intent(given.target, [DRIFT], ASCII, ours=True)


def _orphans(given: Given) -> Intent:
    return throttles.orphans_intent(given.target, [ORPHAN])


INTENTS: Final[Mapping[str, tuple[Callable[[Given], Intent], ...]]] = {
    "reassign": (_reassign,),
    "plan": (_reassign,),
    "cancel": (_cancel,),
    "cancel_all": (_cancel,),
    "pause": (_steered("pause"), _steered("resume")),
    "cancel_operation": (_steered("cancel"),),
    "undo": (_steered("undo"),),
    "abandon": (lambda given: operations.abandon_intent(given.target, given.operation, [3]),),
    "confirm_shrink": (_cut_over,),
    "shrink": (_shrink, _delete),
    "alter": (_alter,),
    "edit": (_rates, _lists),
    "edit_all": (_rates,),
    "faster": (_rates,),
    "slower": (_rates,),
    "type_rate": (_rates,),
    "band": (_step,),
    "take_back": (_step, _rates),
    "elect": (_elect,),
    "elect_all": (_elect,),
    "reapply": (_drift,),
    "accept": (lambda given: throttles.drift_intent(given.target, [DRIFT], ASCII, ours=False),),
    "remove_orphans": (_orphans,),
    "remove_all_orphans": (_orphans,),
    "adopt": (lambda given: throttles.adopt_intent(given.target, 2),),
    # What the others send, filled in.
    "fix": (_rates, _cancel, _elect, _steered("resume")),
    "proposals": (lambda given: proposals.approve_intent(given.target, PROPOSAL, START_MS),),
}
"""By the action of a key: what it may send."""


def test_every_change_is_looked_at_here() -> None:
    changing = {action.name for action in ACTIONS if action.changes}
    assert changing - WITHOUT_INTENT == INTENTS.keys() - {"proposals"}


def actions_of(shown: Recorded) -> list[tuple[str, str, str, str]]:
    """What is on file of actions: stage, words, who and why."""
    reader = RecordingReader(shown.recorder.paths)
    found = [(one.stage, one.text, one.who, one.reason) for _, one in reader.actions()]
    reader.close()
    return found


async def test_every_change_is_recorded_in_the_words_of_its_intent(tmp_path: Path) -> None:
    async with recorded(tmp_path, scripted()) as shown:
        # Refused, so that each finds the same cluster.
        shown.backend.refuse = Problem(403, "Not today.")
        service, who = ChangeService(shown.app), who_am_i()
        scene, facts = shown.app.store.scene, shown.app.store.facts
        assert facts is not None
        target = TargetCluster(scene.cluster_id, scene.bootstrap_servers)
        given = Given(facts, target, scene.operations[0])
        for build in dict.fromkeys(build for builds in INTENTS.values() for build in builds):
            intent = replace(build(given), reason="why not")
            before = len(actions_of(shown))
            with suppress(KshuntError):
                await service.look(intent)
            with pytest.raises(KshuntError):
                await service.send(intent)
            await shown.quiet()
            looked, *_, sent, refused = actions_of(shown)[before:]
            assert looked[0] in ("previewed", "rehearsed")
            assert looked[1:] == (intent.words, who, "why not")
            assert sent == ("sent", intent.words, who, "why not")
            assert refused[0] == "refused"
            assert refused[1].startswith(f"{intent.words}: ")


async def test_the_answer_is_recorded_too(tmp_path: Path) -> None:
    async with recorded(tmp_path, scripted()) as shown:
        scene, facts = shown.app.store.scene, shown.app.store.facts
        assert facts is not None
        target = TargetCluster(scene.cluster_id, scene.bootstrap_servers)
        intent = _rates(Given(facts, target, scene.operations[0]))
        service = ChangeService(shown.app)
        looked = await service.look(intent)
        await service.send(intent, looked.preview)
        await shown.quiet()
        found = actions_of(shown)
    assert [stage for stage, *_ in found] == ["previewed", "rehearsed", "sent", "answered"]
    assert intent.words.startswith("Set the throttle of broker 1 (brokers 1; leader rate 25.0 MB/s")
    assert found[-1][1].startswith(f"{intent.words}: operation op-")
    assert found[-1][1].endswith(", 1 of 1 done")


async def test_a_note_is_recorded_with_its_text(tmp_path: Path) -> None:
    async with recorded(tmp_path, scripted(), start_view=OPERATIONS) as shown:
        await shown.press("N")
        dialog = await shown.dialog(TextPromptScreen)
        dialog.query_one(Input).value = "it was the controller"
        await shown.press("enter")
        await shown.closed()
        await shown.quiet()
        words = "Note on operation op-1: it was the controller"
        assert actions_of(shown) == [
            ("sent", words, who_am_i(), ""),
            ("answered", f"{words}: done", who_am_i(), ""),
        ]


def test_what_takes_two_people_is_answered_with_the_proposal() -> None:
    told: list[ActionTaken] = []

    def send(client: BackendClient) -> object:
        raise AwaitsApproval("It takes two.", proposal_id="p1")

    client = BackendClient("unix:/nowhere")
    with pytest.raises(AwaitsApproval):
        with_messages(told.append, ActionTaken("sent", "Shrink orders", "ada"), send)(client)
    assert [(one.stage, one.text) for one in told] == [
        ("sent", "Shrink orders"),
        ("answered", "Shrink orders: proposed as p1, for another person to approve"),
    ]


def test_of_many_settings_the_first_ones_are_named() -> None:
    target = TargetCluster("c", "host:9092")
    many = [replace(ORPHAN, id=f"o{n}", topic=f"topic-{n}") for n in range(40)]
    words = throttles.orphans_intent(target, many).words
    assert words.startswith("Remove 40 orphan throttles (")
    assert words.endswith("more)")
    assert len(words) < 1_500


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ((5, 5), "5.00 MB/s"),
        ((5, 31), "5.00 MB/s to 31.0 MB/s, by broker"),
        ((5, None), "5.00 MB/s to none, by broker"),
        ((None, None), "none"),
    ],
    ids=["alike", "range", "some without", "none"],
)
def test_rates_that_differ_are_said_without_the_table_below(
    rates: Sequence[int | None], said: str
) -> None:
    limits = [None if rate is None else rate * 1_000_000 for rate in rates]
    wanted = {id: ThrottledRate(limit, limit) for id, limit in enumerate(limits)}
    intent = throttles.step_intent(TargetCluster("c", "b:1"), wanted)
    assert dict(intent.touches)["Leader rate"] == said
