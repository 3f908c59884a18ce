"""Listening sockets: those of this user's backends, and TCP ports."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import stat
from pathlib import Path
from typing import Final

from kshunt.backend.errors import ConfigError

PATH_BYTES_MAX: Final = 107
"""AF_UNIX takes 108 bytes on Linux, the closing zero byte among them."""
CLUSTER_ID_MAX: Final = 40
"""Kafka's own ids have 22 characters."""
SHORT_FOLDER: Final = Path("/tmp")
"""Holds the socket where the proper folder's name is too long for an address."""
CONNECT_TIMEOUT_S: Final = 2.0


def socket_path(bootstrap_servers: str, command_config: Path | None) -> Path:
    """The socket of the private backend for these servers and this configuration file.

    The order of the servers does not matter. The folder is made if it is not there. It belongs to
    this user alone, so only a process of this user can listen on the socket.

    Raises:
        ConfigError: there is no folder that only this user can write to.
    """
    servers = sorted(server.strip() for server in bootstrap_servers.split(","))
    config = "" if command_config is None else str(command_config.absolute())
    digest = hashlib.sha256("\n".join([*servers, config]).encode("utf-8", "surrogateescape"))
    return _in_runtime_dir(f"{digest.hexdigest()[:32]}.sock")


def served_path(cluster_id: str) -> Path:
    """The socket of `kshunt serve` where no other place is named: one a cluster.

    Raises:
        ConfigError: there is no folder that only this user can write to.
    """
    safe = re.sub(r"[^A-Za-z0-9_-]", "_", cluster_id)[:CLUSTER_ID_MAX]
    return _in_runtime_dir(f"{safe}.sock")


def tcp_listener(host: str, port: int) -> socket.socket:
    """A listening socket whose connections send each part of an answer immediately.

    Otherwise an answer waits 40 ms for the client to acknowledge its head.

    Raises:
        OSError: the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family)
    # Connections inherit it.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _in_runtime_dir(name: str) -> Path:
    path = runtime_dir() / name
    if len(os.fsencode(path)) > PATH_BYTES_MAX:
        path = _private(SHORT_FOLDER / f"kshunt-{os.geteuid()}") / name
    return path


def runtime_dir() -> Path:
    """`$XDG_RUNTIME_DIR/kshunt`, or `kshunt-UID` in the folder for temporary files.

    Raises:
        ConfigError: the folder is not ours alone.
    """
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    if runtime.is_absolute() and _is_ours(runtime):
        return _private(runtime / "kshunt")
    return _private(Path(os.environ.get("TMPDIR", "/tmp")) / f"kshunt-{os.geteuid()}")


def _is_ours(folder: Path) -> bool:
    """False also for another user's folder, whose variable `su` may have handed down."""
    try:
        return folder.stat().st_uid == os.geteuid()
    except OSError:
        return False


def _private(folder: Path) -> Path:
    """The folder, made with mode 0700 if need be, and refused if others could reach into it."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise ConfigError(f"Cannot create the folder {folder}: {error.strerror}.") from None
    ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    if not ours or stat.S_IMODE(status.st_mode) & 0o077:
        raise ConfigError(
            f"{folder} is not a folder that belongs to you alone (mode 0700).",
            advice="Remove it, or set XDG_RUNTIME_DIR to a folder of your own.",
        )
    return folder


def connect(path: Path) -> socket.socket | None:
    """A connection to the backend on this socket, or None if nobody accepts one."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(CONNECT_TIMEOUT_S)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        return None
    return connection


def answers(path: Path) -> bool:
    """True where a backend accepts connections on this socket."""
    connection = connect(path)
    if connection is not None:
        connection.close()
    return connection is not None


def running_backend(address: str, bootstrap_servers: str, command_config: Path | None) -> str:
    """The address that is given, or that of the private backend if it runs; empty: neither.

    If this process has to read the cluster itself, numpy starts no threads. To start one for each
    core takes longer than everything that is computed here.

    Raises:
        ConfigError: as `socket_path`.
    """
    if address:
        return address
    path = socket_path(bootstrap_servers, command_config)
    if answers(path):
        return f"unix:{path}"
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    return ""
