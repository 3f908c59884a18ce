"""What is asked of a plan: how far it is, whether it is done, and where its replicas lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kshunt.backend.admin.port.item_result import OK, ItemResult
from kshunt.backend.domain.cluster.columns import LogDirColumns
from kshunt.backend.domain.cluster.metadata import LogDir
from kshunt.backend.domain.reassignment.answers import VerifyState
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.replicas.snapshot import UNKNOWN
from kshunt.backend.errors import BadInput, BrokerUnreachable, ClusterUnreachable
from kshunt.backend.operations.ownership.cells import ListKey, RateKey
from kshunt.backend.operations.reassignment.queries import Queries
from tests.support.admin import instead
from tests.support.operations.engine import tp
from tests.support.operations.engine_world import BROKER, TOPIC
from tests.support.operations.story import Story

PLAN = ReassignmentPlan({tp("a-0"): (3, 4)})


@dataclass
class Disks:
    """Where replicas lie, by broker: rows of partition, directory, and whether it is a copy."""

    rows: Mapping[int, list[tuple[int, int, bool]]] = field(default_factory=dict)
    errors: Mapping[int, Exception] = field(default_factory=dict)

    async def dirs(self, broker: int, partitions: object = None, *, timeout_s: float) -> Any:
        if broker in self.errors:
            raise self.errors[broker]
        rows = self.rows.get(broker, [])
        count = len(rows)
        return LogDirColumns(
            (LogDir(broker, "/d0"), LogDir(broker, "/d1")),
            ("other", "a"),
            np.ones(count, np.int32),
            np.array([row[0] for row in rows], np.int32),
            np.array([row[1] for row in rows], np.int16),
            np.zeros(count, np.int64),
            np.array([row[2] for row in rows], np.bool_),
        )


@pytest.fixture
def story() -> Iterator[Story]:
    found = Story()
    yield found
    found.world.close()


def queries(story: Story, disks: Disks | None = None, lags: tuple[Any, ...] = ()) -> Queries:
    asked: list[Any] = []

    async def status(partitions: Any, *, timeout_s: float) -> tuple[Any, ...]:
        asked.append(partitions)
        return lags

    admin = instead(
        story.backend.admin, logs=disks or Disks(), replicas=SimpleNamespace(status=status)
    )
    return Queries(admin, story.world.clock)


def test_a_plan_that_moves_is_not_done_and_keeps_its_throttles(story: Story) -> None:
    here, run = queries(story), story.world.run
    story.world.set(TOPIC, "a", ListKey.LEADERS, "0:1,0:2")
    story.world.alter({tp("a-0"): (3, 4)})
    answer = run(here.verify(PLAN, preserve_throttles=False))
    assert [row.state for row in answer.rows] == [VerifyState.IN_PROGRESS]
    assert (answer.active_elsewhere, answer.cleared_topics) == (False, ())
    assert story.world.config(TOPIC, "a", ListKey.LEADERS) == "0:1,0:2"
    story.world.alter({tp("a-1"): (4, 5)})
    assert run(here.verify(PLAN, preserve_throttles=True)).active_elsewhere
    assert set(run(here.reassignments())) == {tp("a-0"), tp("a-1")}
    assert run(here.cluster_id()) == "here"


def test_a_plan_that_is_done_has_its_throttles_taken_off_unless_they_are_kept(
    story: Story,
) -> None:
    here, run = queries(story), story.world.run
    done = ReassignmentPlan({tp("a-0"): (1, 2)})
    for broker in (1, 2):
        story.world.set(BROKER, str(broker), RateKey.LEADER, "5000")
    story.world.set(TOPIC, "a", ListKey.LEADERS, "0:1,0:2")
    before = story.throttles()
    kept = run(here.verify(done, preserve_throttles=True))
    assert (kept.cleared_brokers, kept.cleared_topics) == ((), ())
    assert story.throttles() == before
    answer = run(here.verify(done, preserve_throttles=False))
    assert [row.state for row in answer.rows] == [VerifyState.COMPLETED]
    assert (answer.cleared_brokers, answer.cleared_topics) == ((1, 2), ("a",))
    assert answer.notes == ()
    assert not any(story.throttles().values())


DIRS = ReassignmentPlan({tp("a-0"): (1, 2)}, {(tp("a-0"), 1): "/d1", (tp("a-0"), 2): "/d0"})


@pytest.mark.parametrize(
    ("disks", "done"),
    [
        (Disks({1: [(0, 1, False)], 2: [(0, 0, False)]}), (True, True)),
        (Disks({1: [(0, 0, False), (0, 1, True)], 2: [(0, 0, False)]}), (False, True)),
        (Disks({1: [(3, 1, False), (0, 1, False)], 2: [(0, 1, False)]}), (True, False)),
        (Disks({1: [(0, 1, False)]}, {2: BrokerUnreachable("silence")}), (True, False)),
        (Disks({2: [(0, 0, False)]}), (False, True)),
    ],
)
def test_replicas_have_to_lie_where_the_plan_wants_them(
    story: Story, disks: Disks, done: tuple[bool, bool]
) -> None:
    story.world.set(TOPIC, "a", ListKey.LEADERS, "0:1,0:2")
    answer = story.world.run(queries(story, disks).verify(DIRS, preserve_throttles=False))
    assert tuple(row.done for row in answer.log_dirs) == done
    assert bool(answer.cleared_topics) is all(done)


def test_an_error_that_is_no_silence_is_told(story: Story) -> None:
    disks = Disks(errors={2: ClusterUnreachable("gone")})
    with pytest.raises(ClusterUnreachable):
        story.world.run(queries(story, disks).verify(DIRS, preserve_throttles=False))


def lag(broker: int, messages: int, result: ItemResult = OK) -> Any:
    return SimpleNamespace(partition=tp("a-0"), broker=broker, lag_messages=messages, result=result)


def test_each_replica_of_a_plan_says_how_far_it_is(story: Story) -> None:
    lags = (lag(1, 0), lag(3, 70), lag(4, UNKNOWN, ItemResult(7, "REQUEST_TIMED_OUT")))
    here = queries(story, lags=lags)
    story.world.alter({tp("a-0"): (3, 4)})
    plan = ReassignmentPlan({**PLAN.replicas, tp("nosuch-0"): (1,)})
    rows = {(row.topic, row.broker): row for row in story.world.run(here.progress(plan))}
    assert rows["a", 3].lag_messages == 70
    assert rows["a", 4].lag_messages is None
    # Nobody is asked about a plan of which nothing is there.
    gone = ReassignmentPlan({tp("nosuch-0"): (1,)})
    assert len(story.world.run(here.progress(gone))) == 1


def test_a_generated_plan_spreads_topics_that_are_there(story: Story) -> None:
    here, run = queries(story), story.world.run
    found = run(here.generate(["a"], [1, 2, 3, 4, 5], rack_aware=True))
    assert set(found.current.replicas) == set(found.proposed.replicas)
    assert found.current.replicas[tp("a-0")] == (1, 2)
    assert found.notes == ()
    with pytest.raises(BadInput, match=r"Topic b, c not found; nothing was changed\."):
        run(here.generate(["a", "c", "b"], [1, 2], rack_aware=True))
    with pytest.raises(BadInput):
        run(here.generate(["a"], [1], rack_aware=True))
