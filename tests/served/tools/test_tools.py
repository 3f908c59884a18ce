"""`kshunt kafka-reassign-partitions`: flags, words, exit codes, and the way to a backend.

The backend is bytes on a Unix-domain socket. The tests of plans, of `--progress` and of
`--generate` in `tests/kafka` compare the tool with Apache's own on real brokers.
"""

import json
import os
import shlex
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.commandline.help_text import help_of
from kshunt.backend.errors import ConfigError, NotActive
from kshunt.backend.local_sockets import PATH_BYTES_MAX, answers, runtime_dir, socket_path
from kshunt.backend.tools.reassign.command import main
from kshunt.backend.tools.reassign.options import COMMAND, FLAGS
from kshunt.backend.tools.reassign.reports import EXISTING_ASSIGNMENT
from tests.support.brokers.launcher import RealKafka
from tests.support.ports import free_ports
from tests.support.tools import PLAN, Stub, Tool, change, run_with, write
from tests.support.topics import create_topic
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("own_runtime_dir")

JAVA_TOOL = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
FOO_1 = {"topic": "foo", "partition": 1}


@pytest.fixture
def tool(capsys: pytest.CaptureFixture[str]) -> Tool:
    return run_with(main, capsys)


@pytest.fixture
def plan_file(tmp_path: Path) -> str:
    return write(tmp_path, "plan.json", PLAN)


# Flags

HOST = "--bootstrap-server h:1"
FILE = "--reassignment-json-file f"
ACTIONS = "Command must include exactly one action: --generate, --execute, --verify, --cancel, "

KAFKAS_MISUSES = {
    f"--execute --verify {HOST}": f"{ACTIONS}--list",
    HOST: f"{ACTIONS}--list",
    "--verify --list --cancel": f"{ACTIONS}--list",
    f"--execute {FILE}": "Please specify either --bootstrap-server or --bootstrap-controller",
    "--list --bootstrap-server h:1 --bootstrap-controller c:1": (
        "Please don't specify both --bootstrap-server and --bootstrap-controller"
    ),
    f"--execute {HOST}": 'Missing required argument "[reassignment-json-file]"',
    f"--verify {HOST}": 'Missing required argument "[reassignment-json-file]"',
    f"--cancel {HOST}": 'Missing required argument "[reassignment-json-file]"',
    f"--generate {HOST}": 'Missing required argument "[topics-to-move-json-file]"',
    f"--generate {HOST} --topics-to-move-json-file f": 'Missing required argument "[broker-list]"',
    f"--list {HOST} --throttle 5000": 'Option "[throttle]" can\'t be used with action "[list]"',
    f"--execute {HOST} {FILE} --preserve-throttles": (
        'Option "[preserve-throttles]" can\'t be used with action "[execute]"'
    ),
    f"--verify {HOST} {FILE} --additional": (
        'Option "[additional]" can\'t be used with action "[verify]"'
    ),
    f"--execute {HOST} {FILE} --broker-list 1,2 --disable-rack-aware": (
        'Option "[broker-list]" can\'t be used with action "[execute]"'
    ),
    f"--verify {HOST} {FILE} --disallow-replication-factor-change": (
        'Option "[disallow-replication-factor-change]" can\'t be used with action "[verify]"'
    ),
    "--verify --bootstrap-controller c:1 --reassignment-json-file f": (
        'Option "[bootstrap-controller]" can\'t be used with action "[verify]"'
    ),
}
"""What Apache's tool says too, but for the end of `ACTIONS`: it knows no --progress."""

