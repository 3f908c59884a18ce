"""librdkafka's clients for the journal, its topic, and what their errors mean.

Importing this module loads librdkafka.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from confluent_kafka.cimpl import NewTopic

from kshunt.backend.admin.rpc.librdkafka import ACCESS_DENIED, made
from kshunt.backend.admin.security.client_properties import ClientConfig
from kshunt.backend.domain.backend.journal import JOURNAL_TOPIC
from kshunt.backend.domain.cluster.config_names import CLEANUP_POLICY, MIN_ISR, UNCLEAN_ELECTION
from kshunt.backend.error_codes import TOPIC_ALREADY_EXISTS
from kshunt.backend.errors import (
    JournalFenced,
    JournalUnavailable,
    JournalUnusable,
    KshuntError,
    NotAuthorized,
    WrongCluster,
)

REPLICATION_FACTOR_MAX: Final = 3
TOPIC_CONFIG: Final[Mapping[str, str]] = {
    CLEANUP_POLICY: "compact",
    # Heartbeats are most of it: without an early roll a week of them would have to be read.
    "segment.bytes": str(16 * 1024 * 1024),
    "segment.ms": str(60 * 60 * 1000),
    "min.cleanable.dirty.ratio": "0.1",
    UNCLEAN_ELECTION: "false",
}
"""Settings of a topic that this creates, in addition to `min.insync.replicas`."""
TRANSACTION_TIMEOUT_S: Final = 10.0
"""A transaction that a writer left open ends after this, even if no other writer takes over."""
READ_TIMEOUT_S: Final = 2.0
POLL_S: Final = 0.05

_ACLS: Final = (
    "The active backend needs the ACLs Describe and Write on its transactional id "
    "(kshunt-journal-<cluster id>), and Create, Describe, DescribeConfigs, Read and Write on "
    f"topic {JOURNAL_TOPIC}. A standby needs Describe and Read on the topic."
)

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """What the cluster says of the journal's topic."""

    partitions: int
    replication_factor: int
    config: Mapping[str, str]


def topic_faults(facts: TopicFacts) -> tuple[str, ...]:
    """Why a topic would lose entries, or mix them up; empty where it can be used."""
    policy = _policy(facts)
    found = []
    if policy != {"compact"}:
        found.append(f"cleanup.policy is {','.join(sorted(policy))}, but must be compact")
    if facts.partitions != 1:
        found.append(f"it has {facts.partitions} partitions, but must have one")
    return tuple(found)


def _advice(topic: str, facts: TopicFacts) -> str:
    """What to do about a topic with faults; nothing that would lose an entry."""
    found = []
    if _policy(facts) != {"compact"}:
        found.append(
            "Set it back immediately, before old entries are deleted: kafka-configs "
            f"--bootstrap-server ... --alter --entity-type topics --entity-name {topic} "
            "--add-config cleanup.policy=compact. Keep the topic: it holds the prior value of "
            "every throttle."
        )
    if facts.partitions != 1:
        found.append(
            "Kafka cannot remove partitions. The entries are in partition 0: save them "
            f"(kafka-console-consumer --topic {topic} --partition 0 --from-beginning --property "
            "print.key=true). If no operation runs and kshunt owns no throttle, delete the "
            "topic, and kshunt creates it again."
        )
    return " ".join(found)


def _policy(facts: TopicFacts) -> set[str]:
    return {one.strip() for one in facts.config.get(CLEANUP_POLICY, "").split(",")}


def remarks_of(facts: TopicFacts, brokers: int) -> tuple[str, ...]:
    """What makes a usable topic less safe than it could be."""
    wanted = min(REPLICATION_FACTOR_MAX, brokers)
    found = []
    if facts.replication_factor < wanted:
        found.append(f"replication factor {facts.replication_factor}; {wanted} would be possible")
    if facts.config.get(UNCLEAN_ELECTION) == "true":
        found.append("unclean.leader.election.enable is true: entries may be lost with a broker")
    needed = int(facts.config.get(MIN_ISR, "1"))
    if needed > facts.replication_factor:
        found.append(f"min.insync.replicas is {needed}, more than it has replicas")
    elif needed < min_insync_replicas(facts.replication_factor):
        found.append(f"min.insync.replicas is {needed}: one broker may hold the only copy")
    return tuple(found)


