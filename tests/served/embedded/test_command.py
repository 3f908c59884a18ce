"""`kshunt cluster` and `kshunt demo` as processes: they start, say where, and leave nothing."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest
from confluent_kafka.admin import AdminClient

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.cli.main import main
from kshunt.backend.domain.reassignment.plan import parse_plan
from kshunt.backend.embedded.command import main as run_cluster
from kshunt.backend.errors import Conflict
from kshunt.backend.local_sockets import answers
from tests.support.paths import ROOT
from tests.support.terminal import Terminal, terminal
from tests.support.waiting import wait_until

DEADLINE_S = 90.0
KSHUNT = (sys.executable, "-m", "kshunt")

MINE = """
title = "Mine"
about = "One topic."
[[brokers]]
count = 2
[[topics]]
name = "t"
partitions = 3
replication_factor = 2
bytes_per_partition = 5_000_000
[[events]]
at_s = 0
action = "reassign"
moves = { t-0 = [2, 1] }
by = "kshunt"
"""


@contextmanager
def cluster(*options: str) -> Iterator[subprocess.Popen[str]]:
    """`kshunt cluster`, from its start; it is killed at the end."""
    with subprocess.Popen(
        [*KSHUNT, "cluster", *options],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def ready(process: subprocess.Popen[str]) -> list[str]:
    """The brokers, once they are ready."""
    said = line(process)
    assert said.startswith("ready "), said + (process.stderr.read() if process.stderr else "")
    return said.split()[1].split(",")


def kshunt(*arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [*KSHUNT, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S
    )
    return done.returncode, done.stdout, done.stderr


def nobody_listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) != 0


# --- kshunt cluster


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_a_cluster_in_order(number: signal.Signals) -> None:
    with cluster("--brokers", "1", "--control-port", "none") as process:
        (broker,) = ready(process)
        assert not nobody_listens(broker)
        process.send_signal(number)
        assert process.communicate(timeout=DEADLINE_S) == ("", "")
        assert process.returncode == 0
        assert nobody_listens(broker)


def test_a_cluster_is_plain_unless_told_and_has_a_control_api() -> None:
    with cluster() as process:
        assert len(ready(process)) == 3
        assert process.stderr is not None
        word, address = process.stderr.readline().split()
        assert word == "control"
        said = httpx.get(f"{address}/v1/cluster").json()
        assert [one["rack"] for one in said["brokers"]] == ["rack-1", "rack-2", "rack-3"]
        assert said["scenario"] is None
        httpx.post(f"{address}/v1/brokers/2/stop").raise_for_status()


def test_a_real_client_sees_the_scenario_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(MINE)
    with cluster("--scenario", str(path), "--control-port", "none") as process:
        admin = AdminClient({"log_level": 0, "bootstrap.servers": ",".join(ready(process))})
        topic = admin.list_topics("t", timeout=10).topics["t"]
        assert {number: len(p.replicas) for number, p in topic.partitions.items()} == {
            0: 2,
            1: 2,
            2: 2,
        }
        # Nobody takes kshunt's own moves, so this one is done already.
        assert topic.partitions[0].replicas == [2, 1]


def test_moves_are_handed_over_to_whoever_holds_the_input(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(MINE)
    with cluster("--scenario", str(path), "--control-port", "none", "--hand-over") as process:
        ready(process)
        word, document = line(process).split(maxsplit=1)
        move = json.loads(document)
        assert word == "move"
        plan = parse_plan(json.dumps(move["plan"]))
        assert list(plan.replicas.values()) == [(2, 1)]
        assert move["throttle_bytes_per_s"] is None
        assert process.communicate(timeout=DEADLINE_S) == ("", "")  # closes its input
        assert process.returncode == 0


def test_a_port_that_is_taken_is_one_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said, error = kshunt("cluster", "--port-base", str(port))
    assert (code, said) == (1, "")
    assert error.startswith("kshunt: The cluster cannot start: ")
    assert str(port) in error
    assert error.count("\n") == 1


def test_ports_from_a_base_on_are_the_brokers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with cluster("--brokers", "1", "--port-base", str(port), "--control-port", "none") as process:
        assert ready(process) == [f"127.0.0.1:{port}"]


def test_a_folder_keeps_the_cluster_and_refuses_a_second_one(tmp_path: Path) -> None:
    data = tmp_path / "data"
    options = ("--brokers", "1", "--data", str(data))
    names = []
    for _ in range(2):
        with cluster(*options) as process:
            ready(process)
            assert process.stderr is not None
            address = process.stderr.readline().split()[1]
            names.append(httpx.get(f"{address}/v1/cluster").json()["cluster_id"])
            with pytest.raises(Conflict):
                run_cluster(options)
            process.terminate()
            assert process.wait(DEADLINE_S) == 0
    assert names[0] == names[1]


def test_a_damaged_folder_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "records.log").write_bytes(b"no log of records\n" * 50)
    code, said, error = kshunt("cluster", "--data", str(tmp_path))
    assert (code, said) == (1, "")
    assert error.startswith("kshunt: ")
    assert "records.log" in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--scenario", "nothing"), 1, "There is no scenario named 'nothing'."),
        (("--scenario", "none.toml"), 1, "none.toml cannot be read"),
        (("--scenario", "drain", "--brokers", "4"), 2, "A scenario has its own brokers"),
        (("--brokers", "0"), 1, "A cluster needs a broker."),
        (("--port-base", "65535"), 2, "3 brokers from port 65535 on."),
        (("--port-base", "65536"), 2, "65536 is not a port"),
        (("--brokers", "some"), 2, "'some' is not a whole number"),
        (("--control-port", "any"), 2, "'any' is not a whole number"),
    ],
)
def test_what_cannot_be_meant_is_said(
    options: tuple[str, ...], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = main(["cluster", *options])
    said, error = capsys.readouterr()
    assert (found, said) == (code, "")
    assert words in error


@pytest.mark.parametrize("command", ["demo", "cluster"])
def test_the_scenarios_are_listed(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--list"]) == 0
    assert "hot-broker        One broker leads too much\n" in capsys.readouterr().out


@pytest.mark.parametrize("statement", ["import kshunt.tui", "import kshunt.backend.cli.main"])
def test_start_up_loads_nothing_of_the_embedded_cluster(statement: str) -> None:
    code = f"{statement}\nimport sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert [
        name for name in done.stdout.split() if name.startswith("kshunt.backend.embedded")
    ] == []


# --- kshunt demo


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A folder of its own for the backend's socket; short, for sockets."""
    with TemporaryDirectory(prefix="kt-") as name:
        yield Path(name)