OUR_MISUSES = {
    "": f"{ACTIONS}--list, --progress",
    "--foo": "foo is not a recognized option",
    "--list extra": "Unexpected argument 'extra'",
    "--exec": "exec is not a recognized option",
    "--list --bootstrap-server": "Option bootstrap-server requires an argument",
    "--list --bootstrap-server ''": "Option bootstrap-server requires an argument",
    "--list --json=yes": "Option json: ignored explicit argument 'yes'",
    f"--list {HOST} {HOST}": (
        "Found multiple arguments for option bootstrap-server, but you asked for only one"
    ),
    f"--execute --zookeeper z:1 {HOST} {FILE}": (
        "Please don't specify both --zookeeper and --bootstrap-server"
    ),
    f"--execute --zk-tls-config-file f {HOST} {FILE}": ("--zk-tls-config-file needs --zookeeper"),
    f"--cancel --zookeeper z:1 {FILE}": (
        'Option "[zookeeper]" can\'t be used with action "[cancel]"'
    ),
    f"--progress --zookeeper z:1 {FILE}": (
        'Option "[zookeeper]" can\'t be used with action "[progress]"'
    ),
    f"--progress {HOST}": 'Missing required argument "[reassignment-json-file]"',
    f"--progress {HOST} {FILE} --throttle 1MB": 'Option "[throttle]" can\'t be used with action',
    f"--list {HOST} --backend unix:/x": (
        "Please don't specify both --bootstrap-server and --backend"
    ),
    "--list --backend localhost:80": "'localhost:80' is not the address of a backend",
    "--list --backend unix:/x --command-config f": "--command-config needs --bootstrap-server",
    f"--execute {HOST} {FILE} --throttle fast": "Cannot parse argument 'fast' of option throttle",
    f"--execute {HOST} {FILE} --throttle 999": (
        "Cannot parse argument '999' of option throttle: A throttle of 999 B/s is less than 1 KB/s"
    ),
    f"--execute {HOST} {FILE} --throttle -2": "Cannot parse argument '-2' of option throttle",
    f"--execute {HOST} {FILE} --replica-alter-log-dirs-throttle 0": (
        "Cannot parse argument '0' of option replica-alter-log-dirs-throttle"
    ),
    f"--execute {HOST} {FILE} --timeout soon": "Cannot parse argument 'soon' of option timeout",
    f"--generate {HOST} --topics-to-move-json-file f --broker-list 1,x": (
        "Broker list '1,x' is not a list of broker ids"
    ),
    f"--generate {HOST} --topics-to-move-json-file f --broker-list 1,2,1": (
        "Broker list contains duplicate entries: [1]"
    ),
}


@pytest.mark.conforms("kip-179:not-both")
@pytest.mark.parametrize("line", [*KAFKAS_MISUSES, *OUR_MISUSES])
def test_a_wrong_command_line_does_nothing_and_says_why(line: str, tool: Tool) -> None:
    words = (KAFKAS_MISUSES | OUR_MISUSES)[line]
    code, out, err = tool(*shlex.split(line))
    assert (code, out) == (1, "")
    assert err.splitlines()[0].startswith(words)
    assert "--help" in err.splitlines()[-1]

    code, out, err = tool(*shlex.split(line), "--json")
    assert (code, err) == (1, "")
    assert json.loads(out)["error"]["detail"].startswith(words)


@pytest.mark.conforms("kip-179:tool-otherwise-unchanged")
@pytest.mark.kafka
def test_apaches_tool_says_the_same_of_a_wrong_command_line(kafka: RealKafka) -> None:
    for line in list(KAFKAS_MISUSES)[::3]:
        java = kafka.java_tool(JAVA_TOOL, *shlex.split(line))
        assert java.returncode == 1
        assert KAFKAS_MISUSES[line] in java.stderr.splitlines()


@pytest.mark.conforms("kip-179:zookeeper-warning", "kip-179:deprecation")
def test_zookeeper_warns_and_then_says_who_does_not_answer(tool: Tool) -> None:
    (port,) = free_ports(1)
    code, out, err = tool("--list", "--zookeeper", f"127.0.0.1:{port}")
    assert (code, out) == (1, "")
    warning, error = err.splitlines()
    assert "--zookeeper is deprecated and will be removed in a future version" in warning
    assert "--bootstrap-server" in warning
    assert error.startswith(f"Error: ZooKeeper (127.0.0.1:{port}) cannot be reached")


@pytest.mark.parametrize("connect", ["z", "z:1/", "z:1,y"])
def test_what_is_no_address_of_zookeeper_is_refused(connect: str, tool: Tool) -> None:
    code, out, err = tool("--list", "--zookeeper", connect)
    assert (code, out) == (1, "")
    assert "host:port" in err


def test_a_controller_is_not_asked_directly(tool: Tool) -> None:
    assert tool("--list", "--bootstrap-controller", "c:1")[0] == 1


@pytest.mark.conforms("kip-179-early-draft:tool-options")
def test_help_names_every_flag_and_every_exit_code(tool: Tool) -> None:
    code, out, err = tool("--help", "--throttle", "-1")
    assert (code, err) == (0, "")
    assert out.rstrip() == help_of(COMMAND).rstrip()
    assert all(f"--{flag.name}" in out for flag in FLAGS)
    assert all(f"\n  {code}  " in out for code in (0, 1, 2))


def test_version(tool: Tool) -> None:
    assert tool("--version")[:2] == (0, "kshunt 0.1.0\n")


