"""Transactions: the state machine by itself, and unmodified producers on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.embedded.coordinator.codes import CoordinatorCode, CoordinatorError
from kshunt.backend.embedded.coordinator.group_coordinator import GroupCoordinator
from kshunt.backend.embedded.coordinator.members import Committer
from kshunt.backend.embedded.coordinator.offsets import Offset
from kshunt.backend.embedded.coordinator.records import TransactionChanged, TransactionState
from kshunt.backend.embedded.coordinator.transaction_coordinator import (
    Marker,
    TransactionCoordinator,
)
from kshunt.backend.embedded.coordinator.transaction_steps import EPOCH_MAX, Producer
from kshunt.backend.embedded.metadata.records import Record, decode, encode

A, B, C = (TopicPartition("t", number) for number in range(3))
TIMEOUT_MS = 60_000


class Crash(Exception):
    """The process ends here."""


class TransactionCluster:
    """Logs that keep markers, records that survive, and coordinators that do not."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.markers: list[Marker] = []
        self.leaderless: set[TopicPartition] = set()
        self.now_s = 0.0
        self.steps_left: int | None = None
        """Records and markers until the process ends."""
        self._ids = count(1_000)
        self.restart()

    def restart(self) -> None:
        self.steps_left = None
        self.groups = GroupCoordinator(self._persist)
        self.transactions = TransactionCoordinator(self._persist, self._mark, self.groups)
        for data in self.records:
            self.groups.replay(decode(data))
            self.transactions.replay(decode(data))

    def _step(self) -> None:
        if self.steps_left is not None:
            self.steps_left -= 1
            if self.steps_left < 0:
                raise Crash

    def _persist(self, records: Sequence[Record]) -> None:
        self._step()
        self.records += [encode(record) for record in records]

    def _mark(self, marker: Marker) -> bool:
        self._step()
        if marker.partition in self.leaderless:
            return False
        self.markers.append(marker)
        return True

    def new_id(self) -> int:
        return next(self._ids)

    def init(self, expected: Producer | None = None) -> Producer:
        return self.transactions.init_producer("x", TIMEOUT_MS, expected, self.new_id)

    def add(self, who: Producer, *partitions: TopicPartition) -> None:
        self.transactions.add("x", who, self.now_s, partitions=partitions)

    def add_offsets(self, who: Producer, offset: int) -> None:
        self.transactions.add("x", who, self.now_s, groups=["g"])
        offsets = {A: Offset(offset)}
        self.groups.commit("g", Committer(), offsets, self.now_s, producer_id=who.producer_id)

    def end(self, who: Producer, *, commit: bool = True, bumps: bool = False) -> Producer:
        return self.transactions.end("x", who, commit=commit, bumps=bumps, new_id=self.new_id)

    def may_write(self, who: Producer, partition: TopicPartition) -> bool:
        return self.transactions.may_write(*who, *partition)

    def state(self) -> TransactionState:
        return TransactionState(self.known().state)

    def known(self) -> TransactionChanged:
        found = self.transactions.known("x")
        assert found is not None
        return found

    def ended(self) -> list[tuple[TopicPartition, bool]]:
        return [(marker.partition, marker.commit) for marker in self.markers]


def refuses(call: Callable[[], object]) -> CoordinatorCode:
    with pytest.raises(CoordinatorError) as refused:
        call()
    return refused.value.code


def test_a_transaction_commits_in_all_its_partitions() -> None:
    cluster = TransactionCluster()
    who = cluster.init()
    assert who == Producer(1_000, 0)
    cluster.add(who, B)
    cluster.add(who, A, B)
    assert cluster.may_write(who, A)
    assert not cluster.may_write(who, C)
    assert cluster.end(who) == who
    assert cluster.markers == [Marker(A, who, True), Marker(B, who, True)]
    assert cluster.state() is TransactionState.COMPLETE_COMMIT
    assert not cluster.may_write(who, A)
    assert cluster.end(who) == who, "a repeated request"
    assert len(cluster.markers) == 2
    assert refuses(lambda: cluster.end(who, commit=False)) is CoordinatorCode.INVALID_TXN_STATE
    cluster.add(who, C)
    cluster.end(who, commit=False)
    assert cluster.ended()[2:] == [(C, False)]


