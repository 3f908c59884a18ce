"""`kshunt serve --replica-placer`, and the tools with it: by HTTP, by command line, and alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from kshunt.backend.access.roles import Role
from kshunt.backend.access.tokens import TokenFile
from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.reassignment.plan import parse_plan
from kshunt.backend.domain.topics.alteration import AlteredTopic
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.local_sockets import socket_path
from kshunt.backend.settings import PLACER_CONFIG_VARIABLE, PLACER_VARIABLE, PlacerSettings
from kshunt.backend.tools.reassign import command as reassign
from kshunt.backend.tools.shared import private_backend
from kshunt.backend.tools.topics import command as topics
from tests.support.embedded.background import Running, running
from tests.support.placement.given_placers import FAULTS, FULL, RACK_FIRST, named
from tests.support.ports import free_ports
from tests.support.serving import refused_start, serve_process, serving
from tests.support.tools import Tool, run_with, write
from tests.support.topics import create_topic
from tests.support.waiting import wait_until

DEADLINE_S = 60.0
BEFORE = ((1, 2), (2, 3))
NOWHERE = "127.0.0.1:1"
FAILED = (10_000, "REPLICA_PLACEMENT_FAILED")


@contextmanager
def three_brokers() -> Iterator[Running]:
    """In a rack each, without the seeds' calls."""
    with running(ClusterSpec(plain_brokers(3), native=False)) as handle:
        yield handle


@pytest.fixture(scope="module")
def cluster() -> Iterator[Running]:
    """The cluster of the backend that is `served`."""
    with three_brokers() as handle:
        yield handle


@pytest.fixture
def alone() -> Iterator[Running]:
    """A cluster without that backend: of several one acts, with its own placer."""
    with three_brokers() as handle:
        yield handle


@dataclass(frozen=True)
class Served:
    """A backend with a placer, and a client of it."""

    address: str
    client: BackendClient