def test_a_missing_file_is_named_in_kafkas_words(tool: Tool, tmp_path: Path, stub: Stub) -> None:
    at = ("--backend", stub.address, "--reassignment-json-file")
    missing = str(tmp_path / "missing.json")
    assert f"Unable to read file {missing}: No such file" in tool("--verify", *at, missing)[2]
    assert "Is a directory" in tool("--verify", *at, str(tmp_path))[2]
    config = ("--command-config", str(tmp_path / "missing.properties"))
    code, _, err = tool("--list", *shlex.split(HOST), *config)
    assert code == 1
    assert "missing.properties: No such file" in err
    assert stub.asked == []


# Words and exit codes


def list_of(*moves: Mapping[str, object]) -> dict[str, object]:
    return {"reassignments": list(moves)}


def test_list(tool: Tool, stub: Stub) -> None:
    at = ("--list", "--backend", stub.address)
    stub.says(list_of())
    assert tool(*at)[:2] == (0, "No partition reassignments found.\n")
    moving = {**FOO_1, "replicas": [1, 2, 3], "adding": [3], "removing": []}
    other = {**FOO_1, "topic": "bar", "replicas": [1, 2], "adding": [2], "removing": [1]}
    stub.says(list_of(moving, other))
    assert tool(*at)[:2] == (
        0,
        "Current partition reassignments:\n"
        "bar-1: replicas: 1,2. adding: 2. removing: 1.\n"
        "foo-1: replicas: 1,2,3. adding: 3.\n",
    )
    assert json.loads(tool(*at, "--json")[1]) == list_of(other, moving)


ROLLBACK = {"version": 1, "partitions": [{**FOO_1, "replicas": [1, 2], "log_dirs": ["any", "any"]}]}
ROLLBACK_TEXT = """\
Current partition replica assignment

{"version":1,"partitions":[{"topic":"foo","partition":1,"replicas":[1,2],"log_dirs":["any","any"]}]}

Save this to use as the --reassignment-json-file option during rollback
"""


@pytest.mark.conforms("kip-179:bootstrap-auto-removed")
def test_execute(tool: Tool, stub: Stub, plan_file: str) -> None:
    stub.says(change(("foo-1", "NONE", ""), rollback_plan=ROLLBACK, notes=["Broker 9 is down."]))
    at = ("--execute", "--backend", stub.address, "--reassignment-json-file", plan_file)
    code, out, err = tool(*at, "--throttle", "50MB/s", "--timeout", "700", "--additional")
    assert (code, err) == (0, "Broker 9 is down.\n")
    assert out == (
        f"{ROLLBACK_TEXT}"
        "The inter-broker throttle limit was set to 50000000 B/s\n"
        "The throttle will be removed automatically when the reassignment completes; "
        "--verify is not needed for that.\n"
        "Successfully started partition reassignment for foo-1\n"
    )
    asked = stub.asked[-1][2]
    assert (asked["throttle_bytes_per_s"], asked["timeout_ms"]) == (50_000_000, 700)
    assert asked["additional"]
    assert asked["allow_replication_factor_change"]
    assert asked["auto_remove_throttle"]
    code, out, _ = tool(*at, "--disallow-replication-factor-change", "--json")
    assert (code, json.loads(out)["operation_id"]) == (0, "1")
    assert not stub.asked[-1][2]["allow_replication_factor_change"]


def test_execute_once_more_with_another_rate(tool: Tool, stub: Stub, plan_file: str) -> None:
    said = "Operation 1 already moves 1 partition of this plan."
    moving = change(("foo-1", "NONE", ""), notes=[said], rollback_plan=ROLLBACK)
    stub.says({**moving, "already_moving": ["foo-1"]})
    at = ("--execute", "--backend", stub.address, "--reassignment-json-file", plan_file)
    code, out, err = tool(*at, "--throttle", "50MB/s", "--additional")
    assert (code, err) == (0, f"{said}\n")
    assert out == (
        f"{ROLLBACK_TEXT}"
        "The inter-broker throttle limit was set to 50000000 B/s\n"
        "The throttle will be removed automatically when the reassignment completes; "
        "--verify is not needed for that.\n"
        "Already moving, and not started again: foo-1\n"
    )


def test_execute_that_the_cluster_refuses(tool: Tool, stub: Stub, plan_file: str) -> None:
    stub.says(change(("foo-1", "INVALID", "Broker 3 is fenced."), rollback_plan=ROLLBACK))
    at = ("--execute", "--backend", stub.address, "--reassignment-json-file", plan_file)
    assert tool(*at, "--throttle", "1000") == (
        1,
        ROLLBACK_TEXT,
        "Error reassigning partition(s):\nfoo-1: Broker 3 is fenced.\n",
    )


