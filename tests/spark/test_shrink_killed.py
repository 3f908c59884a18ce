"""A shrink on real brokers by real processes, some of which are killed on the way.

`KSHUNT_SHRINK_RECORDS` says of how many records, `KSHUNT_SHRINK_KILLS` how often the backend is
killed (one time less the job).
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient, ConfigResource

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.operation import Operation, OperationState
from kshunt.backend.domain.shrink.phases import ShrinkPhase, ShrinkProgress, ShrinkRequest
from kshunt.backend.errors import KshuntError
from kshunt.backend.operations.lease.lease import LeaseState
from kshunt.backend.pipeline.kernels.partitioner import partitions_of_bytes
from kshunt.backend.pipeline.repartition.topics_and_positions import TopicQuestions
from kshunt.backend.pipeline.spark.kafka_connector import ENVIRONMENT_JARS
from tests.support.admin import fresh_name
from tests.support.audit_checker import RequestedShrink, lines_of, shrink_problems
from tests.support.brokers.connector import connector_jars, missing_connector
from tests.support.brokers.launcher import RealKafka
from tests.support.faults.kills import Ground
from tests.support.faults.truth_ground import cluster_seen
from tests.support.pipeline.spark import INTERPRETED, QUICK_JAVA, missing_java
from tests.support.serving import serve_process
from tests.support.shrink.check import commit
from tests.support.shrink.copied_topics import Record, filled, held
from tests.support.topics import create_topic
from tests.support.waiting import require, wait_until

RECORDS = int(os.environ.get("KSHUNT_SHRINK_RECORDS", "12000"))
KILLS = int(os.environ.get("KSHUNT_SHRINK_KILLS", "2"))
FEW = 100_000
"""With more, a Java that compiles well is worth its start."""
DEADLINE_S = 300.0 + RECORDS / 2_000
CALL_S = 20.0
ASK_S = 0.2
"""A backend that is asked how far it is works on that, too."""
BEFORE, AFTER = 5, 3
CONFIGS = {"retention.ms": "-1", "segment.bytes": "104857600", "max.message.bytes": "900000"}
Phase = ShrinkPhase


@dataclass
class Shrinking:
    """A backend process, and the shrink that it takes further."""

    kafka: RealKafka
    folder: Path
    topic: str
    stack: ExitStack
    started: int = 0
    backend: int = 0
    """Of which process."""
    client: BackendClient = field(init=False)
    operation_id: str = ""
    seen: list[ShrinkPhase] = field(default_factory=list)

    def start(self) -> None:
        """A backend, the first or the one after a killed one."""
        self.started += 1
        socket = self.folder / f"{self.started}.sock"
        process = self.stack.enter_context(serve_process(self.kafka.bootstrap_servers, socket))
        self.backend = process.pid
        self.client = self.stack.enter_context(BackendClient(f"unix:{socket}"))
        # Of the killed one's lease the cluster knows for a while.
        wait_until(self._may_act, DEADLINE_S, "no other backend acts", ASK_S)

    def _may_act(self) -> bool:
        return self.client.backend_status().duty in (LeaseState.IDLE, LeaseState.ACT)

    def kill(self) -> None:
        """Kill the backend with SIGKILL and start another one, which takes its lease over."""
        os.kill(self.backend, signal.SIGKILL)
        self.start()

    def operation(self) -> Operation | None:
        """As the backend knows it; None while it has not read the journal."""
        known = self.client.operations.list()
        return next((one for one in known if one.id == self.operation_id), None)

    def until(self, condition: Callable[[ShrinkProgress], object], what: str) -> None:
        """Watch it until a condition holds."""
        said = ""

        def holds() -> bool:
            nonlocal said
            operation = self.operation()
            if operation is None or operation.details.shrink is None:
                return False
            progress = operation.details.shrink
            said = f"{operation.state}, {progress.phase}: {progress.words} {operation.outcome}"
            said += "".join(f"; {one}" for one in progress.groups)
            assert operation.state is not OperationState.FAILED, said
            if progress.phase not in self.seen:
                self.seen.append(progress.phase)
            return bool(condition(progress))

        try:
            wait_until(holds, DEADLINE_S, what, ASK_S)
        except AssertionError as error:
            log = (self.folder / f"{self.started}.log").read_text()[-3000:]
            raise AssertionError(f"{error}\n{said}\n{log}") from None

    def kill_job(self) -> None:
        """The job of the backend, and the Java under it."""
        wait_until(lambda: any(_jobs(self.backend)), DEADLINE_S, "a job runs")
        for pid in _jobs(self.backend):
            os.killpg(pid, signal.SIGKILL)


def _jobs(parent: int) -> Iterator[int]:
    """Processes that copy or compare, of a backend."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            _, _, rest = stat.read_text().rpartition(")")
            if int(rest.split()[1]) == parent and b"repartition" in (
                stat.with_name("cmdline").read_bytes()
            ):
                yield int(stat.parent.name)
        except OSError:
            continue


