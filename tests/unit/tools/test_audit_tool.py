"""`kshunt audit`: its flags, both ways to the journal, and its files; `--reason` of the tools."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from confluent_kafka.admin import AdminClient

from kshunt.backend.access.cluster_keys import KEYS_VARIABLE, ClusterKeys, write_keys
from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.api.schema.audit import AuditEntries
from kshunt.backend.commandline.help_text import help_of
from kshunt.backend.domain.audit.lines import AuditEntry, AuditEvent, Touched, audit_key
from kshunt.backend.domain.audit.report import as_markdown, local_time
from kshunt.backend.domain.backend.journal import JOURNAL_TOPIC
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.untrusted.json_codec import to_document, to_json
from kshunt.backend.errors import BadInput
from kshunt.backend.operations.journal.entries import operation_key
from kshunt.backend.tools import audit
from kshunt.backend.tools.audit import COMMAND, EMPTY, FLAGS, NONE_FOUND, parse_options
from kshunt.backend.tools.shared import new_files as writing
from kshunt.backend.tools.shared.new_files import write_file
from tests.support.access.keys import KEYS
from tests.support.operations.journal import Where, embedded_cluster, journal, raw_producer
from tests.support.tools import Stub, Tool, run_with

pytestmark = pytest.mark.usefixtures("own_runtime_dir")

NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
HOST = "--bootstrap-server h:1"
DEADLINE_S = 20.0
BODY = '{"format":1}'

FIRST = AuditEntry(
    NOW_MS - HOUR_MS,
    0,
    AuditEvent.REQUESTED,
    operation_id="op-1",
    kind="reassign",
    who="ada@bastion",
    reason="broker 3 | is `full`\nand slow",
    touched=Touched.of(
        brokers=[3, 4],
        partitions=[TopicPartition("orders", n) for n in range(30)],
        throttles=["broker 3 leader rate: none → 50 MB/s"],
    ),
    backend="b-1",
)
SECOND = AuditEntry(
    NOW_MS, 0, AuditEvent.ENDED, operation_id="op-2", who="bob@desk", outcome="30 of 30 moved"
)


@pytest.fixture
def tool(capsys: pytest.CaptureFixture[str]) -> Tool:
    return run_with(audit.main, capsys)


# --- flags


MISUSES = {
    "": "give either --bootstrap-server, --backend or --context",
    f"{HOST} --backend unix:/x": "give either --bootstrap-server, --backend or --context",
    "--bootstrap-server ' '": "--bootstrap-server needs a value.",
    "--bootstrap-server": "--bootstrap-server needs a value.",
    f"{HOST} {HOST}": "--bootstrap-server is given twice",
    "--backend localhost:80": "'localhost:80' is not the address of a backend",
    "--backend unix:/x --command-config f": "--command-config needs --bootstrap-server",
    f"{HOST} --force": "--force needs --output",
    f"{HOST} --output ''": "--output needs a value.",
    f"{HOST} --verify --since 1h": "--verify checks every line, without --since",
    f"{HOST} --operation ''": "--operation needs a value.",
    f"{HOST} --operation 'a b'": "--operation 'a b' is not the id of an operation",
    f"{HOST} --format yaml": "--format 'yaml' must be one of text, markdown, json.",
    f"{HOST} --format ''": "--format '' must be one of text, markdown, json.",
    f"{HOST} --since soon": "--since 'soon' is not a time",
    f"{HOST} --since ''": "--since '' is not a time",
    f"{HOST} --since ٣h": "--since '٣h' is not a time",
    f"{HOST} --since {'9' * 5000}h": "--since '999",
    f"{HOST} --until 25:00": "--until '25:00' is not a time",
    f"{HOST} --since 1h --until 2h": "--since must be before --until",
    f"{HOST} extra": "unexpected word 'extra'",
    f"{HOST} --reason x": "unknown option --reason.",
}


@pytest.mark.parametrize("line", MISUSES)
def test_a_wrong_command_line_does_nothing_and_says_why(line: str, tool: Tool) -> None:
    code, out, err = tool(*shlex.split(line))
    assert (code, out) == (2, "")
    assert err.startswith(MISUSES[line])
    assert err.rstrip().endswith("Run 'kshunt audit --help' for every option.")


TIMES = {
    "90s": NOW_MS - 90_000,
    "30m": NOW_MS - 30 * 60_000,
    "2h": NOW_MS - 2 * HOUR_MS,
    "7d": NOW_MS - 7 * 24 * HOUR_MS,
    "999999999d": 0,
    "2027-01-15T08:00:00Z": NOW_MS,
    "2027-01-15T09:00+01:00": NOW_MS,
    "2027-01-15T08:00:00.123+00:00": NOW_MS + 123,
    "1970-01-01T00:00Z": 0,
    "0001-01-01T00:00+23:59": 0,
}


@pytest.mark.parametrize("text", TIMES)
def test_times(text: str) -> None:
    for name in ("since", "until"):
        options = parse_options({"backend": "unix:/x", name: text}, NOW_MS)
        assert (options.since_ms, options.until_ms) == (
            (TIMES[text], None) if name == "since" else (None, TIMES[text])
        )


def test_a_time_without_an_offset_is_local() -> None:
    for text in ("2026-11-21", "2026-11-21T20:50"):
        expected = datetime.fromisoformat(text).astimezone().astimezone(UTC).timestamp() * 1000
        assert parse_options({"backend": "unix:/x", "since": text}, NOW_MS).since_ms == expected


def test_the_format_follows_the_file_unless_it_is_named() -> None:
    def chosen(**given: str) -> str:
        return parse_options({"backend": "unix:/x", **given}, NOW_MS).format

    assert chosen() == "text"
    assert chosen(output="x.md") == "markdown"
    assert chosen(output="x.json") == "json"
    assert chosen(output="x.txt") == "text"
    assert chosen(output="x.md", format="json") == "json"


def test_help_names_every_flag(tool: Tool) -> None:
    code, out, err = tool("--help")
    assert (code, err) == (0, "")
    assert out.rstrip() == help_of(COMMAND).rstrip()
    assert all(f"--{flag.name}" in out for flag in FLAGS)
    assert "It creates and changes nothing." in out
    assert tool("--version")[:2] == (0, "kshunt 0.1.0\n")


def test_the_command_is_one_of_kshunts() -> None:
    def printed(*argv: str) -> str:
        command = [sys.executable, "-m", "kshunt", *argv]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=True
        ).stdout

    assert "\n  audit  " in printed("--help")
    assert printed("audit", "--help").startswith("usage: kshunt audit [OPTION ...]")
    loaded = (
        "import sys; from kshunt.backend.tools.audit import main; main(['--help']); "
        "sys.exit(bool({'numpy', 'httpx', 'confluent_kafka', 'fastapi'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", loaded], capture_output=True, timeout=60, check=True)


# --- through a backend


def test_a_backend_is_asked(tool: Tool, stub: Stub) -> None:
    stub.says(to_document(AuditEntries.of([FIRST, SECOND], "the-cluster")))
    at = ("--backend", stub.address)
    code, out, err = tool(*at)
    assert (code, err) == (0, "")
    first, second = out.splitlines()
    assert first == (
        f"{local_time(FIRST.time_ms)}  requested  ada@bastion  reassign op-1 · 2 brokers, 1 topic, "
        "30 partitions, 1 throttle · “broker 3 | is `full` ⏎ and slow”"
    )
    assert second == f"{local_time(NOW_MS)}  ended      bob@desk     op-2 · 30 of 30 moved"
    assert stub.asked == [("GET", "/v1/audit", None)]
    tool(*at, "--since", "1970-01-01T00:00:01Z", "--until", "2027-01-15T08:00Z", "--operation", "x")
    asked = urlsplit(stub.asked[-1][1])
    assert asked.path == "/v1/audit"
    assert parse_qs(asked.query) == {
        "since_ms": ["1000"],
        "until_ms": [str(NOW_MS)],
        "operation": ["x"],
    }
    code, out, _ = tool(*at, "--format", "markdown")
    assert (code, out) == (0, as_markdown([FIRST, SECOND], "the-cluster"))
    code, out, _ = tool(*at, "--format", "json")
    expected = to_json(AuditEntries.of([FIRST, SECOND], "the-cluster"))
    assert (code, json.loads(out)) == (0, json.loads(expected))


def test_a_backend_that_refuses_or_is_away(tool: Tool, stub: Stub, tmp_path: Path) -> None:
    stub.says({"detail": "The journal is damaged.", "advice": "Look."}, 503)
    assert tool("--backend", stub.address) == (1, "", "Error: The journal is damaged. Look.\n")
    code, out, err = tool("--backend", f"unix:{tmp_path}/none.sock", "--output", f"{tmp_path}/a.md")
    assert (code, out) == (1, "")
    assert err.startswith("Error: No backend answers at")
    assert not (tmp_path / "a.md").exists()


def test_the_client_asks_and_reads(stub: Stub) -> None:
    stub.says(to_document(AuditEntries.of([FIRST], "c")))
    with BackendClient(stub.address) as client:
        assert client.audit.rows() == ("c", (FIRST,))


def test_a_backend_is_asked_whether_the_past_was_rewritten(tool: Tool, stub: Stub) -> None:
    stub.says({"lines": 7, "problems": ["The line audit/1 does not belong to the chain."]})
    code, out, _ = tool("--backend", stub.address, "--verify")
    assert (code, out.splitlines()[-1]) == (1, "Verified lines: 7. Problems: 1.")
    assert urlsplit(stub.asked[-1][1]).path == "/v1/audit/verification"


def test_a_terminal_of_another_encoding_gets_what_it_can_show(stub: Stub) -> None:
    stub.says(to_document(AuditEntries.of([FIRST], "c")))
    command = [sys.executable, "-m", "kshunt", "audit", "--backend", stub.address]
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run(command, capture_output=True, env=environment, timeout=60, check=True)
    assert b"\\u201cbroker 3 | is `full` \\u23ce and slow\\u201d" in done.stdout


# --- from the journal, where no backend runs


@pytest.fixture
def with_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This host has the keys of the cluster's backends."""
    path = tmp_path / "cluster.keys"
    write_keys(path, KEYS)
    monkeypatch.setenv(KEYS_VARIABLE, str(path))


