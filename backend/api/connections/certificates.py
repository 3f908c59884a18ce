"""What a backend shows over TLS, replaced while it serves.

Goals
    The backend shows a renewed certificate to the next client, without a restart. Open connections
    continue. A certificate that cannot be used changes nothing.
Constraints
    Certificate and key are two files, which may be replaced one after the other: between the two
    they do not fit, and that is no reason to stop.
Algorithm
    The listener keeps its context. As a handshake begins, `sni_callback` gives the connection the
    newest context that was loaded without an error. It is called with or without a name.
    The files are loaded anew where their identity (inode, time, size) is another one, and on
    SIGHUP. Symbolic links are followed, as those of Kubernetes' secrets, which are swapped.
"""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from kshunt.backend.clock import Clock
from kshunt.backend.errors import ConfigError
from kshunt.backend.secret_files import check_secret, refuse_writable

log = logging.getLogger(__name__)

LOOK_S: Final = 60.0

_Identity: TypeAlias = tuple[tuple[int, int, int], ...] | None


@dataclass(frozen=True, slots=True)
class Tls:
    """The files of what a backend shows to its clients."""

    certificate: Path
    """PEM, with the chain."""
    key: Path


def load_certificate(tls: Tls) -> ssl.SSLContext:
    """What TLS 1.2 and later are served with.

    Raises:
        ConfigError: the files cannot be read, do not belong together, or others can write them or
            read the key.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # Nobody is there to type a passphrase.
        context.load_cert_chain(tls.certificate, tls.key, password=lambda: b"")
    except (OSError, ValueError) as error:
        said = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise ConfigError(
            f"{tls.certificate} and {tls.key} cannot be used: {said}.",
            advice="Give a certificate and its key, both PEM, the key without a passphrase.",
        ) from None
    # After they were loaded: a certificate in the place of the key is said to be that.
    refuse_writable(tls.certificate, "The certificate")
    check_secret(tls.key, "The key")
    return context


class Certificates:
    """See the module's text."""

    def __init__(self, tls: Tls) -> None:
        """Load them for the first time.

        Raises:
            ConfigError: as `load_certificate`.
        """
        self._tls = tls
        self._seen = _identity(tls)
        self.context = self._newest = load_certificate(tls)
        self.context.sni_callback = self._choose

    def _choose(self, connection: ssl.SSLObject, name: str | None, old: ssl.SSLContext) -> None:
        connection.context = self._newest

    def reload(self) -> bool:
        """Load the files now; True where what they hold is shown from now on."""
        self._seen = _identity(self._tls)
        try:
            self._newest = load_certificate(self._tls)
        except ConfigError as error:
            log.error("The certificate in use stays the same: %s", error)
            return False
        log.info("%s is now in use", self._tls.certificate)
        return True

    async def watch(self, clock: Clock) -> None:
        """Load the files whenever they are others, until cancelled."""
        while True:
            await clock.wait_s(LOOK_S)
            if _identity(self._tls) != self._seen:
                self.reload()


def _identity(tls: Tls) -> _Identity:
    """What changes with the files; None where one is not there."""
    try:
        found = [path.stat() for path in (tls.certificate, tls.key)]
    except OSError:
        return None
    return tuple((status.st_ino, status.st_mtime_ns, status.st_size) for status in found)
