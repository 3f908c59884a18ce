"""Requests that go over kafka-python's connections but are encoded and decoded here.

A `KafkaConnection` asks little of a request: its API key and the versions it may have, its bytes,
and, for the answer, a class with `parse_header` and `decode`. `RawRequest` gives it that, and
hands the answer back undecoded, so that authentication, framing, matching of answers and
timeouts stay kafka-python's while nothing is decoded on its I/O thread.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from kafka.errors import KafkaProtocolError

from kshunt.backend.wire.reader import Reader, WireError

_REQUEST_HEADER: Final = struct.Struct(">hhi")
_THROTTLE_TIME: Final = struct.Struct(">i")


class _ReadBuffer(Protocol):
    def read(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """A broker's answer, without its header."""

    version: int
    """The version that the request was sent in."""
    body: bytes
    throttles: bool = True
    """False for the few answers that do not begin with a throttle time."""

    @property
    def throttle_time_ms(self) -> int:
        """How long the broker wants to be left alone (KIP-219). kafka-python obeys it."""
        if not self.throttles or len(self.body) < _THROTTLE_TIME.size:
            return 0
        throttle_ms: int = _THROTTLE_TIME.unpack_from(self.body)[0]
        return max(throttle_ms, 0)

    def __str__(self) -> str:
        return f"{len(self.body)} bytes, v{self.version}"


@dataclass(frozen=True, slots=True)
class _AnswerHeader:
    correlation_id: int


class _AnswerClass:
    """What kafka-python takes for the class of the answer to one request."""

    def __init__(self, name: str, version: int, *, flexible: bool, throttles: bool) -> None:
        self._name = name
        self._version = version
        self._flexible = flexible
        self._throttles = throttles
        self._body = b""

    def parse_header(self, buffer: _ReadBuffer) -> _AnswerHeader:
        """Response header 0, or 1 in a flexible version (KIP-482).

        Raises:
            KafkaProtocolError: the header is malformed; kafka-python then closes the connection.
        """
        reader = Reader(buffer.read(), flexible=self._flexible, what=f"{self._name} answer")
        try:
            header = _AnswerHeader(reader.int32())
            reader.tags()
        except WireError as malformed:
            raise KafkaProtocolError(malformed.message) from None
        self._body = reader.data[reader.at :]
        return header

    def decode(self, _buffer: _ReadBuffer) -> RawAnswer:
        """The answer's bytes as they are."""
        return RawAnswer(self._version, self._body, self._throttles)


@dataclass(frozen=True, slots=True)
class _RequestHeader:
    """What kafka-python keeps of a request until its answer comes."""

    correlation_id: int
    client_id: str
    api_key: int
    api_version: int
    answer: _AnswerClass

    def get_response_class(self) -> _AnswerClass:
        """The name is kafka-python's."""
        return self.answer


class RawRequest:
    """A request with a body of our own making."""

    # The names and the attributes in capitals are those that kafka-python looks for.

    def __init__(
        self,
        name: str,
        api_key: int,
        versions: tuple[int, int],
        flexible_from: int,
        body: Callable[[int], bytes],
        *,
        throttles: bool = True,
    ) -> None:
        self.name = name
        self.API_KEY = api_key
        self.API_VERSION: int | None = None
        """Chosen by kafka-python from the broker's ApiVersions when the request is sent."""
        self.min_version, self.max_version = versions
        self._min_version: int | None = None
        self._max_version: int | None = None
        self.header: _RequestHeader | None = None
        self._flexible_from = flexible_from
        self._throttles = throttles
        self._body = body
        """The body's bytes in a version."""

    @classmethod
    def of(
        cls,
        message: Any,
        *,
        min_version: int = 0,
        max_version: int | None = None,
        throttles: bool = True,
    ) -> RawRequest:
        """A request of one of kafka-python's own message objects.

        `throttles` is False where the answer does not begin with a throttle time.
        """
        never = message.max_version + 1
        flexible_from = next(filter(message.flexible_version_q, range(never)), never)

        def body(version: int) -> bytes:
            encoded: bytes = message.encode(version=version)
            return encoded

        versions = (min_version, message.max_version if max_version is None else max_version)
        name, key = message.name, message.API_KEY
        return cls(name, key, versions, flexible_from, body, throttles=throttles)

    def __str__(self) -> str:
        return f"{self.name} v{self.API_VERSION}"

    def expect_response(self) -> bool:
        """Every request that is sent this way has an answer."""
        return True

    def with_header(self, correlation_id: int, client_id: str) -> None:
        """Number the request."""
        version = self.API_VERSION or 0
        flexible = version >= self._flexible_from
        answer = _AnswerClass(self.name, version, flexible=flexible, throttles=self._throttles)
        self.header = _RequestHeader(correlation_id, client_id, self.API_KEY, version, answer)

    def encode(self, *, framed: bool, header: bool) -> bytes:
        """The request with its header (1, or 2 in a flexible version), after its length."""
        if not (framed and header) or self.header is None:
            raise ValueError("a raw request is encoded whole")
        sent = self.header
        client_id = sent.client_id.encode()
        parts = [
            _REQUEST_HEADER.pack(sent.api_key, sent.api_version, sent.correlation_id),
            len(client_id).to_bytes(2, "big"),
            client_id,
            b"\x00" if sent.api_version >= self._flexible_from else b"",
            self._body(sent.api_version),
        ]
        return b"".join((sum(map(len, parts)).to_bytes(4, "big"), *parts))
