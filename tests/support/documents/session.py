"""A page's commands as a reader would run them, one after another, on an embedded cluster.

Goals
    What a page prints works as it is printed, in its order, with the files that it shows.
Constraints
    Nothing of this machine's user is touched: folders, ports and the cluster are the page's own.
Algorithm
    A page's addresses and folders are replaced by those of its session. A command that serves is
    left running until the next heading of the second level; one that shows a screen is closed by
    `q` once it shows one. All other commands of a block are one script, which stops at an error.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from tests.support.documents.blocks import SHELL, Block
from tests.support.documents.stand_ins import StandIns
from tests.support.embedded.background import running
from tests.support.notify.receiver import receiving
from tests.support.ports import first_of_free_ports, free_ports
from tests.support.terminal import terminal
from tests.support.topics import create_topic, produce
from tests.support.waiting import wait_until

DEADLINE_S: Final = 120.0
STOP_DEADLINE_S: Final = 30.0
READY_DEADLINE_S: Final = 60.0
HTTP_ERROR: Final = 22
"""curl's exit code for an answer of 400 and above, with --fail."""
SIZE: Final = (100, 30)
LASTING: Final = {
    "serve": "kshunt serves",
    "cluster": "control http",
    "web": "http://",
    "ssh": "relays",
}
"""Commands that serve, and what they print once they do."""
ABOUT: Final = ("--help", "--version", "--list")
NOTES: Final = ("--handover", "--timeline", "--cast", "--svg", "--moving-svg")
CAPTURED: Final = {
    "1a2b3c4d": re.compile(r"proposed as (\w+)"),
    "9f86d081884c7d65": re.compile(r"--seen (\w+)"),
    "PORT": re.compile(r"control http://127\.0\.0\.1:(\d+)"),
    "use NEW": re.compile(r"^(\w{8})  verifies$", re.MULTILINE),
    "remove OLD": re.compile(r"^(\w{8})  signs$", re.MULTILINE),
}
"""What a page has in the place of something that a command printed before."""
PROGRAMS: Final = {"kshunt": "kshunt", "ssh": "tests.support.documents.relay"}
"""Programs that a page names, and the modules that they are in a session."""
FOLDERS: Final = (
    *("bin", "work", "user", "tmp", "run/kshunt", "etc/kshunt", "data"),
    *("config", "state", "cache"),
)
TOPICS: Final = {
    "orders": [[1, 2], [2, 3], [3, 4], [4, 1]],
    "events": [[1, 2, 3], [2, 3, 4], [3, 4, 1], [4, 1, 2], [1, 2, 3], [2, 3, 4]],
}


