"""How one of the seeds' RPCs is called: whether a broker has it, and whether it then serves it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from kafka.errors import KafkaTimeoutError, RequestTimedOutError

from kshunt.backend.admin.port.cluster_admin import ItemResult, PartitionResults
from kshunt.backend.admin.rpc.configs import Changes, Values
from kshunt.backend.admin.rpc.connections import Lane
from kshunt.backend.admin.rpc.error_mapping import BrokerDown
from kshunt.backend.domain.cluster.assignment import ClusterState
from kshunt.backend.domain.cluster.columns import LogDirColumns, OffsetColumns, PartitionColumns
from kshunt.backend.domain.cluster.error_codes import NOT_CONTROLLER, UNSUPPORTED_VERSION
from kshunt.backend.domain.cluster.metadata import OngoingReassignment, TopicPartition
from kshunt.backend.errors import BrokerUnreachable, ClusterUnreachable, KshuntError, NotSupported
from kshunt.backend.wire.raw import RawAnswer, RawRequest
from kshunt.backend.wire.reader import WireError

log = logging.getLogger(__name__)

Name = TypeVar("Name")

REFUSALS: Final = frozenset({UNSUPPORTED_VERSION, NOT_CONTROLLER})
"""Codes that refuse the call, and not what it asks for; nothing was done then."""
LOST: Final = (BrokerUnreachable, ClusterUnreachable, WireError)
"""What leaves open whether a call was carried out."""


class KafkaCalls(Protocol):
    """The calls that the verbs are composed from."""

    async def describe(
        self, topics: Sequence[str] | None = None, *, timeout_s: float
    ) -> ClusterState: ...

    async def list_reassignments(
        self, *, timeout_s: float
    ) -> Mapping[TopicPartition, OngoingReassignment]: ...

    async def log_end_offsets(
        self, broker: int, partitions: PartitionColumns, *, timeout_s: float
    ) -> OffsetColumns: ...

    async def log_dirs(
        self, broker: int, partitions: PartitionColumns | None = None, *, timeout_s: float
    ) -> LogDirColumns: ...

    async def read_brokers(
        self, brokers: Sequence[int], *, timeout_s: float
    ) -> Mapping[int, Values]:
        """The brokers' rates; one that does not answer is absent."""
        ...

    async def read_topics(self, topics: Sequence[str], *, timeout_s: float) -> Mapping[str, Values]:
        """The topics' throttled replicas; one that does not exist is absent."""
        ...

    async def write_brokers(
        self, changes: Mapping[int, Changes], *, validate_only: bool, timeout_s: float
    ) -> Mapping[int, ItemResult]:
        """Each broker's configuration, by itself and all at once; never raises for one."""
        ...

    async def write_topics(
        self, changes: Mapping[str, Changes], *, validate_only: bool, timeout_s: float
    ) -> Mapping[str, ItemResult]:
        """The topics' configurations."""
        ...

    async def alter_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], *, timeout_s: float
    ) -> PartitionResults:
        """AlterPartitionReassignments (KIP-455); None cancels."""
        ...

    async def alter_log_dirs(
        self, broker: int, paths: Mapping[TopicPartition, str], *, timeout_s: float
    ) -> PartitionResults:
        """AlterReplicaLogDirs (KIP-113)."""
        ...


class BrokerCalls(KafkaCalls, Protocol):
    """What is needed beyond the calls that verbs are composed from."""

    async def highest_version(
        self, api_key: int, broker: int | None = None, *, timeout_s: float
    ) -> int:
        """The highest version of an API that a broker, or the controller, advertises, or -1."""
        ...

    async def ask_controller(
        self, request: Callable[[], RawRequest], *, timeout_s: float, lane: Lane = "read"
    ) -> RawAnswer:
        """The controller's answer."""
        ...

    async def call(
        self, broker: int, request: RawRequest, *, timeout_s: float, lane: Lane = "read"
    ) -> RawAnswer:
        """One broker's answer."""
        ...

    async def brokers_show(self, changes: Mapping[int, Changes], *, timeout_s: float) -> None:
        """Wait until the brokers show these configurations."""
        ...

    async def topics_show(self, changes: Mapping[str, Changes], *, timeout_s: float) -> None:
        """Wait until the brokers show these topics' configurations."""
        ...

    async def elect_leaders(
        self, partitions: Sequence[TopicPartition] | None, *, timeout_s: float
    ) -> PartitionResults:
        """ElectLeaders (KIP-460), for preferred leaders."""
        ...


class RpcNotServed(Exception):
    """The cluster advertises an RPC and does not serve it."""


async def has(
    cluster: BrokerCalls,
    api_key: int,
    timeout_s: float,
    version: int = 0,
    broker: int | None = None,
) -> bool:
    """True if a broker, or the controller, advertises a version of an RPC."""
    return await cluster.highest_version(api_key, broker, timeout_s=timeout_s) >= version


async def answered(
    cluster: BrokerCalls,
    request: Callable[[], RawRequest],
    read: Callable[[RawAnswer], Mapping[Name, ItemResult]],
    *,
    timeout_s: float,
    lane: Lane,
) -> Mapping[Name, ItemResult]:
    """The controller's results.

    Raises:
        RpcNotServed: it refuses the call itself.
    """
    try:
        answer = await cluster.ask_controller(request, timeout_s=timeout_s, lane=lane)
    except NotSupported as refused:
        raise RpcNotServed(str(refused)) from None
    # Off the event loop: there may be very many.
    results = await asyncio.to_thread(read, answer)
    codes = {result.error_code for result in results.values()}
    if codes and codes <= REFUSALS:
        raise RpcNotServed(" and ".join(sorted({r.error_name for r in results.values()})))
    return results


async def answered_or_none(
    cluster: BrokerCalls,
    request: Callable[[], RawRequest],
    read: Callable[[RawAnswer], Mapping[Name, ItemResult]],
    *,
    timeout_s: float,
    lane: Lane,
) -> Mapping[Name, ItemResult] | None:
    """The controller's results, or None if there are none: the verb is then to be composed.

    For what may be done twice: a call whose answer was lost may have been carried out.
    """
    try:
        return await answered(cluster, request, read, timeout_s=timeout_s, lane=lane)
    except (*LOST, RpcNotServed) as why:
        log_fallback(request().name.removesuffix("Request"), why)
        return None


def timed_out(lost: KshuntError) -> bool:
    """True where an answer did not come in time, so that the call may yet be carried out.

    Where a connection ended, or none could be made, what is read from the cluster holds.
    """
    if not isinstance(lost, BrokerUnreachable) or isinstance(lost, BrokerDown):
        return False
    cause = lost.__cause__
    return cause is None or isinstance(cause, RequestTimedOutError | KafkaTimeoutError)


def log_fallback(what: str, why: object) -> None:
    """Note that a verb is composed although the cluster advertises an RPC for it."""
    reason = str(why).rstrip(".")
    log.warning("%s is advertised and not served: %s. Kafka's own calls are used.", what, reason)