@pytest.fixture(scope="module")
def journal_cluster() -> Iterator[Where]:
    """A cluster with a journal: two entries, one of a newer kshunt, one that is no entry."""
    with embedded_cluster() as where:
        asyncio.run(_fill(where))
        yield where


async def _fill(where: Where) -> None:
    async with journal(where, JOURNAL_TOPIC, "b-1") as writer:
        await writer.open()
        await writer.append({FIRST.key: FIRST.body(), operation_key("op-1"): {"anything": 1}})
        await writer.append({audit_key(NOW_MS - 1, 7): {**SECOND.body(), "format": 2}})
        await writer.append({SECOND.key: SECOND.body()})
    raw = raw_producer(where)
    raw.produce(JOURNAL_TOPIC, b"{}", b"audit/\x1b[2J", partition=0)
    assert raw.flush(DEADLINE_S) == 0


def test_lines_that_nothing_proves_are_shown_and_said_to_be(
    tool: Tool, journal_cluster: Where, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "other.keys"
    write_keys(path, ClusterKeys.new())
    monkeypatch.setenv(KEYS_VARIABLE, str(path))
    code, out, err = tool("--bootstrap-server", journal_cluster.servers)
    assert code == 0
    assert "WARNING: these lines cannot be verified" in err
    assert "requested  ada@bastion  reassign op-1" in out


@pytest.mark.usefixtures("with_keys")
def test_the_chain_is_verified_where_no_backend_runs(tool: Tool, journal_cluster: Where) -> None:
    at = ("--bootstrap-server", journal_cluster.servers)
    assert tool(*at, "--verify") == (0, "Verified lines: 3. Problems: 0.\n", "")


@pytest.mark.usefixtures("with_keys")
def test_the_journal_is_read_where_no_backend_runs(
    tool: Tool, journal_cluster: Where, tmp_path: Path
) -> None:
    at = ("--bootstrap-server", journal_cluster.servers)
    code, out, err = tool(*at)
    assert (code, err) == (0, "")
    alien, first, newer, second = out.splitlines()
    assert alien.startswith("unknown time")
    assert "audit/[U+001B][2J: foreign: " in alien
    assert "requested  ada@bastion  reassign op-1 · 2 brokers" in first
    assert "unreadable entry audit/1799999999999-0007: newer: It has format 2" in newer
    assert "ended      bob@desk     op-2 · 30 of 30 moved" in second
    document = json.loads(tool(*at, "--format", "json")[1])
    assert document["cluster_id"] == journal_cluster.cluster_id
    assert [entry["unreadable"] for entry in document["entries"]] == [
        "foreign",
        None,
        "newer",
        None,
    ]
    report = tmp_path / "report.md"
    code, out, err = tool(
        *at, "--operation", "op-2", "--since", _iso(NOW_MS), "--output", str(report)
    )
    assert (code, out, err) == (0, f"Entries written to {report}: 2.\n", "")
    assert "| ended | op-2 | bob@desk |" in report.read_text()
    assert "ada@" not in report.read_text()
    assert "## Unreadable entries" in report.read_text()


def _iso(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms // 1000, UTC).isoformat()


def test_reading_creates_nothing_fences_nobody_and_says_that_it_is_empty(tool: Tool) -> None:
    with embedded_cluster() as where:
        at = ("--bootstrap-server", where.servers)
        assert tool(*at) == (0, f"{EMPTY}\n", "")
        assert tool(*at, "--since", "2h") == (0, f"{NONE_FOUND}\n", "")
        code, out, _ = tool(*at, "--format", "json")
        assert (code, json.loads(out)) == (0, {"cluster_id": where.cluster_id, "entries": []})
        code, out, _ = tool(*at, "--format", "markdown")
        assert (code, "No entries." in out) == (0, True)
        admin = AdminClient({"bootstrap.servers": where.servers, "log_level": 0})
        assert JOURNAL_TOPIC not in admin.list_topics(timeout=DEADLINE_S).topics

        async def write_between_reads() -> tuple[tuple[int, str, str], ...]:
            async with journal(where, JOURNAL_TOPIC, "b-1") as writer:
                await writer.open()
                empty = await asyncio.to_thread(tool, *at)
                await writer.append({FIRST.key: FIRST.body()})
                one = await asyncio.to_thread(tool, *at)
                await writer.append({SECOND.key: SECOND.body()})
                return empty, one, await asyncio.to_thread(tool, *at)

        empty, one, two = asyncio.run(write_between_reads())
        assert empty == (0, f"{EMPTY}\n", "")
        assert (len(one[1].splitlines()), len(two[1].splitlines())) == (1, 2)


def test_a_cluster_that_is_not_there(tool: Tool) -> None:
    code, out, err = tool("--bootstrap-server", "127.0.0.1:1")
    assert (code, out) == (1, "")
    assert err.startswith("Error: ")


# --- files


def test_a_file_is_never_replaced_unasked(tool: Tool, stub: Stub, tmp_path: Path) -> None:
    stub.says(to_document(AuditEntries.of([SECOND], "c")))
    path = tmp_path / "incident.md"
    path.write_text("mine")
    at = ("--backend", stub.address, "--output", str(path))
    code, out, err = tool(*at)
    assert (code, out) == (1, "")
    assert err == (
        f"Error: The file {path} was not written: it already exists. Name another file, or add "
        "--force to replace it.\n"
    )
    assert (path.read_text(), stub.asked) == ("mine", [])
    assert tool(*at, "--force")[0] == 0
    assert path.read_text() == as_markdown([SECOND], "c")
    assert sorted(tmp_path.iterdir()) == [path, tmp_path / "stub.sock"]


def test_a_file_that_comes_in_the_meantime_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("theirs")
    monkeypatch.setattr(writing, "check_target", lambda *_, **__: None)
    with pytest.raises(BadInput, match="it already exists"):
        write_file(path, "mine", force=False)
    assert path.read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [path]


def test_only_an_ordinary_file_is_replaced(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("x")
    link.symlink_to(target)
    for path in (link, tmp_path, Path(os.devnull)):
        for force in (False, True):
            with pytest.raises(BadInput, match="it exists and is not an ordinary file"):
                write_file(path, "y", force=force)
    assert target.read_text() == "x"
    for path in (tmp_path / "none" / "a.md", target / "a.md", tmp_path / ("x" * 300)):
        with pytest.raises(BadInput, match="was not written"):
            write_file(path, "y", force=False)
    assert sorted(tmp_path.iterdir()) == [link, target]
