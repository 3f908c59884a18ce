"""Shrinks that take two people: their start over real sockets, their cut-over without a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kshunt.backend.api.core.two_person_changes import CUT_OVER, TwoPersonChange
from kshunt.backend.api.request_models.shrinks import ConfirmRequestModel
from kshunt.backend.domain.operations.approval import Person, ProposalState
from kshunt.backend.domain.operations.change import AgreedChange, Change, Requester
from kshunt.backend.domain.operations.operation import OperationKind, OperationState
from kshunt.backend.domain.shrink.phases import ShrinkPhase, ShrinkRequest
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.errors import AwaitsApproval, BackendError, BadInput, Conflict
from kshunt.backend.operations.core.context import Context
from kshunt.backend.operations.review.approvals import ProposalDraft
from kshunt.backend.operations.review.claims import Claims
from kshunt.backend.operations.shrink.requests import Shrinks
from kshunt.backend.operations.state.shrink_work import ShrinkWork
from tests.support.access.team import Shared, shared
from tests.support.embedded.background import Running, running
from tests.support.operations.approvals import ADA, BOB, Side, side
from tests.support.topics import create_topic

HOUR_MS = 3_600_000
"""Nobody waits for it: the shrinks of these tests come no further than to wait for writers."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Running]:
    """One that cannot delete partitions itself."""
    with running(ClusterSpec(plain_brokers(3), native=False)) as handle:
        create_topic(handle.bootstrap_servers, "orders", [[1, 2], [2, 3], [3, 1]])
        yield handle


