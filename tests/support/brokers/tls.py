"""A throw-away certificate authority with one broker and one client certificate, by `openssl`."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.brokers.java import KafkaLaunchError

VALID_DAYS = "2"
OPENSSL_DEADLINE_S = 30.0
BROKER_NAMES = "subjectAltName=IP:127.0.0.1,DNS:localhost\n"


@dataclass(frozen=True)
class TlsFiles:
    """Where the PEM files are."""

    ca: Path
    """What a client trusts."""
    broker_keystore: Path
    """Key and certificate in one file, as `ssl.keystore.type=PEM` wants it."""
    client_certificate: Path
    client_key: Path


def make_tls_files(folder: Path) -> TlsFiles:
    """Write the PEM files into `folder`."""
    folder.mkdir()
    authority = [*_new_key("ca"), "-x509", "-days", VALID_DAYS, "-out", "ca.pem"]
    _openssl(folder, *authority, "-subj", "/CN=kshunt test authority")
    _issue(folder, "broker", BROKER_NAMES)
    _issue(folder, "client", "extendedKeyUsage=clientAuth\n")
    keystore = folder / "broker-keystore.pem"
    key, certificate = folder / "broker.key", folder / "broker.pem"
    keystore.write_text(key.read_text() + certificate.read_text())
    return TlsFiles(
        ca=folder / "ca.pem",
        broker_keystore=keystore,
        client_certificate=folder / "client.pem",
        client_key=folder / "client.key",
    )


def _new_key(name: str) -> list[str]:
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    return ["req", *curve, "-nodes", "-keyout", f"{name}.key"]


def _issue(folder: Path, name: str, extensions: str) -> None:
    (folder / f"{name}.ext").write_text(extensions)
    request, certificate = f"{name}.csr", f"{name}.pem"
    _openssl(folder, *_new_key(name), "-out", request, "-subj", f"/CN=kshunt test {name}")
    authority = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", VALID_DAYS]
    sign = ["x509", "-req", "-in", request, "-extfile", f"{name}.ext", "-out", certificate]
    _openssl(folder, *sign, *authority)


def _openssl(folder: Path, *args: str) -> None:
    done = subprocess.run(
        ["openssl", *args],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=OPENSSL_DEADLINE_S,
    )
    if done.returncode != 0:
        raise KafkaLaunchError(f"openssl {args[0]} failed:\n{done.stderr}")
