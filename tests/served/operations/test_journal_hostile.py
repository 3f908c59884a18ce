"""A backend whose journal somebody else writes: it serves, changes, and does nothing forged."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from kshunt.backend.access.cluster_keys import ClusterKeys, write_keys
from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.backend.journal import JOURNAL_TOPIC
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.operation import OperationState
from kshunt.backend.domain.shrink.phases import CutOver, ShrinkPhase, ShrinkRequest
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.errors import BackendError
from kshunt.backend.operations.journal.entries import (
    BACKEND_KEY,
    EntryHeader,
    Record,
    operation_key,
)
from kshunt.backend.operations.state.operation_body import operation_body
from tests.support.access.keys import KEYS
from tests.support.embedded.background import running
from tests.support.faults.hostile_journal import (
    BEAT,
    BODIES,
    HEADER,
    SHRINK,
    SHRINK_WORK,
    forged,
    mutated,
    unsigned,
)
from tests.support.operations.journal import Where, raw_producer
from tests.support.serving import serving
from tests.support.topics import create_topic, produce
from tests.support.waiting import wait_until

DEADLINE_S = 60.0
VICTIM = "victim"


@pytest.fixture
def where() -> Iterator[Where]:
    with running(ClusterSpec(plain_brokers(3))) as cluster:
        cluster_id = cluster.call(lambda c: c.world.cluster_id)
        found = Where(cluster.bootstrap_servers, cluster_id, cluster)
        create_topic(found.servers, VICTIM, [[1, 2], [2, 3]])
        produce(found.servers, VICTIM, 5, 100, 0)
        yield found


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.keys"
    write_keys(path, KEYS)
    return path


def write(where: Where, records: list[Record]) -> None:
    """As somebody who can write the topic does; not in a transaction."""
    producer = raw_producer(where)
    for key, value in records:
        producer.produce(JOURNAL_TOPIC, value, key, partition=0)
    assert producer.flush(DEADLINE_S) == 0


def deletion(where: Where) -> list[Record]:
    """A shrink that is about to delete its topic, as somebody without our keys says."""
    request = ShrinkRequest(VICTIM, 1, 0, CutOver.SAME_NAME)
    work = replace(SHRINK_WORK, request=request, phase=ShrinkPhase.DELETE, confirmed="ada")
    shrink = replace(SHRINK, id="dead01", state=OperationState.RUNNING)
    body = operation_body(shrink, None, replace(work, copy=f"{VICTIM}-copy"))
    return list(forged(operation_key("dead01"), body, header(where)))


def header(where: Where) -> EntryHeader:
    return replace(HEADER, cluster_id=where.cluster_id)


def everything(where: Where) -> list[Record]:
    """Some hundreds of statements, tombstones for all keys, and records that are none."""
    found: list[Record] = []
    for key, body in BODIES.items():
        for changed in islice(mutated(body), 0, None, 40):
            found += forged(key, changed, header(where))
    found += [(key.encode(), None) for key in BODIES]
    return [*found, (b"\xff", b"?"), (b"", b"{}"), (b"operation/aa11#0000", b"?")]


def change(client: BackendClient) -> None:
    """Something that goes through the journal, and must be done."""
    answer = client.elections.elect_preferred_leaders([TopicPartition(VICTIM, 0)])
    assert answer is not None


def topics(where: Where) -> set[str]:
    admin = AdminClient({"bootstrap.servers": where.servers, "log_level": 0})
    return set(admin.list_topics(timeout=DEADLINE_S).topics)


def test_a_backend_serves_and_changes_whatever_is_written_into_its_journal(
    where: Where, keys: Path, tmp_path: Path
) -> None:
    options = ("--cluster-keys", str(keys))
    with serving(where.servers, tmp_path, *options) as address, BackendClient(address) as client:
        change(client)
        ours = {one.id for one in client.operations.list()}
        harm = [*everything(where), *deletion(where)]
        assert len(harm) > 300
        write(where, harm)
        change(client)
        after = {one.id for one in client.operations.list()}
        assert ours < after
        assert len(after) == len(ours) + 1
    # One that has to find out from the log alone.
    with serving(where.servers, tmp_path, *options) as address, BackendClient(address) as client:
        change(client)
        assert {one.id for one in client.operations.list()} > after
        said = client.sender.get("/v1/backend")
        why = {one["key"]: one["why"] for one in said["unreadable"]}
        assert why["operation/dead01"] in ("unsigned", "unknown_key", "forged")
        assert any("ignored" in remark for remark in said["remarks"])
    assert VICTIM in topics(where)


@contextmanager
def listener() -> Iterator[tuple[str, list[bytes]]]:
    """An address, and what is sent there."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.settimeout(5)
                    heard.append(connection.recv(65_536))

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", heard
        server.shutdown(socket.SHUT_RDWR)
    thread.join(DEADLINE_S)


def test_a_forged_heartbeat_neither_draws_requests_nor_holds_anybody_back(
    where: Where, keys: Path, tmp_path: Path
) -> None:
    over = threading.Event()
    with listener() as (address, heard):

        def beat() -> None:
            number = 0
            while not over.wait(0.2):
                number += 1
                body = replace(BEAT, address=address, beat_ms=number).body()
                write(where, list(forged(BACKEND_KEY, body, header(where))))

        options = ("--cluster-keys", str(keys))
        with serving(where.servers, tmp_path, *options) as at, BackendClient(at) as client:
            change(client)
        beating = threading.Thread(target=beat)
        beating.start()
        try:
            with serving(where.servers, tmp_path, *options) as at, BackendClient(at) as client:
                change(client)
                assert client.sender.get("/v1/backend")["acting"]["address"] != address
        finally:
            over.set()
            beating.join()
        assert heard == []


# --- whose journal it is


def test_a_backend_with_other_keys_stands_aside(where: Where, keys: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.keys"
    write_keys(other, ClusterKeys.new())
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    with (
        serving(where.servers, one, "--cluster-keys", str(keys)) as first,
        BackendClient(first) as active,
    ):
        change(active)
        with (
            serving(where.servers, two, "--cluster-keys", str(other)) as second,
            BackendClient(second) as stranger,
        ):
            with pytest.raises(BackendError, match="Copy the key file"):
                change(stranger)
            change(active)
            assert stranger.sender.get("/v1/backend")["duty"] == "blocked"
            assert active.sender.get("/v1/backend")["duty"] == "act"


def test_an_unsigned_journal_is_acted_on_once_an_operator_says_so(
    where: Where, keys: Path, tmp_path: Path
) -> None:
    options = ("--cluster-keys", str(keys))
    create_topic(where.servers, JOURNAL_TOPIC, [[1, 2, 3]], {"cleanup.policy": "compact"})
    key = operation_key("cc33")
    write(where, [unsigned(key, BODIES[key], where.cluster_id)])
    with serving(where.servers, tmp_path, *options) as address, BackendClient(address) as client:
        with pytest.raises(BackendError, match="--adopt-unsigned-journal"):
            change(client)
        assert client.operations.list() == ()
        assert client.sender.get("/v1/backend")["unreadable"][0]["why"] == "unsigned"
    adopting = (*options, "--adopt-unsigned-journal")
    with serving(where.servers, tmp_path, *adopting) as address, BackendClient(address) as client:
        change(client)
        assert "cc33" in {one.id for one in client.operations.list()}
    with serving(where.servers, tmp_path, *options) as address, BackendClient(address) as client:
        wait_until(
            lambda: "cc33" in {one.id for one in client.operations.list()},
            DEADLINE_S,
            "it is believed",
        )
