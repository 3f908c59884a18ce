"""What a Kafka client's errors mean: one item's `ItemResult`, or an error of our tree.

Every class of `kafka.errors` has its place here; a test walks them all.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Sequence
from typing import Any, ClassVar, Final, TypeAlias

import kafka.errors as kafka_errors

from kshunt.backend.admin.port.item_result import OK, ItemResult
from kshunt.backend.error_codes import (
    AUTHORIZATION_FAILED,
    BROKER_NOT_AVAILABLE,
    CORRUPT_MESSAGE,
    ILLEGAL_SASL_STATE,
    INVALID_CONFIG,
    INVALID_REQUEST,
    NETWORK_EXCEPTION,
    REQUEST_TIMED_OUT,
    RETRIABLE,
    THROTTLING_QUOTA_EXCEEDED,
    UNKNOWN_SERVER_ERROR,
    UNSUPPORTED_SASL_MECHANISM,
    UNSUPPORTED_VERSION,
    error_name,
)
from kshunt.backend.errors import (
    BrokerUnreachable,
    ClusterError,
    ClusterUnreachable,
    ConfigError,
    KshuntError,
    NotAuthorized,
    NotSupported,
)
from kshunt.backend.wire.raw_request import RawAnswer
from kshunt.backend.wire.reader import WireError

BrokerName: TypeAlias = int | tuple[str, int]
"""A broker's id, or the host and port of a bootstrap server."""


class ConnectionRefused(kafka_errors.KafkaConnectionError):  # type: ignore[misc]
    """Nothing listens at a broker's address; what was to be sent was not."""


class TlsListener(kafka_errors.KafkaConnectionError):  # type: ignore[misc]
    """A listener answered plain text with a TLS alert."""


class BrokerDown(BrokerUnreachable):
    """A broker does not run; nothing was sent to it."""

    kafka_code: ClassVar[int] = BROKER_NOT_AVAILABLE


CODE_OF_CLIENT_ERROR: Final[Sequence[tuple[type[Exception], int]]] = (
    # The first class that fits counts.
    (ConnectionRefused, BROKER_NOT_AVAILABLE),
    (kafka_errors.KafkaTimeoutError, REQUEST_TIMED_OUT),
    (kafka_errors.InvalidMetadataError, NETWORK_EXCEPTION),
    (kafka_errors.NodeNotReadyError, NETWORK_EXCEPTION),
    (kafka_errors.TooManyInFlightRequests, NETWORK_EXCEPTION),
    (kafka_errors.Cancelled, NETWORK_EXCEPTION),
    (kafka_errors.MetadataEmptyBrokerList, BROKER_NOT_AVAILABLE),
    (kafka_errors.UnknownBrokerIdError, BROKER_NOT_AVAILABLE),
    (kafka_errors.KafkaProtocolError, CORRUPT_MESSAGE),
    (kafka_errors.UnrecognizedBrokerVersion, UNSUPPORTED_VERSION),
    (kafka_errors.UnsupportedCodecError, UNSUPPORTED_VERSION),
    (kafka_errors.KafkaConfigurationError, INVALID_CONFIG),
    (kafka_errors.IllegalArgumentError, INVALID_REQUEST),
    (kafka_errors.QuotaViolationError, THROTTLING_QUOTA_EXCEEDED),
    # Of consumers and producers, which are not used here.
    (kafka_errors.IllegalStateError, UNKNOWN_SERVER_ERROR),
    (kafka_errors.CommitFailedError, UNKNOWN_SERVER_ERROR),
    (kafka_errors.NoOffsetForPartitionError, UNKNOWN_SERVER_ERROR),
    (kafka_errors.LogTruncationError, UNKNOWN_SERVER_ERROR),
    (kafka_errors.TransactionAbortedError, UNKNOWN_SERVER_ERROR),
    (OSError, NETWORK_EXCEPTION),
)
"""What kafka-python raises by itself, without a code of Kafka's."""


def kafka_code(error: BaseException) -> int:
    """The protocol's code that says what a client's error says."""
    if isinstance(error, KshuntError):
        return error.kafka_code
    code = getattr(error, "errno", None)
    if isinstance(error, kafka_errors.KafkaError) and isinstance(code, int):
        return code
    for kind, kind_code in CODE_OF_CLIENT_ERROR:
        if isinstance(error, kind):
            return kind_code
    return UNKNOWN_SERVER_ERROR


def item_result(code: int, message: str | None = "") -> ItemResult:
    """The result of one item, from the code and the words that the broker sent."""
    if code == 0 and not message:
        return OK
    return ItemResult(code, error_name(code), message or "", code in RETRIABLE)


