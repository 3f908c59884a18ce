"""The ports that servers of tests are given: no two processes have the same."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import ports
from tests.support.ports import HOST, first_of_free_ports, free_ports

FIVE = range(19_500, 19_505)
"""Ports that nothing else asks for."""
OTHER = f"""
import pathlib, sys
from tests.support import ports
ports.PORTS = {FIVE}
ports.LOCKS = pathlib.Path(sys.argv[1])
print(*ports.free_ports(2), flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def five(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """There are five ports, and no process has any of them."""
    monkeypatch.setattr(ports, "PORTS", FIVE)
    monkeypatch.setattr(ports, "LOCKS", tmp_path / "locks")
    monkeypatch.setattr(ports, "_ours", set())


@contextmanager
def other_process() -> Iterator[set[int]]:
    """Two of the five, and who has them lives on."""
    command = [sys.executable, "-c", OTHER, str(ports.LOCKS)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield {int(port) for port in process.stdout.readline().split()}
        process.communicate("")


def test_two_processes_have_different_ports_and_one_that_ends_gives_its_back() -> None:
    with other_process() as theirs:
        ours = set(free_ports(3))
        assert theirs | ours == set(FIVE)
        with pytest.raises(OSError, match="fewer than 1 free ports from 19500 to 19505"):
            free_ports(1)
    with other_process() as next_ones:
        assert next_ones == theirs


def test_none_are_taken_where_none_are_wanted() -> None:
    assert free_ports(0) == []
    assert set(free_ports(5)) == set(FIVE)


def test_a_port_with_a_server_is_left_out() -> None:
    with socket.socket() as taken:
        taken.bind((HOST, FIVE[2]))
        assert {first_of_free_ports(2), first_of_free_ports(2)} == {FIVE[0], FIVE[3]}
