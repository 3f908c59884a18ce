"""The same throttled moves, on real brokers and in a twin from a picture taken just before."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.lifecycle import OperationState
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.replicas.snapshot import UNKNOWN
from kshunt.backend.rehearsal.picture import Picture, picture_of
from kshunt.backend.rehearsal.run import rehearse
from tests.support.brokers.launcher import RealKafka
from tests.support.serving import serve_process
from tests.support.topics import create_topic, produce
from tests.support.waiting import wait_until

TOPIC = "rehearsed"
RECORD_BYTES = 20_000
PLACES: Sequence[Sequence[int]] = ((1, 2), (2, 1), (1, 2), (2, 1))
DEADLINE_S = 900.0


@dataclass(frozen=True, slots=True)
class Compared:
    """One throttle."""

    throttle_bytes_per_s: int
    predicted_s: float
    real_s: float

    @property
    def error(self) -> float:
        """Of the prediction, as a share of how long it took."""
        return (self.predicted_s - self.real_s) / self.real_s

    def __str__(self) -> str:
        return (
            f"{self.throttle_bytes_per_s / 1e6:g} MB/s: rehearsed {self.predicted_s:.1f} s, "
            f"real {self.real_s:.1f} s, {self.error:+.1%}"
        )


def compare(
    kafka: RealKafka, folder: Path, megabytes: Sequence[int], throttles: Sequence[int]
) -> list[Compared]:
    """Move the second replica of every partition to broker 3, and back, once for each throttle."""
    create_topic(kafka.bootstrap_servers, TOPIC, [list(one) for one in PLACES])
    for number, size in enumerate(megabytes):
        count = size * 1_000_000 // RECORD_BYTES
        produce(kafka.bootstrap_servers, TOPIC, count, RECORD_BYTES, number)
    there = {TopicPartition(TOPIC, n): (one[0], 3) for n, one in enumerate(PLACES)}
    back = {TopicPartition(TOPIC, n): tuple(one) for n, one in enumerate(PLACES)}
    found = []
    with (
        serve_process(kafka.bootstrap_servers, folder / "s"),
        BackendClient(f"unix:{folder / 's'}") as client,
    ):
        for throttle in throttles:
            predicted = rehearse(seen(client), there, throttle)
            assert predicted.finish_s is not None, predicted.why
            real_s = moved(client, there, throttle)
            found.append(Compared(throttle, predicted.finish_s, real_s))
            moved(client, back, None)
    return found


def seen(client: BackendClient) -> Picture:
    """The cluster, once all sizes of the topic are known and all of it is in sync."""
    pictures: list[Picture] = []

    def known() -> bool:
        with closing(client.snapshots()) as stream:
            snapshot = next(stream)
        rows = snapshot.replicas
        if TOPIC not in snapshot.topics:
            return False
        ours = rows.topic_index == snapshot.topics.index(TOPIC)
        if (
            not ours.any()
            or not rows.in_isr[ours].all()
            or (rows.size_bytes[ours] == UNKNOWN).any()
        ):
            return False
        pictures.append(picture_of(snapshot))
        return not pictures[-1].situation.moving

    wait_until(known, DEADLINE_S, "the topic was sampled")
    return pictures[-1]


def moved(
    client: BackendClient, targets: Mapping[TopicPartition, tuple[int, ...]], throttle: int | None
) -> float:
    """Move them in earnest; returns the seconds until the operation was done."""
    began_s = time.monotonic()
    answer = client.reassignments.start(
        ReassignmentPlan(dict(targets)), throttle_bytes_per_s=throttle
    )
    assert answer.operation_id is not None

    def ended() -> Operation | None:
        # Where another backend acts, this one reads of it in the journal a moment later.
        known = (one for one in client.operations.list() if one.id == answer.operation_id)
        return next((one for one in known if one.state.ended), None)

    wait_until(lambda: ended() is not None, DEADLINE_S, "the moves have ended")
    found = ended()
    assert found is not None
    assert found.state is OperationState.DONE
    return time.monotonic() - began_s