def min_insync_replicas(replication_factor: int) -> int:
    """All replicas but one, and at least 1: 2 of 3, 1 of 2, 1 of 1.

    So one broker can be away where there are two replicas or more.
    """
    return max(1, replication_factor - 1)


class Clients:
    """Makes librdkafka's clients, all with the settings of one cluster."""

    def __init__(self, bootstrap_servers: str, config: ClientConfig, topic: str) -> None:
        self.topic = topic
        self.need_tokens = config.tokens is not None
        self._settings: dict[str, Any] = {
            **config.librdkafka,
            "bootstrap.servers": bootstrap_servers,
            # A client's curiosity must not create the topic with the cluster's defaults.
            "allow.auto.create.topics": False,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }
        self._admin: AdminClient | None = None
        self._polled: tuple[Producer | AdminClient, ...] = ()

    def admin(self) -> AdminClient:
        """One for all questions about the topic."""
        if self._admin is None:
            self._admin = self._made(AdminClient, {})
            self._polled += (self._admin,)
        return self._admin

    def producer(self, identity: str) -> Producer:
        """A producer of transactions."""
        producer = self._made(
            Producer,
            {
                "transactional.id": identity,
                "transaction.timeout.ms": round(TRANSACTION_TIMEOUT_S * 1000),
                "message.timeout.ms": round(TRANSACTION_TIMEOUT_S * 1000 / 2),
                "acks": "all",
                "linger.ms": 0,
            },
        )
        self._polled = (*self._polled[:1], producer)
        return producer

    def consumer(self) -> Consumer:
        """A consumer of what was committed; it belongs to no group."""
        return self._made(
            Consumer,
            {
                "group.id": "kshunt-journal",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 100,
            },
        )

    def _made(self, client: Callable[..., Value], settings: Mapping[str, Any]) -> Value:
        return made(client, {**self._settings, **settings}, "The journal was not changed.")

    def poll(self) -> None:
        """Let clients ask for tokens; any thread may."""
        for client in self._polled:
            client.poll(POLL_S)

    def forget(self) -> None:
        """Let the clients go; librdkafka ends them when nobody holds them."""
        self._admin = None
        self._polled = ()


