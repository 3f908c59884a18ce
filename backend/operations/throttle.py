"""Changes to throttles that an operator asks for, and clearing of those that nobody owns.

Used by the API; `cleared_by` is pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from backend.admin.port import ClusterAdmin
from backend.domain.answers import ChangeAnswer
from backend.domain.cluster import TopicPartition
from backend.domain.operation import OperationKind, OperationState
from backend.domain.throttle import (
    ReplicaSet,
    ThrottledRate,
    ThrottledReplicas,
    Throttles,
)
from backend.errors import BadInput, KshuntError
from backend.operations.ledger import NO_RATE, NO_REPLICAS, Ledger
from backend.operations.registry import Registry
from backend.operations.results import counted, failures, listed, results


@dataclass(frozen=True, slots=True)
class Clearing:
    """Throttles to take off: what stays of each topic's lists, and the brokers to free."""

    topics: Mapping[str, ThrottledReplicas]
    brokers: tuple[int, ...]
    kept: Mapping[int, str]
    """Brokers that the partitions were throttled on and that keep their rates, and the reason."""

    def __bool__(self) -> bool:
        return bool(self.topics) or bool(self.brokers)


def cleared_by(
    partitions: Iterable[TopicPartition], present: Throttles, ledger: Ledger
) -> Clearing:
    """The throttles that were there for these partitions and that no operation here owns.

    Kafka's own tool deletes the rates of every broker when it verifies; here only the replicas of
    the given partitions leave the lists, and only brokers that those replicas name, and that no
    list names any more, lose their rates.
    """
    numbers: dict[str, set[int]] = {}
    for topic, partition in partitions:
        numbers.setdefault(topic, set()).add(partition)
    topics, freed = {}, set()
    for topic, wanted in numbers.items():
        lists = present.replicas.get(topic, NO_REPLICAS)
        owned = ledger.owned_replicas(topic)
        left = ThrottledReplicas(
            _kept(lists.leaders, wanted, owned.leaders),
            _kept(lists.followers, wanted, owned.followers),
        )
        if left != lists:
            topics[topic] = left
            freed |= _brokers(lists) - _brokers(left)
    rated = {b for b, throttle in present.rates.items() if throttle.rate != NO_RATE}
    kept = {}
    for broker in sorted(freed & rated):
        listing = [t for t, r in present.replicas.items() if broker in _brokers(topics.get(t, r))]
        if ledger.owns_broker(broker):
            kept[broker] = "an operation that runs needs it"
        elif listing:
            kept[broker] = f"throttled replicas of {listed(listing, 3)} name it"
    brokers = tuple(sorted((freed & rated) - kept.keys()))
    return Clearing(topics, brokers, kept)


def _kept(lists: ReplicaSet, partitions: set[int], owned: ReplicaSet) -> ReplicaSet:
    if lists.everything:
        return lists
    ours = {pair for pair in lists.pairs if pair[0] in partitions}
    return ReplicaSet(lists.pairs - ours | (ours & owned.pairs))


def _brokers(lists: ThrottledReplicas) -> set[int]:
    return {broker for side in (lists.leaders, lists.followers) for _, broker in side.pairs}


async def clear_unowned(
    admin: ClusterAdmin,
    ledger: Ledger,
    partitions: Iterable[TopicPartition],
    *,
    timeout_s: float,
) -> tuple[Clearing, tuple[str, ...]]:
    """Take off the throttles of `cleared_by`; what was taken off, and what was not, in words."""
    wanted = tuple(partitions)
    state = await admin.describe(timeout_s=timeout_s)
    present = await admin.throttles(
        sorted(state.brokers), state.assignment.topics, timeout_s=timeout_s
    )
    clearing = cleared_by(wanted, present, ledger)
    if not clearing:
        return clearing, ()
    topics = await admin.alter_interbroker_throttled_replicas(
        clearing.topics, validate_only=False, timeout_s=timeout_s
    )
    brokers = await admin.alter_interbroker_throttled_rates(
        dict.fromkeys(clearing.brokers, NO_RATE),
        log_dir_rates=dict.fromkeys(clearing.brokers),
        validate_only=False,
        timeout_s=timeout_s,
    )
    stays = [f"Broker {broker} keeps its rates: {why}." for broker, why in clearing.kept.items()]
    return clearing, (*failures(topics), *failures(brokers), *stays)


