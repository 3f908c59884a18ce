"""Producers and transactions on the wire, and what the transaction coordinator does to logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.embedded.controller.brokers import allocate_producer_ids
from kshunt.backend.embedded.coordinator.codes import CoordinatorCode, CoordinatorError
from kshunt.backend.embedded.coordinator.group_coordinator import GroupCoordinator
from kshunt.backend.embedded.coordinator.members import Committer
from kshunt.backend.embedded.coordinator.offsets import Offset
from kshunt.backend.embedded.coordinator.transaction_coordinator import (
    Marker,
    TransactionCoordinator,
)
from kshunt.backend.embedded.coordinator.transaction_steps import Producer
from kshunt.backend.embedded.core.world import World
from kshunt.backend.embedded.handlers.coordination.coordinator_lookup import (
    check_coordinator,
    coordinates,
)
from kshunt.backend.embedded.handlers.coordination.group_offsets import commit_answer, commit_codes
from kshunt.backend.embedded.handlers.responses import response
from kshunt.backend.embedded.logs.errors import InvalidProducerEpoch
from kshunt.backend.embedded.metadata.records import PartitionModeCode
from kshunt.backend.embedded.net.api import KAFKA_APIS, WireReply
from kshunt.backend.embedded.net.server import Handler, RequestContext
from kshunt.backend.errors import Conflict
from kshunt.backend.wire.api_keys import (
    ADD_OFFSETS_KEY,
    ADD_PARTITIONS_KEY,
    END_TXN_KEY,
    INIT_PRODUCER_ID_KEY,
    TXN_OFFSET_COMMIT_KEY,
)

_NONE: Final = -1
"""A producer id or epoch that is not said."""
_COORDINATOR_EPOCH: Final = 0
_FENCED_FROM: Final = {
    INIT_PRODUCER_ID_KEY: 4,
    ADD_PARTITIONS_KEY: 2,
    ADD_OFFSETS_KEY: 2,
    END_TXN_KEY: 2,
}
"""By API key: the version from which PRODUCER_FENCED is said, and not INVALID_PRODUCER_EPOCH."""
_BATCHED_FROM: Final = 4
_BUMPS_FROM: Final = 5
_ADDS_GROUP_FROM: Final = 5


def handlers(
    world: World, groups: GroupCoordinator, transactions: TransactionCoordinator
) -> dict[int, Handler]:
    """The handlers by API key."""
    own = _Transactions(world, groups, transactions)
    return {
        INIT_PRODUCER_ID_KEY: own.init_producer_id,
        ADD_PARTITIONS_KEY: own.add_partitions,
        ADD_OFFSETS_KEY: own.add_offsets,
        END_TXN_KEY: own.end,
        TXN_OFFSET_COMMIT_KEY: own.commit_offsets,
    }


def marker_writer(world: World) -> Callable[[Marker], bool]:
    """What writes a transaction coordinator's markers to the logs of this world.

    It says whether the partition is done with the transaction, as when it is gone, or when its
    data is being deleted (KIP-694's mode None).
    """
    return lambda marker: _write(world, marker)


def _write(world: World, marker: Marker) -> bool:
    plane = world.core.plane
    held = plane.named(*marker.partition)
    partition = world.core.image.partition(*marker.partition)
    if held is None or partition is None or partition.mode is PartitionModeCode.NONE:
        return True
    if not plane.is_up(held.leader):
        return False
    who, commit = marker.producer, marker.commit
    try:
        plane.append_marker(held, *who, commit=commit, coordinator_epoch=_COORDINATOR_EPOCH)
    except Conflict:
        return False
    except InvalidProducerEpoch:
        return True
    return True


class _ProducerIds:
    """Producer ids, from the blocks that brokers get of the controller."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._blocks: dict[int, Iterator[int]] = {}

    def next(self, broker: int) -> int:
        """A producer id that nobody had."""
        found = next(self._blocks.get(broker, iter(())), None)
        if found is None:
            image = self._world.core.image
            first = image.next_producer_id
            decision = self._world.commit(allocate_producer_ids(image, broker))
            if not all(result.ok for result in decision.results):
                raise WireReply(CoordinatorCode.COORDINATOR_NOT_AVAILABLE)
            self._blocks[broker] = iter(range(first, image.next_producer_id))
            found = next(self._blocks[broker])
        return found


class _Transactions:
    def __init__(
        self, world: World, groups: GroupCoordinator, transactions: TransactionCoordinator
    ) -> None:
        self._world = world
        self._groups = groups
        self._transactions = transactions
        self._ids = _ProducerIds(world)

    def _new_id(self, context: RequestContext) -> Callable[[], int]:
        return lambda: self._ids.next(context.broker_id)

    def _check(self, context: RequestContext, transactional_id: str) -> None:
        if not transactional_id:
            raise WireReply(CoordinatorCode.INVALID_REQUEST)
        check_coordinator(self._world, context, transactional_id)

    async def init_producer_id(self, context: RequestContext, message: Any) -> Any:
        """A producer id; for a transactional id also a new epoch."""
        new_id = self._new_id(context)
        if message.transactional_id is None:
            return _producer(context, Producer(new_id(), 0))
        self._check(context, message.transactional_id)
        expected = _expected(message)
        try:
            producer = self._transactions.init_producer(
                message.transactional_id, message.transaction_timeout_ms, expected, new_id
            )
        except CoordinatorError as refused:
            raise WireReply(_said(context, refused.code)) from None
        finally:
            self._world.changed()
        return _producer(context, producer)

    async def add_partitions(self, context: RequestContext, message: Any) -> Any:
        """A client adds to its transaction; from version 4 on a broker asks about several."""
        version = context.version
        if version < _BATCHED_FROM:
            self._check(context, message.v3_and_below_transactional_id)
            who = Producer(message.v3_and_below_producer_id, message.v3_and_below_producer_epoch)
            wanted = _partitions(message.v3_and_below_topics)
            codes = self._added(context, message.v3_and_below_transactional_id, who, wanted)
            topics = _topic_results(version, codes)
            return response(ADD_PARTITIONS_KEY, version, results_by_topic_v3_and_below=topics)
        entry = KAFKA_APIS[ADD_PARTITIONS_KEY].response.AddPartitionsToTxnResult
        results = []
        for one in message.transactions:
            codes = self._added_or_verified(context, one)
            result = entry(version=version, transactional_id=one.transactional_id)
            result.topic_results = _topic_results(version, codes)
            results.append(result)
        return response(ADD_PARTITIONS_KEY, version, results_by_transaction=results)

    def _added_or_verified(
        self, context: RequestContext, one: Any
    ) -> dict[TopicPartition, CoordinatorCode]:
        wanted = _partitions(one.topics)
        who = Producer(one.producer_id, one.producer_epoch)
        if not one.transactional_id:
            return dict.fromkeys(wanted, CoordinatorCode.INVALID_REQUEST)
        if not coordinates(self._world, context, one.transactional_id):
            return dict.fromkeys(wanted, CoordinatorCode.NOT_COORDINATOR)
        if not one.verify_only:
            return self._added(context, one.transactional_id, who, wanted)
        if unknown := self._unknown(wanted):
            return unknown
        codes = {item: self._transactions.refuses_write(who, item) for item in wanted}
        translated = {
            CoordinatorCode.INVALID_PRODUCER_EPOCH: CoordinatorCode.PRODUCER_FENCED,
            CoordinatorCode.INVALID_TXN_STATE: CoordinatorCode.TRANSACTION_ABORTABLE,
        }
        return {item: translated.get(code, code) for item, code in codes.items()}

    def _added(
        self,
        context: RequestContext,
        transactional_id: str,
        who: Producer,
        wanted: Sequence[TopicPartition],
    ) -> dict[TopicPartition, CoordinatorCode]:
        """All partitions are added, or none."""
        if unknown := self._unknown(wanted):
            return unknown
        now_s = self._world.clock.monotonic_s()
        try:
            self._transactions.add(transactional_id, who, now_s, partitions=wanted)
        except CoordinatorError as refused:
            return dict.fromkeys(wanted, _said(context, refused.code))
        return dict.fromkeys(wanted, CoordinatorCode.NONE)

    def _unknown(self, wanted: Sequence[TopicPartition]) -> dict[TopicPartition, CoordinatorCode]:
        """What each partition is answered if one of them is not there; else nothing."""
        image = self._world.core.image
        unknown = {item for item in wanted if image.partition(*item) is None}
        if not unknown:
            return {}
        other, missing = (
            CoordinatorCode.OPERATION_NOT_ATTEMPTED,
            CoordinatorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )
        return {item: missing if item in unknown else other for item in wanted}

    async def add_offsets(self, context: RequestContext, message: Any) -> Any:
        """The transaction will commit offsets of a group."""
        self._check(context, message.transactional_id)
        who = Producer(message.producer_id, message.producer_epoch)
        now_s = self._world.clock.monotonic_s()
        try:
            groups = [message.group_id]
            self._transactions.add(message.transactional_id, who, now_s, groups=groups)
        except CoordinatorError as refused:
            raise WireReply(_said(context, refused.code)) from None
        return response(ADD_OFFSETS_KEY, context.version)

    async def end(self, context: RequestContext, message: Any) -> Any:
        """Commit or abort; see `coordinator.transaction` for version 5."""
        self._check(context, message.transactional_id)
        who = Producer(message.producer_id, message.producer_epoch)
        try:
            producer = self._transactions.end(
                message.transactional_id,
                who,
                commit=message.committed,
                bumps=context.version >= _BUMPS_FROM,
                new_id=self._new_id(context),
            )
        except CoordinatorError as refused:
            raise WireReply(_said(context, refused.code)) from None
        finally:
            self._world.changed()
        ids = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
        return response(END_TXN_KEY, context.version, **ids)

    async def commit_offsets(self, context: RequestContext, message: Any) -> Any:
        """A transaction commits a group's offsets; the group's coordinator keeps them."""
        check_coordinator(self._world, context, message.group_id)
        now_s = self._world.clock.monotonic_s()
        member = message.member_id or ""
        generation = _NONE if message.generation_id is None else message.generation_id
        committer = Committer(member, generation, message.group_instance_id)
        producer = Producer(message.producer_id, message.producer_epoch)

        def commit(
            offsets: Mapping[TopicPartition, Offset],
        ) -> dict[TopicPartition, CoordinatorCode]:
            self._check_offsets(context, message, producer)
            group, id = message.group_id, message.producer_id
            return self._groups.commit(group, committer, offsets, now_s, producer_id=id)

        image, now_ms = self._world.core.image, self._world.core.now_ms
        codes = commit_codes(image, now_ms, message, commit)
        return commit_answer(TXN_OFFSET_COMMIT_KEY, context.version, codes)

    def _check_offsets(self, context: RequestContext, message: Any, who: Producer) -> None:
        """From version 5 on the group is added here; before, AddOffsetsToTxn has done it."""
        group = message.group_id
        code = self._transactions.refuses_offsets(who, group)
        if code is CoordinatorCode.INVALID_TXN_STATE and context.version >= _ADDS_GROUP_FROM:
            now_s = self._world.clock.monotonic_s()
            self._transactions.add(message.transactional_id, who, now_s, groups=[group])
        elif code is not CoordinatorCode.NONE:
            raise CoordinatorError(code)


def _said(context: RequestContext, code: CoordinatorCode) -> CoordinatorCode:
    """How a version of an API says a code."""
    if (
        code is CoordinatorCode.PRODUCER_FENCED
        and context.version < _FENCED_FROM[context.header.api_key]
    ):
        return CoordinatorCode.INVALID_PRODUCER_EPOCH
    return code


def _expected(message: Any) -> Producer | None:
    """The producer that a client has already, from version 3 on (KIP-360)."""
    said = [_NONE if one is None else one for one in (message.producer_id, message.producer_epoch)]
    if (said[0] == _NONE) != (said[1] == _NONE):
        raise WireReply(CoordinatorCode.INVALID_REQUEST)
    return None if said[0] == _NONE else Producer(*said)


def _producer(context: RequestContext, producer: Producer) -> Any:
    ids = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    return response(INIT_PRODUCER_ID_KEY, context.version, **ids)


def _partitions(topics: Sequence[Any]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for topic in topics for number in topic.partitions]


def _topic_results(version: int, codes: Mapping[TopicPartition, CoordinatorCode]) -> list[Any]:
    answer = KAFKA_APIS[ADD_PARTITIONS_KEY].response
    parent = answer.AddPartitionsToTxnResult if version >= _BATCHED_FROM else answer
    made = parent.AddPartitionsToTxnTopicResult
    entry = made.AddPartitionsToTxnPartitionResult
    return [
        made(
            version=version,
            name=name,
            results_by_partition=[
                entry(
                    version=version,
                    partition_index=item.partition,
                    partition_error_code=codes[item],
                )
                for item in items
            ],
        )
        for name, items in groupby(codes, key=lambda item: item.topic)
    ]
