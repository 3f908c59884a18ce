"""Topics shrink by DeletePartitions (KIP-694), on a cluster that has it.

Goals
    Each topic is shrunk or refused by itself, with a result for each of its partitions.
Constraints
    - The RPC names the partitions that go, where the verb says how many stay. It has one delay
      for all of its topics, and cannot only validate.
    - A partition that was to go later and is not named any more is cancelled by the controller.
    - A time that was promised to readers is not shortened by a request that names none. The RPC
      always sets one anew, for all partitions that it names.
    - An answer may be lost when the partitions are on their way out already.
    - KIP-694 names no errors. The codes are those that Kafka gives where partitions are added:
      UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS, REASSIGNMENT_IN_PROGRESS, INVALID_REQUEST for
      a delay that makes no sense, and INVALID_TOPIC_EXCEPTION for an internal topic.
    - Kafka finds a group's coordinator by the number of partitions of `__consumer_offsets`. With
      fewer of them, Kafka would look for committed offsets where they are not.
Algorithm
    1. Read the topics' partitions and modes, what moves, and whether the cluster deletes
       partitions at all.
    2. Decide for each topic what goes and what stays (`decided`). Only to validate, this is the
       answer. Without a delay, partitions that are leaving already are not named where nothing
       else is to be done; else all get what is left of the longest delay.
    3. Send one request for each delay. The controller checks all of it again; if there are other
       partitions by then than were read, it refuses the topic.
    4. If the answer is lost, see in the cluster what became of it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kshunt.backend.admin.kips.native_calls import LOST
from kshunt.backend.admin.port.item_result import ItemResult
from kshunt.backend.admin.port.reassignments import ReassignmentAdmin
from kshunt.backend.admin.rpc.broker_calls import NO_TOPICS, BrokerCalls
from kshunt.backend.admin.rpc.config_reads import read_broker
from kshunt.backend.admin.rpc.error_mapping import (
    decode_message,
    item_error,
    item_result,
    raise_for_code,
)
from kshunt.backend.clock import Clock
from kshunt.backend.domain.cluster.assignment import partition_states
from kshunt.backend.domain.cluster.config_names import SHRINK_ENABLE
from kshunt.backend.domain.cluster.metadata import PartitionState, TopicPartition
from kshunt.backend.domain.cluster.partition_modes import UNKNOWN_MS, PartitionMode
from kshunt.backend.domain.shrink.delete_partitions import (
    DELAY_MS_MAX,
    NO_PARTITION,
    DeletedPartition,
    DeletePartitions,
    ShrinkSupport,
)
from kshunt.backend.domain.topics.descriptions import INTERNAL_TOPICS
from kshunt.backend.error_codes import (
    INVALID_PARTITIONS,
    INVALID_REQUEST,
    INVALID_TOPIC_EXCEPTION,
    REASSIGNMENT_IN_PROGRESS,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from kshunt.backend.errors import Conflict, KshuntError, NotSupported
from kshunt.backend.offload import offload
from kshunt.backend.wire import kip_requests
from kshunt.backend.wire.raw_request import RawAnswer, RawRequest

Results = dict[TopicPartition, DeletedPartition]


@dataclass(frozen=True, slots=True)
class Partitions:
    """The partitions of one topic, as they are before the request."""

    modes: Mapping[int, PartitionMode]
    """By number; empty for a topic that there is not."""
    moving: Collection[int]
    """Those that a reassignment moves."""
    deletes_ms: Mapping[int, int] = field(default_factory=dict)
    """When the data of those goes that are leaving, where that is known."""

    @property
    def open(self) -> Sequence[int]:
        """Those whose data is not being deleted."""
        return sorted(n for n, mode in self.modes.items() if mode is not PartitionMode.NONE)


@dataclass(frozen=True, slots=True)
class Shrink:
    """What a request comes to for one topic."""

    goes: Sequence[int]
    """The partitions that go, or have their delay set anew."""
    stays: Sequence[int]
    """Partitions that were to go, and do not."""
    mode: PartitionMode
    """What the first ones become."""
    delay_ms: int = 0
    """How long the first ones can still be read."""
    asks: bool = True
    """False where the cluster does that already."""

    def results(self, topic: str) -> dict[TopicPartition, DeletedPartition]:
        """What is said of each partition if nothing comes in between."""
        found = dict.fromkeys(self.stays, DeletedPartition(PartitionMode.READ_WRITE))
        found |= dict.fromkeys(self.goes, DeletedPartition(self.mode))
        return {TopicPartition(topic, number): one for number, one in sorted(found.items())}


class KafkaPartitionDeletions:
    """See `PartitionDeletionAdmin`."""

    def __init__(self, calls: BrokerCalls, reassignments: ReassignmentAdmin, clock: Clock) -> None:
        self._calls = calls
        self._reassignments = reassignments
        self._clock = clock

    async def support(self, *, timeout_s: float) -> ShrinkSupport:
        """See `PartitionDeletionAdmin.support`."""
        # Asked first, because a controller that cannot be reached has no versions.
        state = await self._calls.describe(NO_TOPICS, timeout_s=timeout_s)
        await self._reassignments.ongoing(timeout_s=timeout_s)
        if not await self._calls.has(kip_requests.DELETE_PARTITIONS_KEY, timeout_s=timeout_s):
            return ShrinkSupport.UNSUPPORTED
        found = await read_broker(
            self._calls, state.controller, [SHRINK_ENABLE], timeout_s=timeout_s
        )
        value = (found or {}).get(SHRINK_ENABLE)
        on = value is not None and value.value == "true"
        return ShrinkSupport.ENABLED if on else ShrinkSupport.DISABLED

    async def delete(
        self,
        topics: Mapping[str, DeletePartitions],
        *,
        validate_only: bool,
        timeout_s: float,
    ) -> Mapping[TopicPartition, DeletedPartition]:
        """See `PartitionDeletionAdmin.delete`, and the module's text."""
        if not topics:
            return {}
        _check_support(await self.support(timeout_s=timeout_s))
        results, shrinks = await self._prepared(topics, timeout_s)
        results |= _foreseen(shrinks)
        asked = {name: one for name, one in shrinks.items() if one.asks and not validate_only}
        for delay_ms in sorted({one.delay_ms for one in asked.values()}):
            chosen = {name: one for name, one in asked.items() if one.delay_ms == delay_ms}
            results |= await self._carried_out(chosen, delay_ms, timeout_s)
        return dict(sorted(results.items()))

    async def _prepared(
        self, topics: Mapping[str, DeletePartitions], timeout_s: float
    ) -> tuple[Results, dict[str, Shrink]]:
        """What is refused, and why; and what is to be done."""
        present = await self._present(list(topics), timeout_s)
        ongoing = await self._reassignments.ongoing(timeout_s=timeout_s)
        results: Results = {}
        shrinks = {}
        for name, wanted in topics.items():
            moving = {number for topic, number in ongoing if topic == name}
            known = present.get(name, {})
            partitions = Partitions(
                {n: one.mode for n, one in known.items()},
                moving,
                {n: one.deletes_ms for n, one in known.items() if one.deletes_ms != UNKNOWN_MS},
            )
            found = decided(name, wanted, partitions, self._clock.now_ms())
            if isinstance(found, Shrink):
                shrinks[name] = found
            else:
                number, refusal = found
                results[TopicPartition(name, number)] = refusal
        return results, shrinks

    async def _present(
        self, topics: Sequence[str], timeout_s: float
    ) -> Mapping[str, Mapping[int, PartitionState]]:
        """The partitions of these topics; a topic that there is not is absent."""
        state = await self._calls.describe(topics, timeout_s=timeout_s)
        states = await offload(len(state.assignment), partition_states, state.assignment)
        found: dict[str, dict[int, PartitionState]] = {}
        for partition, one in states.items():
            found.setdefault(partition.topic, {})[partition.partition] = one
        return found

    async def _carried_out(
        self, shrinks: Mapping[str, Shrink], delay_ms: int, timeout_s: float
    ) -> Results:
        """What the controller says of these topics; never raises, for others may have begun."""
        message = kip_requests.DeletePartitionsRequest(
            timeout_ms=int(timeout_s * 1000),
            delete_partitions_delay=delay_ms,
            topics=[(name, list(shrink.goes)) for name, shrink in shrinks.items()],
        )
        try:
            answer = await self._calls.ask_controller(
                lambda: RawRequest.of(message), timeout_s=timeout_s, lane="write"
            )
            return _answered(answer)
        except LOST as lost:
            return await self._read_back(shrinks, lost, timeout_s)
        except KshuntError as refused:
            return dict.fromkeys(_foreseen(shrinks), deleted(item_error(refused)))

    async def _read_back(
        self, shrinks: Mapping[str, Shrink], lost: KshuntError, timeout_s: float
    ) -> Results:
        """What became of partitions whose answer was lost: success for those seen to go."""
        refused = item_error(lost)
        foreseen = _foreseen(shrinks)
        try:
            present = await self._present(list(shrinks), timeout_s)
        except KshuntError:
            why = f"whether it began is unknown; check before you ask again: {refused.message}"
            return dict.fromkeys(foreseen, deleted(item_result(refused.error_code, why)))
        return {p: _seen(one, present.get(p.topic, {}), p, refused) for p, one in foreseen.items()}


