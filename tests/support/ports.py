"""Ports for servers of tests: only one process of this machine at a time has a port.

A server binds its port seconds after it was found free: a broker has to start its JVM first. Until
then a lock keeps the port, and the lock ends with the process that asked.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
from contextlib import ExitStack
from functools import cache
from pathlib import Path

HOST = "127.0.0.1"

# Below Linux's range for outgoing connections (32768 and up): while a broker is stopped, no
# client socket can be given its port.
PORTS = range(20_000, 32_000)
LOCKS = Path("/tmp", f"kshunt-test-ports-{os.getuid()}")
"""A byte of it stands for the port of that number, and is locked while a process has it. A test may
move the folder of temporary files; this file stays."""

_ours: set[int] = set()


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, and that no other call gets while this process lives.

    Raises OSError if there are fewer.
    """
    found: list[int] = []
    with ExitStack() as sockets:
        for port in random.sample(PORTS, len(PORTS)):
            if len(found) == count:
                break
            probe = sockets.enter_context(socket.socket())
            if _reserved(port) and _bound(probe, port):
                found.append(port)
    if len(found) < count:
        raise OSError(f"fewer than {count} free ports from {PORTS.start} to {PORTS.stop}")
    return found


def first_of_free_ports(count: int) -> int:
    """The first of that many ports in a row, each of them as `free_ports` has them."""
    firsts = PORTS[: len(PORTS) + 1 - count]
    for first in random.sample(firsts, len(firsts)):
        with ExitStack() as sockets:
            row = range(first, first + count)
            if all(_bound(sockets.enter_context(socket.socket()), port) for port in row):
                reserved = [_reserved(port) for port in row]
                if all(reserved):
                    return first
    raise OSError(f"no {count} free ports in a row from {PORTS.start} to {PORTS.stop}")


def _reserved(port: int) -> bool:
    """Whether this process has the port from now on, and had it not before."""
    if port in _ours:
        return False
    try:
        fcntl.lockf(_descriptor(LOCKS, os.getpid()), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    _ours.add(port)
    return True


def _bound(probe: socket.socket, port: int) -> bool:
    try:
        probe.bind((HOST, port))
    except OSError:
        return False
    return True


@cache
def _descriptor(locks: Path, process: int) -> int:
    """Of the file with the locks. Closing any of a process's ends them all: it stays open."""
    return os.open(locks, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