def test_a_new_instance_fences_the_one_before_and_aborts_for_it() -> None:
    cluster = TransactionCluster()
    zombie = cluster.init()
    cluster.add(zombie, A)
    new = cluster.init()
    assert new == Producer(zombie.producer_id, zombie.epoch + 2)
    assert cluster.markers == [Marker(A, Producer(zombie.producer_id, 1), False)]
    assert refuses(lambda: cluster.add(zombie, A)) is CoordinatorCode.PRODUCER_FENCED
    assert refuses(lambda: cluster.end(zombie)) is CoordinatorCode.PRODUCER_FENCED
    assert refuses(lambda: cluster.init(zombie)) is CoordinatorCode.PRODUCER_FENCED
    assert cluster.transactions.refuses_write(zombie, A) is CoordinatorCode.INVALID_PRODUCER_EPOCH
    cluster.add(new, A)
    assert cluster.may_write(new, A)


def test_a_stranger_and_an_ended_transaction_are_refused() -> None:
    cluster = TransactionCluster()
    assert (
        refuses(lambda: cluster.end(Producer(5, 0))) is CoordinatorCode.INVALID_PRODUCER_ID_MAPPING
    )
    who = cluster.init()
    other = Producer(who.producer_id + 1, who.epoch)
    assert refuses(lambda: cluster.add(other, A)) is CoordinatorCode.INVALID_PRODUCER_ID_MAPPING
    assert refuses(lambda: cluster.end(who)) is CoordinatorCode.INVALID_TXN_STATE
    assert (
        cluster.transactions.refuses_write(other, A) is CoordinatorCode.INVALID_PRODUCER_ID_MAPPING
    )
    assert cluster.transactions.refuses_write(who, A) is CoordinatorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("timeout_ms", [-1, 0, 900_001])
def test_a_timeout_must_be_one_that_the_broker_allows(timeout_ms: int) -> None:
    init = TransactionCluster().transactions.init_producer
    code = refuses(lambda: init("y", timeout_ms, None, lambda: 1))
    assert code is CoordinatorCode.INVALID_TRANSACTION_TIMEOUT


def test_a_partition_without_leader_holds_up_the_end() -> None:
    cluster = TransactionCluster()
    who = cluster.init()
    cluster.add(who, A, B)
    cluster.add_offsets(who, 7)
    cluster.leaderless = {A}
    cluster.end(who)
    assert cluster.ended() == [(B, True)]
    assert refuses(lambda: cluster.add(who, C)) is CoordinatorCode.CONCURRENT_TRANSACTIONS
    assert refuses(lambda: cluster.end(who)) is CoordinatorCode.CONCURRENT_TRANSACTIONS
    assert refuses(lambda: cluster.end(who, commit=False)) is CoordinatorCode.INVALID_TXN_STATE
    assert refuses(cluster.init) is CoordinatorCode.CONCURRENT_TRANSACTIONS
    assert not cluster.transactions.tick(1.0)
    assert cluster.groups.offsets.committed("g") == {}
    cluster.leaderless = set()
    assert cluster.transactions.tick(2.0)
    assert cluster.ended() == [(B, True), (A, True)], "one marker for each"
    assert cluster.groups.offsets.committed("g") == {A: Offset(7)}
    cluster.add(who, C)


def test_a_new_instance_waits_for_the_markers_of_the_one_before() -> None:
    cluster = TransactionCluster()
    who = cluster.init()
    cluster.add(who, A)
    cluster.leaderless = {A}
    assert refuses(cluster.init) is CoordinatorCode.CONCURRENT_TRANSACTIONS
    cluster.leaderless = set()
    cluster.transactions.tick(1.0)
    assert cluster.init() == Producer(who.producer_id, 2)


def test_what_takes_too_long_is_aborted_and_its_producer_fenced() -> None:
    cluster = TransactionCluster()
    who = cluster.init()
    cluster.now_s = 10.0
    cluster.add(who, A)
    cluster.now_s = 50.0
    cluster.add(who, B)
    assert not cluster.transactions.tick(69.0)
    assert cluster.transactions.tick(70.0)
    assert cluster.ended() == [(A, False), (B, False)]
    assert refuses(lambda: cluster.end(who)) is CoordinatorCode.PRODUCER_FENCED
    assert cluster.init().epoch == 2


