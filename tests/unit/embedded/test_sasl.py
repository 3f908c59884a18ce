"""Users of the embedded cluster: SASL/PLAIN by bytes, and real clients with and without rights."""

from __future__ import annotations

import asyncio
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaProducer
from kafka.admin import (
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePatternFilter,
)
from kafka.admin import ResourceType as PythonResourceType
from kafka.errors import (
    ClusterAuthorizationFailedError,
    SecurityDisabledError,
    TopicAuthorizationFailedError,
)

from kshunt.backend.embedded import command
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.embedded.net.api import KAFKA_APIS
from kshunt.backend.embedded.net.sasl import FRAME_BYTES_MAX
from kshunt.backend.embedded.scenario.reading import read_scenario
from kshunt.backend.embedded.security.sasl_plain import AuthenticationFailed, PlainUsers
from kshunt.backend.errors import KshuntError
from tests.support.embedded.background import Running, running
from tests.support.embedded.rights import AUTHORIZED, allow, granted
from tests.support.embedded.users import USERS, login, login_at

DEADLINE_S = 30.0
ANY_RESOURCE = ResourcePatternFilter(PythonResourceType.ANY, None, ACLResourcePatternType.ANY)
EVERY_ACL = ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, ANY_RESOURCE)
HANDSHAKE, API_VERSIONS, AUTHENTICATE, METADATA = 17, 18, 36, 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[Running]:
    """Three brokers with users and an authorizer; alice may do a little, bob nothing."""
    rights = ("READ topic a*", "WRITE topic a*", "READ group a*")
    acls = tuple(allow(right, "User:alice") for right in rights)
    spec = ClusterSpec(plain_brokers(3), static=AUTHORIZED, users=USERS, acls=acls)
    with running(spec) as handle:
        admin = AdminClient(login(handle, "admin"))
        new = [NewTopic(name, 2, 2) for name in ("a-topic", "b-topic")]
        for made in admin.create_topics(new, request_timeout=DEADLINE_S).values():
            made.result(DEADLINE_S)
        yield handle


def failed(answer: Any) -> int:
    """The error code of a future that fails."""
    with pytest.raises(KafkaException) as raised:
        answer.result(DEADLINE_S)
    error = raised.value.args[0]
    assert isinstance(error, KafkaError)
    return int(error.code())


# By bytes


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (b"", "expected 3 tokens, got 1"),
        (b"\0alice\0a\0b", "expected 3 tokens, got 4"),
        (b"\0\0secret", "username not specified"),
        (b"\0alice\0", "password not specified"),
        (b"\0alice\0wrong", "Invalid username or password"),
        (b"\0carol\0alice-secret", "Invalid username or password"),
        (b"\0\xff\0alice-secret", "Invalid username or password"),
        (b"bob\0alice\0alice-secret", "authorization id that is different from username"),
    ],
)
def test_what_does_not_prove_a_user(token: bytes, words: str) -> None:
    with pytest.raises(AuthenticationFailed, match=words):
        PlainUsers(USERS).authenticated(token)


def test_what_proves_a_user() -> None:
    users = PlainUsers({"zoé": "pässword"})
    for wanted in ("", "zoé"):
        token = f"{wanted}\0zoé\0pässword".encode()
        assert users.authenticated(token) == "User:zoé"


class Wire:
    """A connection to one broker, in frames."""

    def __init__(self, cluster: Running) -> None:
        host, _, port = cluster.bootstrap_servers.partition(",")[0].rpartition(":")
        self._where = host, int(port)

    async def __aenter__(self) -> Wire:
        self._reader, self._writer = await asyncio.open_connection(*self._where)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()

    async def frame(self, frame: bytes) -> bytes | None:
        """The frame that answers; None where the broker closes."""
        self._writer.write(struct.pack(">i", len(frame)) + frame)
        try:
            async with asyncio.timeout(DEADLINE_S):
                head = await self._reader.readexactly(4)
                return await self._reader.readexactly(int.from_bytes(head, "big"))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def ask(self, key: int, version: int, **fields: Any) -> Any:
        """The answer to a request; None where the broker closes."""
        api = KAFKA_APIS[key]
        flexible = api.flexible(version)
        head = struct.pack(">hhih", key, version, 1, -1) + b"\0" * flexible
        body = bytes(api.request(version=version, **fields).encode(version=version))
        answer = await self.frame(head + body)
        skip = 4 + (flexible and key != API_VERSIONS)
        return answer and api.response.decode(answer[skip:], version=version)


