"""Which APIs the embedded brokers speak, and their requests and answers as bytes.

The ranges of versions are those that a Kafka 4.1 broker advertises, as far as kafka-python's
message classes reach. The seeds' RPCs (`kshunt.backend.wire.kip_requests`) are added where they are
switched on. A table holds only what its broker has a handler for, so ApiVersions promises nothing
else.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from kafka.protocol import admin, consumer, metadata, producer, sasl

from kshunt.backend.embedded.net.errors import error_answer
from kshunt.backend.embedded.net.frame_check import BadFrame, check_message
from kshunt.backend.error_codes import INVALID_REQUEST, UNSUPPORTED_VERSION
from kshunt.backend.wire import kip_requests
from kshunt.backend.wire.api_keys import API_VERSIONS_KEY, SASL_AUTHENTICATE_KEY, SASL_HANDSHAKE_KEY
from kshunt.backend.wire.reader import Reader, WireError

_API_VERSIONS_FLEXIBLE_FROM: Final = 3
_CORRELATION_ID: Final = struct.Struct(">i")
_FRAME_HEAD: Final = struct.Struct(">ii")
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")
"""What a client may call itself and its version (KIP-511)."""


class WireReply(Exception):
    """A handler's way to answer the whole request with an error code of Kafka's."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(message)
        self.code = code
        """See `kshunt.backend.error_codes`."""
        self.message = message
        """For APIs whose answer has a place for it."""


class WireClose(Exception):
    """A handler's way to end the connection without an answer, as a broker that crashes."""


@dataclass(frozen=True, slots=True)
class Api:
    """One API and the versions of it that a broker answers."""

    key: int
    name: str
    min_version: int
    max_version: int
    request: Any
    """kafka-python's class of the message, or one declared like it."""
    response: Any
    advertised_min: int
    """What ApiVersions says; lower than `min_version` for Produce alone, as in Kafka 4:
    librdkafka takes the lowest version for a sign of which compression it may use."""

    def flexible(self, version: int) -> bool:
        """Whether the version has compact types and tagged fields (KIP-482)."""
        if self.key == API_VERSIONS_KEY:
            return version >= _API_VERSIONS_FLEXIBLE_FROM
        return bool(self.request.flexible_version_q(version))


_KAFKA_4_1: Final = (
    (0, "Produce", 3, 13),
    (1, "Fetch", 4, 18),
    (2, "ListOffsets", 1, 10),
    (3, "Metadata", 0, 13),
    (8, "OffsetCommit", 2, 9),
    (9, "OffsetFetch", 1, 9),
    (10, "FindCoordinator", 0, 6),
    (11, "JoinGroup", 0, 9),
    (12, "Heartbeat", 0, 4),
    (13, "LeaveGroup", 0, 5),
    (14, "SyncGroup", 0, 5),
    (15, "DescribeGroups", 0, 6),
    (16, "ListGroups", 0, 5),
    (SASL_HANDSHAKE_KEY, "SaslHandshake", 0, 1),
    (API_VERSIONS_KEY, "ApiVersions", 0, 4),
    (19, "CreateTopics", 2, 7),
    (20, "DeleteTopics", 1, 6),
    (21, "DeleteRecords", 0, 2),
    (22, "InitProducerId", 0, 5),
    (23, "OffsetForLeaderEpoch", 2, 4),
    (24, "AddPartitionsToTxn", 0, 5),
    (25, "AddOffsetsToTxn", 0, 4),
    (26, "EndTxn", 0, 5),
    (28, "TxnOffsetCommit", 0, 5),
    (29, "DescribeAcls", 1, 3),
    (30, "CreateAcls", 1, 3),
    (31, "DeleteAcls", 1, 3),
    (32, "DescribeConfigs", 1, 4),
    (33, "AlterConfigs", 0, 2),
    (34, "AlterReplicaLogDirs", 1, 2),
    (35, "DescribeLogDirs", 1, 4),
    (SASL_AUTHENTICATE_KEY, "SaslAuthenticate", 0, 2),
    (37, "CreatePartitions", 0, 3),
    (42, "DeleteGroups", 0, 2),
    (43, "ElectLeaders", 0, 2),
    (44, "IncrementalAlterConfigs", 0, 1),
    (45, "AlterPartitionReassignments", 0, 1),
    (46, "ListPartitionReassignments", 0, 0),
    (60, "DescribeCluster", 0, 2),
    (75, "DescribeTopicPartitions", 0, 0),
)
"""Key, name, lowest and highest version."""

_ADVERTISED_MIN: Final = {0: 0}


def _kafkas_class(name: str) -> Any:
    packages = (admin, consumer, metadata, producer, sasl)
    return next(getattr(package, name) for package in packages if hasattr(package, name))


def _kafkas_api(key: int, name: str, lowest: int, highest: int) -> Api:
    request, response = _kafkas_class(f"{name}Request"), _kafkas_class(f"{name}Response")
    highest = min(highest, request.max_version, response.max_version)
    advertised = _ADVERTISED_MIN.get(key, lowest)
    return Api(key, name, lowest, highest, request, response, advertised)


def _seeds_api(key: int, request: Any, response: Any) -> Api:
    name = request.name.removesuffix("Request")
    return Api(key, name, 0, request.max_version, request, response, 0)