def test_a_producer_that_names_its_epoch_gets_the_next_one_and_no_other() -> None:
    cluster = TransactionCluster()
    first = cluster.init()
    second = cluster.init(first)
    assert second.epoch == 1
    assert cluster.init(first) == second, "a repeated request"
    assert cluster.init(second).epoch == 2
    assert refuses(lambda: cluster.init(first)) is CoordinatorCode.PRODUCER_FENCED
    stranger = Producer(5, 0)
    assert refuses(lambda: cluster.init(stranger)) is CoordinatorCode.PRODUCER_FENCED


def at_epoch(cluster: TransactionCluster, epoch: int) -> Producer:
    """The producer, when it has come to this epoch."""
    who = cluster.init()
    while who.epoch < epoch:
        who = cluster.init()
    return who


def test_a_producer_whose_epochs_run_out_gets_a_new_id() -> None:
    cluster = TransactionCluster()
    last = at_epoch(cluster, EPOCH_MAX - 1)
    new = cluster.init(last)
    assert new == Producer(last.producer_id + 1, 0)
    assert cluster.init(last) == new, "a repeated request"
    cluster.add(new, A)
    assert not cluster.may_write(last, A)
    assert refuses(lambda: cluster.add(last, A)) is CoordinatorCode.INVALID_PRODUCER_ID_MAPPING


def test_from_version_5_on_the_epoch_ends_with_the_transaction() -> None:
    cluster = TransactionCluster()
    who = cluster.init()
    cluster.add(who, A)
    after = cluster.end(who, bumps=True)
    assert after == Producer(who.producer_id, who.epoch + 1)
    assert cluster.markers == [Marker(A, after, True)]
    assert cluster.end(who, bumps=True) == after, "a repeated request"
    assert (
        refuses(lambda: cluster.end(who, commit=False, bumps=True))
        is CoordinatorCode.INVALID_TXN_STATE
    )
    assert refuses(lambda: cluster.end(after, bumps=True)) is CoordinatorCode.INVALID_TXN_STATE
    again = cluster.end(after, commit=False, bumps=True)
    assert again.epoch == after.epoch + 1, "an abort of nothing"
    cluster.add(again, B)
    assert refuses(lambda: cluster.add(after, B)) is CoordinatorCode.PRODUCER_FENCED


def test_from_version_5_on_epochs_that_run_out_end_with_a_new_id() -> None:
    cluster = TransactionCluster()
    last = at_epoch(cluster, EPOCH_MAX - 1)
    cluster.add(last, A)
    after = cluster.end(last, bumps=True)
    assert after == Producer(last.producer_id + 1, 0)
    assert cluster.markers == [Marker(A, Producer(last.producer_id, EPOCH_MAX), True)]
    assert cluster.end(last, bumps=True) == after, "a repeated request"
    cluster.add(after, A)


def test_only_offsets_of_a_group_of_the_transaction_are_taken() -> None:
    cluster = TransactionCluster()
    who = cluster.init()
    assert cluster.transactions.refuses_offsets(who, "g") is CoordinatorCode.INVALID_TXN_STATE
    cluster.add_offsets(who, 5)
    assert cluster.transactions.refuses_offsets(who, "g") is CoordinatorCode.NONE
    assert cluster.transactions.refuses_offsets(who, "h") is CoordinatorCode.INVALID_TXN_STATE
    cluster.end(who, commit=False)
    assert cluster.groups.offsets.committed("g") == {}
    assert cluster.groups.offsets.unstable("g") == set()


@given(st.booleans(), st.booleans(), st.integers(0, 9))
def test_a_transaction_ends_in_one_way_wherever_the_process_ends(
    commit: bool, bumps: bool, steps: int
) -> None:
    cluster = TransactionCluster()
    who = cluster.init()
    cluster.add(who, A, B)
    cluster.add_offsets(who, 5)
    before = list(cluster.records)
    cluster.steps_left = steps
    with suppress(Crash):
        cluster.end(who, commit=commit, bumps=bumps)
    decided = cluster.records != before
    assert decided or not cluster.markers, "durable before it has an effect"
    cluster.restart()
    cluster.transactions.tick(0.0)
    if not decided:
        assert cluster.may_write(who, A)
        cluster.transactions.tick(TIMEOUT_MS / 1000)
    outcome = commit and decided
    assert {marker.partition for marker in cluster.markers} == {A, B}
    assert {marker.commit for marker in cluster.markers} == {outcome}
    assert cluster.groups.offsets.committed("g") == ({A: Offset(5)} if outcome else {})
    assert cluster.state() in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
