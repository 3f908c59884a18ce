"""A certificate that is replaced is shown without a restart; a bad one is not, and nothing ends."""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from cryptography import x509

from kshunt.backend.api.connections.certificates import LOOK_S, Certificates, Tls
from kshunt.backend.errors import ConfigError
from tests.support.access.certificates import Authority, Issued
from tests.support.operations.journal_memory import TestClock
from tests.support.ports import free_ports
from tests.support.serving import serve_process
from tests.support.waiting import wait_until

DEADLINE_S = 30.0


@dataclass(frozen=True)
class Files:
    """What a server is given, and what its clients believe."""

    authority: Authority
    folder: Path

    @property
    def ca(self) -> Path:
        return self.authority.file(self.folder)

    @property
    def tls(self) -> Tls:
        return Tls(self.folder / "server.pem", self.folder / "server.key")

    def put(self) -> Issued:
        """Another certificate, in the place of the one that was there."""
        issued = self.authority.issue("127.0.0.1", "localhost")
        issued.write(self.folder)
        return issued


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(Authority(), tmp_path)


def serial(certificate: bytes | None) -> int:
    """Of a certificate as a handshake shows it."""
    assert certificate is not None
    return x509.load_der_x509_certificate(certificate).serial_number


def shown(server: ssl.SSLContext, client: ssl.SSLContext, name: str | None) -> int:
    """The serial number of what a handshake in memory shows."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return serial(ends[0].getpeercert(binary_form=True))


@pytest.mark.parametrize("name", ["localhost", None])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_the_next_handshake_shows_the_new_one(
    files: Files, name: str | None, version: ssl.TLSVersion
) -> None:
    first = files.put()
    certificates = Certificates(files.tls)
    client = ssl.create_default_context(cafile=str(files.ca))
    client.minimum_version = client.maximum_version = version
    # Who asks for no name cannot check one.
    client.check_hostname = name is not None
    assert shown(certificates.context, client, name) == first.serial
    second = files.put()
    assert shown(certificates.context, client, name) == first.serial
    assert certificates.reload()
    assert shown(certificates.context, client, name) == second.serial


@pytest.mark.parametrize("damage", ["key", "certificate", "other key", "gone", "empty"])
def test_one_that_cannot_be_used_changes_nothing(
    files: Files, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    first = files.put()
    certificates = Certificates(files.tls)
    client = ssl.create_default_context(cafile=str(files.ca))
    files.put()
    match damage:
        case "key":
            files.tls.key.write_bytes(b"-----BEGIN PRIVATE KEY-----\nAAAA\n")
        case "certificate":
            files.tls.certificate.write_bytes(b"\x00")
        case "other key":
            files.tls.key.write_bytes(files.authority.issue("localhost").key)
        case "gone":
            files.tls.key.unlink()
        case _:
            files.tls.certificate.write_bytes(b"")
    assert not certificates.reload()
    assert shown(certificates.context, client, "localhost") == first.serial
    assert "stays the same" in caplog.text
    second = files.put()
    assert certificates.reload()
    assert shown(certificates.context, client, "localhost") == second.serial


async def test_files_that_are_others_are_noticed_within_a_minute(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    files.put()
    clock, certificates = TestClock(), Certificates(files.tls)
    client = ssl.create_default_context(cafile=str(files.ca))
    watching = asyncio.create_task(certificates.watch(clock))
    await clock.passes(3 * LOOK_S)
    assert not caplog.records
    # As a tool does it that writes one file after the other.
    second = files.authority.issue("localhost")
    files.tls.certificate.write_bytes(second.certificate)
    await clock.passes(LOOK_S + 1)
    await clock.passes(5 * LOOK_S)
    assert caplog.text.count("stays the same") == 1
    files.tls.key.write_bytes(second.key)
    await clock.passes(LOOK_S + 1)
    assert shown(certificates.context, client, "localhost") == second.serial
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching


def test_without_a_usable_one_nothing_is_served(files: Files) -> None:
    with pytest.raises(ConfigError, match="cannot be used"):
        Certificates(files.tls)


# A backend


@contextmanager
def connected(port: int, ca: Path) -> Iterator[ssl.SSLSocket]:
    context = ssl.create_default_context(cafile=str(ca))
    with (
        socket.create_connection(("127.0.0.1", port), DEADLINE_S) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as found,
    ):
        yield found


def served_serial(port: int, ca: Path) -> int:
    with connected(port, ca) as connection:
        return serial(connection.getpeercert(binary_form=True))


def test_sighup_takes_the_new_one_and_open_streams_go_on(bootstrap: str, files: Files) -> None:
    first, ca = files.put(), files.ca
    port = free_ports(1)[0]
    log = files.folder / "k.log"
    with serve_process(
        *(bootstrap, files.folder / "k", "--listen", f"127.0.0.1:{port}"),
        *("--tls-certificate", str(files.tls.certificate), "--tls-key", str(files.tls.key)),
    ) as process:
        verify = ssl.create_default_context(cafile=str(ca))
        with (
            httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=verify, timeout=60) as http,
            http.stream("GET", "/v1/events") as stream,
        ):
            lines = stream.iter_lines()
            assert next(lines) == ": kshunt events"
            assert served_serial(port, ca) == first.serial
            second = files.put()
            process.send_signal(signal.SIGHUP)
            wait_until(
                lambda: served_serial(port, ca) == second.serial, DEADLINE_S, "it is the new one"
            )
            files.tls.key.write_bytes(first.key)
            process.send_signal(signal.SIGHUP)
            wait_until(lambda: "stays the same" in log.read_text(), DEADLINE_S, "it is refused")
            assert served_serial(port, ca) == second.serial
            # The stream has lived through all of it.
            assert next(line for line in lines if line) == ": alive"
        assert process.poll() is None