@pytest.fixture(scope="module")
def served(cluster: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A backend whose placer does as a topic is called."""
    folder = tmp_path_factory.mktemp("placer")
    config = write(folder, "placer.properties", f"note.file={folder / 'note'}\n")
    flags = ("--replica-placer", named("AsNamed"), "--replica-placer-config", config)
    with serving(cluster.bootstrap_servers, folder, *flags) as address:
        with closing(BackendClient(address)) as client:
            yield Served(address, client)
        assert not (folder / "note").exists()
    assert (folder / "note").read_text() == "closed"


def replicas_of(cluster: Running, topic: str) -> tuple[tuple[int, ...], ...]:
    """Of each partition; none where there is no such topic."""
    found = cluster.call(lambda here: here.world.core.image.topic(topic))
    partitions = {} if found is None else found.partitions
    return tuple(tuple(partitions[number].target) for number in sorted(partitions))


def made(cluster: Running, name: str) -> str:
    create_topic(cluster.bootstrap_servers, name, BEFORE)
    return name


def topics_file(folder: Path, *names: str) -> str:
    wanted = {"version": 1, "topics": [{"topic": name} for name in names]}
    return write(folder, "topics.json", json.dumps(wanted))


@pytest.fixture
def topics_tool(capsys: pytest.CaptureFixture[str]) -> Tool:
    return run_with(topics.main, capsys)


@pytest.fixture
def reassign_tool(capsys: pytest.CaptureFixture[str]) -> Tool:
    return run_with(reassign.main, capsys)


@pytest.mark.conforms("kip-660-draft:error-code")
def test_each_topic_has_its_result_with_the_placers_words(cluster: Running, served: Served) -> None:
    # The one that hangs comes last: nothing is asked of a placer while it does.
    words = {f"{name.lower()}-1": said for name, said in FAULTS.items() if name != "Hanging"}
    for name in ("placed-1", *words, "hanging-1"):
        made(cluster, name)
    wanted = dict.fromkeys(("placed-1", *words), AlteredTopic(3))
    answer = served.client.topics.alter(wanted)
    found = {result.item: result for result in answer.results}
    assert found.pop("placed-1").error_code == 0
    assert replicas_of(cluster, "placed-1") == (*BEFORE, (1, 3))
    assert found.keys() == words.keys()
    for topic, result in found.items():
        assert (result.error_code, result.error_name) == FAILED
        assert words[topic] in result.message
        assert replicas_of(cluster, topic) == BEFORE


def test_a_proposal_that_is_refused_is_a_problem_of_its_own(
    cluster: Running, served: Served
) -> None:
    made(cluster, "refusing-2")
    path = served.address.removeprefix("unix:")
    body = {"topics": ["refusing-2"], "brokers": [1, 2, 3], "rack_aware": True}
    with httpx.Client(transport=httpx.HTTPTransport(uds=path)) as http:
        answer = http.post("http://kshunt/v1/reassignments/generate", json=body)
    document = answer.json()
    assert (answer.status_code, document["kafka_code"], document["retriable"]) == (
        409,
        10_000,
        False,
    )
    assert document["title"] == "Replica placement failed"
    assert document["detail"] == f"Topic refusing-2: {FULL}"


def test_the_command_lines_say_what_the_placer_says(
    cluster: Running, served: Served, topics_tool: Tool, reassign_tool: Tool, tmp_path: Path
) -> None:
    at = ("--backend", served.address)
    for name in ("placed-3", "refusing-3"):
        made(cluster, name)
    grow = ("--alter", *at, "--partitions", "4", "--topic")
    assert topics_tool(*grow, "placed-3")[0] == 0
    assert replicas_of(cluster, "placed-3") == (*BEFORE, (1, 3), (3, 2))
    code, out, err = topics_tool(*grow, "refusing-3")
    assert (code, out) == (1, "Nothing was changed.\n")
    assert err.splitlines()[-1] == f"Error: refusing-3: {FULL}"
    said = json.loads(topics_tool(*grow, "refusing-3", "--json")[1])["results"]
    assert [(one["error_code"], one["error_name"]) for one in said] == [FAILED]
    assert replicas_of(cluster, "refusing-3") == BEFORE
    generate = ("--generate", *at, "--broker-list", "1,2,3", "--topics-to-move-json-file")
    code, out, _ = reassign_tool(*generate, topics_file(tmp_path, "placed-3"))
    assert code == 0
    proposed = parse_plan(out.splitlines()[-1]).replicas
    assert [proposed[partition] for partition in sorted(proposed)] == [
        (3, 2),
        (2, 1),
        (1, 3),
        (3, 2),
    ]
    code, _, err = reassign_tool(*generate, topics_file(tmp_path, "refusing-3"))
    assert (code, err) == (1, f"Error: Topic refusing-3: {FULL}\n")


def test_a_placer_that_hangs_is_cut_off_at_the_requests_deadline(
    alone: Running, tmp_path: Path
) -> None:
    flags = ("--replica-placer", named("Hanging"))
    with (
        serving(alone.bootstrap_servers, tmp_path, *flags) as address,
        closing(BackendClient(address)) as client,
    ):
        wanted = {made(alone, name): AlteredTopic(3) for name in ("first", "second")}
        first, second = client.topics.alter(wanted, timeout_ms=1_000).results
        assert "gave no answer within 1 s and was stopped" in first.message
        assert "Hanging hangs" in second.message
        assert client.cluster().brokers == 3
        assert [replicas_of(alone, name) for name in wanted] == [BEFORE, BEFORE]


def test_the_topics_of_samples_are_created_where_the_placer_says(
    alone: Running, tmp_path: Path
) -> None:
    config = write(tmp_path, "placer.properties", "rack.first=rack-2\n")
    flags = ("--replica-placer", RACK_FIRST, "--replica-placer-config", config)
    with serving(alone.bootstrap_servers, tmp_path, *flags, "--samples-topic", "seen"):
        wait_until(lambda: replicas_of(alone, "seen-brokers"), DEADLINE_S, "it is there")
        assert set(replicas_of(alone, "seen-brokers")) == {(2, 1, 3)}
        assert set(replicas_of(alone, "seen-replicas")) == {(2, 1, 3)}


def test_samples_that_the_placer_does_not_place_are_not_recorded_and_it_is_said(
    alone: Running, tmp_path: Path
) -> None:
    flags = ("--replica-placer", named("Refusing"), "--samples-topic", "unseen")
    with serving(alone.bootstrap_servers, tmp_path, *flags):
        log = tmp_path / "kshunt.log"
        wait_until(lambda: FULL in log.read_text(), DEADLINE_S, "the log says why")
        assert replicas_of(alone, "unseen-replicas") == ()


def test_a_placer_is_told_whose_credential_asks(
    alone: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = '[[rule]]\nprincipals = ["User:alice"]\nbrokers = [3]\n[default]\nbrokers = [2]\n'
    write(tmp_path, "rules.toml", rules)
    config = write(
        tmp_path, "placer.properties", f"kshunt.placer.rules={tmp_path / 'rules.toml'}\n"
    )
    tokens = TokenFile(tmp_path / "tokens.json", SystemClock())
    secrets = {name: tokens.create(name, Role.ADMIN)[1] for name in ("alice", "bob")}
    [port] = free_ports(1)
    flags = ("--replica-placer", "rules", "--replica-placer-config", config)
    at = ("--listen", f"127.0.0.1:{port}", "--tokens", str(tmp_path / "tokens.json"))
    create_topic(alone.bootstrap_servers, "told", ((1,),))
    with serve_process(alone.bootstrap_servers, tmp_path / "k", *flags, *at):
        for partitions, name in ((2, "alice"), (3, "bob")):
            monkeypatch.setenv("KSHUNT_TOKEN", secrets[name])
            with closing(BackendClient(f"http://127.0.0.1:{port}")) as client:
                [result] = client.topics.alter({"told": AlteredTopic(partitions)}).results
                assert result.error_code == 0, result.message
    assert replicas_of(alone, "told") == ((1,), (3,), (2,))


# Settings


def refused(*options: str) -> tuple[int, str]:
    """Exit code and last line of a backend that does not start; where to read on left out."""
    done = refused_start(*options)
    assert "kshunt serves" not in done.stdout
    said = [line for line in done.stderr.splitlines() if not line.startswith("Run '")]
    return done.returncode, said[-1]


def test_a_wrong_setting_ends_the_start_before_anything_is_asked(tmp_path: Path) -> None:
    start = ("--bootstrap-server", NOWHERE, "--socket", str(tmp_path / "k.sock"))
    wrong: Mapping[tuple[str, ...], str] = {
        ("no-such-placer",): "kshunt: 'no-such-placer' is not a placer: no installed package has "
        "it.",
        (named("NoPlacer"),): "does not have the methods place, configure, close.",
        (named("Absent"),): "cannot be created: AttributeError",
        ("rules",): "kshunt: kshunt.placer.rules is not set.",
        ("striped", "--replica-placer-config", str(tmp_path)): "cannot be read: Is a directory.",
    }
    for name, words in wrong.items():
        code, said = refused(*start, "--replica-placer", *name)
        assert code == 1
        assert words in said
    code, said = refused(*start, "--replica-placer-config", str(tmp_path))
    assert (code, said) == (2, "--replica-placer-config needs --replica-placer")
    # Where the placer is right, it is the cluster that is missing.
    code, said = refused(*start, "--replica-placer", "striped")
    assert code == 1
    assert NOWHERE in said


EVIL = """
import pathlib
pathlib.Path("ran").touch()
class Placer:
    def place(self, *_): return []
    def configure(self, configs): pass
    def close(self): pass
"""


@pytest.mark.parametrize("python_path", [None, "", ":", "."])
@pytest.mark.parametrize("command", ["serve", "cluster"])
def test_nothing_is_loaded_from_the_working_directory(
    tmp_path: Path, command: str, python_path: str | None
) -> None:
    (tmp_path / "acme_placer.py").write_text(EVIL)
    done = run_here(tmp_path, command, python_path)
    assert done.returncode == 1
    words = f"The placer acme_placer:Placer is in the working directory {tmp_path}."
    assert words in done.stderr
    assert done.stderr.endswith("Install it, or add its folder to PYTHONPATH.\n")
    assert not (tmp_path / "ran").exists()


def test_a_folder_that_the_operator_names_is_searched(tmp_path: Path) -> None:
    (tmp_path / "acme_placer.py").write_text(EVIL)
    done = run_here(tmp_path, "serve", str(tmp_path))
    assert NOWHERE in done.stderr
    assert (tmp_path / "ran").exists()


def run_here(
    folder: Path, command: str, python_path: str | None
) -> subprocess.CompletedProcess[str]:
    """A process in a folder that has a placer, which the process is told to use."""
    # What a Spark session of another test set for its workers would hide what is tried here.
    own = ("PYTHONPATH", "PYTHONSAFEPATH")
    environment = {name: value for name, value in os.environ.items() if name not in own}
    if python_path is not None:
        environment["PYTHONPATH"] = python_path
    serve = ("--bootstrap-server", NOWHERE, "--socket", str(folder / "k.sock"))
    options = serve if command == "serve" else ("--brokers", "1")
    named_there = ("--replica-placer", "acme_placer:Placer")
    return subprocess.run(
        [sys.executable, "-m", "kshunt", command, *options, *named_there],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_environment_names_what_a_private_backend_is_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert PlacerSettings.of({}) == PlacerSettings()
    assert PlacerSettings.of({PLACER_VARIABLE: ""}) == PlacerSettings()
    named_there = {PLACER_VARIABLE: "rules", PLACER_CONFIG_VARIABLE: "rules.properties"}
    assert PlacerSettings.of(named_there) == PlacerSettings("rules", tmp_path / "rules.properties")
    for name in named_there:
        monkeypatch.delenv(name, raising=False)
    assert "replica" not in " ".join(private_backend._command(tmp_path / "s", "b:1", None))
    for name, value in named_there.items():
        monkeypatch.setenv(name, value)
    command = private_backend._command(tmp_path / "s", "b:1", None)
    assert command[-3:] == [
        "--replica-placer=rules",
        "--replica-placer-config",
        str(tmp_path / "rules.properties"),
    ]


@pytest.mark.usefixtures("own_runtime_dir")
def test_tools_and_the_private_backend_use_the_placer_of_the_environment(
    alone: Running,
    topics_tool: Tool,
    reassign_tool: Tool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = ("--bootstrap-server", alone.bootstrap_servers)
    made(alone, "private-5")
    grow = ("--alter", *at, "--topic", "private-5", "--partitions", "3")
    generate = ("--generate", *at, "--broker-list", "1,2,3", "--topics-to-move-json-file")
    monkeypatch.setenv(PLACER_VARIABLE, named("Refusing"))
    file = topics_file(tmp_path, "private-5")
    # No backend runs, and none is started by what only reads.
    assert reassign_tool(*generate, file)[::2] == (1, f"Error: Topic private-5: {FULL}\n")
    code, _, err = topics_tool(*grow, "--validate-only")
    assert (code, err.splitlines()[-1]) == (1, f"Error: private-5: {FULL}")
    assert not socket_path(alone.bootstrap_servers, None).exists()
    monkeypatch.setenv(PLACER_VARIABLE, "no-such-placer")
    assert "'no-such-placer' is not a placer" in reassign_tool(*generate, file)[2]
    assert reassign_tool("--list", *at)[0] == 0
    code, _, err = topics_tool(*grow)
    assert code == 1
    assert "'no-such-placer' is not a placer" in err
    monkeypatch.setenv(PLACER_VARIABLE, RACK_FIRST)
    config = write(tmp_path, "placer.properties", "rack.first=rack-3\n")
    monkeypatch.setenv(PLACER_CONFIG_VARIABLE, config)
    assert topics_tool(*grow)[0] == 0
    assert replicas_of(alone, "private-5") == (*BEFORE, (3, 1))


def test_a_placer_that_ends_badly_does_not_keep_the_backend(alone: Running, tmp_path: Path) -> None:
    # It fails when it is closed: nobody said where its note goes.
    path = tmp_path / "k.sock"
    flags = ("--replica-placer", named("AsNamed"))
    with serve_process(alone.bootstrap_servers, path, *flags) as process:
        process.terminate()
        wait_until(lambda: process.poll() is not None, DEADLINE_S, "it has ended")
        assert process.returncode == 0
        assert not path.exists()
