"""What other rates would do, as the dashboard has it."""

import pytest

from backend.domain.replicas.what_if import what_if
from tests.support.tui.cluster import incident
from tui.facts.snapshot_facts import Facts


def test_it_agrees_with_what_the_dashboard_says_of_a_move() -> None:
    snapshot = incident().step()
    facts, now = Facts(snapshot), what_if(snapshot, {})
    assert now.copies == facts.summary.moving_replicas
    assert now.rest_s == pytest.approx(facts.summary.eta_s)
    assert now.rest_latest_s == pytest.approx(facts.summary.eta_latest_s)
