"""The stories of the engine: five brokers, a topic, and a backend that is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.operations.ownership.cells import ListKey, RateKey
from kshunt.backend.operations.reassignment.starting import ReassignRequest
from tests.support.operations.engine import tp
from tests.support.operations.engine_backend import TIMEOUT_S, Backend
from tests.support.operations.engine_world import BROKER, TOPIC, Effect, World

MB = 1_000_000
RATE = 500_000


class Story:
    """Five brokers, a topic, and one backend."""

    def __init__(self) -> None:
        self.world = World()
        self.world.cluster.create("a", (1, 2), (2, 3), (3, 1), (1, 2), (1, 2))
        self.world.cluster.fill("a", 5 * MB)
        self.before = self.throttles()
        self.backend = Backend(self.world)
        self.effects: list[Effect] = []
        self.world.effected = self.effects.append

    # What is asked

    def start(self, plan: Mapping[str, tuple[int, ...]], **how: object) -> ChangeAnswer:
        request: dict[str, object] = {"throttle_bytes_per_s": RATE, "additional": True, **how}
        targets = {tp(name): target for name, target in plan.items()}
        return self.world.run(
            self.backend.reassignments.start(
                ReassignRequest(ReassignmentPlan(targets), **request)  # type: ignore[arg-type]
            )
        )

    def tick(self, seconds: float = 0.0) -> None:
        self.world.cluster.pass_s(seconds)
        self.world.run(self.backend.engine.tick())

    def until_over(self) -> None:
        for _ in range(100):
            if not self.backend.engine.busy:
                return
            self.tick(10)
        raise AssertionError([str(operation) for operation in self.backend.registry])

    # The state of the cluster

    def throttles(self) -> dict[tuple[int, str, str], str | None]:
        """Every throttle that is set."""
        image = self.world.cluster.image
        names = [(BROKER, str(b), key) for b in range(1, 6) for key in RateKey]
        lists = [(TOPIC, topic, key) for topic in image.topics for key in ListKey]
        found = {one: self.world.config(*one) for one in (*names, *lists)}
        return {one: value for one, value in found.items() if value is not None}

    def rates(self, broker: int) -> tuple[str | None, str | None]:
        """As leader, as follower."""
        keys = (RateKey.LEADER, RateKey.FOLLOWER)
        leader, follower = (self.world.config(BROKER, str(broker), key) for key in keys)
        return leader, follower

    def operation(self, answer: ChangeAnswer) -> Operation:
        found = self.backend.registry.get(answer.operation_id or "")
        assert found is not None
        return found

    def replicas(self, name: str) -> tuple[int, ...]:
        return self.world.cluster.at(*tp(name)).replicas


def cancel(story: Story, *names: str, preserve_throttles: bool = False) -> ChangeAnswer:
    """What is answered to a request to cancel the moves of these partitions."""
    return story.world.run(
        story.backend.reassignments.cancel(
            [tp(name) for name in names],
            Change(),
            preserve_throttles=preserve_throttles,
            timeout_s=TIMEOUT_S,
        )
    )


def calls_until_the_request(
    ask: Callable[[Story], object], before: Callable[[Story], object] = lambda story: None
) -> int:
    """The number of the call that starts or cancels the move, in a world like the story's."""
    numbers: list[tuple[int, int]] = []

    def watch(world: World) -> None:
        world.effected = lambda effect: numbers.append((effect.kind, world.calls - 1))

    _in_a_twin(ask, before, watch)
    return next(call for kind, call in numbers if kind == 0)


def calls_of_commits(
    ask: Callable[[Story], object], before: Callable[[Story], object] = lambda story: None
) -> list[int]:
    """The numbers of the calls that write into the journal, in a world like the story's."""
    numbers: list[int] = []

    def watch(world: World) -> None:
        world.committed = lambda before, after: numbers.append(world.calls - 1)

    _in_a_twin(ask, before, watch)
    return numbers


def _in_a_twin(
    ask: Callable[[Story], object],
    before: Callable[[Story], object],
    watch: Callable[[World], None],
) -> None:
    """Ask in a world of its own, which is watched from then on."""
    twin = Story()
    before(twin)
    watch(twin.world)
    twin.world.plan_faults({})
    ask(twin)
    twin.world.close()
