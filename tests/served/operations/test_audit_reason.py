"""`--reason` of the tools: who and why, on their way to the audit."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.commandline.reading import UsageError
from kshunt.backend.commandline.values import reason
from kshunt.backend.domain.audit.lines import AuditEntry, AuditEvent
from kshunt.backend.domain.backend.journal import JOURNAL_TOPIC
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.throttles.configs import ThrottledRate, ThrottledReplicas
from kshunt.backend.journal_storage.topic.fenced_transactions import CommittedReader
from kshunt.backend.operations.journal.entries import EntryHeader
from kshunt.backend.operations.journal.replay import JournalReplay
from kshunt.backend.operator_identity import who_am_i
from kshunt.backend.settings import Settings
from kshunt.backend.tools import audit, election
from kshunt.backend.tools.local.audit import LocalAudit
from kshunt.backend.tools.local.cluster import LocalCluster
from kshunt.backend.tools.reassign import command
from kshunt.backend.tools.shared import private_backend
from tests.support.access.keys import KEYS
from tests.support.operations.journal import embedded_cluster, raw_producer
from tests.support.serving import serving
from tests.support.tools import PLAN, Stub, change, run_with, write
from tests.support.topics import create_topic
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("own_runtime_dir")

DEADLINE_S = 60.0


@pytest.fixture
def plan_file(tmp_path: Path) -> str:
    return write(tmp_path, "plan.json", PLAN)


def test_who_and_why_go_with_a_reassignment_and_its_end(
    stub: Stub,
    plan_file: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = run_with(command.main, capsys)
    stub.says(change(("foo-1", "NONE", "")))
    at = ("--backend", stub.address, "--reassignment-json-file", plan_file)
    monkeypatch.setenv("KSHUNT_USER", " ada@bastion ")
    for action in ("--execute", "--cancel"):
        assert run(action, *at, "--reason", " disk full ")[0] == 0
        asked = stub.asked[-1][2]
        assert (asked["who"], asked["reason"]) == ("ada@bastion", "disk full")
        assert run(action, *at)[0] == 0
        assert stub.asked[-1][2]["reason"] == ""
    code, out, err = run("--verify", *at, "--reason", "x")
    assert (code, out) == (1, "")
    assert err.startswith('Option "[reason]" can\'t be used with action "[verify]"')


def test_who_and_why_go_with_an_election(
    stub: Stub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_with(election.main, capsys)
    monkeypatch.setenv("KSHUNT_USER", "ada@bastion")
    stub.says(change())
    assert run("--backend", stub.address, "--reason", "after the restart")[0] == 0
    asked = stub.asked[-1][2]
    assert (asked["who"], asked["reason"]) == ("ada@bastion", "after the restart")
    code, _, err = run("--backend", stub.address, "--reason", "")
    assert (code, err.splitlines()[0]) == (1, "Option reason requires an argument")
    assert "--reason TEXT" in run("--help")[1]


def test_an_election_with_a_reason_is_held_by_a_backend_that_keeps_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = run_with(election.main, capsys)
    before = set(private_backend._started)
    with embedded_cluster() as where:
        create_topic(where.servers, "led", [[1, 2], [2, 1]])
        at = ("--bootstrap-server", where.servers)
        assert run(*at, "--reason", "why not", "--validate-only")[0] == 0
        assert not set(private_backend._started) - before
        code, out, err = run(*at, "--reason", "why not")
        assert (code, err) == (0, "")
        assert out.startswith("No partition needed a preferred replica election.\n")
        (_held_by,) = set(private_backend._started) - before


def test_a_backend_and_the_journal_tell_the_same_of_a_move(
    capsys: pytest.CaptureFixture[str], own_runtime_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSHUNT_USER", "ada@bastion")
    entry = {"topic": "moved", "partition": 0, "replicas": [2, 3]}
    plan = write(own_runtime_dir, "plan.json", json.dumps({"version": 1, "partitions": [entry]}))
    move = ("--execute", "--throttle", "1MB/s", "--reason", "1 | is full")
    with embedded_cluster() as where:
        create_topic(where.servers, "moved", [[1, 2]])
        with serving(where.servers, own_runtime_dir) as address, BackendClient(address) as client:
            started = run_with(command.main, capsys)
            at = ("--backend", address, "--reassignment-json-file", plan)
            assert started(*move, *at)[0] == 0

            def ended() -> bool:
                return any(getattr(row, "event", "") == "ended" for row in client.audit.rows()[1])

            wait_until(ended, DEADLINE_S, "the audit tells of the end")
            tool = run_with(audit.main, capsys)
            told = tool("--backend", address, "--format", "json")
            assert tool("--bootstrap-server", where.servers, "--format", "json") == told
    first, *_, last = json.loads(told[1])["entries"]
    assert (first["event"], last["event"]) == ("requested", "ended")
    assert (first["who"], first["reason"]) == ("ada@bastion", "1 | is full")
    assert first["touched"]["partitions"] == [["moved", 0]]


def test_what_was_just_acknowledged_and_no_reader_is_shown_yet_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with embedded_cluster() as where:
        create_topic(where.servers, JOURNAL_TOPIC, [[1, 2, 3]], {"cleanup.policy": "compact"})
        writer = raw_producer(where, **{"transactional.id": "one"})
        writer.init_transactions(DEADLINE_S)
        writer.begin_transaction()
        entry = AuditEntry(1, 0, AuditEvent.REQUESTED, "ab12", "reassign", "ada@bastion")
        header = EntryHeader(where.cluster_id, "one", 1)
        for key, value in JournalReplay(where.cluster_id, KEYS).records(
            {entry.key: entry.body()}, header
        ):
            writer.produce(JOURNAL_TOPIC, value, key, partition=0)
        assert writer.flush(DEADLINE_S) == 0
        read_all = CommittedReader.catch_up_all

        def committed_then_read(reader: CommittedReader, until: float) -> None:
            writer.commit_transaction(DEADLINE_S)
            read_all(reader, until)

        monkeypatch.setattr(CommittedReader, "catch_up_all", committed_then_read)
        with closing(LocalCluster(Settings(where.servers))) as cluster:
            assert LocalAudit(cluster).rows() == (where.cluster_id, (entry,))


def test_every_change_of_the_client_says_who_and_why(stub: Stub) -> None:
    partition = TopicPartition("foo", 1)
    stub.says(change())
    with BackendClient(stub.address) as client:
        client.reassignments.cancel([partition], Change(who="a", reason="b"))
        client.throttles.alter_rates({1: ThrottledRate(None, None)}, Change(who="a", reason="b"))
        client.throttles.alter_replicas({"foo": ThrottledReplicas()}, Change(who="a", reason="b"))
        client.elections.elect_preferred_leaders(None, Change(who="a", reason="b"))
    assert [(body["who"], body["reason"]) for _, _, body in stub.asked] == [("a", "b")] * 4


def test_a_reason_is_a_text_of_some_length() -> None:
    assert reason({}) == ""
    assert reason({"reason": "x" * 2_000}) == "x" * 2_000
    assert reason({"reason": "caf\udce9"}) == "caf?"
    for text, problem in (("", "requires an argument"), (" \n", "requires"), ("x" * 2_001, "2001")):
        with pytest.raises(UsageError, match=problem):
            reason({"reason": text})


def test_who_is_the_user_on_this_host_or_what_the_variable_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("KSHUNT_USER", raising=False)
    monkeypatch.setenv("LOGNAME", "ada")
    assert who_am_i().startswith("ada@")
    monkeypatch.setenv("KSHUNT_USER", "x" * 300)
    assert who_am_i() == "x" * 200
    monkeypatch.setenv("KSHUNT_USER", "caf\udce9@host")
    assert who_am_i() == "caf?@host"
