"""Where a ZooKeeper ensemble is and how to speak to it: `--zookeeper`, and `--zk-tls-config-file`.

The file has:

- the keys that a broker's own properties have (`zookeeper.ssl.*`), with stores in PEM;
- `zookeeper.digest` for ACLs of ZooKeeper's scheme `digest`, which brokers do not speak;
- `jute.maxbuffer`, where the servers have another than theirs by default.

What else it holds is for
the brokers, as in `--command-config`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kshunt.backend.addresses import check_connect
from kshunt.backend.admin.security import tls
from kshunt.backend.admin.security.client_properties import parse_properties
from kshunt.backend.errors import ConfigError
from kshunt.backend.secret_files import refuse_writable

PREFIX: Final = "zookeeper."
DIGEST: Final = "zookeeper.digest"
ENABLED: Final = "zookeeper.ssl.client.enable"
PACKET_BYTES: Final = "jute.maxbuffer"
PACKET_BYTES_DEFAULT: Final = 0xFFFFF
"""Of a ZooKeeper server."""

_STORES: Final = ("keystore", "truststore")
_TLS_KEYS: Final[Mapping[str, str]] = {
    "zookeeper.ssl.endpoint.identification.algorithm": "ssl.endpoint.identification.algorithm",
    "zookeeper.ssl.enabled.protocols": "ssl.enabled.protocols",
    "zookeeper.ssl.keystore.location": "ssl.keystore.location",
    "zookeeper.ssl.keystore.type": "ssl.keystore.type",
    "zookeeper.ssl.keystore.password": "ssl.key.password",
    "zookeeper.ssl.truststore.location": "ssl.truststore.location",
    "zookeeper.ssl.truststore.type": "ssl.truststore.type",
}
"""Of a broker's properties, and what Kafka's clients call the same."""
_IDLE: Final = frozenset({"zookeeper.clientCnxnSocket", "zookeeper.ssl.truststore.password"})
"""Java needs these for TLS; they say nothing here."""


@dataclass(frozen=True, slots=True, repr=False)
class EnsembleConfig:
    """An ensemble, and who we are to it. The repr holds no secret."""

    connect: str
    """`host:port,host:port/chroot`, as `zookeeper.connect`."""
    stores: tls.TlsStores | None = None
    """Of TLS; None: the connection is plain."""
    digest: str = ""
    """`user:password` of the scheme `digest`, or empty."""
    packet_bytes_max: int = PACKET_BYTES_DEFAULT
    """What a server takes in one request."""

    def __repr__(self) -> str:
        return f"EnsembleConfig({self.connect!r})"

    @property
    def servers(self) -> tuple[tuple[str, int], ...]:
        """Host and port of each server."""
        addresses = self.connect.split("/", 1)[0].split(",")
        parts = (address.strip().rpartition(":") for address in addresses)
        return tuple((host.strip("[]"), int(port)) for host, _, port in parts)


def ensemble_config(connect: str, path: Path | None) -> EnsembleConfig:
    """What the two flags say.

    Raises:
        ConfigError: an address has no port, the file cannot be read, can be written by others, or
            holds what cannot be used.
    """
    check_connect(connect)
    if path is None:
        return EnsembleConfig(connect)
    refuse_writable(path, "The file")
    try:
        properties = parse_properties(path.read_text(encoding="latin-1"))
        return _config(connect, properties)
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {error.strerror}.") from None
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.message}", advice=error.advice) from None


def _config(connect: str, properties: Mapping[str, str]) -> EnsembleConfig:
    known = {ENABLED, DIGEST, *_TLS_KEYS, *_IDLE}
    ours = {key: value for key, value in properties.items() if key.startswith(PREFIX)}
    if odd := sorted(ours.keys() - known):
        raise ConfigError(
            f"Cannot use {', '.join(odd)} (unknown).",
            advice="Remove the properties that the connection to ZooKeeper does not need.",
        )
    digest = ours.get(DIGEST, "")
    if digest and not all(digest.partition(":")):
        raise ConfigError(f"{DIGEST} is not in the form user:password.")
    return EnsembleConfig(connect, _stores(ours), digest, _packet_bytes(properties))


def _packet_bytes(properties: Mapping[str, str]) -> int:
    text = properties.get(PACKET_BYTES) or str(PACKET_BYTES_DEFAULT)
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 2**31):
        raise ConfigError(f"{PACKET_BYTES} is not a number of bytes.")
    return int(text)


def _stores(ours: Mapping[str, str]) -> tls.TlsStores | None:
    enabled = ours.get(ENABLED, "false").lower()
    if enabled not in ("true", "false"):
        raise ConfigError(f"{ENABLED} must be true or false.")
    if enabled == "false":
        return None
    named = {theirs: ours[key] for key, theirs in _TLS_KEYS.items() if key in ours}
    for store in _STORES:
        # As ZooKeeper itself, which goes by the name where no type is given.
        if named.get(f"ssl.{store}.location", "").endswith(".pem"):
            named.setdefault(f"ssl.{store}.type", "PEM")
    tls.require_pem(named, "SSL")
    return tls.TlsStores.of(named)