@pytest.fixture(scope="module")
def team(cluster: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    folder = tmp_path_factory.mktemp("shrink-two")
    with shared(cluster.bootstrap_servers, folder, "--two-person", "shrink") as found:
        yield found


@pytest.mark.slow
def test_a_shrink_is_proposed_and_started_by_two(team: Shared) -> None:
    request = ShrinkRequest("orders", 1, HOUR_MS)
    assert team.ada.shrinks.start(request, Change(validate_only=True)).operation_id is None
    with pytest.raises(AwaitsApproval) as awaits:
        team.ada.shrinks.start(request, Change(reason="too many"))
    assert team.ada.operations.list() == ()
    id = awaits.value.proposal_id
    seen = team.bob.proposals.foresee(id)
    assert "3 partitions become 1" in seen.lines[0]
    assert any("POINT OF NO RETURN" in note for note in seen.notes)
    done, answer = team.bob.proposals.approve(id, Change(preview=seen.fingerprint))
    assert (done.state, answer.operation_id) == ("done", done.operation_id)
    (operation,) = team.ada.operations.list()
    assert (operation.kind, operation.who) == ("shrink", "ada, approved by bob")

    # A second one would be refused, so it is not even proposed; nor is a cut-over before its time.
    with pytest.raises(BackendError, match="already"):
        team.ada.shrinks.start(request)
    with pytest.raises(BackendError, match="confirm is not possible"):
        team.ada.shrinks.confirm(operation.id, "orders")
    assert [one.id for one in team.ada.proposals.list()] == [id]


# The cut-over


async def waiting(here: Side) -> tuple[Any, str]:
    """A backend with a shrink that waits for its topic's name, and the shrink's id."""
    context = Context(cast(Any, None), here.registry, here.clock, 1.0)
    backend = SimpleNamespace(
        registry=here.registry,
        claims=Claims(here.registry, here.clock),
        shrinks=Shrinks(context, cast(Any, None)),
    )
    operation = here.registry.draft(OperationKind.SHRINK, "shrink orders to 1 partition")
    work = replace(
        ShrinkWork(ShrinkRequest("orders", 1, 0), 3, "orders-copy"), phase=ShrinkPhase.CONFIRM
    )
    running_one = operation.to(OperationState.RUNNING, at_ms=1)
    await here.registry.put(running_one, shrink=work)
    return backend, operation.id


def deed(
    backend: Any, id: str, typed: str = "orders", people: tuple[str, ...] = ()
) -> TwoPersonChange:
    body = ConfirmRequestModel(typed=typed)
    return TwoPersonChange(backend, CUT_OVER, id, body, AgreedChange(who="ada", people=people))


async def proposed(here: Side, backend: Any, id: str) -> str:
    foreseen = await deed(backend, id).foresee()
    body = ConfirmRequestModel(typed="orders").model_dump(mode="json")
    draft = ProposalDraft(CUT_OVER, id, f"cut over orders: operation {id}", body, foreseen, id)
    return (await here.approvals.propose(draft, ADA, "verified")).id


async def test_the_name_is_typed_by_one_and_agreed_to_by_another() -> None:
    here = side()
    backend, id = await waiting(here)
    before = here.registry.shrink(id)
    proposal_id = await proposed(here, backend, id)
    assert here.registry.shrink(id) == before
    change = TwoPersonChange.of(backend, here.approvals.get(proposal_id), BOB)
    done, _ = await here.approvals.approve(proposal_id, BOB, "", "", change)
    assert (done.state, done.operation_id) == (ProposalState.DONE, id)
    work = here.registry.shrink(id)
    assert work is not None
    assert work.confirmed == f"ada, approved by bob: verified (proposal {proposal_id})"
    (line,) = [one for one in here.audit() if one.event == "changed"]
    assert "ada, approved by bob" in line.outcome


async def test_what_came_of_a_cut_over_is_found_after_a_restart() -> None:
    here = side()
    backend, id = await waiting(here)
    proposal_id = await proposed(here, backend, id)
    change = TwoPersonChange.of(backend, here.approvals.get(proposal_id), BOB)
    await here.approvals.approve(proposal_id, BOB, "", "", change)
    # As if the backend had ended before it said what came of it.
    again = Side(here.book, here.clock, here.effects)
    used = replace(
        again.approvals.get(proposal_id), state=ProposalState.APPROVED, outcome="", settled_ms=1
    )
    await again.registry.put_proposal(used, here.audit()[-1])
    await again.approvals.tidy()
    closed = again.approvals.get(proposal_id)
    assert (closed.state, closed.operation_id) == (ProposalState.DONE, id)


async def test_what_differs_has_to_be_looked_at_first() -> None:
    here = side()
    backend, id = await waiting(here)
    first = await deed(backend, id).foresee()
    assert any("POINT OF NO RETURN: then kshunt deletes orders" in note for note in first.notes)
    operation, work = here.registry.get(id), here.registry.shrink(id)
    assert operation is not None
    assert work is not None
    differing = replace(work, phase=ShrinkPhase.VERIFY_BACK, differs="3 records are missing")
    await here.registry.put(operation, shrink=differing)
    second = await deed(backend, id).foresee()
    assert first.fingerprint != second.fingerprint
    assert "3 records are missing" in second.lines[0]
    assert second.notes == (), "it is past that point"


async def test_another_name_and_another_s_claim_stop_it() -> None:
    here = side()
    backend, id = await waiting(here)
    with pytest.raises(BadInput, match="is not the name of the topic"):
        await deed(backend, id, "payments").foresee()
    await backend.claims.claim(id, Requester("eve"), take_over=False)
    for people in (("ada", "bob"), ()):
        with pytest.raises(Conflict, match="eve has claimed"):
            await deed(backend, id, people=people).foresee()
    await deed(backend, id, people=("ada", "eve")).foresee()


async def test_a_proposal_of_another_version_is_not_carried_out() -> None:
    here = side()
    backend, id = await waiting(here)
    proposal = here.approvals.get(await proposed(here, backend, id))
    for odd in (
        replace(proposal, action="teleport"),
        replace(proposal, body={"typed": 5}),
        replace(proposal, body={**proposal.body, "forced": True}),
    ):
        with pytest.raises(Conflict, match="by another version of kshunt"):
            TwoPersonChange.of(backend, odd, Person("bob", "token-bob"))
