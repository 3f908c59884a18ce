"""A certificate authority of a test, and the certificates that it signs."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

VALID = datetime.timedelta(days=2)


@dataclass(frozen=True)
class Issued:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes
    serial: int

    def write(self, folder: Path, name: str = "server") -> tuple[Path, Path]:
        """The paths of both."""
        paths = folder / f"{name}.pem", folder / f"{name}.key"
        for path, content in zip(paths, (self.certificate, self.key), strict=True):
            path.write_bytes(content)
            path.chmod(0o600)
        return paths

    def context(self, folder: Path) -> ssl.SSLContext:
        """What a server of this certificate is served with."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.write(folder))
        return context


class Authority:
    """Signs certificates of names and addresses."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named("kshunt test authority")
        builder = self._builder(self._name, self._key.public_key())
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        builder = builder.add_extension(constraints, critical=True)
        self._certificate = builder.sign(self._key, hashes.SHA256())

    def file(self, folder: Path) -> Path:
        """What a client believes."""
        path = folder / "ca.pem"
        path.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))
        return path

    def issue(self, *names: str) -> Issued:
        """A certificate for hosts, by name or address."""
        key = ec.generate_private_key(ec.SECP256R1())
        found = x509.SubjectAlternativeName([_alternative(name) for name in names])
        builder = self._builder(_named(names[0]), key.public_key())
        certificate = builder.add_extension(found, critical=False).sign(self._key, hashes.SHA256())
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        public = certificate.public_bytes(serialization.Encoding.PEM)
        return Issued(public, private, certificate.serial_number)

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - VALID)
            .not_valid_after(now + VALID)
        )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