class ThrottleChanges:
    """Rates and replica lists, changed because an operator said so."""

    def __init__(
        self, admin: ClusterAdmin, registry: Registry, ledger: Ledger, timeout_s: float
    ) -> None:
        self._admin = admin
        self._registry = registry
        self._ledger = ledger
        self._timeout_s = timeout_s

    async def alter_rates(
        self, rates: Mapping[int, ThrottledRate], *, validate_only: bool
    ) -> ChangeAnswer:
        """KIP-179, alterInterbrokerThrottledRates, with results by broker.

        A rate that is removed here comes back neither at the end of an operation nor before.

        Raises:
            BadInput: no broker is named.
        """
        if not rates:
            raise BadInput("No broker is named; nothing was changed.")
        outcomes = await self._admin.alter_interbroker_throttled_rates(
            rates, validate_only=validate_only, timeout_s=self._timeout_s
        )
        summary = f"rates of {counted(len(rates), 'broker')}: {listed(sorted(rates))}"
        owned = [broker for broker in sorted(rates) if self._ledger.owns_broker(broker)]
        notes = (
            (f"The running operation puts back the earlier rates of {listed(owned)} at its end.",)
            if owned
            else ()
        )
        return recorded(
            self._registry,
            OperationKind.THROTTLED_RATES,
            summary,
            ChangeAnswer(validate_only, None, results(outcomes), notes),
            {str(broker): _rate_words(rate) for broker, rate in rates.items()},
        )

    async def alter_replicas(
        self, replicas: Mapping[str, ThrottledReplicas], *, validate_only: bool
    ) -> ChangeAnswer:
        """KIP-179, alterInterbrokerThrottledReplicas, with results by topic.

        Raises:
            BadInput: no topic is named.
        """
        if not replicas:
            raise BadInput("No topic is named; nothing was changed.")
        outcomes = await self._admin.alter_interbroker_throttled_replicas(
            replicas, validate_only=validate_only, timeout_s=self._timeout_s
        )
        summary = f"throttled replicas of {counted(len(replicas), 'topic')}: {listed(replicas)}"
        return recorded(
            self._registry,
            OperationKind.THROTTLED_REPLICAS,
            summary,
            ChangeAnswer(validate_only, None, results(outcomes)),
            {t: f"leaders {r.leaders}, followers {r.followers}" for t, r in replicas.items()},
        )


def recorded(
    registry: Registry,
    kind: OperationKind,
    summary: str,
    answer: ChangeAnswer,
    details: Mapping[str, object],
) -> ChangeAnswer:
    """The answer of a change that ended at once, noted as an operation unless only validated."""
    if answer.validate_only:
        return answer
    operation = registry.begin(kind, summary, details=details)
    failed = answer.failures
    state = OperationState.FAILED if len(failed) == len(answer.results) else OperationState.DONE
    if answer.results and not failed:
        outcome = "done"
    else:
        outcome = f"{len(failed)} of {len(answer.results)} failed: {listed(failed, 3)}"
    registry.move(operation.id, state, outcome)
    return ChangeAnswer(False, operation.id, answer.results, answer.notes, answer.rollback_plan)


def _rate_words(rate: ThrottledRate) -> str:
    def words(value: int | None) -> str:
        return "none" if value is None else f"{value} B/s"

    return f"leader {words(rate.leader_bytes_per_s)}, follower {words(rate.follower_bytes_per_s)}"


async def restore(
    admin: ClusterAdmin,
    topics: Mapping[str, ThrottledReplicas],
    rates: Mapping[int, ThrottledRate],
    log_dir_rates: Mapping[int, int | None],
    *,
    timeout_s: float,
) -> tuple[set[str], set[int], tuple[str, ...]]:
    """Write the values and read them back: topics and brokers that hold them, and the rest.

    A broker or a topic that does not take its value is a sentence in the last list; the caller
    tries again.
    """
    wrote_topics = await admin.alter_interbroker_throttled_replicas(
        topics, validate_only=False, timeout_s=timeout_s
    )
    wrote_brokers = await admin.alter_interbroker_throttled_rates(
        rates, log_dir_rates=log_dir_rates, validate_only=False, timeout_s=timeout_s
    )
    problems = [*failures(wrote_topics), *failures(wrote_brokers)]
    try:
        present = await admin.throttles(sorted(rates), sorted(topics), timeout_s=timeout_s)
    except KshuntError as error:
        return set(), set(), (*problems, str(error))
    held_topics = {t for t, r in topics.items() if present.replicas.get(t, NO_REPLICAS) == r}
    held_brokers = {
        broker
        for broker, rate in rates.items()
        if broker in present.rates
        and present.rates[broker].rate == rate
        and present.rates[broker].log_dir_bytes_per_s == log_dir_rates.get(broker)
    }
    # A topic that was deleted meanwhile holds no throttle either.
    held_topics |= {t for t, outcome in wrote_topics.items() if outcome.error_code == 3}
    return held_topics, held_brokers, tuple(problems)
