"""What the tests of native calls share: the same cluster with the seeds' RPCs and without."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from kshunt.backend.admin.connect import Reached
from kshunt.backend.admin.port.reassignments import ReassignOptions, ReassignOutcome
from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.replicas.snapshot import Snapshot
from kshunt.backend.domain.throttles.configs import ReplicaSet, ThrottledReplicas
from kshunt.backend.embedded.metadata.records import ResourceType
from kshunt.backend.embedded.net.api import WireClose, WireReply
from kshunt.backend.embedded.net.server import Handler, RequestContext
from kshunt.backend.settings import SamplerSettings
from kshunt.backend.telemetry.sampling.sampler import Sampler
from kshunt.backend.telemetry.sampling.snapshot_hub import SnapshotHub
from kshunt.backend.wire import kip_requests
from tests.support.admin import connected
from tests.support.embedded.core import MB
from tests.support.embedded.listeners import ListeningCluster, listening, lists, rate

REASSIGN = kip_requests.REASSIGN_PARTITIONS_KEY
RATES = kip_requests.ALTER_INTERBROKER_THROTTLED_RATES_KEY
REPLICAS = kip_requests.ALTER_INTERBROKER_THROTTLED_REPLICAS_KEY
STATUS = kip_requests.REPLICA_STATUS_KEY
ELECT = kip_requests.ELECT_PREFERRED_LEADERS_KEY
ALTER_TOPICS = kip_requests.ALTER_TOPICS_KEY
METADATA, DESCRIBE_CONFIGS, CREATE_PARTITIONS = 3, 32, 37
LIST_OFFSETS, ELECT_LEADERS, ALTER_CONFIGS, ALTER_REASSIGNMENTS = 2, 43, 44, 45

TIMED_OUT, UNSUPPORTED_VERSION, NOT_CONTROLLER, IN_PROGRESS = 7, 35, 41, 60
RATE = 10 * MB
TIMEOUT_S = 5.0
BRIEF_S = 0.4
"""Time enough for what is answered at all."""
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
MOVE = {T0: (2, 4)}
THROTTLED = ReassignOptions(throttle_bytes_per_s=RATE, timeout_s=TIMEOUT_S)
MOVING = {"t": lists("0:1,0:2", "0:4"), 1: rate(RATE), 2: rate(RATE), 4: rate(RATE)}
"""What is configured while MOVE runs."""


@asynccontextmanager
async def administered(*, native: bool = True) -> AsyncIterator[tuple[ListeningCluster, Reached]]:
    """A cluster with a topic of 100 MB a partition, and an admin of it."""
    async with listening(native=native) as cluster:
        cluster.create("t", [1, 2], [2, 3])
        cluster.fill("t", 100 * MB)
        async with connected(cluster.bootstrap_servers) as admin:
            cluster.asked.clear()
            yield cluster, admin


async def move(
    admin: Reached,
    targets: Mapping[TopicPartition, Sequence[int]] = MOVE,
    options: ReassignOptions = THROTTLED,
) -> ReassignOutcome:
    return await admin.reassignments.reassign(targets, options, {})


def ways(cluster: ListeningCluster) -> list[int]:
    """By which calls things were changed."""
    changing = {REASSIGN, RATES, REPLICAS, ELECT, ELECT_LEADERS, ALTER_CONFIGS, ALTER_REASSIGNMENTS}
    changing |= {ALTER_TOPICS, CREATE_PARTITIONS}
    return [key for key in dict.fromkeys(cluster.asked) if key in changing]


def refusing(code: int) -> Handler:
    """A handler that answers every item with this code."""

    async def answer(context: RequestContext, message: Any) -> Any:
        raise WireReply(code, "no")

    return answer


async def hang_up(context: RequestContext, message: Any) -> Any:
    """A handler that ends the connection."""
    raise WireClose("as a test wants it")


async def stay_silent(context: RequestContext, message: Any) -> Any:
    """A handler that never answers."""
    await asyncio.Event().wait()


def throttled(leaders: str, followers: str) -> ThrottledReplicas:
    """Throttled replicas from Kafka's notation."""
    return ThrottledReplicas(ReplicaSet.parse(leaders), ReplicaSet.parse(followers))


def enable(cluster: ListeningCluster) -> None:
    """Let partitions be deleted."""
    cluster.set(ResourceType.BROKER, "", delete_topic_partition_enable="true")


async def look(admin: Reached) -> Snapshot:
    """The first snapshot of a sampler of its own."""
    sampler = Sampler(admin, SystemClock(), SamplerSettings(), SnapshotHub())
    seen = None
    while seen is None:
        seen = await sampler.tick()
    return seen