def test_execute_while_others_move(tool: Tool, stub: Stub, plan_file: str) -> None:
    problem = {"title": "Conflict", "detail": "bar-0 moves already.", "advice": "Wait."}
    stub.says(problem, 409)
    at = ("--execute", "--backend", stub.address, "--reassignment-json-file", plan_file)
    assert tool(*at) == (1, "", f"{EXISTING_ASSIGNMENT}\nbar-0 moves already.\n")
    assert tool(*at, "--additional") == (1, "", "Error: bar-0 moves already. Wait.\n")


def test_execute_by_a_backend_that_is_not_active(tool: Tool, stub: Stub, plan_file: str) -> None:
    detail, advice = "Backend b-1 is the active backend. Nothing was changed.", "Stop that one."
    stub.says({"title": NotActive.title, "detail": detail, "advice": advice}, 409)
    at = ("--execute", "--backend", stub.address, "--reassignment-json-file", plan_file)
    assert tool(*at) == (1, "", f"Error: {detail} {advice}\n")


def test_execute_with_log_directories(tool: Tool, stub: Stub, tmp_path: Path) -> None:
    entry = {**FOO_1, "replicas": [3, 2], "log_dirs": ["/a", "/b"]}
    path = write(tmp_path, "dirs.json", json.dumps({"partitions": [entry]}))
    outcomes = [("foo-1 on broker 3", "NONE", ""), ("foo-1 on broker 2", "OFFLINE", "")]
    stub.says(change(("foo-1", "NONE", ""), *outcomes))
    at = ("--execute", "--backend", stub.address, "--reassignment-json-file", path)
    code, out, err = tool(*at)
    assert (code, err) == (1, "Failed to alter dir for foo-1-2: OFFLINE\n")
    assert out.splitlines()[-1] == (
        "Successfully started moving log directory to /a for replica foo-1 with broker 3 "
    )


@pytest.mark.parametrize(
    ("name", "code", "out", "err"),
    [
        ("NONE", 0, "Successfully cancelled partition reassignment for: foo-1\n", ""),
        (
            "NO_REASSIGNMENT_IN_PROGRESS",
            0,
            "None of the specified partition reassignments are active.\n",
            "",
        ),
        ("UNKNOWN", 1, "", "Error cancelling partition reassignment for:\nfoo-1: UNKNOWN\n"),
    ],
)
def test_cancel(
    name: str, code: int, out: str, err: str, tool: Tool, stub: Stub, plan_file: str
) -> None:
    stub.says(change(("foo-1", name, "")))
    at = ("--cancel", "--backend", stub.address, "--reassignment-json-file", plan_file)
    moves = "None of the specified partition moves are active.\n"
    assert tool(*at, "--preserve-throttles") == (code, out + moves, err)
    assert stub.asked[-1][2]["partitions"] == [FOO_1]
    assert stub.asked[-1][2]["preserve_throttles"]


def test_what_a_terminal_would_obey_is_not_printed(tool: Tool, stub: Stub) -> None:
    stub.says({"detail": "topic \x1b[31mred\u202e\nis gone"}, 422)
    assert tool("--list", "--backend", stub.address)[2] == "Error: topic ?[31mred?\nis gone\n"


def test_a_backend_that_speaks_no_json_is_an_error(tool: Tool, stub: Stub) -> None:
    stub.status, stub.content = 502, b"<html>"
    code, _, err = tool("--list", "--backend", stub.address)
    assert (code, err) == (1, "Error: The backend answered 502.\n")


# The way to a backend


HEAVY = {
    "numpy",
    "kafka",
    "confluent_kafka",
    "httpx",
    "pyarrow",
    "fastapi",
    "asyncio",
    "subprocess",
}
CHANGES_ALONE = {"approval", "configs", "deadlines", "end_words", "stuck_causes"}
"""What values are made of that only a change, or a backend, has a use for."""


