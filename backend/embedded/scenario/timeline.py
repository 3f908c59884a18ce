"""A scenario at work: its topics are made, its traffic flows, and its events happen in time.

Goals: a cluster of 200,000 replicas is ready in seconds; the same seed gives the same run.

Constraints: it acts through the controller's decisions, as a client's requests would. Everything
happens in the cluster's time (`Core.at`), so a simulated clock replays it.

Algorithm: topics are placed and created in one commit, filled by columns, and written to by
`Traffic`. A cluster that has topics already (its folder was used before) stays as it is. Its
traffic flows, and the events, which have happened, do not happen again. Sockets follow what
happens to brokers by way of `Sockets`, since the core has none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from random import Random
from typing import Any, Protocol

from kshunt.backend.domain.cluster.metadata import Broker, TopicPartition
from kshunt.backend.embedded.controller.brokers import Registration
from kshunt.backend.embedded.controller.configs import (
    ConfigChange,
    ConfigOp,
    ConfigResource,
    incremental_alter_configs,
)
from kshunt.backend.embedded.controller.decision import Decision
from kshunt.backend.embedded.controller.elections import elect_leaders
from kshunt.backend.embedded.controller.replica_placement import Placement
from kshunt.backend.embedded.controller.shrink import delete_partitions
from kshunt.backend.embedded.controller.throttled_reassign import UNTHROTTLED, reassign_partitions
from kshunt.backend.embedded.controller.topics import NewTopic, create_topics
from kshunt.backend.embedded.core.cluster_core import ControllerLost, Core
from kshunt.backend.embedded.metadata.image import CLUSTER_DEFAULT
from kshunt.backend.embedded.metadata.records import PartitionCreated, Record, ResourceType
from kshunt.backend.embedded.scenario import reassign_targets
from kshunt.backend.embedded.scenario.model import (
    BrokerEvent,
    Configure,
    FailLogDir,
    FailOver,
    PartitionsDeleted,
    PreferredElection,
    Reassign,
    Scenario,
    ScenarioEvent,
    SlowLink,
    TopicSpec,
    TrafficFactor,
)
from kshunt.backend.embedded.scenario.traffic import Traffic
from kshunt.backend.errors import BadInput
from kshunt.backend.placement.generate import generate_assignment
from kshunt.backend.placement.placer_calls import PlacementRequest

_log = logging.getLogger(__name__)


class Sockets(Protocol):
    """The listeners of the brokers, which share their fate."""

    def address(self, broker: int) -> tuple[str, int]:
        """Where a broker listens, or will."""
        ...

    def down(self, broker: int, *, crash: bool) -> None:
        """A broker's process is gone."""
        ...

    def up(self, broker: int) -> None:
        """A broker's process is there."""
        ...

    def stall(self, broker: int) -> None:
        """A broker hangs."""
        ...

    def resume(self, broker: int) -> None:
        """A broker that hung continues."""
        ...


@dataclass(frozen=True, slots=True)
class OwnMove:
    """A move that kshunt is to submit by itself."""

    targets: Mapping[TopicPartition, tuple[int, ...]]
    throttle_bytes_per_s: int | None


