"""What other rates would do, as the dashboard has it."""

import pytest

from kshunt.backend.domain.replicas.what_if import what_if
from kshunt.tui.facts.snapshot_facts import Facts
from tests.support.tui.cluster import incident


def test_it_agrees_with_what_the_dashboard_says_of_a_move() -> None:
    snapshot = incident().step()
    facts, now = Facts(snapshot), what_if(snapshot, {})
    assert now.copies == facts.summary.moving_replicas
    assert now.rest_s == pytest.approx(facts.summary.eta_s)
    assert now.rest_latest_s == pytest.approx(facts.summary.eta_latest_s)