@pytest.mark.parametrize(
    ("flags", "spared"),
    [
        (("--list",), {"expected_end_values", "forecast_record", "settings"}),
        (("--verify", "--reassignment-json-file", "p"), {"expected_end_values", "settings"}),
        (("--progress", "--reassignment-json-file", "p"), {"settings"}),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_read_from_a_backend_loads_what_it_needs_alone(
    flags: tuple[str, ...], spared: set[str], stub: Stub, tmp_path: Path
) -> None:
    answers = {
        "--list": list_of(),
        "--verify": {"rows": []},
        "--progress": {"rows": []},
    }
    stub.says(answers[flags[0]])
    write(tmp_path, "p", PLAN)
    program = (
        "import sys; from kshunt.backend.cli.main import main;"
        f"main(['kafka-reassign-partitions', *{flags!r}, '--backend', '{stub.address}']);"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.stderr == ""
    loaded = set(done.stdout.splitlines()[-1].split())
    assert not HEAVY & loaded
    ours = {name.rpartition(".")[2] for name in loaded if name.startswith("kshunt.backend.")}
    assert not (CHANGES_ALONE | spared) & ours


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    command = [sys.executable, "-m", "kshunt", "kafka-reassign-partitions", "--help"]
    receiving, sending = os.pipe()
    os.close(receiving)
    with open(sending, "wb") as closed:
        done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (1, b"")


def test_one_socket_a_cluster_and_configuration(own_runtime_dir: Path) -> None:
    path = socket_path("a:1,b:2", None)
    assert path == socket_path("b:2, a:1", None)
    assert len({path, socket_path("a:1", None), socket_path("a:1,b:2", Path("/x"))}) == 3
    assert path.parent == own_runtime_dir / "kshunt"
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_socket_fits_the_limit_of_its_address(
    own_runtime_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = own_runtime_dir / ("d" * 100)
    deep.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    path = socket_path("a:1", None)
    assert path.parent.parent == own_runtime_dir
    assert len(os.fsencode(path)) <= PATH_BYTES_MAX


@pytest.mark.parametrize("unusable", ["", "relative", "/proc/1/nowhere"])
def test_without_a_runtime_folder_the_temporary_one_is_used(
    unusable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", unusable)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert runtime_dir() == tmp_path / f"kshunt-{os.geteuid()}"


@pytest.mark.parametrize("spoil", [lambda f: f.chmod(0o750), lambda f: (f.rmdir(), f.touch())])
def test_a_folder_that_others_reach_into_is_refused(
    spoil: Callable[[Path], object], tool: Tool, own_runtime_dir: Path
) -> None:
    folder = socket_path("a:1", None).parent
    assert folder.parent == own_runtime_dir
    spoil(folder)
    with pytest.raises(ConfigError):
        runtime_dir()
    assert tool("--list", *shlex.split(HOST))[0] == 1


def test_without_brokers_reads_and_changes_fail_and_leave_nothing_running(
    tool: Tool, plan_file: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        servers = f"127.0.0.1:{server.getsockname()[1]}"
    path = socket_path(servers, None)
    # A killed backend leaves its socket behind; it counts as none.
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    at = ("--bootstrap-server", servers)
    code, _, err = tool("--list", *at)
    assert code == 1
    assert servers in err
    code, _, err = tool("--execute", *at, "--reassignment-json-file", plan_file)
    assert code == 1
    assert (
        "The backend stopped immediately with exit code 1; nothing was changed. Its output:" in err
    )
    assert servers in err.splitlines()[-1]
    assert not answers(path)
    assert stat.S_IMODE(path.with_suffix(".log").stat().st_mode) == 0o600


@pytest.mark.conforms("kip-179:bootstrap-server", "kip-179-early-draft:intermediating-broker")
@pytest.mark.kafka
def test_a_change_starts_one_private_backend_and_reads_use_it(
    kafka: RealKafka, tmp_path: Path
) -> None:
    create_topic(kafka.bootstrap_servers, "tool-private", [[kafka.broker_ids[0]]])
    entry = {"topic": "tool-private", "partition": 0, "replicas": [kafka.broker_ids[0]]}
    plan = write(tmp_path, "plan.json", json.dumps({"partitions": [entry]}))
    path = socket_path(kafka.bootstrap_servers, None)

    def run(*argv: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "kshunt", "kafka-reassign-partitions", *argv]
        command += ["--bootstrap-server", kafka.bootstrap_servers]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    read = run("--progress", "--reassignment-json-file", plan)
    assert (read.returncode, read.stderr) == (0, "")
    assert list(path.parent.iterdir()) == []

    started = run("--execute", "--reassignment-json-file", plan)
    assert (started.returncode, started.stderr) == (0, "")
    with BackendClient(f"unix:{path}") as client:
        pid = client.cluster().backend_pid
        assert run("--execute", "--reassignment-json-file", plan).returncode == 0
        assert client.cluster().backend_pid == pid
        assert run("--progress", "--reassignment-json-file", plan).stdout == read.stdout
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not path.exists(), 60, "the private backend has stopped")
    assert run("--progress", "--reassignment-json-file", plan).stdout == read.stdout
