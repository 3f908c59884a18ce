"""A recording that the version before wrote, byte by byte, is read as it was told then."""

from __future__ import annotations

from contextlib import closing
from typing import Final

import pytest

from kshunt.backend.domain.operations.approval import ProposalState
from kshunt.backend.domain.operations.operation import Operation, OperationDetails
from kshunt.backend.domain.operations.team import Claim, Note
from kshunt.backend.domain.throttles.owners import DriftKind, OrphanOrigin, ShareState
from kshunt.tui.feed.polled_facts import DRIFT, ORPHANS, OWNED, PRESENCE, PROPOSALS
from kshunt.tui.feed.scene import Scene
from kshunt.tui.recorder.reader import RecordingReader
from tests.support.paths import ROOT

RECORDED: Final = ROOT / "tests" / "support" / "recordings" / "before-one-codec.kshunt"
"""Written by the recorder of the commit before values had one codec."""


@pytest.fixture(scope="module")
def scene() -> Scene:
    """The last moment of the recording."""
    with closing(RecordingReader([RECORDED])) as reel:
        found = reel.scene_at(reel.last_ms)
        assert reel.trouble == ()
        actions = [(one.stage, one.text, one.who, one.reason) for _, one in reel.actions()]
    assert actions == [("sent", "set rates", "ada", "why")]
    return found


def test_operations_with_details_that_were_a_dict(scene: Scene) -> None:
    moving, rates = scene.operations
    assert moving.details.proposal == "pp11"
    assert len((moving.details.rollback_plan or {})["partitions"]) == 6
    assert (moving.details.waiting_plan or {})["partitions"] == [
        {"topic": "orders", "partition": 0, "replicas": [1, 5]}
    ]
    assert moving.claim == Claim("ada@bastion", 1_759_999_000_000, "mine")
    assert moving.notes == (Note("bob", 1_759_999_100_000, "look"),)
    assert (moving.waiting, moving.actions) == (2, ("pause", "cancel"))
    assert rates.details == OperationDetails(requested={"1": "10 MB/s", "2": "no rate"})
    assert (rates.who, rates.reason, rates.outcome) == ("ada", "why", "done")


def test_fields_that_were_not_recorded_have_their_defaults(scene: Scene) -> None:
    defaults = Operation("", scene.operations[0].kind, scene.operations[0].state, 0, "")
    for one in scene.operations:
        assert one.outcome_is_progress == defaults.outcome_is_progress
    (drift,) = scene.answer(DRIFT)
    assert (drift.wanted_value, drift.found_value, drift.changed_replicas) == (None, None, "")


def test_answers_that_had_texts_where_there_are_enumerations(scene: Scene) -> None:
    (drift,), (orphan,) = scene.answer(DRIFT), scene.answer(ORPHANS)
    assert (drift.kind, drift.broker, drift.operations) == (DriftKind.CHANGED, 3, ("abc",))
    assert (orphan.origin, orphan.topic) == (OrphanOrigin.UNKNOWN, "orders")
    (owned,) = scene.answer(OWNED) or ()
    assert [(one.operation, one.state) for one in owned.shares] == [("abc", ShareState.HELD)]
    (proposal,) = scene.answer(PROPOSALS)
    assert (proposal.state, proposal.foreseen) == (ProposalState.WAITING, ("loses 3",))
    present = scene.answer(PRESENCE)
    assert present is not None
    assert [one.who for one in present.present] == ["bob"]


def test_snapshots_audits_and_failures(scene: Scene) -> None:
    assert scene.snapshot is not None
    assert len(scene.snapshot.replicas.broker) == 96
    assert [line.text for line in scene.audits["e1"]] == ["rates"]
    assert scene.unanswered == {"the data pipeline": "it does not answer"}
    assert scene.connection.reason == "gone"