def item_error(error: BaseException) -> ItemResult:
    """The result of one item whose own call failed."""
    if isinstance(error, KshuntError):
        return item_result(error.kafka_code, str(error))
    return item_result(kafka_code(error), _words(error))


def decode_message(response_class: Any, answer: RawAnswer) -> Any:
    """An answer as one of kafka-python's message objects.

    Raises:
        WireError: the bytes are malformed.
    """
    try:
        return response_class.decode(answer.body, version=answer.version)
    except (ValueError, IndexError, KeyError, TypeError, struct.error) as malformed:
        raise WireError(
            f"A broker sent an unreadable {response_class.__name__}: {malformed}."
        ) from None


def raise_for_code(code: int, message: str | None, what: str) -> None:
    """Raise what a whole answer's error code means; 0 means nothing.

    Raises:
        NotAuthorized: the cluster refuses this principal.
        NotSupported: the cluster does not have the call.
        ClusterError: it refuses for another reason.
    """
    if code == 0:
        return
    text = f"{what}: {error_name(code)}" + (f": {message}" if message else ".")
    error: KshuntError = ClusterError(text)
    if code in AUTHORIZATION_FAILED:
        error = NotAuthorized(text)
    elif code == UNSUPPORTED_VERSION:
        error = NotSupported(text)
    error.answered_code = code
    raise error


def _words(error: BaseException) -> str:
    """An error's own words, without class names and numbers around them."""
    if isinstance(error, ssl.SSLError) and error.reason:
        return f"TLS: {error.reason.lower().replace('_', ' ')}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    words = "; ".join(str(arg) for arg in error.args if arg) or type(error).__name__
    return words.removeprefix("SaslAuthenticationFailedError: ").rstrip(".")


def whole_call_error(
    error: BaseException, broker: BrokerName, address: tuple[str, int], protocol: str
) -> KshuntError:
    """What a failed call to one broker is in our tree.

    Args:
        error: What the client raised.
        broker: Whom the call was for.
        address: Where it was sent.
        protocol: Our security.protocol, to say what else the listener may expect.
    """
    host, port = address
    name = f"{host}:{port}" if isinstance(broker, tuple) else f"Broker {broker} ({host}:{port})"
    if isinstance(error, KshuntError):
        return error
    if isinstance(error, ssl.SSLCertVerificationError):
        return ConfigError(
            f"{name} presents a certificate that is not trusted: {error.verify_message}.",
            advice="See ssl.truststore.location and ssl.endpoint.identification.algorithm.",
        )
    if isinstance(error, TlsListener):
        return ConfigError(
            f"The listener at {host}:{port} expects TLS, but security.protocol is {protocol}.",
            advice="See --command-config.",
        )
    if isinstance(error, ConnectionRefused):
        return BrokerDown(f"{name} is down: {_words(error)}.")
    if isinstance(error, socket.gaierror):
        return BrokerDown(f"{name} cannot be found: {_words(error)}.")
    code = kafka_code(error)
    if isinstance(error, kafka_errors.SaslAuthenticationFailedError | NotAuthorized):
        return NotAuthorized(f"{name} rejects our credentials: {_words(error)}.")
    if isinstance(error, kafka_errors.AuthorizationError):
        return NotAuthorized(f"{name} rejects us: {error_name(code)}.")
    if code == UNSUPPORTED_SASL_MECHANISM:
        return ConfigError(
            f"{name} does not support the configured sasl.mechanism.", advice=_words(error)
        )
    if code == ILLEGAL_SASL_STATE:
        return ConfigError(
            f"The listener at {host}:{port} does not use SASL.",
            advice=f"security.protocol is {protocol}; see --command-config.",
        )
    if code == UNSUPPORTED_VERSION:
        return NotSupported(f"{name}: {_words(error)}")
    if code == CORRUPT_MESSAGE:
        return WireError(f"{name} sent a response that cannot be read: {_words(error)}.")
    if getattr(error, "retriable", True):
        return BrokerUnreachable(f"{name} cannot be reached: {_words(error)}.")
    return ClusterError(f"{name} rejected the call: {error_name(code)}: {_words(error)}.")


def whole_cluster_error(failures: Sequence[BaseException], asked: str) -> KshuntError:
    """One error for a call that every broker failed: the most telling one of theirs.

    The cause of a ClusterUnreachable is a `BrokerDown` only if nothing runs at any address.
    """
    for kind in (NotAuthorized, ConfigError, NotSupported, WireError):
        for error in failures:
            if isinstance(error, kind):
                return error
    reasons = " ".join(dict.fromkeys(str(error) for error in failures))
    unreachable = ClusterUnreachable(f"No broker answered ({asked}). {reasons}".rstrip())
    unreachable.__cause__ = min(failures, key=lambda error: isinstance(error, BrokerDown))
    return unreachable
