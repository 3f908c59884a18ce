"""Snapshots of one stream in which each part of the header changes, and a recording of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from kshunt.backend.domain.cluster.metadata import Broker, LogDir, TopicPartition
from kshunt.backend.domain.replicas.snapshot import BrokerStatus, Snapshot
from kshunt.backend.domain.replicas.stuck_causes import Cause, Stuck
from kshunt.backend.domain.throttles.configs import (
    BrokerThrottle,
    ReplicaSet,
    ThrottledRate,
    ThrottledReplicas,
    Throttles,
)
from tests.support.paths import ROOT
from tests.support.snapshots import TOPICS, replicas_of, snapshot_of

WHOLE_HEADERS: Final = ROOT / "tests" / "support" / "frames" / "stream-with-whole-headers.arrows"
"""`states()` as the version wrote them in which each frame had its header whole."""


def states() -> list[Snapshot]:
    """Throttles, brokers, directories and words come, change and go."""
    rows = replicas_of({(0, 0, 7): (1, True, 1.0), (1, 0, 7): (2, False, 2.5)})
    first = snapshot_of(rows)
    throttled = dict(first.throttles.replicas)
    wider = Throttles(
        {
            7: BrokerThrottle(7, ThrottledRate(2_000, 3_000), 4_000, "DYNAMIC_BROKER_CONFIG"),
            9: BrokerThrottle(9, ThrottledRate(None, None)),
        },
        {**throttled, "b.c": lists("0:1,1:7", "2:9"), "日本": lists("", "0:1")},
    )
    second = replace(
        _next(first),
        throttles=wider,
        brokers={**first.brokers, 9: BrokerStatus(Broker(9, "i", 9092), None, stale=False)},
        log_dirs=(*first.log_dirs, LogDir(9, "/é", 20, 10)),
        log_dir_paths=("/d", "/é"),
        problems=(),
        deletes_ms={},
        min_isr=(1, 2, 1, 1),
    )
    narrower = Throttles({9: wider.rates[9]}, {"b.c": lists("0:1", "2:9")}, (7,))
    third = replace(
        _next(second),
        throttles=narrower,
        log_dirs=(LogDir(7, "/d", 10, 5), second.log_dirs[1]),
        explained=_words(tuple(first.explained.values())[1:], "still too low"),
        deletes_ms={TopicPartition("b.c", 0): 1},
    )
    fourth = replace(_next(third), log_dirs=third.log_dirs[:1], explained={}, deletes_ms={})
    fifth = replace(_next(fourth), topics=(*TOPICS, "new"), min_isr=(1, 2, 1, 1, 1))
    return [first, second, third, fourth, fourth, fifth, _next(fifth)]


def lists(leaders: str, followers: str) -> ThrottledReplicas:
    """A topic's throttled replicas, as its configurations say them."""
    return ThrottledReplicas(ReplicaSet.parse(leaders), ReplicaSet.parse(followers))


def _next(snapshot: Snapshot) -> Snapshot:
    later = snapshot.taken_ms + 1_000
    return replace(snapshot, version=snapshot.version + 1, taken_ms=later)


def _words(stuck: Iterable[Stuck], reason: str) -> dict[tuple[TopicPartition, int], Stuck]:
    explained = [replace(one, reason=reason, cause=Cause.THROTTLE_FLOOR, rates=()) for one in stuck]
    return {(one.partition, one.broker): one for one in explained}
