"""What speaks against a shrink: each finding by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kshunt.backend.domain.cluster.metadata import NO_BROKER, LogDir
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.shrink.check import KeyUse, Severity
from kshunt.backend.domain.shrink.delete_partitions import ShrinkSupport
from kshunt.backend.domain.shrink.disk_space import HEADER_BYTES
from kshunt.backend.domain.shrink.judge import judge
from kshunt.backend.domain.topics.groups import (
    ActiveProducer,
    ConsumerGroup,
    GroupMember,
    RecordSample,
)
from tests.support.shrink.facts import (
    DAY,
    GB,
    HOUR,
    MB,
    NOW,
    codes,
    configured,
    dirs,
    facts,
    offsets,
    partition,
    refused,
    warned,
    words,
)


def test_a_topic_in_which_nothing_is_wrong_can_shrink() -> None:
    check = judge(facts())
    assert not check.refusals()
    assert warned(facts()) == set()
    assert [one.number for one in check.partitions] == [2, 3]
    assert (check.current, check.wanted, check.native) == (4, 2, False)
    assert (check.doomed_bytes, check.doomed_records) == (2 * MB, 200)
    assert check.total_bytes == 4 * MB
    assert check.copy_bytes == 2 * (4 * MB + 400 * HEADER_BYTES)
    first = check.partitions[0]
    assert (first.log_end_offset, first.records, first.written_meanwhile) == (100, 100, 0)
    assert first.expires_in_ms == 6 * DAY + HOUR
    assert check.keys is KeyUse.NONE


# The request


@pytest.mark.parametrize("count", [0, -1, -(2**31)])
def test_a_count_under_one_is_refused(count: int) -> None:
    assert refused(facts(wanted=count)) == {"count-not-positive"}
    assert "1 to 3" in words(facts(wanted=count), "count-not-positive")


@pytest.mark.parametrize("count", [4, 5, 2**31 - 1])
def test_a_count_that_is_not_smaller_is_refused(count: int) -> None:
    assert refused(facts(wanted=count)) == {"count-not-smaller"}
    assert judge(facts(wanted=count)).partitions == ()


def test_a_topic_of_one_partition_cannot_shrink() -> None:
    assert "cannot have fewer" in words(facts(partition(0), wanted=1), "count-not-smaller")


def test_an_unknown_topic_is_refused_and_nothing_else_is_said() -> None:
    nothing = replace(facts(), partitions=())
    assert [one.code for one in judge(nothing).findings] == ["unknown"]
    assert judge(nothing).current == 0


@pytest.mark.parametrize(
    "topic",
    ["__consumer_offsets", "__transaction_state", "__share_group_state", "__kshunt_journal"],
)
def test_an_internal_topic_is_refused_whoever_insists(topic: str) -> None:
    check = judge(facts(topic=topic))
    assert [one.code for one in check.refusals(["internal", "reserved-name"])] == ["internal"]


def test_a_name_as_systems_give_can_be_insisted_on() -> None:
    check = judge(facts(topic="__somebodys"))
    assert [one.code for one in check.refusals()] == ["reserved-name"]
    assert not check.refusals({"reserved-name"})


@pytest.mark.parametrize("topic", ["app-store-changelog", "app-by-user-repartition"])
def test_a_topic_of_kafka_streams_is_warned_of(topic: str) -> None:
    assert "streams-topic" in warned(facts(topic=topic))


# The topic


def test_a_compacted_topic_is_refused_unless_the_operator_insists() -> None:
    for policy in ("compact", "delete,compact", "compact, delete"):
        check = judge(facts(configs=configured(cleanup_policy=policy)))
        assert [one.code for one in check.refusals()] == ["compacted"]
        assert not check.refusals({"compacted"})
        assert check.keys is KeyUse.ALL


def test_a_running_reassignment_is_refused() -> None:
    moving = facts(partition(0, moving=True), partition(1), partition(2), wanted=1)
    assert refused(moving) == {"reassigning"}
    assert "partition 0 of orders is being reassigned" in words(moving, "reassigning")


def test_an_offline_partition_is_refused() -> None:
    gone = facts(partition(0), partition(1, leader=NO_BROKER, isr=()), partition(2, leader=9))
    assert refused(gone) == {"offline"}
    assert "partitions 1, 2 of orders are offline" in words(gone, "offline")


def test_under_replicated_partitions_are_warned_of() -> None:
    behind = facts(partition(0, isr=(1,)), partition(1), partition(2))
    assert warned(behind) == {"under-replicated"}


def test_partitions_on_their_way_out_do_not_count() -> None:
    leaving = facts(partition(0), partition(1), partition(2, mode=PartitionMode.NONE), wanted=2)
    assert "count-not-smaller" in refused(leaving)
    assert judge(leaving).current == 2
    back = facts(partition(0), partition(1, mode=PartitionMode.READ_ONLY), wanted=2)
    assert refused(back) == set()
    assert "leaving" in warned(back)


@pytest.mark.parametrize(
    ("sample", "keys", "code"),
    [
        (RecordSample(10, 10), KeyUse.ALL, "keyed"),
        (RecordSample(10, 3), KeyUse.SOME, "keyed"),
        (RecordSample(10, 0), KeyUse.NONE, "not-keyed"),
        (RecordSample(0, 0), KeyUse.UNKNOWN, "keyed"),
        (None, KeyUse.UNKNOWN, "keyed"),
    ],
)
def test_keys_are_told_from_the_newest_records(
    sample: RecordSample | None, keys: KeyUse, code: str
) -> None:
    check = judge(facts(sample=sample))
    assert check.keys is keys
    assert code in {one.code for one in check.findings}


# The copy


def test_a_copy_that_fits_nowhere_is_refused() -> None:
    full = facts(dirs=dirs(20 * GB))
    assert refused(full) == {"no-room"}  # 20 GB of 200 GB is the reserve itself
    assert "2 x 2 replicas" in words(full, "no-room")
    assert not judge(full).refusals({"no-room"})


def test_a_broker_without_room_is_named() -> None:
    tight = facts(dirs=(*dirs(100 * GB, (1, 2)), *dirs(20 * GB, (3,))))
    assert warned(tight) == {"room-tight"}
    assert "broker 3 has no space" in words(tight, "room-tight")


def test_what_is_not_known_of_disks_is_said() -> None:
    silent = facts(dirs=(LogDir(1, "/d"), *dirs(100 * GB, (2, 3))))
    assert warned(silent) == {"room-unknown"}
    unknown = facts(partition(0, size_bytes=None), partition(1), partition(2))
    assert warned(unknown) == {"room-unknown"}
    assert (judge(unknown).total_bytes, judge(unknown).copy_bytes) == (None, None)


def test_too_few_brokers_for_the_replication_factor_are_refused() -> None:
    assert refused(facts(live=frozenset({1}))) == {"too-few-brokers"}


def test_retention_shorter_than_the_copy_is_refused() -> None:
    # 4 GB at 1 MB/s take more than an hour.
    large = [partition(n, size_bytes=GB, offsets=offsets(age_ms=0)) for n in range(4)]
    short = facts(*large, configs=configured(retention_ms=str(HOUR)), copy_rate_bytes_per_s=1e6)
    assert refused(short) == {"retention-short"}
    assert "Set retention.ms to 8030" in words(short, "retention-short")
    assert not judge(short).refusals({"retention-short"})


def test_retention_that_deletes_meanwhile_is_warned_of() -> None:
    old = [partition(n, offsets=offsets(age_ms=7 * DAY)) for n in range(3)]
    assert warned(facts(*old)) == {"retention-running"}
    assert "at any time" in words(facts(*old), "retention-running")
    compacted = facts(*old, configs=configured(cleanup_policy="compact"))
    assert "retention-running" not in warned(compacted)


def test_retention_by_bytes_that_the_target_would_reach_is_refused() -> None:
    # 4 MB in 2 partitions: 2 MB each, and a little for headers.
    assert refused(facts(configs=configured(retention_bytes=str(2 * MB)))) == {"retention-bytes"}
    assert warned(facts(configs=configured(retention_bytes=str(25 * MB // 10)))) == {
        "retention-bytes"
    }
    assert warned(facts(configs=configured(retention_bytes=str(4 * MB)))) == set()


def test_a_record_over_the_limit_is_warned_of() -> None:
    large = RecordSample(5, 0, largest_bytes=5_000)
    assert warned(facts(configs=configured(max_message_bytes="4000"), sample=large)) == {
        "record-limit"
    }
    assert "record-limit" in codes(judge(facts()), Severity.NOTE)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"message_timestamp_type": "LogAppendTime"}, "log-append-time"),
        ({"message_timestamp_before_max_ms": str(HOUR)}, "old-timestamps"),
        ({"message_timestamp_difference_max_ms": str(HOUR)}, "old-timestamps"),
        ({"remote_storage_enable": "true"}, "tiered"),
    ],
)
def test_settings_that_would_spoil_a_copy_are_warned_of(changes: dict[str, str], code: str) -> None:
    assert warned(facts(configs=configured(**changes))) == {code}


def test_partitions_that_empty_themselves_are_noted() -> None:
    empty = [partition(0), partition(1), *(partition(n, offsets=offsets(7, 7)) for n in (2, 3))]
    assert "empty" in codes(judge(facts(*empty)), Severity.NOTE)
    soon = [partition(n, size_bytes=GB, offsets=offsets(age_ms=7 * DAY)) for n in range(4)]
    slow = facts(*soon, copy_rate_bytes_per_s=1e5)
    assert "expires-soon" in codes(judge(slow), Severity.NOTE)


# Producers and consumers


def test_producers_that_wrote_lately_are_named() -> None:
    writer = ActiveProducer(7, 0, NOW - 1_000)
    writing = facts(partition(0, producers=(writer,)), partition(1), partition(2, producers=None))
    assert warned(writing) == {"writing"}
    assert "producer 7" in words(writing, "writing")
    idle = ActiveProducer(7, 0, NOW - HOUR)
    assert warned(facts(*(partition(n, producers=(idle,)) for n in range(3)))) == set()
    assert (
        judge(facts(*(partition(n, producers=(idle,)) for n in range(3)))).partitions[0].producers
        == ()
    )


def test_a_log_that_grows_is_written_whoever_does_it() -> None:
    growing = facts(*(partition(n, later_end=105, producers=None) for n in range(3)))
    assert "15 records arrived during the check" in words(growing, "writing")


def test_a_new_timestamp_tells_of_a_writer() -> None:
    fresh = facts(partition(0), partition(1), partition(2, offsets=offsets(age_ms=HOUR)))
    assert warned(fresh) == {"writing"}


def test_an_open_transaction_is_named_and_a_hanging_one_can_be_aborted() -> None:
    writer = ActiveProducer(7, 3, NOW - 60_000 * 10, 90, "shop-1")
    waiting = facts(partition(0), partition(1), partition(2, producers=(writer,)))
    assert warned(waiting) == {"open-transaction"}
    assert "shop-1 (producer 7)" in words(waiting, "open-transaction")
    assert judge(waiting).partitions[0].open_transaction_at == 90
    hanging = replace(writer, last_ms=NOW - 2 * HOUR)
    stuck = facts(partition(0), partition(1), partition(2, producers=(hanging,)))
    assert "it hangs. Abort it: kafka-transactions" in words(stuck, "open-transaction")


def test_an_open_transaction_is_seen_without_producers_being_told() -> None:
    waiting = facts(
        partition(0), partition(1), partition(2, offsets=offsets(stable=80), producers=None)
    )
    assert warned(waiting) == {"open-transaction"}
    assert judge(waiting).partitions[0].open_transaction_at == 80


MEMBER = GroupMember("m-1", "app", "/10.0.0.1", None, (0, 1, 2, 3))


def test_lags_are_counted_from_what_the_log_still_has() -> None:
    group = ConsumerGroup("g", "Empty", "classic", {0: 0, 1: 100, 2: 10, 3: 95})
    some_gone = [partition(n, offsets=offsets(50, 100)) for n in range(4)]
    lag = judge(facts(*some_gone, groups=(group,))).groups[0]
    assert (lag.unread_doomed, lag.unread_all, lag.no_position) == (55, 105, ())
    note = words(facts(*some_gone, groups=(group,)), "unread")
    assert "g (55)" in note


@pytest.mark.parametrize(
    ("state", "members", "active"),
    [
        ("Empty", 0, False),
        ("Dead", 0, False),
        ("Stable", 1, True),
        # Its members are on their way back, or the coordinator does not know yet.
        ("PreparingRebalance", 0, True),
        ("Unknown", 0, True),
        ("Empty", 1, True),
    ],
)
def test_a_group_is_active_while_it_has_members_or_may_have(
    state: str, members: int, active: bool
) -> None:
    consumers = tuple(GroupMember(f"m{n}", "app", "/10.0.0.1") for n in range(members))
    group = ConsumerGroup("g", state, "classic", {}, consumers)
    check = judge(facts(groups=(group,)))
    assert [one.active for one in check.groups] == [group.active] == [active]
    assert ("groups-active" in codes(check, Severity.WARN)) is active


def test_active_groups_are_named_with_their_clients() -> None:
    group = ConsumerGroup("g", "Stable", "consumer", dict.fromkeys(range(4), 100), (MEMBER,))
    assert warned(facts(groups=(group,))) == {"groups-active"}
    assert "g (app@10.0.0.1)" in words(facts(groups=(group,)), "groups-active")


def test_a_group_without_a_position_is_warned_of() -> None:
    group = ConsumerGroup("g", "Empty", "classic", {0: 5, 1: 5, 2: 100})
    assert warned(facts(groups=(group,))) == {"no-position"}
    new = ConsumerGroup("g", "Empty", "classic", {})
    lag = judge(facts(groups=(new,))).groups[0]
    assert (lag.unread_doomed, lag.unread_all, lag.no_position) == (None, None, (2, 3))


def test_a_group_beyond_the_end_is_warned_of() -> None:
    group = ConsumerGroup("g", "Empty", "classic", dict.fromkeys(range(4), 101))
    assert warned(facts(groups=(group,))) == {"beyond-end"}
    assert judge(facts(groups=(group,))).groups[0].unread_all == 0


def test_what_could_not_be_read_is_said() -> None:
    silent = facts(unread={"groups of broker 2": "it did not answer."})
    assert warned(silent) == {"not-read"}
    assert "groups of broker 2: it did not answer." in words(silent, "not-read")


# A cluster that deletes partitions itself


def test_natively_nothing_is_copied_and_what_is_unread_is_lost() -> None:
    group = ConsumerGroup("g", "Empty", "classic", dict.fromkeys(range(4), 90))
    native = facts(
        support=ShrinkSupport.ENABLED,
        groups=(group,),
        dirs=(),
        configs=configured(retention_bytes="1"),
    )
    check = judge(native)
    assert (check.native, check.copy_bytes, check.copy_ms) == (True, 0, 0)
    assert not check.refusals()
    assert warned(native) == {"unread-lost"}


def test_natively_a_compacted_topic_loses_the_newest_of_its_keys() -> None:
    native = facts(support=ShrinkSupport.ENABLED, configs=configured(cleanup_policy="compact"))
    assert refused(native) == {"compacted"}
    assert "is deleted for good" in words(native, "compacted")


def test_a_cluster_that_could_is_noted() -> None:
    off = facts(support=ShrinkSupport.DISABLED)
    assert "not-enabled" in codes(judge(off), Severity.NOTE)
    assert not judge(off).native