ALICE = b"\0alice\0alice-secret"


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_client_is_let_in_after_handshake_and_token(cluster: Running, version: int) -> None:
    async with Wire(cluster) as wire:
        assert (
            await wire.ask(API_VERSIONS, 3, client_software_name="x", client_software_version="1")
        ).api_keys
        handshake = await wire.ask(HANDSHAKE, 1, mechanism="PLAIN")
        assert (handshake.error_code, handshake.mechanisms) == (0, ["PLAIN"])
        done = await wire.ask(AUTHENTICATE, version, auth_bytes=ALICE)
        assert (done.error_code, done.error_message, done.auth_bytes) == (0, None, b"")
        topics = (await wire.ask(METADATA, 1, topics=None)).topics
        assert [topic.name for topic in topics] == ["a-topic"]
        again = await wire.ask(AUTHENTICATE, version, auth_bytes=ALICE)
        assert again.error_code == 34


async def test_a_token_may_come_without_a_header(cluster: Running) -> None:
    async with Wire(cluster) as wire:
        assert (await wire.ask(HANDSHAKE, 0, mechanism="PLAIN")).error_code == 0
        assert await wire.frame(ALICE) == b""
        assert (await wire.ask(METADATA, 1, topics=None)).topics
    async with Wire(cluster) as wire:
        assert (await wire.ask(HANDSHAKE, 0, mechanism="PLAIN")).error_code == 0
        assert await wire.frame(b"\0alice\0wrong") is None


async def test_a_wrong_password_is_said_and_ends_the_connection(cluster: Running) -> None:
    async with Wire(cluster) as wire:
        await wire.ask(HANDSHAKE, 1, mechanism="PLAIN")
        refused = await wire.ask(AUTHENTICATE, 2, auth_bytes=b"\0alice\0wrong")
        words = "Authentication failed: Invalid username or password"
        assert (refused.error_code, refused.error_message) == (58, words)
        assert await wire.ask(METADATA, 1, topics=None) is None


async def test_another_mechanism_is_refused_with_the_one_there_is(cluster: Running) -> None:
    async with Wire(cluster) as wire:
        refused = await wire.ask(HANDSHAKE, 1, mechanism="SCRAM-SHA-256")
        assert (refused.error_code, refused.mechanisms) == (33, ["PLAIN"])
        assert await wire.ask(METADATA, 1, topics=None) is None


async def test_nothing_else_is_answered_before(cluster: Running) -> None:
    async with Wire(cluster) as wire:
        assert await wire.ask(METADATA, 1, topics=None) is None
    async with Wire(cluster) as wire:
        assert await wire.ask(AUTHENTICATE, 1, auth_bytes=ALICE) is None
    async with Wire(cluster) as wire:
        assert await wire.frame(bytes(FRAME_BYTES_MAX + 1)) is None


async def test_a_cluster_without_users_has_no_use_for_sasl() -> None:
    with running(ClusterSpec(plain_brokers(1))) as plain:
        async with Wire(plain) as wire:
            assert (await wire.ask(HANDSHAKE, 1, mechanism="PLAIN")).error_code == 34
            assert (await wire.ask(METADATA, 1, topics=None)).brokers


# confluent-kafka


def test_librdkafka_reads_and_writes_what_it_may(cluster: Running) -> None:
    errors: dict[str, int] = {}
    producer = Producer({**login(cluster, "alice"), "enable.idempotence": True})
    for name in ("a-topic", "b-topic"):

        def told(error: KafkaError | None, message: Any) -> None:
            errors[message.topic()] = 0 if error is None else error.code()

        producer.produce(name, b"value", partition=0, on_delivery=told)
    assert producer.flush(DEADLINE_S) == 0
    assert errors == {"a-topic": 0, "b-topic": KafkaError.TOPIC_AUTHORIZATION_FAILED}
    group = {"group.id": "a-group", "auto.offset.reset": "earliest"}
    consumer = Consumer(login(cluster, "alice", **group))
    try:
        consumer.assign([TopicPartition("a-topic", 0, 0)])
        message = consumer.poll(DEADLINE_S)
        assert message is not None
        assert (message.error(), message.value()) == (None, b"value")
        consumer.commit(message=message, asynchronous=False)
        [committed] = consumer.committed([TopicPartition("a-topic", 0)], DEADLINE_S)
        assert committed.offset == 1
    finally:
        consumer.close()