def _committed(admin: AdminClient, group: str, topic: str) -> Mapping[int, int]:
    asked = [ConsumerGroupTopicPartitions(group)]
    found = admin.list_consumer_group_offsets(asked)[group].result(CALL_S)
    return {at.partition: at.offset for at in found.topic_partitions if at.topic == topic}


def _overrides(admin: AdminClient, topic: str) -> Mapping[str, str]:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    found = admin.describe_configs([resource])[resource].result(CALL_S)
    return {one.name: one.value for one in found.values() if one.source == 1}


def _positions(ends: Mapping[int, int]) -> Mapping[str, Mapping[int, int]]:
    """Of three groups: one has just begun, one has read half, one has read all."""
    dice = Random(8)
    begun = {p: dice.randrange(end // 4) for p, end in ends.items()}
    half = {p: dice.randrange(end // 4, end) for p, end in ends.items()}
    return {"begun": begun, "half": half, "all": dict(ends)}


def _unread(records: Sequence[Record], at: Mapping[int, int]) -> Counter[Any]:
    return Counter(r.content for r in records if r.offset >= at[r.partition])


def _by_key(records: Sequence[Record]) -> Mapping[bytes, Sequence[Any]]:
    found: dict[bytes, list[Any]] = {}
    for record in records:
        if record.key is not None:
            found.setdefault(record.key, []).append(record.content)
    return found


@pytest.fixture
def kafka() -> Iterator[RealKafka]:
    """Brokers of its own: a backend that another test has left behind, with an operation that does
    not end, would act on the shared ones."""
    with RealKafka() as brokers:
        yield brokers


@pytest.mark.kafka
@pytest.mark.own_brokers
@pytest.mark.spark
def test_a_shrink_survives_whatever_is_killed(
    kafka: RealKafka,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    require(missing_java())
    require(missing_connector())
    monkeypatch.setenv(ENVIRONMENT_JARS, str(connector_jars()))
    if RECORDS <= FEW:
        monkeypatch.setenv("JDK_JAVA_OPTIONS", f"{QUICK_JAVA} {INTERPRETED}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    servers, topic = kafka.bootstrap_servers, fresh_name("shrunk")
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    create_topic(servers, topic, [[1 + n % 3, 1 + (n + 1) % 3] for n in range(BEFORE)], CONFIGS)
    filled(servers, topic, 8, RECORDS, in_transaction=max(500, RECORDS // 200))
    groups = _positions(TopicQuestions({"bootstrap.servers": servers, "log_level": 0}).ends(topic))
    for name, positions in groups.items():
        commit(servers, f"{topic}-{name}", topic, positions)
    before, overrides = held(servers, topic), _overrides(admin, topic)
    began_s = time.monotonic()
    with ExitStack() as stack:
        shrinking = Shrinking(kafka, tmp_path, topic, stack)
        shrinking.start()
        _start(shrinking)
        _killed_before_it_is_confirmed(shrinking)
        shrinking.until(lambda progress: progress.needs == "confirm", "it waits for the name")
        shrinking.until(
            lambda progress: (
                {one.name: one.read_twice for one in progress.groups}
                == {f"{topic}-{name}": 0 for name in groups}
            ),
            "it is known what groups would read twice",
        )
        shrinking.client.shrinks.confirm(shrinking.operation_id, topic)
        _killed_after_it_was_confirmed(shrinking)
        wait_until(lambda: _has_ended(shrinking), DEADLINE_S, "it ends", ASK_S)
        operation = shrinking.operation()
    took_s = time.monotonic() - began_s
    assert operation is not None
    assert operation.state is OperationState.DONE, operation.outcome
    _assert_all_is_there(servers, topic, before, groups, admin)
    assert _overrides(admin, topic) == overrides
    _assert_nothing_is_left(admin, topic)
    lines = lines_of(Ground(servers, kafka.cluster_id, topic).records())
    shrinks = {operation.id: RequestedShrink(topic, BEFORE, AFTER)}
    assert shrink_problems(lines, cluster_seen(admin, topic), shrinks) == []
    words = f"{len(before):,} records in {took_s:.0f} s, {shrinking.started} backends"
    with capsys.disabled():
        sys.stdout.write(f"\n{words}; {operation.outcome}; {', '.join(shrinking.seen)}\n")


def _has_ended(shrinking: Shrinking) -> bool:
    operation = shrinking.operation()
    return operation is not None and operation.state.ended


def _start(shrinking: Shrinking) -> None:
    request = ShrinkRequest(shrinking.topic, AFTER, 1_000)
    foreseen = shrinking.client.shrinks.start(request, Change(validate_only=True))
    assert foreseen.operation_id is None
    answer = shrinking.client.shrinks.start(request, Change(who="ada@bastion", reason="too many"))
    assert answer.operation_id is not None
    shrinking.operation_id = answer.operation_id


def _killed_before_it_is_confirmed(shrinking: Shrinking) -> None:
    """In the copy: the job after some of it, and the backend; once more in the verification."""
    if KILLS > 1:
        shrinking.until(_some_is_done, "it is copied")
        shrinking.kill_job()
    shrinking.until(lambda progress: progress.phase in (Phase.COPY, Phase.VERIFY), "it goes on")
    shrinking.kill()
    if KILLS > 2:
        shrinking.until(lambda progress: progress.phase is Phase.VERIFY, "it is compared")
        wait_until(lambda: any(_jobs(shrinking.backend)), DEADLINE_S, "the comparison runs")
        shrinking.kill()


def _some_is_done(progress: ShrinkProgress) -> bool:
    """A part of the copy; of few records it may never be seen that there is more to come."""
    copied = next(one for one in progress.phases if one.phase is Phase.COPY)
    return progress.phase is Phase.COPY and (RECORDS <= FEW or bool(copied.done))


def _killed_after_it_was_confirmed(shrinking: Shrinking) -> None:
    """Once the source is gone: the job that copies back, and the backend."""
    late = (Phase.COPY_BACK, Phase.VERIFY_BACK)
    shrinking.until(
        lambda progress: progress.phase in late and progress.past_no_return, "it is copied back"
    )
    with pytest.raises(KshuntError, match="Every record is in"):
        shrinking.client.operations.cancel(shrinking.operation_id)
    if KILLS > 2:
        shrinking.kill_job()
    if KILLS > 1:
        shrinking.kill()


def _assert_all_is_there(
    servers: str,
    topic: str,
    before: Sequence[Record],
    groups: Mapping[str, Mapping[int, int]],
    admin: AdminClient,
) -> None:
    """Each record once, as it was, in its key's partition and order; groups where they were."""
    after = held(servers, topic)
    assert {record.partition for record in after} == set(range(AFTER))
    assert Counter(r.content for r in after) == Counter(r.content for r in before)
    assert all(record.headers == record.content[3] for record in after)
    keyed = [record for record in after if record.key is not None]
    chosen = partitions_of_bytes([record.key for record in keyed], AFTER)
    assert [record.partition for record in keyed] == chosen
    assert _by_key(after) == _by_key(before)
    for name, committed in groups.items():
        there = _committed(admin, f"{topic}-{name}", topic)
        assert there.keys() == set(range(AFTER))
        assert _unread(after, there) == _unread(before, committed), name


def _assert_nothing_is_left(admin: AdminClient, topic: str) -> None:
    names = admin.list_topics(timeout=CALL_S).topics
    assert [name for name in names if name.startswith(f"{topic}.")] == []
    found = admin.list_consumer_groups(request_timeout=CALL_S).result(CALL_S)
    ours = [one.group_id for one in found.valid if one.group_id.startswith("kshunt-shrink-")]
    assert not [name for name in ours if not name.startswith("kshunt-shrink-op-")]
