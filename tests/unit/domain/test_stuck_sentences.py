"""Why a replica does not advance, in sentences: what is known is said, and nothing else."""

from __future__ import annotations

import pytest

from kshunt.backend.domain.cluster.failed_requests import FailedRequest
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.replicas.stuck_causes import (
    CAUSE_TEXTS,
    STUCK_CAUSES,
    Cause,
    RateNeed,
    SharedThrottle,
    Stuck,
    StuckEvidence,
)
from kshunt.backend.domain.replicas.stuck_sentences import stuck_text
from kshunt.backend.domain.throttles.configs import FOLLOWER_RATE, LEADER_RATE

SILENT = FailedRequest("Broker 4 did not answer within 5 s.", broker=4, waited_s=5.0)
LOW = RateNeed(1, LEADER_RATE, 100, 300, 400)
LOWER = RateNeed(4, FOLLOWER_RATE, 200, 500, 600)


def stuck(cause: Cause, evidence: StuckEvidence | None, *rates: RateNeed) -> Stuck:
    """A replica of orders-0 on broker 4."""
    return Stuck(TopicPartition("orders", 0), 4, cause, rates, evidence)


def reason(cause: Cause, evidence: StuckEvidence, *rates: RateNeed) -> str:
    return stuck_text(stuck(cause, evidence, *rates)).reason


def action(cause: Cause, evidence: StuckEvidence, *rates: RateNeed) -> str:
    return stuck_text(stuck(cause, evidence, *rates)).action


@pytest.mark.parametrize("cause", CAUSE_TEXTS)
def test_a_replica_is_stuck_where_somebody_has_to_do_something(cause: Cause) -> None:
    assert cause.is_stuck == bool(CAUSE_TEXTS[cause].action)
    assert (cause in STUCK_CAUSES) == cause.is_stuck


@pytest.mark.parametrize("cause", CAUSE_TEXTS)
def test_of_a_replica_without_evidence_its_cause_is_explained(cause: Cause) -> None:
    assert stuck_text(stuck(cause, None)) == CAUSE_TEXTS[cause]


@pytest.mark.parametrize("cause", [one for one in CAUSE_TEXTS if one is not Cause.PAUSED])
def test_with_evidence_the_column_keeps_its_words(cause: Cause) -> None:
    found = stuck_text(stuck(cause, StuckEvidence(leader=1, watched_s=5), LOW))
    assert found.short == CAUSE_TEXTS[cause].short
    assert "None" not in found.reason + found.action


def test_a_full_disk_says_the_free_bytes_and_the_bytes_that_it_lacks() -> None:
    full = Cause.DISK_FULL
    known = StuckEvidence(free_bytes=10, lag_bytes=90)
    assert "has 10 bytes free, and it lacks 90 bytes." in reason(full, known)
    assert reason(full, StuckEvidence(free_bytes=10)).endswith("has 10 bytes free.")
    assert "has an unknown amount free, and it" in reason(full, StuckEvidence(lag_bytes=90))
    assert "0 bytes free" in reason(full, StuckEvidence(free_bytes=0))
    offline = StuckEvidence(offline_dirs=("/a",), free_bytes=10, lag_bytes=0)
    assert "took log directory /a offline" in reason(full, offline)
    assert "had 10 bytes free when it last answered, and it lacks 0 bytes." in reason(full, offline)
    assert action(full, offline).startswith("Free space there and restart broker 4")


def test_a_slow_copy_says_which_rates_are_unknown() -> None:
    slow = Cause.COPY_TOO_SLOW
    known = StuckEvidence(leader=1, fetched_bytes_per_s=0, written_bytes_per_s=7)
    assert "copies from leader 1 at 0 B/s, and 7 B/s are written." in reason(slow, known)
    assert "at an unknown rate, and the write rate is unknown." in reason(
        slow, StuckEvidence(leader=1)
    )


