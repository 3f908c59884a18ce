"""What a copy has to know of its topics and of its group, asked by librdkafka."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType

from kshunt.backend.domain.cluster.config_names import MAX_MESSAGE_BYTES
from kshunt.backend.pipeline.kernels.copy_errors import (
    CopyFailed,
    TopicGone,
    TransactionOpen,
    kind_of,
)
from kshunt.backend.pipeline.kernels.copying import quiet

Positions = Mapping[int, int]
"""An offset of each partition."""
STABLE_S: Final = 75.0
"""A transaction of somebody who was killed ends before."""
KNOWN_S: Final = 10.0
"""Brokers that do not know a new topic yet are asked again for this time."""
_ANSWER_S: Final = 30.0
_PAUSE_S: Final = 0.1
_SPEC: Final[Any] = OffsetSpec
"""Its methods have no types."""


class TopicQuestions:
    """Questions to a cluster; each raises what is in
    `kshunt.backend.pipeline.kernels.copy_errors`."""

    def __init__(self, clients: Mapping[str, Any], *, known_s: float = KNOWN_S) -> None:
        """Ask as librdkafka's settings say; brokers know a topic within `known_s`."""
        self._clients = dict(clients)
        self._known_s = known_s
        settings: dict[str, Any] = {**clients, "logger": quiet()}
        self._admin = AdminClient(settings)

    def partitions(self, topic: str) -> int:
        """How many a topic has."""

        def asked() -> Any:
            wanted = TopicCollection([topic])
            answers = self._admin.describe_topics(wanted, request_timeout=_ANSWER_S)
            return answers[topic].result()

        return len(self._known(topic, asked).partitions)

    def limit_bytes(self, topic: str) -> int:
        """Largest batch of records that it takes."""
        resource = ConfigResource(ResourceType.TOPIC, topic)

        def asked() -> Any:
            answers = self._admin.describe_configs([resource], request_timeout=_ANSWER_S)
            return answers[resource].result()

        return int(self._known(topic, asked)[MAX_MESSAGE_BYTES].value)

    def starts(self, topic: str) -> dict[int, int]:
        """The first offset that is kept, of each partition."""
        return self._listed(topic, _SPEC.earliest())

    def ends(self, topic: str) -> dict[int, int]:
        """Up to where records can be read, of each partition: open transactions end it."""
        return self._listed(topic, _SPEC.latest())

    def stable_ends(self, topic: str) -> dict[int, int]:
        """The ends, once no transaction is open: one that has ended may still be being marked.

        Raises:
            TransactionOpen: one stays open.
        """
        give_up_s = time.monotonic() + STABLE_S
        pause = threading.Event()
        while True:
            ends = self.ends(topic)
            logs = self._listed(topic, _SPEC.latest(), IsolationLevel.READ_UNCOMMITTED)
            behind = [p for p, end in ends.items() if end < logs[p]]
            if not behind:
                return ends
            if time.monotonic() > give_up_s:
                raise TransactionOpen(topic, behind[0], ends[behind[0]])
            pause.wait(_PAUSE_S)

    def _listed(
        self,
        topic: str,
        spec: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> dict[int, int]:
        asked = {TopicPartition(topic, p): spec for p in range(self.partitions(topic))}
        answers: dict[TopicPartition, Future[Any]] = self._admin.list_offsets(
            asked,
            isolation_level=isolation,
            request_timeout=_ANSWER_S,
        )
        return {at.partition: _asked(topic, a.result).offset for at, a in answers.items()}

    def committed(
        self, group: str, topic: str, partitions: int, *, stable: bool = False
    ) -> dict[int, int]:
        """The positions of a group, where it has some.

        Those of a transaction that has not ended are waited for if they are to be settled.
        """
        asked = [TopicPartition(topic, p) for p in range(partitions)]
        consumer = self._consumer(group, "read_committed" if stable else "read_uncommitted")
        try:
            found = self._known(topic, lambda: consumer.committed(asked, timeout=_ANSWER_S))
        finally:
            consumer.close()
        for at in found:
            if at.error is not None:
                raise kind_of(at.error.code())(topic, at.partition, 0, at.error.str())
        return {at.partition: at.offset for at in found if at.offset >= 0}

    def commit(self, group: str, topic: str, positions: Positions) -> None:
        """Give a group without members these positions."""
        wanted = [TopicPartition(topic, p, offset) for p, offset in positions.items()]
        consumer = self._consumer(group)
        try:
            self._known(topic, lambda: consumer.commit(offsets=wanted, asynchronous=False))
        finally:
            consumer.close()

    def _consumer(self, group: str, isolation: str = "read_uncommitted") -> Consumer:
        return Consumer(
            {
                **self._clients,
                "logger": quiet(),
                "group.id": group,
                "enable.auto.commit": False,
                "isolation.level": isolation,
            }
        )

    def _known(self, topic: str, call: Callable[[], Any]) -> Any:
        """An answer where the topic, or Kafka's own for groups, may just have been created.

        Not all brokers know it for a moment, or what their part in it is.

        Raises:
            CopyFailed: the cluster did not answer in time, or refused.
        """
        give_up_s = time.monotonic() + self._known_s
        pause = threading.Event()
        while True:
            try:
                return _asked(topic, call)
            except CopyFailed as failure:
                passing = failure.retriable or isinstance(failure, TopicGone)
                if not passing or time.monotonic() > give_up_s:
                    raise
            pause.wait(_PAUSE_S)


def _asked(topic: str, call: Callable[[], Any]) -> Any:
    """An answer of the cluster's.

    Raises:
        CopyFailed: there is none, or it refuses.
    """
    try:
        return call()
    except KafkaException as refused:
        error = refused.args[0]
        kind: type[CopyFailed] = kind_of(error.code())
        raise kind(topic, 0, 0, error.str()) from None