@dataclass
class Session:
    """One page's folder and cluster, and what runs there."""

    folder: Path
    bootstrap: str
    cluster_id: str
    port: int
    stand_ins: StandIns
    names: Mapping[str, str] = field(default_factory=dict)
    """What else a page names, and what the test has in its place."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """What the reader's environment has more."""
    said: str = ""
    """All that its commands printed."""
    serving: list[tuple[subprocess.Popen[bytes], Path]] = field(default_factory=list)
    section: int = 0

    @property
    def environment(self) -> Mapping[str, str]:
        """Of its commands."""
        folder = self.folder
        return {
            **{name: value for name, value in os.environ.items() if "KSHUNT" not in name},
            "HOME": str(folder),
            "PATH": f"{folder}/bin:{os.environ['PATH']}",
            "XDG_CONFIG_HOME": f"{folder}/config",
            "XDG_STATE_HOME": f"{folder}/state",
            "XDG_CACHE_HOME": f"{folder}/cache",
            "XDG_RUNTIME_DIR": f"{folder}/user",
            "COLUMNS": "100",
            **self.variables,
        }

    def take(self, block: Block) -> None:
        """Run a block, or keep it as the file that it is.

        Raises:
            AssertionError: a command failed, or did not serve or show a screen in time.
        """
        if block.section != self.section:
            self.stop()
            self.section = block.section
        if block.language != SHELL and "title" in block.options:
            path = self.folder / "work" / Path(block.options["title"]).name
            path.write_text(block.text)
            path.chmod(0o600)
        if block.runs:
            self.run(block)

    def run(self, block: Block) -> None:
        """Run a block's commands, whatever the block says of who runs it.

        Raises:
            AssertionError: a command failed, or did not serve or show a screen in time.
        """
        script = ""
        for command in block.commands():
            kind = _kind(command)
            if kind is None:
                script += command
                continue
            self._run(script, {0}, block)
            script = ""
            for served in self.stand_ins.served_for(command):
                self._serve(served, LASTING["serve"], block)
            if kind == SCREEN:
                self._look(command, block)
            else:
                self._serve(command, LASTING[kind], block)
        for served in self.stand_ins.served_for(script):
            self._serve(served, LASTING["serve"], block)
        self._run(script, block.exits, block)

    def stop(self) -> None:
        """End what serves, as a reader would by Ctrl-C or `kill`."""
        for process, _ in reversed(self.serving):
            process.terminate()
        for process, log in self.serving:
            code = process.wait(STOP_DEADLINE_S)
            assert code in (0, -signal.SIGTERM), f"exit code {code}: {log.read_text()}"
        self.serving.clear()

    def words(self, command: str) -> str:
        """A command with this session's addresses and folders, and with what was printed before."""
        user = f"{self.folder}/user/kshunt/{self.cluster_id}.sock"
        for name, found in self.names.items():
            command = command.replace(name, found)
        command = self.stand_ins.words(command)
        command = command.replace("/run/user/1000/kshunt/CLUSTER.sock", user)
        command = re.sub(r"(?<![\w./])/(data|etc|run)/", rf"{self.folder}/\1/", command)
        command = re.sub(r"broker1:9092(,broker2:9092)?", self.bootstrap, command)
        command = command.replace("127.0.0.1:8095", f"127.0.0.1:{self.port}")
        if "--port-base 19092" in command:
            base = first_of_free_ports(3)
            command = command.replace("--port-base 19092", f"--port-base {base}")
        for stand_in, pattern in CAPTURED.items():
            if printed := pattern.findall(self.said):
                verb, _, _ = stand_in.rpartition(" ")
                command = command.replace(stand_in, f"{verb} {printed[-1]}".lstrip())
        return command

    def _run(self, script: str, exits: set[int], block: Block) -> None:
        if not script.strip():
            return
        runs: list[subprocess.CompletedProcess[str]] = []

        def is_answered() -> bool:
            runs.append(self._bash(script))
            # A backend that has just started is not ready yet, and says so.
            return runs[-1].returncode != HTTP_ERROR or HTTP_ERROR in exits

        with suppress(AssertionError):
            wait_until(is_answered, READY_DEADLINE_S, "the backend is ready")
        done = runs[-1]
        self.said += done.stdout
        assert done.returncode in exits, (
            f"{block.place}: exit code {done.returncode}\n{self.words(script)}\n{done.stdout}"
        )

    def _bash(self, script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self.words(script)],
            cwd=self.folder / "work",
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEADLINE_S,
        )

    def _serve(self, command: str, ready: str, block: Block) -> None:
        log = self.folder / f"serving-{block.line}-{len(self.serving)}.log"
        command = self.words(command).strip().removesuffix("&")
        if " web " in f" {command} ":
            command = f"{command} --listen 127.0.0.1:{free_ports(1)[0]}"
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-c", f"exec env {command}"],
                cwd=self.folder / "work",
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self.serving.append((process, log))

        def serves() -> bool:
            assert process.poll() is None, f"{block.place}: {command}\n{log.read_text()}"
            return ready in log.read_text()

        wait_until(serves, DEADLINE_S, f"{block.place} serves")
        self.said += log.read_text()

    def _look(self, command: str, block: Block) -> None:
        shell = f"cd {self.folder / 'work'}; exec env {self.words(command).strip()}"
        with terminal(["bash", "-c", shell], self.environment, SIZE) as shown:
            try:
                shown.until(rb"Overview", DEADLINE_S)
                shown.until(rb"live,|PAST|scenario|Moving|Nothing", DEADLINE_S)
                shown.press(b"q")
                assert shown.ended(DEADLINE_S) == 0, shown.written[-2000:]
            except AssertionError as error:
                raise AssertionError(f"{block.place}: {command}\n{error}") from None


SCREEN: Final = "screen"


def _kind(command: str) -> str | None:
    """Whether a command serves, and which it is; or shows a screen; None for any other."""
    words = [word for word in shlex.split(command, comments=True) if not re.match(r"\w+=", word)]
    if words[:1] == ["ssh"]:
        return "ssh"
    if words[:1] != ["kshunt"] or {*ABOUT} & {*words}:
        return None
    first = words[1] if len(words) > 1 else "-"
    if first in LASTING:
        return first
    shows = (
        first.startswith("-") or first == "demo" or (first == "replay" and not {*NOTES} & {*words})
    )
    return SCREEN if shows else None


@contextmanager
def session() -> Iterator[Session]:
    """A session on a cluster of four brokers with two topics; everything is gone afterwards."""
    spec = ClusterSpec(
        plain_brokers(4),
        static={"delete.topic.partition.enable": "true"},
    )
    with running(spec) as cluster:
        for topic, replicas in TOPICS.items():
            create_topic(cluster.bootstrap_servers, topic, replicas)
            produce(cluster.bootstrap_servers, topic, 200, 1_000)
        cluster_id = cluster.call(lambda here: here.world.cluster_id)
        with session_on(cluster.bootstrap_servers, cluster_id, {}) as found:
            yield found


@contextmanager
def session_on(
    bootstrap: str,
    cluster_id: str,
    names: Mapping[str, str],
    variables: Mapping[str, str] | None = None,
) -> Iterator[Session]:
    """A session on a cluster that is there already, with what the page's other names become."""
    with TemporaryDirectory(prefix="kd-") as name, receiving() as receiver:
        folder = Path(name)
        for part in FOLDERS:
            (folder / part).mkdir(mode=0o700, parents=True)
        for program, module in PROGRAMS.items():
            path = folder / "bin" / program
            path.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m {module} "$@"\n')
            path.chmod(0o755)
        port, stand_ins = free_ports(1)[0], StandIns(folder, receiver)
        found = Session(folder, bootstrap, cluster_id, port, stand_ins, names, variables or {})
        try:
            yield found
            found.stop()
        finally:
            for process, _ in found.serving:
                process.kill()
                process.wait(STOP_DEADLINE_S)
            _end_private_backends(folder)


def _end_private_backends(folder: Path) -> None:
    """End the backends that tools of the session have started, which would stay for a minute."""
    mark = f"XDG_RUNTIME_DIR={folder}/user".encode()
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdecimal() and mark in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGTERM)
