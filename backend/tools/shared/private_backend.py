"""Starting a private backend: a process of its own that outlives the tool.

It has to: the throttle of a reassignment is removed by the backend that started it, long after
the tool has printed its last line.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from kshunt.backend.addresses import ZOOKEEPER_SCHEME
from kshunt.backend.child_processes import LOG_LINES_SHOWN, environment
from kshunt.backend.errors import BackendUnreachable
from kshunt.backend.local_sockets import answers, socket_path
from kshunt.backend.settings import PlacerSettings

START_DEADLINE_S: Final = 20.0
POLL_S: Final = 0.02

_started: Final[list[subprocess.Popen[bytes]]] = []
"""Kept, because a child that is still running must not be reported as forgotten."""


def private_backend(bootstrap_servers: str, command_config: Path | None) -> str:
    """The address of this user's private backend for a cluster; one is started if none runs.

    Raises:
        BackendUnreachable: the new backend ended before it answered, or did not answer in time;
            with the last lines of its log.
        ConfigError: there is no folder that only this user can write to.
    """
    path = socket_path(bootstrap_servers, command_config)
    if not answers(path):
        _start(path, bootstrap_servers, command_config)
    return f"unix:{path}"


def _start(path: Path, bootstrap_servers: str, command_config: Path | None) -> None:
    with _alone(path.with_suffix(".lock")):
        if answers(path):
            return
        # Left by a backend that was killed; the folder is ours alone, and so is what is in it.
        with suppress(FileNotFoundError):
            path.unlink()
        log = path.with_suffix(".log")
        # Those that were killed meanwhile are taken off the process table.
        _started[:] = [child for child in _started if child.poll() is None]
        child = _spawn(_command(path, bootstrap_servers, command_config), log)
        _started.append(child)
        _wait_for(child, path, log)


def _command(socket_path: Path, bootstrap_servers: str, command_config: Path | None) -> list[str]:
    """Holds no secret: every user can read a process's command line."""
    # -P: a folder named `kshunt` in the working directory is not taken for ours.
    command = [sys.executable, "-P", "-m", "kshunt", "serve", "--socket", str(socket_path)]
    ensemble = bootstrap_servers.removeprefix(ZOOKEEPER_SCHEME)
    in_zookeeper = ensemble != bootstrap_servers
    command += ["--zookeeper" if in_zookeeper else "--bootstrap-server", ensemble, "--linger"]
    if command_config is not None:
        flag = "--zk-tls-config-file" if in_zookeeper else "--command-config"
        command += [flag, str(command_config.absolute())]
    placer = PlacerSettings.of(os.environ)
    if placer.name:
        command += [f"--replica-placer={placer.name}"]
    if placer.name and placer.config is not None:
        command += ["--replica-placer-config", str(placer.config)]
    return command


def _spawn(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    """Start the process in a session of its own, so that Ctrl-C here does not reach it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    output = os.open(log, flags, mode=0o600)
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=log.parent,
            env=environment(),
            start_new_session=True,
        )
    finally:
        os.close(output)


def _wait_for(child: subprocess.Popen[bytes], socket_path: Path, log: Path) -> None:
    give_up = time.monotonic() + START_DEADLINE_S
    while not answers(socket_path):
        with suppress(subprocess.TimeoutExpired):
            code = child.wait(timeout=POLL_S)
            raise BackendUnreachable(
                f"The backend stopped immediately with exit code {code}; nothing was changed. "
                f"{_last_words(log)}"
            )
        if time.monotonic() > give_up:
            child.terminate()
            raise BackendUnreachable(
                f"The backend did not answer within {START_DEADLINE_S:g} s and was stopped; "
                f"nothing was changed. {_last_words(log)}"
            )


def _last_words(log: Path) -> str:
    lines = log.read_text("utf-8", "replace").splitlines()[-LOG_LINES_SHOWN:]
    return "Its output:\n" + "\n".join(lines) if lines else f"Its log {log} is empty."


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Two tools that start at the same moment start one backend."""
    handle = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, mode=0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