def test_a_broker_that_is_registered_is_not_called_down() -> None:
    down, seen = StuckEvidence(registered=False, failed=SILENT), StuckEvidence(failed=SILENT)
    assert reason(Cause.BROKER_DOWN, down) == (
        "Broker 4 is down: not registered: it is down or fenced."
    )
    assert action(Cause.BROKER_DOWN, down).startswith("Start broker 4")
    assert reason(Cause.BROKER_DOWN, seen).endswith(f"does not answer: {SILENT.message}")
    assert action(Cause.BROKER_DOWN, seen).startswith("Check broker 4 and the network")
    assert reason(Cause.BROKER_DOWN, StuckEvidence()).endswith("it does not answer.")


def test_a_deletion_waits_for_a_disk_where_the_broker_answers_and_else_for_the_broker() -> None:
    waits = Cause.DELETION_WAITS
    assert "its log directory is offline" in reason(waits, StuckEvidence())
    assert action(waits, StuckEvidence()).startswith("Repair the disk")
    silent = StuckEvidence(answers=False, failed=SILENT)
    assert reason(waits, silent).endswith(SILENT.message)
    assert action(waits, silent).startswith("Start broker 4")


def test_throttles_are_named_with_what_they_have_and_what_would_do() -> None:
    low = Cause.THROTTLE_TOO_LOW
    assert "at or below the 500 B/s that are written" in reason(low, StuckEvidence(), LOW, LOWER)
    needs = f"{LEADER_RATE} of broker 1 needs at least 400 B/s and has 100 B/s"
    assert needs in reason(low, StuckEvidence(), LOW, LOWER)
    raised = (
        f"Raise {LEADER_RATE} of broker 1 to 400 B/s and {FOLLOWER_RATE} of broker 4 to 600 B/s."
    )
    assert action(low, StuckEvidence(), LOW, LOWER) == raised
    orphan = reason(Cause.THROTTLE_ORPHAN, StuckEvidence(), LOW)
    assert f"{LEADER_RATE} of broker 1 at 100 B/s" in orphan


def test_a_leader_can_come_from_the_brokers_that_could_lead() -> None:
    lost = StuckEvidence(in_sync=(1,), could_lead=(2, 3))
    assert reason(Cause.NO_LEADER, lost) == "orders-0 has no leader; in its ISR: 1."
    assert action(Cause.NO_LEADER, lost).startswith("Bring back broker 2 or broker 3.")
    assert reason(Cause.NO_LEADER, StuckEvidence()).endswith("in its ISR: none.")


def test_a_silent_controller_is_named_where_it_is_known() -> None:
    assert "controller 0 is silent" in reason(Cause.CONTROLLER, StuckEvidence(controller=0))
    assert "no controller is named" in reason(Cause.CONTROLLER, StuckEvidence())


def test_a_replica_that_waits_for_its_turn_says_who_shares_its_throttle() -> None:
    shared = StuckEvidence(shared=SharedThrottle(1, LEADER_RATE, 6))
    assert f"shares {LEADER_RATE} of broker 1 with 6 others" in reason(Cause.WAITING_TURN, shared)
    assert action(Cause.WAITING_TURN, shared) == ""
    without = reason(Cause.WAITING_TURN, StuckEvidence())
    assert without == CAUSE_TEXTS[Cause.WAITING_TURN].reason


def test_a_move_that_waits_for_another_replica_gives_the_advice_for_that_one() -> None:
    other = Stuck(TopicPartition("orders", 0), 2, Cause.DISK_FULL, (), StuckEvidence(free_bytes=1))
    turn = Stuck(TopicPartition("orders", 0), 3, Cause.WAITING_TURN)
    found = stuck_text(stuck(Cause.REMAINING_OUT_OF_ISR, StuckEvidence(waits_for=(turn, other))))
    assert "the replica on broker 3, 2, which stays" in found.reason
    assert found.reason.endswith(stuck_text(other).reason)
    assert found.action.startswith(stuck_text(other).action)
    alone = stuck_text(stuck(Cause.REMAINING_OUT_OF_ISR, StuckEvidence(waits_for=(turn,))))
    assert alone.action == "Or move that replica elsewhere in the same reassignment."
