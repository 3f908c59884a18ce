"""A cluster and a journal on one simulated clock, for tests of the engine.

The cluster is the embedded one without sockets. The journal goes through the real codec. Each
call of a backend (`engine_backend`), to the cluster or the journal, is numbered;
`World.faults` says which of them fail, and how.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kshunt.backend.admin.port.item_result import ItemResult
from kshunt.backend.admin.rpc import configs
from kshunt.backend.admin.rpc.error_mapping import item_result
from kshunt.backend.domain.cluster.metadata import OngoingReassignment, TopicPartition
from kshunt.backend.domain.replicas.snapshot import Snapshot
from kshunt.backend.embedded.controller.configs import (
    ConfigChange,
    ConfigOp,
    ConfigResource,
    incremental_alter_configs,
)
from kshunt.backend.embedded.controller.decision import DecidedItem as Answered
from kshunt.backend.embedded.controller.reassign import alter_partition_reassignments
from kshunt.backend.embedded.metadata.records import ResourceType
from kshunt.backend.operations.core.known_operations import KnownOperations, known_operations
from kshunt.backend.operations.journal.entries import Body, EntryHeader, JournalState
from kshunt.backend.operations.journal.replay import JournalReplay
from tests.support.access.keys import KEYS
from tests.support.embedded.core import SmallCluster

T = TypeVar("T")

BROKER: Final = configs.BROKER
TOPIC: Final = configs.TOPIC
CLUSTER_ID: Final = "here"


class Crash(BaseException):
    """The backend's process ends at this call."""


class Fault(enum.Enum):
    """What happens to a call."""

    REFUSED = "it fails, and nothing is done"
    DENIED = "the cluster refuses the whole request, by its error code"
    LOST = "it is done in the cluster, and its answer is lost"
    IN_DOUBT = "it is done in the journal, and its answer is lost"
    DIES = "the backend dies before it"
    DIES_AFTER = "it is done, and the backend dies before the answer"
    FENCED = "another backend becomes the journal's writer before it"
    FOREIGN = "somebody else edits a throttle right before it"


@dataclass(frozen=True, slots=True)
class Effect:
    """Something that a backend changed in the cluster."""

    kind: int
    """`BROKER` or `TOPIC`: a configuration; 0: a move."""
    name: str
    """The broker, the topic, or the partition."""
    key: str
    """The configuration's key, or nothing."""
    old: str | None
    new: str | None
    """None: the key is deleted, or the move is cancelled."""
    seen: str | None = None
    """What the backend had read there last."""


class WorldClock:
    """The cluster's time."""

    def __init__(self, cluster: SmallCluster) -> None:
        self._cluster = cluster

    def now_ms(self) -> int:
        """Milliseconds since the cluster's start."""
        return self._cluster.core.now_ms

    def monotonic_s(self) -> float:
        """Seconds since the cluster's start."""
        return self._cluster.core.now_ms / 1000

    async def wait_s(self, seconds: float) -> None:
        """Let the cluster's time pass."""
        self._cluster.pass_s(seconds)


class Process:
    """One backend, as the world sees it."""

    alive = True


class World:
    """See the module's text."""

    def __init__(self, brokers: int = 5, *, seed: int = 1) -> None:
        self.cluster = SmallCluster(brokers, seed=seed)
        self.cluster.start()
        self.clock = WorldClock(self.cluster)
        self.loop = asyncio.new_event_loop()
        self.fold = JournalReplay(CLUSTER_ID, KEYS)
        self.state = JournalState()
        """What is committed in the journal."""
        self.known = KnownOperations()
        """The same as a backend would understand it."""
        self.writer: Process | None = None
        self.faults: dict[int, Fault] = {}
        """By the number of the call, from the last `plan_faults` on."""
        self.calls = 0
        self.down: set[int] = set()
        self.whole_error = 0
        """What the cluster answers to each whole reassignment request; 0: it takes them."""
        self.wishes: dict[TopicPartition, Sequence[int] | None] = {}
        """What the cluster took last for each partition: a target, or None for a cancellation."""
        self.latest: Callable[[], Snapshot | None] = lambda: None
        self.edit: Callable[[], object] = lambda: None
        """What `Fault.FOREIGN` does."""
        self.effected: Callable[[Effect], object] = lambda effect: None
        self.committed: Callable[[KnownOperations, KnownOperations], object] = (
            lambda before, after: None
        )

    def close(self) -> None:
        """Give the event loop back."""
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something to its end, or until its backend dies."""
        return self.loop.run_until_complete(work)

    def plan_faults(self, faults: Mapping[int, Fault]) -> None:
        """Number the calls anew."""
        self.faults, self.calls = dict(faults), 0

    async def at(self, backend: Process, *faults: Fault) -> Fault | None:
        """A call begins; returns the fault that it has, if that is one of `faults`."""
        await asyncio.sleep(0)
        if not backend.alive:
            raise Crash
        fault = self.faults.pop(self.calls, None)
        self.calls += 1
        if fault is Fault.FENCED:
            self.writer = None
        elif fault is Fault.DIES:
            backend.alive = False
            raise Crash
        elif fault is Fault.FOREIGN and Fault.FOREIGN in faults:
            self.edit()
        return fault if fault in faults else None

    def commit(self, entries: Mapping[str, Body | None], writer: str) -> None:
        """Append to the journal, as a transaction."""
        header = EntryHeader(CLUSTER_ID, writer, self.clock.now_ms())
        for record in self.fold.records(entries, header):
            self.fold.take(*record)
        self.state = self.fold.state()
        before, self.known = self.known, known_operations(self.state)
        assert not self.known.unreadable
        self.committed(before, self.known)

    # The cluster, as it is

    @property
    def live(self) -> list[int]:
        """Brokers that are up."""
        return [b for b in range(1, self.cluster.brokers + 1) if b not in self.down]

    def stop(self, broker: int) -> None:
        self.cluster.core.stop_broker(broker)
        self.down.add(broker)

    def restart(self, broker: int) -> None:
        self.cluster.restart(broker)
        self.down.discard(broker)

    def config(self, kind: int, name: str, key: str) -> str | None:
        """What is set on a broker or topic itself."""
        return self.cluster.image.dynamic_configs(ResourceType(kind), name).get(key)

    def set(self, kind: int, name: str, key: str, value: str | None) -> Answered[ConfigResource]:
        """Set a key, or with None delete it."""
        resource = ConfigResource(ResourceType(kind), name)
        how = ConfigOp.DELETE if value is None else ConfigOp.SET
        decision = incremental_alter_configs(
            self.cluster.image, {resource: [ConfigChange(key, how, value)]}
        )
        return self.cluster.core.commit(decision).results[0]

    def alter(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, ItemResult]:
        """AlterPartitionReassignments."""
        decision = alter_partition_reassignments(self.cluster.image, targets)
        answers = self.cluster.core.commit(decision).results
        self.wishes |= {one.item: targets[one.item] for one in answers if not one.error}
        return {one.item: item_result(int(one.error), one.message) for one in answers}

    @property
    def ongoing(self) -> dict[TopicPartition, OngoingReassignment]:
        """What moves."""
        found = {}
        for move in self.cluster.image.reassignments():
            partition = TopicPartition(move.topic, move.partition)
            found[partition] = OngoingReassignment(
                partition, move.replicas, move.adding, move.removing
            )
        return found
