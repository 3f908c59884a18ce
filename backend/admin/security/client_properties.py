"""`--command-config`: a Java client's properties file, turned into settings for our clients.

What Kafka's own tools read works here unchanged, or is refused by name. kshunt never ignores a
setting that changes who is trusted, or as whom we act. Keys that only tune a Java client are
noted as ignored.

Sources: `java.util.Properties.load` for the syntax; Kafka's `AdminClientConfig`, `SslConfigs` and
`SaslConfigs` for the keys; KIP-651 for PEM.
"""

from __future__ import annotations

import logging
import re
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kshunt.backend.admin.security import jaas, tls
from kshunt.backend.admin.security.redacted import Redacted
from kshunt.backend.errors import ConfigError
from kshunt.backend.secret_files import others_can_read, refuse_writable

if TYPE_CHECKING:
    from kshunt.backend.admin.security.oauth import TokenSource

log = logging.getLogger(__name__)

DEFAULT_CLIENT_ID: Final = "kshunt"
SECRETS: Final = frozenset(
    {
        "sasl.jaas.config",
        "sasl.oauthbearer.client.credentials.client.secret",
        "ssl.key.password",
        "ssl.keystore.key",
    }
)
"""Keys whose values are secrets."""

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS: Final = ("PLAIN", *SCRAM, "OAUTHBEARER")

_PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_OAUTH_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"

USED: Final = frozenset(
    {
        "client.id",
        "security.protocol",
        "sasl.mechanism",
        "sasl.jaas.config",
        "sasl.login.callback.handler.class",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.header.urlencode",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token.endpoint.url",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.type",
    }
)
"""Keys that take effect."""

_HARMLESS_TEXT: Final = """
acks allow.auto.create.topics auto.commit.interval.ms auto.offset.reset batch.size
bootstrap.controllers bootstrap.servers buffer.memory check.crcs client.dns.lookup client.rack
compression.gzip.level compression.lz4.level compression.type compression.zstd.level
connections.max.idle.ms default.api.timeout.ms delivery.timeout.ms enable.auto.commit
enable.idempotence enable.metrics.push exclude.internal.topics fetch.max.bytes
fetch.max.wait.ms fetch.min.bytes group.id group.instance.id group.protocol
group.remote.assignor heartbeat.interval.ms interceptor.classes isolation.level
key.deserializer key.serializer linger.ms max.block.ms max.in.flight.requests.per.connection
max.partition.fetch.bytes max.poll.interval.ms max.poll.records max.request.size
metadata.max.age.ms metadata.max.idle.ms metadata.recovery.rebootstrap.trigger.ms
metadata.recovery.strategy metric.reporters metrics.num.samples metrics.recording.level
metrics.sample.window.ms partition.assignment.strategy
partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class
partitioner.ignore.keys receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms
request.timeout.ms retries retry.backoff.max.ms retry.backoff.ms
sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience
sasl.oauthbearer.expected.issuer sasl.oauthbearer.jwks.endpoint.refresh.ms
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name send.buffer.bytes
session.timeout.ms socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
ssl.keymanager.algorithm ssl.provider ssl.secure.random.implementation
ssl.trustmanager.algorithm transaction.timeout.ms transactional.id value.deserializer
value.serializer
"""
HARMLESS: Final = frozenset(re.findall(r"\S+", _HARMLESS_TEXT))
"""Keys of Java clients that have nothing to do here: our calls carry their own deadlines."""

OF_ZOOKEEPER: Final = ("zookeeper.", "jute.")
"""Keys that begin so are for ZooKeeper; see `kshunt.backend.admin.zookeeper.ensemble_config`."""

WHY_NOT: Final[Mapping[str, str]] = {
    "config.providers": "references to values elsewhere are not supported; write the values into "
    "the file",
    "security.providers": "it names Java classes",
    "sasl.client.callback.handler.class": "it names a Java class",
    "sasl.login.class": "it names a Java class",
    "sasl.kerberos.service.name": "Kerberos (GSSAPI) is not supported",
    "sasl.oauthbearer.jwt.retriever.class": "it names a Java class",
    "sasl.oauthbearer.jwt.validator.class": "it names a Java class",
    "ssl.cipher.suites": "it holds Java names of cipher suites; let TLS choose them",
    "ssl.engine.factory.class": "it names a Java class",
    "ssl.keystore.password": "a PEM store has no password; its key can have one (ssl.key.password)",
    "ssl.truststore.password": "a PEM store has no password",
}
"""Why some well-known keys cannot be used."""

_LOGIN_HANDLERS: Final = frozenset(
    {
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
        "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
        "org.apache.kafka.common.security.oauthbearer.internals.unsecured"
        ".OAuthBearerUnsecuredLoginCallbackHandler",
    }
)

_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_LINE_END: Final = re.compile("\r\n|\r|\n")
_SPACE: Final = " \t\f"


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """How to reach and authenticate to a cluster. Its repr holds no secret."""

    client_id: str = DEFAULT_CLIENT_ID
    security_protocol: str = "PLAINTEXT"
    kafka_python: Mapping[str, Any] = field(default_factory=Redacted)
    """For `kafka.net.connection.KafkaConnection`; TLS and tokens come from the next fields."""
    librdkafka: Mapping[str, Any] = field(default_factory=Redacted)
    """For confluent-kafka, without `bootstrap.servers`."""
    ssl_context: ssl.SSLContext | None = None
    """Set for SSL and SASL_SSL."""
    tokens: TokenSource | None = None
    """Set for OAUTHBEARER."""
    ignored: tuple[str, ...] = ()
    """Keys of the file that have nothing to do here, sorted."""