class ScenarioTimeline:
    """See the module. It belongs to the core's thread."""

    def __init__(
        self,
        scenario: Scenario,
        core: Core,
        seed: int,
        sockets: Sockets,
        submit: Callable[[OwnMove], None] | None = None,
    ) -> None:
        """`submit` takes the moves that are kshunt's own; without it they start like the others."""
        self.scenario = scenario
        self._core = core
        self._seed = seed
        self._sockets = sockets
        self._submit = submit
        self._starts = count(1)
        self.traffic = Traffic(core, scenario.topics, seed)

    def begin(self) -> None:
        """Make the topics, start the traffic, and let the events of the first moment happen.

        Raises:
            BadInput: a topic cannot be created.
        """
        anew = not self._core.image.topics
        if anew:
            self._create()
            self._fill()
        self.traffic.start()
        if anew:
            start_ms = self._core.now_ms
            for event in self.scenario.events:
                if event.at_s == 0:
                    self._happen(event)
                else:
                    self._core.at(start_ms + int(event.at_s * 1000), partial(self._happen, event))

    # --- topics

    def _create(self) -> None:
        records: list[Record] = []
        for spec in self.scenario.topics:
            new = [
                NewTopic(name, spec.partitions, spec.replication_factor, configs=spec.configs)
                for name in spec.names
            ]
            decision = create_topics(
                self._core.image, new, self._core.random, placement=_placement(spec.brokers)
            )
            _expect(decision, "a topic cannot be created")
            records += _led(decision.records, spec.leaders)
        self._core.commit(Decision.of(records))

    def _fill(self) -> None:
        random = Random(f"{self._seed}:sizes")
        for spec in self.scenario.topics:
            if spec.bytes_per_partition:
                self._fill_topics(spec, random)

    def _fill_topics(self, spec: TopicSpec, random: Random) -> None:
        keys, sizes = [], []
        for name in spec.names:
            topic = self._core.image.topic(name)
            assert topic is not None
            for number in sorted(topic.partitions):
                unequal = random.lognormvariate(0.0, spec.size_spread)
                keys.append((topic.topic_id, number))
                sizes.append(float(int(spec.bytes_per_partition * unequal)))
        self._core.plane.fill(keys, sizes, spec.record_bytes)

    # --- events

    def _happen(self, event: ScenarioEvent) -> None:
        try:
            self._act(event)
        except ControllerLost as lost:
            # As for any client: its request was cut off, and what was not written is not done.
            _log.warning("%s: %s", type(event).__name__, lost.message)

    def _act(self, event: ScenarioEvent) -> None:
        core = self._core
        match event:
            case BrokerEvent():
                for broker in event.brokers:
                    self._broker(event.action, broker)
            case FailLogDir():
                if event.broker in core.image.brokers:
                    core.fail_log_dir(event.broker, event.path)
                    if not core.plane.is_up(event.broker):
                        self._sockets.down(event.broker, crash=True)
            case SlowLink():
                if {event.source, event.target} <= core.image.brokers.keys():
                    core.plane.set_link(event.source, event.target, event.bytes_per_s)
            case FailOver():
                core.fail_over()
            case Configure():
                self._commit(incremental_alter_configs(core.image, _config_changes(event)))
            case Reassign():
                self._reassign(event)
            case PreferredElection():
                self._elect(event)
            case PartitionsDeleted():
                self._commit(
                    delete_partitions(
                        core.image,
                        {event.topic: event.partitions},
                        core.now_ms,
                        delay_ms=event.delay_ms,
                    )
                )
                self.traffic.look()
            case TrafficFactor():
                self.traffic.multiply(event.factor, event.topics)

    def _commit(self, decision: Decision[Any]) -> None:
        """Commit what can be done, and log what cannot: somebody else may have been there."""
        self._core.commit(decision)
        for problem in _problems(decision):
            _log.warning("scenario %s: %s", self.scenario.name, problem)

    def _broker(self, action: str, broker: int) -> None:
        core, up = self._core, self._core.plane.is_up(broker)
        if action == "start" and not up:
            self._sockets.up(broker)
            core.start_all([self._registration(broker)], together=False)
        elif action == "stop" and up:
            core.stop_broker(broker)
            self._sockets.down(broker, crash=False)
        elif action == "crash" and up:
            core.lose_broker(broker)
            self._sockets.down(broker, crash=True)
        elif action == "stall" and up:
            self._sockets.stall(broker)
            core.lose_broker(broker, stalled=True)
        elif action == "resume" and not up and broker in core.image.brokers:
            self._sockets.resume(broker)
            core.resume_broker(broker)

    def _registration(self, broker: int) -> Registration:
        spec = next(one for one in self.scenario.brokers if one.id == broker)
        host, port = self._sockets.address(broker)
        incarnation = f"{self._seed:x}-scenario-{next(self._starts):x}"
        return Registration(broker, incarnation, host, port, spec.rack, spec.log_dirs)

    def _elect(self, event: PreferredElection) -> None:
        image = self._core.image
        wanted = None
        if event.topics:
            found = [image.topic(name) for name in event.topics]
            wanted = [TopicPartition(t.name, n) for t in found if t for n in t.partitions]
        self._core.commit(elect_leaders(image, wanted))

    def _reassign(self, event: Reassign) -> None:
        random = Random(f"{self._seed}:move:{event.at_s}")
        wanted = reassign_targets.targets(self._core.image, event, self._sizes(), random)
        if event.by_kshunt and self._submit is not None:
            self._submit(OwnMove(wanted, event.throttle_bytes_per_s))
            return
        throttle = event.throttle_bytes_per_s
        self._commit(
            reassign_partitions(
                self._core.image,
                wanted,
                throttle_bytes_per_s=UNTHROTTLED if throttle is None else throttle,
                remove_throttle=event.remove_throttle,
            )
        )

    def _sizes(self) -> dict[TopicPartition, float]:
        """What each partition's fullest replica holds, bytes."""
        sizes = self._core.plane.replication.sizes()
        return {
            TopicPartition(held.topic, held.number): float(
                max((sizes[row] for row in held.replicas.values()), default=0)
            )
            for held in self._core.plane.all_held()
        }


def _placement(brokers: Sequence[int]) -> Placement:
    """Where a scenario's replicas lie at first: round robin with racks alternating.

    On these brokers, or on all that run if none is named. Racks count only if each has one. No
    placer is asked: the layout belongs to the scenario.
    """

    def place(request: PlacementRequest, random: Random) -> list[tuple[int, ...]]:
        running = [broker for broker in request.brokers if not broker.fenced]
        chosen = [broker for broker in running if not brokers or broker.id in brokers]
        in_racks = all(broker.rack is not None for broker in chosen)
        there = [Broker(one.id, "", 0, one.rack if in_racks else None) for one in chosen]
        partitions = [TopicPartition("", number) for number in range(request.num_partitions)]
        replicas = range(request.num_replicas)
        placed = generate_assignment(dict.fromkeys(partitions, replicas), there, random)
        return [placed[partition] for partition in partitions]

    return place


def _led(records: Sequence[Record], leaders: Sequence[int]) -> list[Record]:
    """The same partitions, led by these brokers where they have a replica."""
    if not leaders:
        return list(records)
    return [
        replace(record, leader=leader)
        if isinstance(record, PartitionCreated)
        and (leader := next((b for b in leaders if b in record.isr), -1)) >= 0
        else record
        for record in records
    ]


def _config_changes(event: Configure) -> dict[ConfigResource, list[ConfigChange]]:
    changes = [
        ConfigChange(key, ConfigOp.DELETE if value is None else ConfigOp.SET, value)
        for key, value in event.values.items()
    ]
    named = [ConfigResource(ResourceType.TOPIC, name) for name in event.topics]
    named += [ConfigResource(ResourceType.BROKER, str(broker)) for broker in event.brokers]
    return dict.fromkeys(named or [ConfigResource(ResourceType.BROKER, CLUSTER_DEFAULT)], changes)


def _problems(decision: Decision[Any]) -> list[str]:
    whole = [decision.message or decision.error.name] if decision.error else []
    return whole + [
        result.message or result.error.name for result in decision.results if not result.ok
    ]


def _expect(decision: Decision[str], what: str) -> None:
    for problem in _problems(decision):
        raise BadInput(f"The scenario cannot run: {what}. {problem}")
