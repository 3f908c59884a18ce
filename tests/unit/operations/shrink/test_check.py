"""The check before a shrink, on paper: what cannot be read is said, and hides nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kshunt.backend.domain.shrink.check import KeyUse, ShrinkCheck, UnreadPart
from kshunt.backend.domain.topics.groups import RecordSample
from kshunt.backend.errors import ClusterUnreachable
from kshunt.backend.operations.shrink.check import CALL_SHARE, SAMPLE_S, WATCH_S, ShrinkChecks
from tests.support.admin import instead
from tests.support.shrink.driver import Clock
from tests.support.shrink.one_topic_case import TOPIC, orders
from tests.support.shrink.shrink_in_memory import PaperCluster


async def silence(*_: object, **__: object) -> Any:
    raise ClusterUnreachable("Nobody answered.")


class Without:
    """A subject of a cluster, one of whose calls nobody answers."""

    def __init__(self, subject: Any, verb: str) -> None:
        self._subject, self._verb = subject, verb

    def __getattr__(self, name: str) -> Any:
        return silence if name == self._verb else getattr(self._subject, name)


async def checked(cluster: Any, clock: Clock | None = None, **more: Any) -> ShrinkCheck:
    return await ShrinkChecks(cluster, clock or Clock(), timeout_s=8.0, **more).check(TOPIC, 2)


def paper(tmp_path: Path) -> PaperCluster:
    return orders(tmp_path).cluster


async def test_all_that_there_is_to_know_is_read(tmp_path: Path) -> None:
    clock = Clock()
    check = await checked(paper(tmp_path), clock)
    assert check.unread == ()
    assert (check.total_bytes, check.total_records) == (4_000, 8)
    assert [(one.number, one.size_bytes, one.records) for one in check.partitions] == [
        *((2, 1_000, 2), (3, 1_000, 1)),
    ]
    assert [(one.name, one.unread_doomed) for one in check.groups] == [("early", 3), ("late", 0)]
    assert (check.sampled, check.keys) == (9, KeyUse.ALL)
    assert check.retention_ms == 86_400_000
    assert check.watched_ms == WATCH_S * 1000
    assert check.checked_ms == clock.now_ms()


@pytest.mark.parametrize(
    ("subject", "verb", "what"),
    [
        ("partition_deletions", "support", {"whether the cluster deletes partitions itself"}),
        ("configs", "describe", {"its configuration"}),
        ("groups", "of_topic", {"groups"}),
        ("records", "producers", {"producers"}),
        ("records", "offsets", {"offsets"}),
        ("records", "sample", {"the last records"}),
        ("logs", "dirs", {f"disks of broker {broker}" for broker in (1, 2, 3)}),
    ],
)
async def test_what_nobody_answers_is_said_and_the_rest_is_there(
    tmp_path: Path, subject: str, verb: str, what: set[str]
) -> None:
    cluster: Any = paper(tmp_path)
    places: dict[str, Any] = {subject: Without(getattr(cluster, subject), verb)}
    check = await checked(instead(cluster, **places))
    assert set(check.unread) == {UnreadPart(one, "Nobody answered.") for one in what}
    assert (check.current, check.native) == (4, False)
    assert check.retention_ms == (None if verb == "describe" else 86_400_000)
    assert [one.name for one in check.groups] == ([] if verb == "of_topic" else ["early", "late"])
    assert (check.total_bytes is None) is (verb == "dirs")
    assert (check.total_records is None) is (verb == "offsets")
    assert check.sampled == (0 if verb == "sample" else 9)
    assert check.keys is (KeyUse.UNKNOWN if verb == "sample" else KeyUse.ALL)


async def test_what_a_call_itself_could_not_read_is_said_too(tmp_path: Path) -> None:
    cluster = paper(tmp_path)
    cluster.unread["group slow"] = "no answer"
    cluster.silent.add(3)
    check = await checked(cluster)
    assert check.unread == (
        UnreadPart("group slow", "no answer"),
        UnreadPart("partition 3", "silence"),
    )
    assert [one.records for one in check.partitions] == [2, None]


async def test_a_log_that_grows_while_it_is_watched_is_seen(tmp_path: Path) -> None:
    cluster = paper(tmp_path)

    class Busy(Clock):
        async def wait_s(self, seconds: float) -> None:
            assert seconds == 5.0
            cluster.topics_by_name[TOPIC].records[3] += ["late", "later"]
            await super().wait_s(seconds)

    check = await checked(cluster, Busy(), watch_s=5.0)
    assert [one.written_meanwhile for one in check.partitions] == [0, 2]
    assert check.watched_ms == 5_000


async def test_a_partition_without_a_leader_has_no_size(tmp_path: Path) -> None:
    cluster = paper(tmp_path)
    cluster.topics_by_name[TOPIC].leaderless.add(3)
    check = await checked(cluster)
    assert [one.size_bytes for one in check.partitions] == [1_000, None]
    assert "offline" in {one.code for one in check.refusals()}


async def test_a_call_has_less_time_than_all_of_it(tmp_path: Path) -> None:
    cluster: Any = paper(tmp_path)
    given: list[float] = []

    async def sample(
        topic: str, ends: object, *, partitions: int, timeout_s: float
    ) -> RecordSample:
        assert partitions == 4
        assert ends == {0: (0, 3), 1: (0, 2), 2: (0, 2), 3: (0, 1)}
        given.append(timeout_s)
        return RecordSample(0, 0)

    async def of(timeout_s: float) -> None:
        records = SimpleNamespace(
            sample=sample, offsets=cluster.records.offsets, producers=cluster.records.producers
        )
        checks = ShrinkChecks(instead(cluster, records=records), Clock(), timeout_s=timeout_s)
        await checks.check(TOPIC, 2)

    await of(5.0)
    await of(50.0)
    assert given == [5.0 * CALL_SHARE, SAMPLE_S]


@pytest.mark.parametrize(
    "asked", [lambda checks: checks.check("none", 2), lambda checks: checks.check(TOPIC, 0)]
)
async def test_what_cannot_be_meant_is_not_looked_into(
    tmp_path: Path, asked: Callable[[ShrinkChecks], Any]
) -> None:
    cluster: Any = paper(tmp_path)
    quiet = instead(cluster, groups=Without(cluster.groups, "of_topic"))
    check = await asked(ShrinkChecks(quiet, Clock(), timeout_s=8.0))
    assert check.refusals()
    assert check.unread == ()