def load_client_config(path: Path | None) -> ClientConfig:
    """Read a properties file; None is for a cluster that asks for nothing.

    Raises:
        ConfigError: the file cannot be read, others can write it, or it holds what cannot be used.
    """
    if path is None:
        return client_config({})
    refuse_writable(path, "The file")
    try:
        # Kafka's tools read it as java.util.Properties does: Latin-1, and \\u for the rest.
        text = path.read_text(encoding="latin-1")
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {error.strerror}.") from None
    try:
        properties = parse_properties(text)
        if others_can_read(path) and SECRETS & properties.keys():
            log.warning(
                "%s holds a secret, and other users can read it: run chmod 600 %s", path, path
            )
        return client_config(properties)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.message}", advice=error.advice) from None


def parse_properties(text: str) -> Redacted:
    """The entries of a properties file; of a key given twice, the last.

    Raises:
        ConfigError: a `\\u` escape is malformed; the message has the line, not the text.
    """
    entries = Redacted()
    for number, line in _logical_lines(text):
        key, value = _split(line, number)
        entries[key] = value.strip()
    return entries


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with continuations joined, without comments and blanks; with their first number."""
    joined, first = "", 0
    for number, natural in enumerate(_LINE_END.split(text), start=1):
        line = natural.lstrip(_SPACE)
        if not joined and not first:
            if not line or line[0] in "#!":
                continue
            first = number
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2:
            joined += line[:-1]
            continue
        yield first, joined + line
        joined, first = "", 0
    if joined:
        yield first, joined


def _split(line: str, number: int) -> tuple[str, str]:
    end = 0
    while end < len(line) and line[end] not in "=:" + _SPACE:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_SPACE)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_SPACE)
    return _unescape(line[:end], number), _unescape(rest, number)


def _unescape(text: str, number: int) -> str:
    out = []
    characters = iter(text)
    for character in characters:
        if character != "\\":
            out.append(character)
            continue
        escaped = next(characters, "")
        if escaped != "u":
            out.append(_ESCAPES.get(escaped, escaped))
            continue
        digits = "".join(next(characters, "") for _ in range(4))
        if not re.fullmatch("[0-9A-Fa-f]{4}", digits):
            raise ConfigError(f"Line {number}: \\u is not followed by four hexadecimal digits.")
        out.append(chr(int(digits, 16)))
    return "".join(out)


def client_config(properties: Mapping[str, str]) -> ClientConfig:
    """Settings for our clients from a Java client's.

    Raises:
        ConfigError: something cannot be used; the message names every such key, and no value.
    """
    protocol = (properties.get("security.protocol") or "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise ConfigError(f"security.protocol must be one of {', '.join(PROTOCOLS)}.")
    tls.require_pem(properties, protocol)
    _refuse_unusable(properties, protocol)
    client_id = properties.get("client.id") or DEFAULT_CLIENT_ID
    kafka_python = Redacted(client_id=client_id, security_protocol=protocol)
    librdkafka = Redacted({"client.id": client_id, "security.protocol": protocol})
    context = None
    if protocol.endswith("SSL"):
        stores = tls.TlsStores.of(properties)
        context = stores.context()
        librdkafka |= stores.librdkafka()
    tokens = None
    if protocol.startswith("SASL"):
        tokens = _sasl(properties, kafka_python, librdkafka)
    return ClientConfig(
        client_id=client_id,
        security_protocol=protocol,
        kafka_python=kafka_python,
        librdkafka=librdkafka,
        ssl_context=context,
        tokens=tokens,
        ignored=tuple(sorted(k for k in properties if k in HARMLESS or _idle(k, protocol))),
    )


def _refuse_unusable(properties: Mapping[str, str], protocol: str) -> None:
    unusable = sorted(
        key
        for key in properties
        if key not in USED | HARMLESS
        and not key.startswith(OF_ZOOKEEPER)
        and not _idle(key, protocol)
        and properties[key]
    )
    if unusable:
        reasons = (f"{key} ({WHY_NOT.get(key, 'unknown here')})" for key in unusable)
        raise ConfigError(
            f"Cannot use {'; '.join(reasons)}.",
            advice="Remove the properties that the connection does not need.",
        )


def _idle(key: str, protocol: str) -> bool:
    """True for a key of a layer that the protocol does not have."""
    tls_idle = key.startswith("ssl.") and not protocol.endswith("SSL")
    return tls_idle or (key.startswith("sasl.") and not protocol.startswith("SASL"))


def _sasl(
    properties: Mapping[str, str], kafka_python: Redacted, librdkafka: Redacted
) -> TokenSource | None:
    mechanism = properties.get("sasl.mechanism", "GSSAPI")
    if mechanism not in MECHANISMS:
        given = mechanism if "sasl.mechanism" in properties else f"{mechanism}, Kafka's default,"
        raise ConfigError(
            f"sasl.mechanism {given} is not supported.", advice=f"Use {', '.join(MECHANISMS)}."
        )
    kafka_python["sasl_mechanism"] = mechanism
    librdkafka["sasl.mechanism"] = mechanism
    login = jaas.parse(properties.get("sasl.jaas.config", ""))
    if mechanism == "OAUTHBEARER":
        login.require(_OAUTH_MODULE)
        handler = properties.get("sasl.login.callback.handler.class")
        if handler and handler not in _LOGIN_HANDLERS:
            raise ConfigError("sasl.login.callback.handler.class names a custom Java class.")
        from kshunt.backend.admin.security.oauth import token_source

        tokens = token_source(properties, login.options)
        librdkafka["oauth_cb"] = tokens.for_librdkafka
        return tokens
    login.require(_PLAIN_MODULE if mechanism == "PLAIN" else _SCRAM_MODULE)
    username, password = login.credentials()
    kafka_python |= {"sasl_plain_username": username, "sasl_plain_password": password}
    librdkafka |= {"sasl.username": username, "sasl.password": password}
    return None