def _check_support(support: ShrinkSupport) -> None:
    """Stop where no partition is ever deleted.

    Raises:
        NotSupported: the cluster has no such request.
        Conflict: it is switched off.
    """
    if support is ShrinkSupport.UNSUPPORTED:
        raise NotSupported(
            "This cluster cannot delete partitions (KIP-694). Nothing was changed.",
            advice="On such a cluster, an operation copies the records into a smaller topic. To "
            "start it: kshunt kafka-topics --alter --topic T --partitions N",
        )
    if support is ShrinkSupport.DISABLED:
        raise Conflict(
            f"TOPIC_DELETION_DISABLED: Partition deletion is disabled ({SHRINK_ENABLE}). "
            "Nothing was changed.",
            advice=f"Set {SHRINK_ENABLE}=true for the cluster's brokers.",
        )


def _foreseen(shrinks: Mapping[str, Shrink]) -> Results:
    return {p: one for name, shrink in shrinks.items() for p, one in shrink.results(name).items()}


def _answered(answer: RawAnswer) -> Results:
    response = decode_message(kip_requests.DeletePartitionsResponse, answer)
    raise_for_code(response.error_code, response.error_message, "Deleting partitions")
    return {
        TopicPartition(topic.name, entry.partition_index): deleted(
            item_result(entry.error_code, entry.error_message), _mode(entry.status_code)
        )
        for topic in response.responses
        for entry in topic.partitions
    }