KAFKA_APIS: Final = {row[0]: _kafkas_api(*row) for row in _KAFKA_4_1}
"""By API key: what Kafka 4.1 has."""

SEED_APIS: Final = {key: _seeds_api(key, *pair) for key, pair in kip_requests.MESSAGES.items()}
"""By API key: what the seeds add."""


@dataclass(frozen=True, slots=True)
class WireRequestHeader:
    """The header of a request, version 1 or 2."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


@dataclass(frozen=True, slots=True)
class WireRequest:
    """A request that was understood."""

    header: WireRequestHeader
    api: Api
    message: Any
    """None for an ApiVersions request of a version that we do not know."""

    def frame(self, body: bytes) -> bytes:
        """A whole answer: its length, its header and `body`.

        The header has tagged fields (version 1) in flexible versions, except that of ApiVersions:
        a client must be able to read it before it knows what the broker speaks.
        """
        flexible = self.api.key != API_VERSIONS_KEY and self.api.flexible(self.header.api_version)
        end = b"\x00" if flexible else b""
        size = _CORRELATION_ID.size + len(end) + len(body)
        return b"".join((_FRAME_HEAD.pack(size, self.header.correlation_id), end, body))

    def answer(self, reply: Any) -> bytes:
        """A whole answer of a response message, or of a body that is encoded already."""
        if isinstance(reply, bytes | bytearray):
            return self.frame(bytes(reply))
        return self.frame(reply.encode(version=self.header.api_version))

    def error(self, reply: WireReply) -> bytes:
        """The API's answer when the whole request fails."""
        version = self.header.api_version
        code, why = reply.code, reply.message
        return self.answer(error_answer(self.message, self.api.response, version, code, why))


class ApiTable:
    """The APIs that one broker speaks; ApiVersions is always among them.

    `keys` are those that it has handlers for. Without `native`, the seeds' keys are left out,
    and requests for them are refused like those for any unknown key.

    Raises:
        ValueError: there is no API of one of the keys.
    """

    def __init__(self, keys: Iterable[int], *, native: bool = True) -> None:
        known = KAFKA_APIS | SEED_APIS
        wanted = {API_VERSIONS_KEY, *keys}
        if unknown := wanted - known.keys():
            raise ValueError(f"there is no API with the key {min(unknown)}")
        hidden = frozenset() if native else SEED_APIS.keys()
        self.apis: Final = {key: known[key] for key in sorted(wanted - hidden)}
        """By API key, ascending."""

    def decode(self, frame: bytes) -> WireRequest:
        """The request in a frame, which is given without its length.

        Raises:
            BadFrame: the bytes are no request that this broker answers. A real broker says
                nothing to an unknown API or version either; it closes the connection.
        """
        reader = Reader(frame, flexible=False, what="request header")
        try:
            header, api = self._header(reader)
        except WireError as malformed:
            raise BadFrame(malformed.message) from None
        version = header.api_version
        if not api.min_version <= version <= api.max_version:
            if api.key == API_VERSIONS_KEY:
                return WireRequest(header, api, None)
            raise BadFrame(f"{api.name} has no version {version}")
        body = frame[reader.at :]
        check_message(api.request, version, body)
        try:
            message = api.request.decode(body, version=version)
        except UnicodeDecodeError:
            raise BadFrame(f"{api.name} v{version}: a string is not UTF-8") from None
        return WireRequest(header, api, message)

    def _header(self, reader: Reader) -> tuple[WireRequestHeader, Api]:
        key, version, correlation_id = reader.int16(), reader.int16(), reader.int32()
        api = self.apis.get(key)
        if api is None:
            raise BadFrame(f"there is no API with the key {key}")
        # The client id keeps its two-byte length even in the flexible header.
        header = WireRequestHeader(key, version, correlation_id, reader.nullable_string())
        reader.flexible = api.flexible(version)
        reader.tags()
        return header, api

    def api_versions(self, request: WireRequest) -> bytes:
        """The whole answer to an ApiVersions request.

        To a version that it does not know a broker answers UNSUPPORTED_VERSION at version 0. That
        answer has only the versions of ApiVersions itself, so that the client may ask again
        (KIP-511).
        """
        response = request.api.response
        if request.message is None:
            known = [self._advertised(request.api, 0)]
            refusal = response(version=0, error_code=UNSUPPORTED_VERSION, api_keys=known)
            return request.frame(refusal.encode(version=0))
        version = request.header.api_version
        if not _names_itself(request.message, version):
            return request.answer(response(version=version, error_code=INVALID_REQUEST))
        keys = [self._advertised(api, version) for api in self.apis.values()]
        return request.answer(response(version=version, api_keys=keys))

    def _advertised(self, api: Api, version: int) -> Any:
        entry = KAFKA_APIS[API_VERSIONS_KEY].response.ApiVersion
        return entry(
            version=version,
            api_key=api.key,
            min_version=api.advertised_min,
            max_version=api.max_version,
        )


def _names_itself(message: Any, version: int) -> bool:
    """Whether the client's name and version are such as Kafka accepts."""
    if version < _API_VERSIONS_FLEXIBLE_FROM:
        return True
    said = (message.client_software_name, message.client_software_version)
    return all(_SOFTWARE.fullmatch(text) for text in said)
