"""A move with a deadline, over HTTP: it is kept with the operation, and judged while it runs."""

from __future__ import annotations

from contextlib import closing

import pytest

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.replicas.expected_end_values import DeadlineCheck
from kshunt.backend.errors import BackendError
from tests.support.topics import create_topic, produce
from tests.support.waiting import wait_until

PLAN = ReassignmentPlan({TopicPartition("late", 0): (2,)})


@pytest.fixture(scope="module")
def bootstrap(bootstrap: str) -> str:
    create_topic(bootstrap, "late", [[1]])
    produce(bootstrap, "late", 300, 10_000, 0)
    return bootstrap


def test_a_deadline_that_is_over_is_refused(client: BackendClient) -> None:
    with pytest.raises(BackendError, match="already over") as caught:
        client.reassignments.start(PLAN, deadline_ms=SystemClock().now_ms() - 1)
    assert caught.value.status == 422
    assert client.reassignments.list() == ()


def test_a_move_that_misses_its_deadline_says_so_and_what_would_do(client: BackendClient) -> None:
    deadline_ms = SystemClock().now_ms() + 80_000
    id = client.reassignments.start(
        PLAN, throttle_bytes_per_s=10_000, deadline_ms=deadline_ms
    ).operation_id

    def now() -> Operation:
        return next(one for one in client.operations.list() if one.id == id)

    def late() -> DeadlineCheck | None:
        with closing(client.snapshots()) as snapshots:
            end = next(snapshots).expected_ends.get(id or "")
        check = None if end is None else end.deadline
        return check if check is not None and check.holds is False else None

    assert now().details.deadline_ms == deadline_ms
    wait_until(late, 60, "it is late")
    found = late()
    assert found is not None
    assert found.at_ms == deadline_ms
    assert found.needs_bytes_per_s is not None
    assert found.needs_bytes_per_s > 10_000
    client.reassignments.start(PLAN, throttle_bytes_per_s=found.needs_bytes_per_s)
    wait_until(lambda: now().state.ended, 90, "it is done")
    ended_ms = now().ended_ms
    assert ended_ms is not None
    assert ended_ms <= deadline_ms
