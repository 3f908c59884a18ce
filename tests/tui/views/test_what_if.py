"""What other rates would do, as the dashboard has it."""

from kshunt.backend.domain.forecast.what_if import what_if
from kshunt.backend.domain.replicas.expected_end_values import EVERYTHING
from tests.support.tui.cluster import incident


def test_it_agrees_with_what_the_dashboard_says_of_a_move() -> None:
    snapshot = incident().step()
    present = {id: one.rate for id, one in snapshot.throttles.rates.items()}
    assert what_if(snapshot, present).end == snapshot.expected_ends[EVERYTHING]
