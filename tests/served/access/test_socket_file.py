"""The file of a backend's socket: its mode, its group, and no moment in which it is open wider."""

from __future__ import annotations

import grp
import os
import socket
import stat
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from kshunt.backend.access.socket_mode import FLAGS, SocketFile, socket_file
from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.api.server.listener import Listen, bind
from kshunt.backend.commandline.reading import UsageError, read
from kshunt.backend.commandline.table import Command, Flag
from kshunt.backend.config_file import expanded
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.errors import ConfigError
from tests.support.embedded.background import running
from tests.support.serving import refused_start, serve_process

ROOT = os.geteuid() == 0
NOBODY = 65534
DEADLINE_S = 30.0


def parsed(*words: str) -> SocketFile:
    flags = (Flag("socket", "", "PATH", value=Path), *FLAGS)
    options = read(Command(("serve",), "", flags), ["--socket", "/k.sock", *words])
    assert options is not None
    return socket_file(options)


def other_group() -> int:
    """A group that a file may be given to: another one than our own, if there is any."""
    mine = [group for group in os.getgroups() if group != os.getegid()]
    return (mine or [entry.gr_gid for entry in grp.getgrall() if ROOT] or [os.getegid()])[-1]


@pytest.mark.parametrize(
    ("text", "mode"), [("0600", 0o600), ("600", 0o600), ("0660", 0o660), ("660", 0o660)]
)
def test_modes_that_may_be(text: str, mode: int) -> None:
    assert parsed("--socket-mode", text) == SocketFile(mode)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0666", "every user of this machine"),
        ("0777", "every user"),
        ("0602", "every user"),
        ("0664", "every user"),
        ("0770", "no user may execute"),
        ("0060", "the owner must be able to"),
        ("0400", "the owner must be able to"),
        ("4660", "is not a valid mode"),
        ("0o660", "is not a valid mode"),
        ("432", "every user"),
        ("rw", "is not a valid mode"),
        ("", "is not a valid mode"),
        ("-660", "is not a valid mode"),
    ],
)
def test_modes_that_may_not_be(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parsed(f"--socket-mode={text}")


def test_a_group_has_to_be_one_and_to_be_let_in() -> None:
    name = grp.getgrgid(other_group()).gr_name
    assert parsed("--socket-mode", "0660", "--socket-group", name).group == other_group()
    with pytest.raises(UsageError, match="Give --socket-mode 0660"):
        parsed("--socket-group", name)
    with pytest.raises(UsageError, match="no group 'nobody-is-in-it'"):
        parsed("--socket-mode", "0660", "--socket-group", "nobody-is-in-it")


def test_on_a_port_they_mean_nothing() -> None:
    at = ("--bootstrap-server", "127.0.0.1:1", "--listen", "127.0.0.1:0")
    done = refused_start(*at, "--socket-mode", "0660")
    assert done.returncode == 2
    assert "need --socket PATH" in done.stderr


def test_the_configuration_may_say_them(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[serve]\nsocket = "/run/k.sock"\nsocket-mode = "0660"\n')
    words = expanded(["serve"], {"KSHUNT_CONFIG": str(config), "KSHUNT_SERVE_SOCKET_GROUP": "adm"})
    assert words[1:] == [
        *("--socket", "/run/k.sock", "--socket-mode", "0660", "--socket-group", "adm")
    ]


@pytest.mark.parametrize("mode", [0o600, 0o660])
def test_there_is_no_moment_in_which_it_is_open_wider(tmp_path: Path, mode: int) -> None:
    path, group = tmp_path / "k.sock", other_group()
    seen: set[tuple[int, int]] = set()
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            seen.add((stat.S_IMODE(status.st_mode), status.st_gid))

    looking = threading.Thread(target=look)
    looking.start()
    before = os.umask(0)
    try:
        for _ in range(300):
            listener, _ = bind(Listen(path, file=SocketFile(mode, group)))
            listener.close()
            path.unlink()
    finally:
        os.umask(before)
        over.set()
        looking.join()
    assert seen
    for found, owner in seen:
        assert not found & ~mode
        # Open to a group only once it is that one's.
        assert found == 0o600 or owner == group


def test_a_path_that_is_too_long_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Cannot serve on unix:"):
        bind(Listen(tmp_path / ("k" * 120)))


# Whose it is


def test_one_that_a_killed_backend_left_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "k.sock"
    bind(Listen(path))[0].close()
    assert path.is_socket()
    bind(Listen(path))[0].close()


def test_one_whose_backend_is_too_busy_to_answer_stays(tmp_path: Path) -> None:
    path = tmp_path / "k.sock"
    with socket.socket(socket.AF_UNIX) as busy, ExitStack() as stack:
        busy.bind(str(path))
        busy.listen(0)
        for _ in range(5):
            client = stack.enter_context(socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            with suppress(BlockingIOError):
                client.connect(str(path))
        before = path.stat().st_ino
        with pytest.raises(ConfigError, match="Another backend serves"):
            bind(Listen(path))
        assert path.stat().st_ino == before


@pytest.mark.parametrize("kind", ["file", "datagrams"])
def test_what_is_no_backends_is_left_alone(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "k.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        if kind == "file":
            path.write_text("precious")
        else:
            other.bind(str(path))
        with pytest.raises(ConfigError, match=r"did not change it|Cannot serve on"):
            bind(Listen(path))
        assert path.exists()


def test_at_the_end_another_ones_socket_stays(tmp_path: Path) -> None:
    path = tmp_path / "k.sock"
    with (
        running(ClusterSpec(brokers=plain_brokers(1))) as cluster,
        serve_process(cluster.bootstrap_servers, path) as process,
    ):
        path.unlink()
        listener, _ = bind(Listen(path))
        process.terminate()
        assert process.wait(DEADLINE_S) == 0
        assert path.is_socket()
        listener.close()


def connects_as(path: Path, user: int, group: int) -> bool:
    """Whether somebody else can connect; for root only, who can be anybody."""
    code = (
        "import os, socket, sys\n"
        "os.setgroups([]); os.setgid(int(sys.argv[3])); os.setuid(int(sys.argv[2]))\n"
        "socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    )
    words = [sys.executable, "-c", code, str(path), str(user), str(group)]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def test_a_served_socket_lets_in_its_group_and_nobody_else() -> None:
    group = other_group()
    name = grp.getgrgid(group).gr_name
    with (
        TemporaryDirectory(prefix="kt-") as folder,
        running(ClusterSpec(brokers=plain_brokers(1))) as cluster,
        serve_process(
            *(cluster.bootstrap_servers, Path(folder, "k.sock")),
            *("--socket-mode", "0660", "--socket-group", name),
        ),
    ):
        path = Path(folder, "k.sock")
        status = path.stat()
        assert (stat.S_IMODE(status.st_mode), status.st_gid) == (0o660, group)
        with BackendClient(f"unix:{path}") as client:
            assert client.cluster().brokers == 1
        if ROOT:
            path.parent.chmod(0o755)
            assert connects_as(path, NOBODY, group)
            assert not connects_as(path, NOBODY, NOBODY)