@pytest.fixture
def small(tmp_path: Path) -> str:
    """A scenario of few partitions, where only the end of a demo is looked at."""
    path = tmp_path / "mine.toml"
    path.write_text(MINE)
    return str(path)


@contextmanager
def demo(runtime: Path, *options: str) -> Iterator[Terminal]:
    with terminal([*KSHUNT, "demo", *options], {"XDG_RUNTIME_DIR": str(runtime)}) as shown:
        yield shown


def broker_of(shown: Terminal, runtime: Path) -> str:
    """The first broker of a demo, once partitions are on the screen; its backend knows."""
    shown.until(rb"Health", DEADLINE_S)
    with backend_of(runtime) as client:
        return client.cluster().bootstrap_servers.split(",")[0]


def own_moves(runtime: Path) -> bool:
    """Whether the backend of a demo moves something itself."""
    with backend_of(runtime) as client:
        return any(not one.state.ended for one in client.operations.list())


def backend_of(runtime: Path) -> BackendClient:
    (path,) = (one for one in (runtime / "kshunt").glob("*.sock") if answers(one))
    return BackendClient(f"unix:{path}")


def all_gone(runtime: Path, broker: str) -> bool:
    return nobody_listens(broker) and not list((runtime / "kshunt").iterdir())


def test_q_ends_all_of_a_demo(runtime: Path) -> None:
    with demo(runtime) as shown:
        broker = broker_of(shown, runtime)
        assert not all_gone(runtime, broker)
        wait_until(lambda: own_moves(runtime), DEADLINE_S, "kshunt's own move has begun")
        shown.press(b"q")
        assert shown.ended(DEADLINE_S) == 0
        assert all_gone(runtime, broker)


def test_a_terminal_that_hangs_up_ends_all_of_a_demo(runtime: Path, small: str) -> None:
    with demo(runtime, "--scenario", small) as shown:
        broker = broker_of(shown, runtime)
        shown.hang_up()
        wait_until(lambda: all_gone(runtime, broker), DEADLINE_S, "cluster and backend end")
        wait_until(lambda: shown.process.poll() is not None, DEADLINE_S, "the dashboard ends")


def test_a_demo_that_is_killed_leaves_nothing_behind(runtime: Path, small: str) -> None:
    with demo(runtime, "--scenario", small) as shown:
        broker = broker_of(shown, runtime)
        os.kill(shown.process.pid, signal.SIGKILL)
        wait_until(lambda: all_gone(runtime, broker), DEADLINE_S, "cluster and backend end")


def test_a_demo_that_cannot_start_says_why(runtime: Path) -> None:
    with demo(runtime, "--scenario", "nothing") as shown:
        shown.until(rb"kshunt: There is no scenario named 'nothing'\.", DEADLINE_S)
        assert shown.ended(DEADLINE_S) == 1
        assert list((runtime / "kshunt").iterdir()) == []