def test_a_group_that_one_may_not_read(cluster: Running) -> None:
    consumer = Consumer(login(cluster, "alice", **{"group.id": "other"}))
    try:
        consumer.subscribe(["a-topic"])
        message = consumer.poll(DEADLINE_S)
        assert message is not None
        error = message.error()
        assert error is not None
        assert error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    finally:
        consumer.close()


def test_librdkafka_is_told_of_a_wrong_password(cluster: Running) -> None:
    told: list[int] = []
    config = login(cluster, "alice", "wrong", error_cb=lambda error: told.append(error.code()))
    admin = AdminClient(config)
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=3.0)
    admin.poll(0)
    assert KafkaError._AUTHENTICATION in told


def test_librdkafka_sees_only_what_it_may_and_creates_nothing(cluster: Running) -> None:
    alice, bob = (AdminClient(login(cluster, name)) for name in ("alice", "bob"))
    assert set(alice.list_topics(timeout=DEADLINE_S).topics) == {"a-topic"}
    assert set(bob.list_topics(timeout=DEADLINE_S).topics) == set()
    made = alice.create_topics([NewTopic("a-new", 1, 1)], request_timeout=DEADLINE_S)
    assert failed(made["a-new"]) == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_acls_are_made_described_and_deleted(cluster: Running) -> None:
    admin, bob = (AdminClient(login(cluster, name)) for name in ("admin", "bob"))
    kinds = ResourceType.TOPIC, "b-topic", ResourcePatternType.LITERAL
    binding = AclBinding(*kinds, "User:bob", "*", AclOperation.READ, AclPermissionType.ALLOW)
    [made] = admin.create_acls([binding], request_timeout=DEADLINE_S).values()
    made.result(DEADLINE_S)
    assert set(bob.list_topics(timeout=DEADLINE_S).topics) == {"b-topic"}
    every = AclOperation.ANY, AclPermissionType.ANY
    # Its annotations do not know that a filter may leave these out.
    anything: Any = None
    wanted = AclBindingFilter(
        ResourceType.ANY, anything, ResourcePatternType.ANY, "User:bob", anything, *every
    )
    assert admin.describe_acls(wanted, request_timeout=DEADLINE_S).result(DEADLINE_S) == [binding]
    [refused] = bob.create_acls([binding], request_timeout=DEADLINE_S).values()
    assert failed(refused) == KafkaError.CLUSTER_AUTHORIZATION_FAILED
    [refused] = bob.delete_acls([wanted], request_timeout=DEADLINE_S).values()
    assert failed(refused) == KafkaError.CLUSTER_AUTHORIZATION_FAILED
    [gone] = admin.delete_acls([wanted], request_timeout=DEADLINE_S).values()
    assert gone.result(DEADLINE_S) == [binding]
    assert set(bob.list_topics(timeout=DEADLINE_S).topics) == set()


def test_acls_without_an_authorizer_are_refused_in_kafkas_way() -> None:
    binding = AclBinding(
        *(ResourceType.TOPIC, "t", ResourcePatternType.LITERAL, "User:bob", "*"),
        *(AclOperation.READ, AclPermissionType.ALLOW),
    )
    with running(ClusterSpec(plain_brokers(1))) as plain:
        admin = AdminClient({"bootstrap.servers": plain.bootstrap_servers, "log_level": 0})
        [made] = admin.create_acls([binding], request_timeout=DEADLINE_S).values()
        assert failed(made) == KafkaError.SECURITY_DISABLED
        python = KafkaAdminClient(bootstrap_servers=plain.bootstrap_servers)
        try:
            with pytest.raises(SecurityDisabledError):
                python.describe_acls(EVERY_ACL)
        finally:
            python.close()


def test_acls_outlive_the_process(tmp_path: Path) -> None:
    acls = (allow("READ topic t", "User:bob"),)
    spec = ClusterSpec(
        plain_brokers(1), static=AUTHORIZED, users=USERS, acls=acls, data=tmp_path / "data"
    )
    with running(spec) as cluster:
        granted(cluster, "WRITE topic t", principal="User:bob")
        first = cluster.call(lambda here: list(here.image.acls))
    with running(spec) as cluster:
        assert cluster.call(lambda here: list(here.image.acls)) == first
    assert len(first) == 2


# kafka-python


