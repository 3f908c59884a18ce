"""What the check before a shrink says, to the word, and from which value on it says it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kshunt.backend.domain.cluster.metadata import NO_BROKER, LogDir
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.shrink.check import CommittedOffset, KeyUse
from kshunt.backend.domain.shrink.copy_findings import UNLIMITED_MS, copy_ms_of, room_of
from kshunt.backend.domain.shrink.delete_partitions import ShrinkSupport
from kshunt.backend.domain.shrink.disk_space import copy_bytes, room_for
from kshunt.backend.domain.shrink.facts import COPY_START_MS, PartitionFacts, ShrinkFacts
from kshunt.backend.domain.shrink.judge import judge
from kshunt.backend.domain.shrink.topic_findings import HANGING_MS, transaction_at
from kshunt.backend.domain.topics.groups import (
    ActiveProducer,
    ConsumerGroup,
    GroupMember,
    PartitionOffsets,
    RecordSample,
)
from kshunt.backend.domain.topics.partitioners import KeysSeen, Partitioner
from tests.support.shrink.facts import (
    DAY,
    GB,
    HOUR,
    MB,
    NOW,
    configured,
    dirs,
    facts,
    offsets,
    partition,
    refused,
    warned,
    words,
)

NATIVE = ShrinkSupport.ENABLED
MURMUR2, CRC32, FNV1A = Partitioner
MINUTE = 60_000


def keyed(
    hits: int, by: Partitioner, more: int = 0, other: Partitioner = CRC32, of: int = 0
) -> RecordSample:
    """Records with distinct keys, and how many are where two partitioners put them."""
    keys = of or hits + more
    return RecordSample(keys, keys, seen=KeysSeen(keys, 12, {other: more, by: hits}))


def all_of(count: int = 4, **given: Any) -> tuple[PartitionFacts, ...]:
    """Partitions that are all like this."""
    return tuple(partition(number, **given) for number in range(count))


def member(client: str) -> GroupMember:
    return GroupMember("m", client, "/10.0.0.1")


def group(name: str, *members: GroupMember, **committed: int) -> ConsumerGroup:
    """A group; `p3=7` is its offset in partition 3, and 100 its offset in the others."""
    found = {**dict.fromkeys(range(4), 100), **{int(k[1:]): v for k, v in committed.items()}}
    return ConsumerGroup(name, "Stable" if members else "Empty", "classic", found, members)


WRITER = ActiveProducer(7, 0, NOW)
OPEN = ActiveProducer(8, 0, NOW, 90, "shop")
HANGS = ActiveProducer(9, 0, NOW - 2 * HOUR, 80)

SAID: list[tuple[str, ShrinkFacts, str]] = [
    (
        "count-not-positive",
        facts(wanted=0),
        "A topic cannot have 0 partitions: it keeps at least one. Ask for 1 to 3.",
    ),
    (
        "count-not-smaller",
        facts(*all_of(2), wanted=2),
        "orders has 2 partitions; 2 would not be fewer. Ask for 1 to 1.",
    ),
    (
        "count-not-smaller",
        facts(*all_of(1), wanted=1),
        "orders has 1 partition; 1 would not be fewer. It cannot have fewer partitions than that.",
    ),
    (
        "reassigning",
        facts(*all_of(3, moving=True)),
        "partitions 0, 1, 2 of orders are being reassigned. Wait for the end of the move, or "
        "cancel it.",
    ),
    (
        "offline",
        facts(*all_of(3), partition(3, leader=NO_BROKER)),
        "partition 3 of orders is offline, without a leader. Bring back one of its replicas first.",
    ),
    (
        "offline",
        facts(*all_of(11, leader=NO_BROKER)),
        "partitions 0, 1, 2, 3, 4, 5, 6, 7 and 3 more of orders are offline, without a leader. "
        "Bring back one of its replicas first.",
    ),
    (
        "under-replicated",
        facts(partition(0, isr=(1,)), partition(1, isr=(), leader=NO_BROKER), partition(2)),
        "partition 0 of orders is under-replicated. Find out why before you put load on them.",
    ),
    (
        "leaving",
        facts(*all_of(3), partition(3, mode=PartitionMode.READ_ONLY)),
        "partition 3 of orders is already being removed. See the operation that removes them.",
    ),
    (
        "keyed",
        facts(sample=RecordSample(1, 1)),
        "Its records have keys (1 of the 1 record seen): most of them move to another partition. "
        "The order per key is kept. Consumers that keep state by partition must build it again.",
    ),
    (
        "keyed",
        facts(sample=RecordSample(2_000, 1_500), support=NATIVE),
        "Its records have keys (1,500 of the 2,000 records seen): new records with the keys of "
        "the removed partitions go to another partition. The order per key is not kept across the "
        "change.",
    ),
    (
        "keyed",
        facts(sample=None, support=NATIVE),
        "Its records may have keys: new records with the keys of the removed partitions go to "
        "another partition. The order per key is not kept across the change.",
    ),
    (
        "partitioner",
        facts(sample=keyed(60, MURMUR2)),
        "Its keys follow murmur2 (Kafka's Java client): so do all of 60 distinct keys seen. The "
        "copy places keys by it.",
    ),
    (
        "partitioner",
        facts(sample=keyed(60, MURMUR2), partitioner=CRC32),
        "Its keys follow murmur2 (Kafka's Java client), and you chose crc32. New records of most "
        "keys then go to other partitions, unless producers use crc32.",
    ),
    (
        "mixed-keys",
        facts(sample=keyed(60, MURMUR2, 40, CRC32)),
        "Its keys follow several partitioners: of 100 distinct keys, 60 where murmur2 (Kafka's "
        "Java client) puts them, 40 where crc32 (the default of librdkafka: confluent-kafka) "
        "puts them. A copy can place keys by one partitioner alone. Let all producers use one "
        "first, or accept that new records of some keys go to other partitions. Choose the "
        "partitioner to copy by: murmur2, crc32, fnv1a.",
    ),
    (
        "mixed-keys",
        facts(sample=keyed(60, MURMUR2, 0, CRC32, 100), partitioner=MURMUR2),
        "Only some of its keys follow a partitioner that kshunt knows: of 100 distinct keys, 60 "
        "where murmur2 (Kafka's Java client) puts them. The others come from a custom "
        "partitioner, or from before partitions were added. The copy places all keys by murmur2, "
        "as you chose. Let all producers use murmur2: else new records of some keys go elsewhere.",
    ),
    (
        "partitioner",
        facts(sample=keyed(8, MURMUR2, 0, CRC32, 100)),
        "Its keys follow no partitioner that kshunt knows (murmur2 puts 8 there, crc32 puts 0 "
        "there, fnv1a puts 0 there): its producers choose partitions themselves. The copy "
        "places keys by murmur2. New records of most keys go to other partitions, unless "
        "producers change.",
    ),
    (
        "partitioner",
        facts(sample=keyed(2, CRC32)),
        "kshunt saw 2 distinct keys, too few to tell the partitioner. The copy places keys by "
        "crc32 (the default of librdkafka: confluent-kafka). Ask the owners of its producers. "
        "Choose the partitioner to copy by: murmur2, crc32, fnv1a.",
    ),
    (
        "keyed-read-only",
        facts(*all_of(4), wanted=3, sample=RecordSample(2_000, 1_500), support=NATIVE),
        "While the partitions can only be read, brokers reject records of their keys, about 25% "
        "of all: clients do not know of ReadOnly, and still choose those partitions. Producers "
        "lose these records unless they retry for longer than the delay. Stop its producers until "
        "the partitions are gone. Records without a key are rejected too if "
        "a client sends them there.",
    ),
    (
        "sealed-producers",
        facts(sample=RecordSample(2_000, 1_500)),
        "From the seal to the end, brokers reject all records of its producers. A producer that "
        "still runs loses records that it cannot keep that long (delivery.timeout.ms). Stop "
        "producers before you type the topic's name.",
    ),
    (
        "not-keyed",
        facts(sample=RecordSample(1, 0)),
        "None of the 1 record seen has a key. Records without a key have no order among "
        "partitions.",
    ),
    (
        "writing",
        facts(*all_of(3), partition(3, later_end=101)),
        "Producers write to it: partition 3 within 5m00s; 1 record arrived during the check. Stop "
        "its producers; the shrink waits until its delay has passed without a new record.",
    ),
    (
        "writing",
        facts(
            partition(0, producers=(WRITER, replace(OPEN, transaction_start=None))),
            partition(1),
            partition(2),
        ),
        "Producers write to it: partition 0 within 5m00s. Known of them: producer 7, shop "
        "(producer 8). Stop its producers; the shrink waits until its delay has passed without a "
        "new record.",
    ),
    (
        "open-transaction",
        facts(*all_of(3), partition(3, offsets=offsets(stable=99))),
        "A transaction is open on partition 3. Later records cannot be read until it ends. Let "
        "its producer commit or abort it.",
    ),
    (
        "open-transaction",
        facts(partition(0, producers=(OPEN,)), partition(1), partition(2, producers=(HANGS,))),
        "A transaction is open on partitions 0, 2: shop (producer 8), producer 9. Later records "
        "cannot be read until it ends. Nothing was written in it for 2h00m: it hangs. Abort it: "
        "kafka-transactions --abort --topic T --partition P --start-offset O.",
    ),
    (
        "groups-active",
        facts(groups=(group("a", member("x"), member("x")), group("b", member("y")), group("c"))),
        "2 consumer groups with 3 members: a (x@10.0.0.1), b (y@10.0.0.1). Stop them before the "
        "cut-over: kshunt can move only a group without members.",
    ),
    (
        "groups-active",
        facts(
            groups=(group("a", member("x"), member("y"), member("z")),),
            support=NATIVE,
        ),
        "1 consumer group with 3 members: a (x@10.0.0.1, y@10.0.0.1 and 1 more). They continue "
        "with the partitions that stay.",
    ),
    (
        "unread",
        facts(groups=(group("a", p3=99), group("b", p0=0), group("c", p2=0, p3=0))),
        "Not read yet on the partitions to remove: a (1), c (200). Nothing is lost: the records "
        "are copied, and the groups continue on the copy.",
    ),
    (
        "no-position",
        facts(groups=(ConsumerGroup("a", "Empty", "classic", {2: 100}),)),
        "No committed offset on partitions to remove that hold records: a (partition 3). Their "
        "auto.offset.reset decides where they begin; let them commit first.",
    ),
    (
        "beyond-end",
        facts(groups=(group("a", p0=101), group("b"))),
        "Committed beyond the end of a partition: a. They have read records that the cluster no "
        "longer has; find out why first.",
    ),
    (
        "not-read",
        facts(unread={str(n): "silence" for n in range(4)}),
        "Not everything could be read: 0: silence, 1: silence, 2: silence and 1 more. The missing "
        "facts may still be a reason against it.",
    ),
    (
        "too-few-brokers",
        facts(live=frozenset({1})),
        "Its replication factor is 2, and 1 broker runs. Start the others: a topic with this "
        "factor needs them.",
    ),
    (
        "no-room",
        facts(dirs=dirs(20 * GB)),
        "The copy needs 2 x 2 replicas of about 2.01 MB. With a reserve of 10%, the free space is "
        "only: broker 1: 0 B, broker 2: 0 B, broker 3: 0 B. Free space, or ask for more "
        "partitions, each of which is smaller.",
    ),
    (
        "room-tight",
        facts(*all_of(2), wanted=1, dirs=(*dirs(100 * GB, (1, 2)), *dirs(20 * GB, (3,)))),
        "broker 3 has no space for an even share. The copy needs 1 x 2 replicas of about 2.01 MB; "
        "free space: broker 1: 80.0 GB, broker 2: 80.0 GB, broker 3: 0 B.",
    ),
    (
        "room-tight",
        facts(
            live=frozenset(range(1, 5)),
            dirs=(*dirs(100 * GB, (1, 2)), *dirs(20 * GB, (3, 4))),
        ),
        "broker 3, broker 4 have no space for an even share. The copy needs 2 x 2 replicas of "
        "about 2.01 MB; free space: broker 1: 80.0 GB, broker 2: 80.0 GB, broker 3: 0 B, broker "
        "4: 0 B.",
    ),
    (
        "room-unknown",
        facts(dirs=dirs(100 * GB, (2, 3))),
        "The free space on broker 1 is unknown. The copy needs 2 x 2 replicas of about 2.01 MB. "
        "Check their disks yourself (before Kafka 3.3).",
    ),
    (
        "retention-bytes",
        facts(configs=configured(retention_bytes=str(2 * MB))),
        "retention.bytes is 2.00 MB for each partition, and with 2 of them each holds about 2.01 "
        "MB: the copy's oldest records would be deleted. Set retention.bytes to 3014400 or more "
        "first.",
    ),
    (
        "retention-bytes",
        facts(configs=configured(retention_bytes=str(3 * MB))),
        "retention.bytes is 3.00 MB for each partition, and with 2 of them each holds about 2.01 "
        "MB, if they are even. Set retention.bytes to 3014400 or more first.",
    ),
    (
        "record-limit",
        facts(sample=RecordSample(5, 0, largest_bytes=2 * MB)),
        "A record of 2.00 MB was seen, but max.message.bytes is 1.05 MB: the copy may be "
        "rejected. Set max.message.bytes to 4000000 or more.",
    ),
    (
        "record-limit",
        facts(sample=None),
        "max.message.bytes is 1.05 MB; older records may be larger. The copy stops at a larger "
        "record and names it; the source stays complete.",
    ),
    (
        "old-timestamps",
        facts(configs=configured(message_timestamp_before_max_ms=str(HOUR))),
        "message.timestamp.before.max.ms is 1h00m: the cluster rejects copies of older records. "
        "The copy needs message.timestamp.before.max.ms of 86400000 or more, or no limit.",
    ),
    (
        "retention-running",
        facts(*all_of(offsets=offsets(age_ms=7 * DAY))),
        "Retention (7d00h) deletes the oldest records at any time, and the copy takes about 15s at "
        "20.0 MB/s: source and copy would differ. Set retention.ms to 604830402 or more until the "
        "cut-over.",
    ),
    (
        "retention-running",
        facts(*all_of(offsets=offsets(age_ms=7 * DAY - 20_000))),
        "Retention (7d00h) deletes the oldest records in 20s, and the copy takes about 15s at 20.0 "
        "MB/s: source and copy would differ. Set retention.ms to 604810402 or more until the "
        "cut-over.",
    ),
    (
        "retention-short",
        facts(configs=configured(retention_ms="15000")),
        "Records live for 15s, and the copy takes about 15s at 20.0 MB/s: the copy would never "
        "have all of them. Set retention.ms to 86430402 or more until the cut-over.",
    ),
    (
        "expires-soon",
        facts(*all_of(size_bytes=GB, offsets=offsets(age_ms=7 * DAY)), copy_rate_bytes_per_s=1e5),
        "Retention empties the partitions to remove in 1h00m. Without writers, waiting is as fast "
        "as copying.",
    ),
    (
        "empty",
        facts(*all_of(2), *(partition(n, offsets=offsets(7, 7)) for n in (2, 3))),
        "The partitions to remove hold no records. ",
    ),
]


@pytest.mark.parametrize(("code", "of", "said"), SAID, ids=[one[0] for one in SAID])
def test_a_finding_says_what_is_wrong_and_what_to_do(code: str, of: ShrinkFacts, said: str) -> None:
    assert words(of, code) == said


AT_A_LIMIT: list[tuple[str, ShrinkFacts, ShrinkFacts]] = [
    (
        "writing",
        facts(*all_of(3), partition(3, producers=(replace(WRITER, last_ms=NOW - 5 * MINUTE),))),
        facts(*all_of(3), partition(3, producers=(replace(WRITER, last_ms=NOW - 5 * MINUTE - 1),))),
    ),
    (
        "writing",
        facts(*all_of(offsets=PartitionOffsets(0, 9, 9, None, NOW - 5 * MINUTE), later_end=9)),
        facts(*all_of(offsets=PartitionOffsets(0, 9, 9, None, NOW - 5 * MINUTE - 1), later_end=9)),
    ),
    (
        "retention-bytes",
        facts(configs=configured(retention_bytes=str(3_014_399))),
        facts(configs=configured(retention_bytes=str(3_014_400))),
    ),
    (
        "record-limit",
        facts(sample=RecordSample(5, 0, largest_bytes=1_048_589)),
        facts(sample=RecordSample(5, 0, largest_bytes=1_048_588)),
    ),
    (
        "old-timestamps",
        facts(configs=configured(message_timestamp_difference_max_ms=str(DAY - 1))),
        facts(configs=configured(message_timestamp_difference_max_ms=str(DAY))),
    ),
    (
        "old-timestamps",
        facts(
            *all_of(offsets=PartitionOffsets(0, 100, 100, NOW - DAY, NOW - DAY)),
            configs=configured(message_timestamp_difference_max_ms="0"),
        ),
        facts(
            *all_of(offsets=PartitionOffsets(0, 100, 100, None, NOW - DAY)),
            configs=configured(message_timestamp_difference_max_ms="0"),
        ),
    ),
    (
        "beyond-end",
        facts(groups=(group("a", p1=101),)),
        facts(groups=(group("a", p1=100, p9=999),)),
    ),
    (
        "under-replicated",
        facts(*all_of(isr=(2,))),
        facts(*all_of(isr=(2, 1))),
    ),
    (
        "leaving",
        facts(*all_of(4), partition(4, mode=PartitionMode.NONE)),
        facts(*all_of(5)),
    ),
    (
        "tiered",
        facts(configs=configured(remote_storage_enable="true")),
        facts(configs=configured(remote_storage_enable="false")),
    ),
]


@pytest.mark.parametrize(("code", "over", "within"), AT_A_LIMIT, ids=[one[0] for one in AT_A_LIMIT])
def test_a_warning_begins_right_behind_a_limit(
    code: str, over: ShrinkFacts, within: ShrinkFacts
) -> None:
    assert warned(over) == {code}
    assert warned(within) == set()


def retained(ms: int) -> ShrinkFacts:
    return facts(configs=configured(retention_ms=str(ms)))


def test_retention_has_to_outlast_the_copy_twice_and_the_age_of_the_records() -> None:
    copy_ms = copy_ms_of(facts())
    assert copy_ms == COPY_START_MS + 201
    assert refused(retained(copy_ms)) == {"retention-short"}
    assert warned(retained(copy_ms + 1)) == {"retention-running"}
    assert warned(retained(DAY + 2 * copy_ms - 1)) == {"retention-running"}
    assert warned(retained(DAY + 2 * copy_ms)) == set()
    unread = facts(
        partition(0, size_bytes=None), *all_of()[1:], configs=configured(retention_ms="1")
    )
    assert copy_ms_of(unread) is None
    assert "retention-short" not in refused(unread)


def test_an_exact_retention_by_size_is_refused_only_when_it_is_passed() -> None:
    # 4 MB and 400 headers in two partitions.
    each = (4 * MB + 400 * 48) // 2
    assert refused(facts(configs=configured(retention_bytes=str(each)))) == set()
    assert refused(facts(configs=configured(retention_bytes=str(each - 1)))) == {"retention-bytes"}
    compacted = facts(configs=configured(retention_bytes="1", cleanup_policy="compact"))
    assert refused(compacted) == {"compacted"}


def test_no_limit_of_timestamps_is_no_limit() -> None:
    for value in (UNLIMITED_MS, -1):
        none = facts(configs=configured(message_timestamp_before_max_ms=str(value)))
        assert warned(none) == set()


def test_a_transaction_hangs_once_it_is_older_than_any_may_be() -> None:
    for last_ms, hangs in (
        (NOW - HANGING_MS, False),
        (NOW - HANGING_MS - 1, True),
        (0, True),
        (-1, False),  # not known
    ):
        busy = facts(*all_of(3), partition(3, producers=(replace(HANGS, last_ms=last_ms),)))
        assert ("it hangs" in words(busy, "open-transaction")) is hangs


def test_a_transaction_begins_where_the_first_sign_of_it_is() -> None:
    producers = (replace(HANGS, transaction_start=85), WRITER)
    assert transaction_at(partition(0, producers=producers)) == 85
    assert transaction_at(partition(0, producers=producers, offsets=offsets(stable=70))) == 70
    assert transaction_at(partition(0, producers=None, offsets=offsets(stable=100))) is None
    assert transaction_at(partition(0, producers=None, offsets=None)) is None


def test_a_partition_that_goes_says_when_it_is_empty_by_itself() -> None:
    newest_ms = NOW - DAY + HOUR
    for given, left_ms in (
        ({}, newest_ms + 7 * DAY - NOW),
        ({"offsets": offsets(5, 5)}, None),
        ({"offsets": None}, None),
        ({"offsets": PartitionOffsets(0, 1, 1)}, None),
        ({"offsets": offsets(age_ms=9 * DAY)}, 0),
    ):
        check = judge(facts(*all_of(3), partition(3, **given)))
        assert check.partitions[-1].expires_in_ms == left_ms
    for_ever = judge(facts(configs=configured(retention_ms="-1")))
    assert for_ever.partitions[0].expires_in_ms is None


def test_waiting_is_proposed_only_where_it_is_as_quick_as_copying() -> None:
    large = all_of(size_bytes=GB, offsets=offsets(age_ms=7 * DAY))
    copy_s = (copy_ms_of(facts(*large)) or 0) / 1000
    rate = facts().copy_rate_bytes_per_s * copy_s / 3600
    for factor, soon in ((1.1, False), (0.9, True)):
        found = judge(facts(*large, copy_rate_bytes_per_s=rate * factor)).findings
        assert ("expires-soon" in {one.code for one in found}) is soon
    # One of them says nothing of its newest record.
    silent = (*large[:3], partition(3, size_bytes=GB, offsets=PartitionOffsets(0, 100, 100, 1)))
    codes = {one.code for one in judge(facts(*silent, copy_rate_bytes_per_s=1e5)).findings}
    assert "expires-soon" not in codes
    # One of them is empty, and so is not waited for.
    empty = (*large[:3], partition(3, size_bytes=GB, offsets=PartitionOffsets(7, 7, 7)))
    codes = {one.code for one in judge(facts(*empty, copy_rate_bytes_per_s=1e5)).findings}
    assert "expires-soon" in codes


# What a copy takes


def test_a_copy_has_a_header_more_in_each_record() -> None:
    assert copy_bytes(1_000, 10) == 1_480
    assert copy_bytes(1_000, None) == 1_000
    check = judge(facts())
    assert check.copy_bytes == 2 * 2 * ((4 * MB + 400 * 48) // 2)
    assert check.copy_ms == COPY_START_MS + round((4 * MB + 400 * 48) / 20e6 * 1000)
    odd = judge(facts(*all_of(3, size_bytes=MB + 1, offsets=None), wanted=2))
    assert odd.copy_bytes == 2 * 2 * ((3 * MB + 3 + 1) // 2)


@pytest.mark.parametrize(
    "given",
    [
        {"support": NATIVE},
        {"wanted": 0},
        {"live": frozenset()},
        {"partitions": (partition(0, size_bytes=None),)},
    ],
)
def test_room_is_not_looked_for_where_nothing_is_copied(given: dict[str, Any]) -> None:
    assert room_of(replace(facts(), **given)) is None


def test_one_partition_can_be_the_whole_copy() -> None:
    room = room_of(facts(wanted=1))
    assert room is not None
    assert room.fits


def test_an_even_share_and_no_more_makes_a_broker_tight() -> None:
    def room(*free: int) -> tuple[bool, tuple[int, ...]]:
        places = [LogDir(broker, "/d", 0, size) for broker, size in enumerate(free)]
        found = room_for(
            places, range(len(free)), size_bytes=400, partitions=4, replication_factor=1
        )
        return found.fits, found.tight

    assert room(200, 200) == (True, ())
    assert room(199, 300) == (True, (0,))
    assert room(199, 200) == (False, (0,))
    assert room(400) == (True, ())
    # Two brokers share four partitions, and one could take all of them.
    assert room(0, 400) == (True, (0,))


def test_disks_that_do_not_say_their_size_are_not_known() -> None:
    for total, usable, known in ((0, 0, True), (-1, 5, False), (5, -1, False)):
        found = room_for(
            [LogDir(1, "/d", total, usable)],
            [1],
            size_bytes=0,
            partitions=1,
            replication_factor=1,
        )
        assert (found.unknown == ()) is known
        assert found.fits, "nothing needs no room"


def test_several_volumes_of_a_broker_add_up_and_no_partition_is_split() -> None:
    volumes = [LogDir(1, "/a", 0, 150), LogDir(1, "/b", 0, 160)]
    for partitions, fits in ((2, True), (3, False)):
        found = room_for(
            volumes, [1], size_bytes=100 * partitions, partitions=partitions, replication_factor=1
        )
        assert found.fits is fits
    assert found.free_bytes == {1: 310}


# What is known


def test_what_is_not_known_is_never_taken_for_nothing() -> None:
    some = facts(partition(0, offsets=None), *all_of()[1:])
    assert some.total_records is None
    assert facts().total_records == 400
    assert facts(partition(0, size_bytes=None), partition(1)).total_bytes is None
    group_of_some = judge(replace(some, groups=(group("a", p0=0, p1=0),))).groups[0]
    assert (group_of_some.unread_doomed, group_of_some.unread_all) == (0, None)


@pytest.mark.parametrize(
    ("value", "limit"), [("0", 0), ("-1", None), ("5", 5), ("", None), ("x", None)]
)
def test_a_limit_is_a_number_from_zero_on(value: str, limit: int | None) -> None:
    assert facts(configs={"retention.bytes": value}).limit("retention.bytes") == limit


def test_committed_offsets_are_listed_by_partition() -> None:
    found = judge(facts(groups=(ConsumerGroup("a", "Empty", "classic", {3: 9, 0: 8}),))).groups[0]
    assert found.committed == (CommittedOffset(0, 8), CommittedOffset(3, 9))


def test_a_partition_that_holds_nothing_needs_no_position() -> None:
    empty = facts(
        *all_of(3),
        partition(3, offsets=offsets(5, 5)),
        groups=(ConsumerGroup("a", "Empty", "classic", {0: 1, 1: 1}),),
    )
    assert judge(empty).groups[0].no_position == (2,)


def test_producers_are_listed_where_they_wrote_lately_or_hold_a_transaction_open() -> None:
    idle = replace(WRITER, last_ms=NOW - HOUR)
    check = judge(facts(*all_of(3), partition(3, producers=(idle, WRITER, HANGS))))
    assert check.partitions[-1].producers == (WRITER, HANGS)
    silent = judge(facts(*all_of(3), partition(3, producers=None)))
    assert silent.partitions[-1].producers is None


def test_records_that_came_meanwhile_are_counted_and_never_below_zero() -> None:
    for later, came in ((None, None), (90, 0), (100, 0), (107, 7)):
        check = judge(facts(*all_of(3), partition(3, later_end=later)))
        assert check.partitions[-1].written_meanwhile == came


def test_a_compacted_topic_has_keys_and_a_sample_without_records_tells_nothing() -> None:
    compacted = facts(configs=configured(cleanup_policy="compact"), sample=RecordSample(5, 0))
    assert judge(compacted).keys is KeyUse.ALL
    assert judge(facts(sample=None)).sampled == 0
    assert judge(facts()).sampled == 20
