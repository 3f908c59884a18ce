"""TLS stores of a client properties file, in PEM (KIP-651), as an `SSLContext` and for librdkafka.

Kafka's default type, JKS, is a Java format that nothing here can read: it is refused by name.
"""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kshunt.backend.errors import ConfigError
from kshunt.backend.secret_files import refuse_writable

_DEFAULT_TYPE: Final = "JKS"
_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/=\s]*")
_LINE: Final = 64
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_STORE_KEYS: Final = {
    "ssl.truststore": ("ssl.truststore.location", "ssl.truststore.certificates"),
    "ssl.keystore": (
        "ssl.keystore.location",
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
    ),
}
_CONVERT: Final = (
    "Export it as PEM (keytool -importkeystore to PKCS12, then openssl pkcs12 -nodes), and set "
    "the type to PEM."
)


@dataclass(frozen=True, slots=True, repr=False)
class TlsStores:
    """Whom we trust, who we are, and how the broker's name is checked. The repr has no secret."""

    trusted: str | None
    """PEM certificates; None trusts what the operating system trusts."""
    key_file: Path | None
    """A file with our key and its certificate chain."""
    key: str | None
    """Our key and its chain, where they are written in the properties file."""
    chain: str | None
    key_password: str | None
    check_hostname: bool
    protocols: tuple[str, ...]

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> TlsStores:
        """The stores that the properties name.

        Raises:
            ConfigError: a store is of another type, cannot be read, or lacks a part.
        """
        algorithm = properties.get("ssl.endpoint.identification.algorithm", "https").lower()
        if algorithm not in ("https", ""):
            raise ConfigError("ssl.endpoint.identification.algorithm must be https or empty.")
        key, chain = _pair(properties)
        return cls(
            trusted=_trusted(properties),
            key_file=_file(properties, "ssl.keystore"),
            key=key,
            chain=chain,
            key_password=properties.get("ssl.key.password") or None,
            check_hostname=algorithm == "https",
            protocols=_protocols(properties),
        )

    def context(self) -> ssl.SSLContext:
        """For kafka-python.

        Raises:
            ConfigError: the certificates or the key cannot be used.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = min(_VERSIONS[name] for name in self.protocols)
        context.maximum_version = max(_VERSIONS[name] for name in self.protocols)
        context.check_hostname = self.check_hostname
        # Java takes any certificate of the trust store for an anchor, an intermediate one too.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        try:
            if self.trusted is None:
                context.load_default_certs()
            else:
                context.load_verify_locations(cadata=self.trusted)
        except ssl.SSLError as error:
            raise ConfigError(f"The trust store cannot be used: {error.reason}.") from None
        with self._key_path() as path:
            if path is not None:
                self._load_key(context, path)
        return context

    def _load_key(self, context: ssl.SSLContext, path: Path) -> None:
        # Without a function here, OpenSSL would ask on the terminal.
        password = self.key_password or ""
        try:
            context.load_cert_chain(path, password=lambda: password)
        except ssl.SSLError as error:
            raise ConfigError(
                f"The key store cannot be used: {error.reason or 'its key cannot be decrypted'}.",
                advice="It must hold a private key and its certificates; see ssl.key.password.",
            ) from None

    @contextmanager
    def _key_path(self) -> Iterator[Path | None]:
        if self.key is None or self.chain is None:
            yield self.key_file
            return
        with _private_file(self.key + self.chain) as path:
            yield path

    def librdkafka(self) -> Mapping[str, Any]:
        """For confluent-kafka."""
        settings: dict[str, Any] = {
            "ssl.endpoint.identification.algorithm": "https" if self.check_hostname else "none"
        }
        if self.trusted is not None:
            settings["ssl.ca.pem"] = self.trusted
        if self.key_file is not None:
            settings |= {
                "ssl.key.location": str(self.key_file),
                "ssl.certificate.location": str(self.key_file),
            }
        elif self.key is not None:
            settings |= {"ssl.key.pem": self.key, "ssl.certificate.pem": self.chain}
        if self.key_password is not None:
            settings["ssl.key.password"] = self.key_password
        return settings


def require_pem(properties: Mapping[str, str], protocol: str) -> None:
    """Check that every store that is used is in PEM.

    Raises:
        ConfigError: one is not, which is the case when its type is not set.
    """
    if not protocol.endswith("SSL"):
        return
    for store, keys in _STORE_KEYS.items():
        kind = properties.get(f"{store}.type", _DEFAULT_TYPE).upper()
        for key in keys:
            if properties.get(key) and kind != "PEM":
                raise ConfigError(
                    f"{key} cannot be used: {store}.type is {kind}; only PEM can be read here.",
                    advice=_CONVERT,
                )


@contextmanager
def _private_file(text: str) -> Iterator[Path]:
    """A file with a secret, as short as OpenSSL needs it: in memory where the system can."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("kshunt", os.MFD_CLOEXEC)
        name = f"/proc/self/fd/{descriptor}"
    else:
        descriptor, name = tempfile.mkstemp()
    try:
        os.write(descriptor, text.encode())
        yield Path(name)
    finally:
        os.close(descriptor)
        if not name.startswith("/proc/"):
            os.unlink(name)


def _trusted(properties: Mapping[str, str]) -> str | None:
    inline = properties.get("ssl.truststore.certificates")
    if inline:
        return _blocks(inline, "ssl.truststore.certificates")
    path = _file(properties, "ssl.truststore")
    if path is None:
        return None
    return _blocks(_read(path, "ssl.truststore.location"), "ssl.truststore.location")


def _pair(properties: Mapping[str, str]) -> tuple[str | None, str | None]:
    key = properties.get("ssl.keystore.key")
    chain = properties.get("ssl.keystore.certificate.chain")
    if not key and not chain:
        return None, None
    if not key or not chain:
        raise ConfigError(
            "ssl.keystore.key and ssl.keystore.certificate.chain must be given together."
        )
    return (
        _blocks(key, "ssl.keystore.key"),
        _blocks(chain, "ssl.keystore.certificate.chain"),
    )


def _file(properties: Mapping[str, str], store: str) -> Path | None:
    location = properties.get(f"{store}.location")
    if not location:
        return None
    path = Path(location)
    refuse_writable(path, f"The file of {store}.location")
    _read(path, f"{store}.location")
    return path


def _read(path: Path, key: str) -> str:
    try:
        return path.read_text(encoding="latin-1")
    except OSError as error:
        raise ConfigError(f"{key}: cannot read {path}: {error.strerror}.") from None


def _blocks(text: str, key: str) -> str:
    """The PEM blocks of a text, each line at most 64 characters as OpenSSL wants them.

    In a properties file a block often is one line with blanks where the line ends were.
    """
    blocks = []
    for label, body in _BLOCK.findall(text):
        if _BASE64.fullmatch(body):
            packed = "".join(body.split())
            lines = (packed[at : at + _LINE] for at in range(0, len(packed), _LINE))
            body = "\n" + "\n".join(lines) + "\n"
        blocks.append(f"-----BEGIN {label}-----{body}-----END {label}-----\n")
    if not blocks:
        raise ConfigError(f"{key} does not hold PEM.")
    return "".join(blocks)


def _protocols(properties: Mapping[str, str]) -> tuple[str, ...]:
    named = properties.get("ssl.enabled.protocols") or properties.get("ssl.protocol")
    if not named:
        return tuple(_VERSIONS)
    protocols = tuple(name.strip() for name in named.split(",") if name.strip())
    if unknown := [name for name in protocols if name not in _VERSIONS]:
        raise ConfigError(f"ssl.enabled.protocols: {', '.join(unknown)} is not supported.")
    return protocols
