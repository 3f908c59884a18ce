"""Prior values survive the journal: on the host of the backend that acted, used on request only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from kshunt.backend.access.cluster_keys import ClusterKeys, write_keys
from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.backend.journal import JOURNAL_TOPIC
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.throttles.configs import LEADER_RATE, ThrottledRate
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.operations.journal.entries import JournalState
from kshunt.backend.operations.journal.replay import JournalReplay
from kshunt.backend.operations.journal.second_copy import Remembered, file_of, path_of, read_file
from tests.support.access.keys import KEYS
from tests.support.embedded.background import running
from tests.support.faults.hostile_journal import BODIES, CLUSTER, HEADER, journal_of
from tests.support.faults.truth_ground import untrue_of
from tests.support.operations.journal import Where
from tests.support.serving import serve_process, serving
from tests.support.topics import create_topic, produce
from tests.support.waiting import wait_until

DEADLINE_S = 60.0
THROTTLES = {"throttle/broker/1", "throttle/topic/orders"}


def state_of(journal: str = "") -> JournalState:
    fold = JournalReplay(CLUSTER, KEYS)
    fold.journal_id = journal
    for record in journal_of() if not journal else fold.records({"operation/a": {}}, HEADER):
        fold.take(*record)
    return fold.state()


def test_a_file_is_read_as_it_was_written_and_nobody_elses(tmp_path: Path) -> None:
    path, remembered = tmp_path / "copy.json", Remembered.of(state_of())
    assert set(remembered.throttles) == THROTTLES
    assert read_file(path, CLUSTER, KEYS) is None
    path.write_bytes(file_of(remembered, CLUSTER, 1, KEYS))
    assert read_file(path, CLUSTER, KEYS) == remembered
    assert read_file(path, "another", KEYS) is None
    assert read_file(path, CLUSTER, ClusterKeys.new()) is None
    path.write_bytes(path.read_bytes().replace(b"1000", b"9000"))
    assert read_file(path, CLUSTER, KEYS) is None


def test_what_a_journal_has_lost_is_told_from_what_it_has_done_with() -> None:
    remembered = Remembered.of(state_of())
    assert remembered.lost_in(state_of()) == {}
    assert set(remembered.lost_in(state_of("another"))) == THROTTLES
    assert set(remembered.lost_in(JournalState())) == THROTTLES
    # The same journal, in which they ended in order.
    over = JournalReplay(CLUSTER, KEYS)
    for record in journal_of():
        over.take(*record)
    for record in over.records(dict.fromkeys(THROTTLES), HEADER):
        over.take(*record)
    assert remembered.lost_in(over.state()) == {}
    gone = JournalReplay(CLUSTER, KEYS)
    for record in [*journal_of(), (b"throttle/broker/1", None)]:
        gone.take(*record)
    assert set(remembered.lost_in(gone.state())) == {"throttle/broker/1"}
    assert "throttle/broker/1" in BODIES


# --- on a cluster


@pytest.fixture
def where() -> Iterator[Where]:
    with running(ClusterSpec(plain_brokers(3))) as cluster:
        cluster_id = cluster.call(lambda c: c.world.cluster_id)
        yield Where(cluster.bootstrap_servers, cluster_id, cluster)


def leader_rate(where: Where, broker: int) -> str | None:
    admin = AdminClient({"bootstrap.servers": where.servers, "log_level": 0})
    named = ConfigResource(ResourceType.BROKER, str(broker))
    found = admin.describe_configs([named])[named].result(DEADLINE_S)
    return found[LEADER_RATE].value if LEADER_RATE in found else None


@pytest.fixture
def lost(where: Where, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """A backend was killed in the middle of a move, and the journal deleted; its options."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    keys = tmp_path / "cluster.keys"
    write_keys(keys, KEYS)
    options = ("--cluster-keys", str(keys))
    create_topic(where.servers, "moved", [[1, 2]])
    produce(where.servers, "moved", 20, 100_000, 0)
    socket = tmp_path / "first.sock"
    with serve_process(where.servers, socket, *options) as process:
        with BackendClient(f"unix:{socket}") as client:
            client.throttles.alter_rates({1: ThrottledRate(70_000_000, None)})
            plan = ReassignmentPlan({TopicPartition("moved", 0): (1, 3)})
            client.reassignments.start(plan, throttle_bytes_per_s=2_000)
            path = path_of(where.cluster_id, {"XDG_STATE_HOME": str(tmp_path / "state")})

            def copied() -> bool:
                found = read_file(path, where.cluster_id, KEYS)
                return found is not None and "throttle/broker/1" in found.throttles

            wait_until(copied, DEADLINE_S, "the prior values are in the file")
            assert path.stat().st_mode & 0o777 == 0o600
        process.kill()
        process.wait(DEADLINE_S)
    assert leader_rate(where, 1) == "2000"
    admin = AdminClient({"bootstrap.servers": where.servers, "log_level": 0})
    admin.delete_topics([JOURNAL_TOPIC])[JOURNAL_TOPIC].result(DEADLINE_S)
    return options


def test_prior_values_come_back_after_a_deletion_when_an_admin_says_so(
    where: Where, lost: tuple[str, str], tmp_path: Path
) -> None:
    with serving(where.servers, tmp_path, *lost) as address, BackendClient(address) as client:
        client.elections.elect_preferred_leaders([TopicPartition("moved", 0)])
        remarks = client.sender.get("/v1/backend")["remarks"]
        assert any("this host remembers" in remark for remark in remarks)
        listed = client.sender.get("/v1/throttles/prior")["throttles"]
        assert ("1", LEADER_RATE, 70_000_000) in {
            (str(one["broker"]), one["setting"], one["prior_value"]["rate_bytes_per_s"])
            for one in listed
        }
        assert leader_rate(where, 1) == "2000"
        tried = client.sender.post("/v1/throttles/prior", {"validate_only": True})
        assert "broker 1 leader rate" in str(tried)
        assert leader_rate(where, 1) == "2000"
        client.sender.post("/v1/throttles/prior", {"who": "ada", "reason": "the journal is gone"})
        assert leader_rate(where, 1) == "70000000"
        assert client.sender.get("/v1/throttles/prior")["throttles"] == []
        assert "restore" in str(client.sender.get("/v1/audit"))
        assert untrue_of(client, where.servers, "moved") == []


def test_an_admin_who_discards_prior_values_is_in_the_audit(
    where: Where, lost: tuple[str, str], tmp_path: Path
) -> None:
    body = {"who": "ada", "reason": "it is right as it is", "discard": True}
    with serving(where.servers, tmp_path, *lost) as address, BackendClient(address) as client:
        client.elections.elect_preferred_leaders([TopicPartition("moved", 0)])
        client.sender.post("/v1/throttles/prior", {**body, "validate_only": True})
        assert client.sender.get("/v1/throttles/prior")["throttles"] != []
        client.sender.post("/v1/throttles/prior", body)
        client.sender.post("/v1/throttles/prior", body)
        assert client.sender.get("/v1/throttles/prior")["throttles"] == []
        assert leader_rate(where, 1) == "2000"
        told = [line for line in client.audit.lines() if line.event == "prior_discarded"]
        assert [(line.who, line.reason) for line in told] == [(body["who"], body["reason"])]