def _mode(code: int) -> PartitionMode:
    """A mode by its code; one that there is not cannot be written to, as far as we know."""
    known = code in {mode.value for mode in PartitionMode}
    return PartitionMode(code) if known else PartitionMode.READ_ONLY


def _seen(
    foreseen: DeletedPartition,
    present: Mapping[int, PartitionState],
    partition: TopicPartition,
    refused: ItemResult,
) -> DeletedPartition:
    known = present.get(partition.partition)
    mode = PartitionMode.NONE if known is None else known.mode
    return foreseen if mode is foreseen.mode else deleted(refused, mode)


def decided(
    topic: str, wanted: DeletePartitions, present: Partitions, now_ms: int
) -> Shrink | tuple[int, DeletedPartition]:
    """What is to be done; or what refuses it, and the partition at fault or `NO_PARTITION`."""
    refusal = _refused(topic, wanted, present)
    if refusal is not None:
        return NO_PARTITION, deleted(refusal)
    count = wanted.total_count
    goes = [number for number in present.open if number >= count]
    for number in goes:
        if number in present.moving:
            why = f"The partition {topic}-{number} is being reassigned."
            mode = present.modes[number]
            return number, deleted(item_result(REASSIGNMENT_IN_PROGRESS, why), mode)
    leaving = PartitionMode.READ_ONLY
    stays = [n for n in present.open if n < count and present.modes[n] is leaving]
    kept = [n for n in goes if present.modes[n] is leaving]
    delay_ms = wanted.delay_ms or 0
    if wanted.delay_ms is None and kept:
        if kept == goes and not stays:
            return Shrink(goes, stays, leaving, asks=False)
        if any(n not in present.deletes_ms for n in kept):
            why = (
                f"When the data of {topic}-{kept[0]} is to be deleted is unknown: give a delay, so "
                "that it is not shortened by accident."
            )
            return NO_PARTITION, deleted(item_result(INVALID_REQUEST, why))
        # At least a moment: what is due goes when the cluster looks, as it would have gone.
        delay_ms = max(1, *(present.deletes_ms[n] - now_ms for n in kept))
    return Shrink(goes, stays, leaving if delay_ms else PartitionMode.NONE, delay_ms)


def _refused(topic: str, wanted: DeletePartitions, present: Partitions) -> ItemResult | None:
    """What refuses the topic as a whole."""
    count, there = wanted.total_count, len(present.open)
    if wanted.delay_ms is not None and not 0 <= wanted.delay_ms <= DELAY_MS_MAX:
        return item_result(INVALID_REQUEST, f"{wanted.delay_ms} ms is not a valid delay.")
    if not present.modes:
        return item_result(UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {topic}.")
    if topic in INTERNAL_TOPICS:
        why = f"{topic} is an internal topic: Kafka finds its records by the number of partitions."
        return item_result(INVALID_TOPIC_EXCEPTION, why)
    if count < 1:
        return item_result(INVALID_PARTITIONS, "A topic keeps at least one partition.")
    leaving = PartitionMode.READ_ONLY in present.modes.values()
    if count > there or (count == there and not leaving):
        why = f"The topic {topic} has {there} partition(s); {count} would not be fewer."
        return item_result(INVALID_PARTITIONS, why)
    return None


def deleted(result: ItemResult, mode: PartitionMode = PartitionMode.READ_WRITE) -> DeletedPartition:
    """The result of one item as that of a partition."""
    return DeletedPartition(mode, result.error_code, result.error_name, result.message)