def python_login(cluster: Running, name: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": cluster.bootstrap_servers.split(","),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": name,
        "sasl_plain_password": USERS[name],
    }


def test_kafka_python_writes_what_it_may(cluster: Running) -> None:
    producer = KafkaProducer(**python_login(cluster, "alice"), max_block_ms=30_000)
    try:
        sent = producer.send("a-topic", b"value", partition=1)
        assert sent.get(DEADLINE_S).partition == 1
        with pytest.raises(TopicAuthorizationFailedError):
            producer.send("b-topic", b"value", partition=1).get(DEADLINE_S)
    finally:
        producer.close()


def test_kafka_python_is_refused_what_the_cluster_keeps(cluster: Running) -> None:
    admin = KafkaAdminClient(**python_login(cluster, "bob"))
    try:
        assert admin.list_topics() == []
        with pytest.raises(ClusterAuthorizationFailedError):
            admin.list_partition_reassignments()
        with pytest.raises(ClusterAuthorizationFailedError):
            admin.describe_acls(EVERY_ACL)
    finally:
        admin.close()


def test_a_placer_is_told_the_user_that_creates_a_topic(tmp_path: Path) -> None:
    placer = {
        "replica.placer.class.name": "tests.unit.embedded.test_placer:Noting",
        "note.file": str(tmp_path / "note"),
    }
    with running(ClusterSpec(plain_brokers(2), static=placer, users=USERS)) as cluster:
        admin = AdminClient(login(cluster, "alice"))
        made = admin.create_topics([NewTopic("t", 1, 1)], request_timeout=DEADLINE_S)
        made["t"].result(DEADLINE_S)
    assert (tmp_path / "note").read_text() == "t for User:alice\nclosed\n"


# How a cluster comes to have users

SECURED = """
title = "Secured"
about = "Two users."
[static]
"authorizer.class.name" = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"super.users" = "User:admin"
[users]
admin = "admin-secret"
alice = "alice-secret"
[[acls]]
principal = "User:alice"
operation = "Read"
resource = "Topic"
name = "t"
pattern = "prefixed"
[[acls]]
principal = "User:alice"
operation = "DescribeConfigs"
resource = "Cluster"
permission = "deny"
host = "10.0.0.1"
[[brokers]]
count = 1
[[topics]]
name = "t"
partitions = 1
replication_factor = 1
"""


def test_a_scenario_has_users_and_acls(tmp_path: Path) -> None:
    path = tmp_path / "secured.toml"
    path.write_text(SECURED)
    scenario = read_scenario(path)
    assert "secret" not in repr(scenario)
    with running(scenario) as cluster:
        admin = AdminClient(login(cluster, "alice"))
        assert set(admin.list_topics(timeout=DEADLINE_S).topics) == {"t"}
        acls = cluster.call(lambda here: list(here.image.acls))
    assert [(one.kind.name, one.name, one.permission.name, one.host) for one in acls] == [
        ("TOPIC", "t", "ALLOW", "*"),
        ("CLUSTER", "kafka-cluster", "DENY", "10.0.0.1"),
    ]


def test_a_command_line_names_users_by_their_files(tmp_path: Path) -> None:
    secret = tmp_path / "admin.password"
    secret.write_text("admin-secret\n")
    secret.chmod(0o600)
    users = ("--sasl-user", f"admin:{secret}", "--authorizer", "--super-user", "admin")
    start = [sys.executable, "-m", "kshunt", "cluster", "--control-port", "none", *users]
    with subprocess.Popen(
        start, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            servers = process.stdout.readline().removeprefix("ready ").strip()
            admin = AdminClient(login_at(servers, "admin"))
            made = admin.create_topics([NewTopic("t", 1, 1)], request_timeout=DEADLINE_S)
            made["t"].result(DEADLINE_S)
        finally:
            process.terminate()
            process.wait(DEADLINE_S)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--sasl-user", "admin"), "is not NAME:PASSWORD-FILE"),
        (("--sasl-user", "admin:open"), "is open to other users"),
        (("--sasl-user", "admin:empty"), "is empty"),
        (("--super-user", "admin"), "has no effect without --authorizer"),
    ],
)
def test_users_that_cannot_be_meant(
    options: tuple[str, str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, mode in (("open", 0o644), ("empty", 0o600)):
        Path(name).touch(mode)
        Path(name).chmod(mode)
    with pytest.raises(KshuntError, match=words):
        command.main(options)