class JournalTopic:
    """The journal's topic: whether it is there, and whether it will do."""

    def __init__(self, clients: Clients, cluster_id: str) -> None:
        self._clients = clients
        self._cluster_id = cluster_id
        self.remarks: tuple[str, ...] = ()

    def identity(self) -> str | None:
        """The id that the cluster gave to the topic (before Kafka 2.8 all have one and the same),
        or None where there is no such topic.

        Raises:
            JournalUnavailable, NotAuthorized, WrongCluster.
        """
        if not self._described()[0]:
            return None
        wanted = TopicCollection([self._clients.topic])
        with translated_errors("Looking for the topic of the journal"):
            try:
                asked = self._clients.admin().describe_topics(
                    wanted, request_timeout=READ_TIMEOUT_S
                )
                return str(asked[self._clients.topic].result().topic_id)
            except KafkaException as refused:
                if refused.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise
                return None

    def ensure(self, until: float) -> None:
        """Create the topic, or see that it will do.

        Raises:
            JournalUnusable, JournalUnavailable, NotAuthorized, WrongCluster.
        """
        partitions, replicas, brokers = retrying(until, self._described)
        if not partitions:
            self._create(min(REPLICATION_FACTOR_MAX, brokers))
            partitions, replicas, brokers = retrying(until, self._created)
        facts = TopicFacts(partitions, replicas, retrying(until, self._config))
        faults = topic_faults(facts)
        if faults:
            topic = self._clients.topic
            raise JournalUnusable(
                f"Topic {topic} cannot keep the journal: {'; '.join(faults)}. Nothing was written.",
                advice=_advice(topic, facts),
            )
        self.remarks = remarks_of(facts, brokers)

    def look(self) -> None:
        """See whether somebody has changed the topic while it is in use.

        Raises:
            JournalUnavailable, NotAuthorized, WrongCluster: it is not known.
        """
        partitions, replicas, brokers = self._described()
        if partitions:
            facts = TopicFacts(partitions, replicas, self._config())
            advice = _advice(self._clients.topic, facts)
            faults = (f"{'; '.join(topic_faults(facts))}. {advice}",) if advice else ()
            self.remarks = (*faults, *remarks_of(facts, brokers))

    def _described(self) -> tuple[int, int, int]:
        """Partitions (0 without the topic), replication factor, and the cluster's live brokers."""
        topic = self._clients.topic
        found: Any  # its stub has no cluster id
        with translated_errors("Looking for the topic of the journal"):
            found = self._clients.admin().list_topics(topic, timeout=READ_TIMEOUT_S)
        if found.cluster_id != self._cluster_id:
            raise WrongCluster(
                f"The brokers belong to cluster {found.cluster_id}, not to {self._cluster_id}.",
                advice="Nothing was written. Check --bootstrap-server.",
            )
        about = found.topics[topic]
        if about.error is not None and about.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return 0, 0, len(found.brokers)
        if not about.partitions:
            raise meaning(about.error, "Looking for the topic of the journal")
        replicas = min(len(one.replicas) for one in about.partitions.values())
        return len(about.partitions), replicas, len(found.brokers)

    def _created(self) -> tuple[int, int, int]:
        described = self._described()
        if not described[0]:
            raise JournalUnavailable(
                f"Topic {self._clients.topic} was created, but no broker knows it yet."
            )
        return described

    def _create(self, replication_factor: int) -> None:
        """Create the topic, unless another backend was first."""
        topic = self._clients.topic
        needed = str(min_insync_replicas(replication_factor))
        # No placer is asked: without a journal nothing could be cleaned up, whatever one does.
        wanted = NewTopic(
            topic,
            num_partitions=1,
            replication_factor=replication_factor,
            config={**TOPIC_CONFIG, MIN_ISR: needed},
        )
        with translated_errors("Creating the topic of the journal"):
            asked = self._clients.admin().create_topics([wanted], request_timeout=READ_TIMEOUT_S)
            try:
                asked[topic].result()
            except KafkaException as refused:
                if refused.args[0].code() != TOPIC_ALREADY_EXISTS:
                    raise

    def _config(self) -> Mapping[str, str]:
        wanted = ConfigResource(ResourceType.TOPIC, self._clients.topic)
        with translated_errors("Reading the settings of the journal's topic"):
            asked = self._clients.admin().describe_configs([wanted], request_timeout=READ_TIMEOUT_S)
            found = asked[wanted].result()
        return {name: entry.value for name, entry in found.items()}


@contextmanager
def translated_errors(what: str) -> Iterator[None]:
    """A block whose errors of librdkafka become ours; nothing of it is in doubt."""
    try:
        yield
    except KafkaException as failed:
        raise meaning(failed.args[0], what) from None
    except BufferError:
        raise JournalUnavailable(f"{what}: the producer's queue is full.") from None


def retrying(until: float, action: Callable[[], Value]) -> Value:
    """Try again while the cluster does not answer, or does not know of its own topic yet.

    Args:
        until: By `time.monotonic`; the last failure after that is raised.
        action: To be repeated without harm.
    """
    while True:
        try:
            return action()
        except JournalUnavailable:
            if time.monotonic() > until:
                raise
        threading.Event().wait(POLL_S)


def meaning(error: Any, what: str, *, doubt: bool = False) -> KshuntError:
    """What librdkafka's error is in our tree; `doubt`: whether something may be written."""
    words = f"{what}: {error.str().rstrip('.')}."
    if error.code() in ACCESS_DENIED:
        return NotAuthorized(words, advice=_ACLS)
    if error.fatal() or error.code() == KafkaError._FENCED:
        return JournalFenced(
            f"{words} Another backend has taken over the journal, or this one was silent for too "
            "long.",
            advice="This backend changes nothing any more, and is now a standby.",
        )
    return JournalUnavailable(
        f"{words} {'Whether it was written is unknown' if doubt else 'Nothing was written'}.",
        advice="kshunt tries again.",
        written=None if doubt else False,
    )
