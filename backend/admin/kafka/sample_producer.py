"""Samples into topics of the cluster, by librdkafka; see
`kshunt.backend.telemetry.recording.kafka_sink`.

Rows are sent without waiting for each. One that is not taken within `DELIVERY_S` is lost: it is
counted, with the time that it is of. Importing this module loads librdkafka.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kshunt.backend.admin.rpc.librdkafka import ACCESS_DENIED, made
from kshunt.backend.admin.security.client_properties import ClientConfig
from kshunt.backend.domain.cluster.config_names import CLEANUP_POLICY, RETENTION_MS
from kshunt.backend.domain.pipeline.sample_columns import DAY_MS
from kshunt.backend.error_codes import TOPIC_ALREADY_EXISTS
from kshunt.backend.errors import ClusterUnreachable, KshuntError, NotAuthorized

DELIVERY_S: Final = 300.0
"""librdkafka tries this long to deliver a row."""
QUEUE_ROWS: Final = 200_000
"""At most in librdkafka's queue."""
PARTITIONS: Final = 12
REPLICATION_FACTOR_MAX: Final = 3
CALL_S: Final = 10.0
"""For a question to the cluster."""
POLL_S: Final = 0.05
PURGE_S: Final = 1.0

NewTopicPlaces: TypeAlias = Callable[[str, int, int], Sequence[Sequence[int]]]
"""From a topic, and how many partitions and replicas, to the replicas of each partition."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Rows that were not delivered."""

    rows: int
    from_ms: int
    to_ms: int
    why: str
    """Of the newest of them, in librdkafka's words."""


class SampleProducer:
    """One producer, and the topics it writes to; one thread uses it at a time."""

    def __init__(
        self,
        bootstrap_servers: str,
        config: ClientConfig,
        delivery_s: float = DELIVERY_S,
        call_s: float = CALL_S,
        place: NewTopicPlaces | None = None,
    ) -> None:
        """`place` says on which brokers new topics go; None: the cluster does."""
        self._place = place
        self._settings = {
            **config.librdkafka,
            "bootstrap.servers": bootstrap_servers,
            "allow.auto.create.topics": False,
            "log_level": 0,
        }
        self._delivery_s = delivery_s
        self._call_s = call_s
        self._producer: Producer | None = None
        self._lost: Lost | None = None
        self._lock = threading.Lock()

    def ensure(self, topics: Sequence[str], keep_days: int) -> None:
        """Make the topics that are not there; one that is there stays as it is.

        Raises:
            ClusterUnreachable: the cluster does not answer.
            NotAuthorized: the principal may not write, or may not make topics.
            ConfigError: librdkafka does not take the configuration.
            InvalidReplicationFactor, ReplicaPlacementFailed: a placer does not place them.
        """
        producer = self._connected()
        admin = self._made(AdminClient, {})
        with _meant("Looking for the topics of the samples"):
            found = producer.list_topics(timeout=self._call_s)
        config = {CLEANUP_POLICY: "delete", RETENTION_MS: str(keep_days * DAY_MS)}
        factor = min(REPLICATION_FACTOR_MAX, len(found.brokers))
        wanted = [
            self._new_topic(topic, factor, config)
            for topic in topics
            if topic not in found.topics or found.topics[topic].error is not None
        ]
        if wanted:
            _create(admin, wanted, self._call_s)

    def _new_topic(self, topic: str, factor: int, config: dict[str, str]) -> NewTopic:
        if self._place is None:
            return NewTopic(topic, PARTITIONS, replication_factor=factor, config=config)
        lists = [list(replicas) for replicas in self._place(topic, PARTITIONS, factor)]
        return NewTopic(topic, PARTITIONS, replica_assignment=lists, config=config)

    def send(
        self, topic: str, keys: Sequence[bytes], values: Sequence[bytes], at_ms: Sequence[int]
    ) -> int:
        """Hand over records, in their order, until the queue is full; how many were taken."""
        producer = self._connected()
        produce = producer.produce
        for place, (key, value, at) in enumerate(zip(keys, values, at_ms, strict=True)):
            try:
                produce(topic, value, key, on_delivery=self._delivered, timestamp=at)
            except BufferError:
                producer.poll(POLL_S)
                return place
        producer.poll(0)
        return len(keys)

    def flush(self, timeout_s: float) -> int:
        """Wait until everything is delivered or lost; how many rows are neither by then."""
        return 0 if self._producer is None else int(self._producer.flush(timeout_s))

    def take_lost(self) -> Lost | None:
        """What was lost since this was last asked."""
        if self._producer is not None:
            self._producer.poll(0)
        with self._lock:
            lost, self._lost = self._lost, None
            return lost

    def close(self) -> None:
        """Let the client go, and what it has not delivered, which is lost."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            # What was purged is reported by this; there is nothing left to wait for.
            producer.flush(PURGE_S)

    def _delivered(self, error: Any, message: Any) -> None:
        """Called for what was not delivered only (`delivery.report.only.error`)."""
        if error is None:
            return
        at_ms = message.timestamp()[1]
        with self._lock:
            old = self._lost or Lost(0, at_ms, at_ms, "")
            self._lost = Lost(
                old.rows + 1, min(old.from_ms, at_ms), max(old.to_ms, at_ms), error.str()
            )

    def _connected(self) -> Producer:
        if self._producer is None:
            settings = {
                "acks": "all",
                "enable.idempotence": True,
                "compression.type": "zstd",
                "linger.ms": 100,
                "batch.size": 1_000_000,
                "queue.buffering.max.messages": QUEUE_ROWS,
                "message.timeout.ms": round(self._delivery_s * 1000),
                "delivery.report.only.error": True,
            }
            self._producer = self._made(Producer, settings)
        return self._producer

    def _made(self, client: Callable[..., Any], settings: Mapping[str, Any]) -> Any:
        return made(client, {**self._settings, **settings}, "No samples were written.")


def _create(admin: Any, wanted: Sequence[Any], call_s: float) -> None:
    with _meant("Creating the topics of the samples"):
        for future in admin.create_topics(list(wanted), request_timeout=call_s).values():
            # A client with OAUTHBEARER is given its token while it is polled.
            until = time.monotonic() + call_s
            while not future.done() and time.monotonic() < until:
                admin.poll(POLL_S)
            try:
                future.result(timeout=POLL_S)
            except TimeoutError:
                raise ClusterUnreachable(
                    "Creating the topics of the samples: the cluster has not answered in time.",
                    advice="kshunt tries again.",
                ) from None
            except KafkaException as refused:
                if refused.args[0].code() != TOPIC_ALREADY_EXISTS:
                    raise


@contextmanager
def _meant(what: str) -> Iterator[None]:
    """A block whose errors of librdkafka become ours."""
    try:
        yield
    except KafkaException as failed:
        raise _meaning(failed.args[0], what) from None


def _meaning(error: Any, what: str) -> KshuntError:
    words = f"{what}: {error.str().rstrip('.')}."
    if error.code() in ACCESS_DENIED:
        return NotAuthorized(
            words, advice="The topics of the samples need the ACLs Create, Describe and Write."
        )
    return ClusterUnreachable(words, advice="kshunt tries again.")
