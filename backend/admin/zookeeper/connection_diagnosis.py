"""Why there is no session with an ensemble, found out by connections of our own.

kazoo says no more than that there is none.
"""

from __future__ import annotations

import socket
import ssl

from kshunt.backend.admin.zookeeper.ensemble_config import EnsembleConfig
from kshunt.backend.errors import ClusterUnreachable, ConfigError, KshuntError


def why_not(config: EnsembleConfig, timeout_s: float) -> KshuntError | None:
    """Why no server can take a session; None where one could.

    Blocks for at most `timeout_s` at each server.
    """
    found: KshuntError | None = None
    for host, port in config.servers:
        found = _fault(config, host, port, timeout_s)
        if found is None or isinstance(found, ConfigError):
            return found
    return found


def _fault(config: EnsembleConfig, host: str, port: int, timeout_s: float) -> KshuntError | None:
    name = f"ZooKeeper ({host}:{port})"
    try:
        with socket.create_connection((host, port), timeout_s) as plain:
            if config.stores is not None:
                return _tls_fault(config.stores.context(), plain, host, name)
    except OSError as error:
        return ClusterUnreachable(f"{name} cannot be reached: {error.strerror or error}.")
    return None


def _tls_fault(
    context: ssl.SSLContext, plain: socket.socket, host: str, name: str
) -> KshuntError | None:
    try:
        context.wrap_socket(plain, server_hostname=host).close()
    except ssl.SSLCertVerificationError as error:
        return ConfigError(
            f"{name} presents a certificate that is not trusted: {error.verify_message}.",
            advice="See zookeeper.ssl.truststore.location and "
            "zookeeper.ssl.endpoint.identification.algorithm.",
        )
    except OSError as error:
        return ConfigError(
            f"The TLS handshake with {name} failed: {error}.",
            advice="See zookeeper.ssl.client.enable, --zk-tls-config-file.",
        )
    return None
