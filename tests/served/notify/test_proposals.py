"""What the backend reports to webhooks about changes that take two people."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kshunt.backend.domain.operations.approval import ProposalState, ProposedChange
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.shrink.delete_partitions import DeletePartitions
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.errors import AwaitsApproval
from kshunt.backend.notify.changes import BackendMoment, Watch
from kshunt.backend.notify.proposals import proposal_news
from tests.support.access.team import shared
from tests.support.embedded.background import running
from tests.support.notify.receiver import Received, Receiver, receiving
from tests.support.operations.approvals import ADA
from tests.support.topics import create_topic
from tests.support.waiting import wait_until

State = ProposalState
DEADLINE_S = 60.0
WAITS = ProposedChange(
    *("p1", "shrink", "orders", "shrink orders to 3 partitions", ADA, "too many", 0, 900_000),
    body={"partitions": 3},
)
ACTS = BackendMoment(0.0, "kshunt-1", "host-1", active=True, writes=True, reachable=True)


def settled(state: State, **said: Any) -> ProposedChange:
    return replace(WAITS, state=state, settled_by="bob", settled_ms=5, **said)


def test_one_that_waits_is_told_once_with_its_end_and_its_reason() -> None:
    (news,) = proposal_news({}, [WAITS])
    assert news.type == "proposal.waiting"
    assert news.text == (
        "Proposal p1 of ada waits for a second person until 1970-01-01 00:15:00 UTC: "
        "shrink orders to 3 partitions (too many)"
    )
    assert list(proposal_news({"p1": State.WAITING}, [WAITS])) == []


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (settled(State.DONE, outcome="1 of 1 done"), "was approved by bob and carried out"),
        (
            settled(State.FAILED, outcome="it broke"),
            "was approved by bob, but could not be carried",
        ),
        (settled(State.REJECTED, settled_reason="not today"), "was rejected by bob"),
        (settled(State.WITHDRAWN), "was withdrawn"),
        (WAITS.at(900_000), "expired: nobody approved it in time"),
    ],
)
def test_what_became_of_it_is_told(after: ProposedChange, words: str) -> None:
    (news,) = proposal_news({"p1": State.WAITING}, [after])
    assert news.type == "proposal.ended"
    assert f"Proposal p1 {words}" in news.text
    for said in (after.outcome, after.settled_reason):
        assert said in news.text
    assert news.data["proposal"]["state"] == after.state.value
    assert "body" not in news.data["proposal"]
    # What had ended before anybody looked is no news, nor what is being carried out.
    assert list(proposal_news({}, [after])) == []
    assert list(proposal_news({"p1": State.WAITING}, [settled(State.APPROVED)])) == []


def test_only_the_backend_that_acts_tells_and_its_heir_tells_what_waits_again() -> None:
    watch = Watch()
    follower = replace(ACTS, active=False, writes=False, proposals=(WAITS,))
    assert [one.type for one in watch.seen(follower)] == []
    heir = replace(ACTS, proposals=(WAITS,))
    assert [one.type for one in watch.seen(heir)] == ["backend.acts", "proposal.waiting"]
    assert list(watch.seen(heir)) == []
    assert [one.type for one in watch.seen(follower)] == ["backend.stopped"]
    assert [one.type for one in watch.seen(heir)] == ["backend.acts", "proposal.waiting"]


def test_a_second_person_hears_of_it_without_a_dashboard(tmp_path: Path) -> None:
    deletes = {"delete.topic.partition.enable": "true"}
    with running(ClusterSpec(plain_brokers(3), static=deletes)) as cluster, receiving() as receiver:
        create_topic(cluster.bootstrap_servers, "orders", [[1, 2], [2, 3]])
        hook = ("--webhook", receiver.url, "--webhook-dead-letter", str(tmp_path / "dead"))
        with shared(cluster.bootstrap_servers, tmp_path, "--two-person", "shrink", *hook) as team:
            with pytest.raises(AwaitsApproval) as awaits:
                team.ada.shrinks.delete_partitions(
                    {"orders": DeletePartitions(1)}, Change(reason="too many")
                )
            waiting = _told(receiver, "proposal.waiting").document
            assert waiting["data"]["proposal"]["id"] == awaits.value.proposal_id
            assert "of ada waits for a second person" in waiting["text"]
            team.bob.proposals.reject(awaits.value.proposal_id, Change(reason="they are read"))
            ended = _told(receiver, "proposal.ended").document
            assert "was rejected by bob" in ended["text"]
            assert ended["text"].endswith("(they are read)")


def _told(receiver: Receiver, kind: str) -> Received:
    def found() -> list[Received]:
        return [one for one in tuple(receiver.received) if one.document["type"] == kind]

    wait_until(lambda: bool(found()), DEADLINE_S, f"{kind} is told")
    return found()[-1]
