"""A producer for records whose timestamp is 0, which librdkafka cannot send: it takes 0 for now.

It has the calls of `confluent_kafka.Producer` that a copy uses, and their errors. It uses
kafka-python, which is slower. So a copy begins with librdkafka, and changes to this where it meets
such a record. Both have the same transactional id: the first call of the one fences the other.
"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from kafka import KafkaProducer
from kafka import errors as kafka_errors
from kafka.structs import OffsetAndMetadata, TopicPartition

_LARGEST_BYTES: Final = 1_000_000_000
_BLOCK_MS: Final = 60_000

OnDelivery = Callable[[KafkaError, Any], None]
"""Called with an error, and with what tells the partition."""


@dataclass(frozen=True, slots=True)
class _Place:
    """What is asked of a message that was refused."""

    number: int

    def partition(self) -> int:
        """Of the target."""
        return self.number


@dataclass(slots=True)
class ExactProducer:
    """See the module's text."""

    clients: Mapping[str, Any]
    """librdkafka's settings, with `bootstrap.servers`."""
    transactional_id: str
    group: str
    timeout_ms: int
    """Of a transaction."""
    batch_bytes: int
    compression: str
    _producer: Any = field(init=False)

    def __post_init__(self) -> None:
        with _told():
            self._producer = KafkaProducer(
                **settings_of(self.clients),
                transactional_id=self.transactional_id,
                transaction_timeout_ms=self.timeout_ms,
                allow_auto_create_topics=False,
                batch_size=self.batch_bytes,
                compression_type=None if self.compression == "none" else self.compression,
                # Whether a record is too large is for the target to say.
                max_request_size=_LARGEST_BYTES,
                max_block_ms=_BLOCK_MS,
                linger_ms=100,
            )

    def list_topics(self, topic: str, timeout_s: float) -> None:
        """Learn where a topic's partitions are."""
        with _told():
            self._producer.partitions_for(topic)

    def init_transactions(self, timeout_s: float) -> None:
        """Fence other producers that have the same transactional id."""
        with _told():
            self._producer.init_transactions()

    def begin_transaction(self) -> None:
        """Begin one."""
        with _told():
            self._producer.begin_transaction()

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        callback: OnDelivery,
        on_delivery: OnDelivery,
        at_ms: int,
        headers: Sequence[tuple[str, bytes | None]],
    ) -> None:
        """Send a record with this very timestamp."""
        place, producer = TopicPartition(topic, partition), self._producer
        with _told():
            # What its own `send` does; that one refuses headers without a value, which Kafka has.
            # `tests/contract/test_repartition_copying.py` would see it change.
            producer._transaction_manager.maybe_add_partition_to_transaction(place)
            future, full, began, _ = producer._accumulator.append(
                place, at_ms, key, value, _Headers(headers), abort_on_new_batch=False
            )
        future.add_errback(lambda error: on_delivery(error_of(error), _Place(partition)))
        if full or began:
            producer._sender.wakeup()

    def poll(self, timeout_s: float) -> int:
        """Errors are told by another thread."""
        return 0

    def flush(self, timeout_s: float) -> int:
        """Send everything; 0 once nothing waits."""
        try:
            self._producer.flush(timeout_s)
        except kafka_errors.KafkaTimeoutError:
            return 1
        return 0

    def send_offsets_to_transaction(
        self, positions: Sequence[Any], group: object, timeout_s: float
    ) -> None:
        """Commit positions with the transaction."""
        offsets = {
            TopicPartition(one.topic, one.partition): OffsetAndMetadata(one.offset, "", -1)
            for one in positions
        }
        with _told():
            self._producer.send_offsets_to_transaction(offsets, self.group)

    def commit_transaction(self, timeout_s: float) -> None:
        """End it; readers see its records."""
        with _told():
            self._producer.commit_transaction()

    def abort_transaction(self, timeout_s: float) -> None:
        """End it; nobody sees its records."""
        with _told():
            self._producer.abort_transaction()

    def close(self) -> None:
        """End its threads."""
        self._producer.close(timeout=0)


def error_of(error: BaseException) -> KafkaError:
    """An error of kafka-python's as librdkafka's; one of the client itself as a time-out."""
    code = int(getattr(error, "errno", -1))
    retriable = bool(getattr(error, "retriable", False))
    code = code if code > 0 else KafkaError._TIMED_OUT
    return KafkaError(code, str(error), False, retriable)


@contextmanager
def _told() -> Iterator[None]:
    """Errors as librdkafka raises them."""
    try:
        yield
    except kafka_errors.KafkaError as error:
        raise KafkaException(error_of(error)) from error


class _Headers(list[tuple[str, bytes | None]]):
    """Headers of a record. As none, kafka-python does not add up the lengths of their values for
    its metrics, which it cannot for one that is null; it writes them all the same."""

    def __bool__(self) -> bool:
        """Never."""
        return False


@dataclass(frozen=True, slots=True)
class _Tokens:
    """Tokens for kafka-python, by the function that librdkafka calls."""

    of: Callable[[str], tuple[str, float]]

    def token(self) -> str:
        """One that is valid now."""
        return self.of("")[0]

    def extensions(self) -> Mapping[str, str]:
        """None."""
        return {}


def settings_of(clients: Mapping[str, Any]) -> dict[str, Any]:
    """librdkafka's settings of a connection as kafka-python's."""
    protocol = str(clients.get("security.protocol", "PLAINTEXT")).upper()
    found: dict[str, Any] = {
        "bootstrap_servers": str(clients["bootstrap.servers"]).split(","),
        "client_id": clients.get("client.id", "kshunt"),
        "security_protocol": protocol,
    }
    if protocol.endswith("SSL"):
        found["ssl_context"] = _context(clients)
    if protocol.startswith("SASL"):
        found["sasl_mechanism"] = clients["sasl.mechanism"]
        if "oauth_cb" in clients:
            found["sasl_oauth_token_provider"] = _Tokens(clients["oauth_cb"])
        else:
            found["sasl_plain_username"] = clients["sasl.username"]
            found["sasl_plain_password"] = clients["sasl.password"]
    return found


def _context(clients: Mapping[str, Any]) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=clients.get("ssl.ca.pem"))
    context.check_hostname = clients.get("ssl.endpoint.identification.algorithm") != "none"
    password = clients.get("ssl.key.password")
    if "ssl.certificate.location" in clients:
        key = clients["ssl.key.location"]
        context.load_cert_chain(clients["ssl.certificate.location"], key, password)
    elif "ssl.certificate.pem" in clients:
        # Python takes a chain from a file only; nobody else can read this one, and it goes again.
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(f"{clients['ssl.key.pem']}\n{clients['ssl.certificate.pem']}")
            file.flush()
            context.load_cert_chain(file.name, password=password)
    return context
