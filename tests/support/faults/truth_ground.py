"""Real brokers that ask who kshunt is, as others than kshunt reach them: edits, ACLs, and reading.

What is checked by it is read with other clients than kshunt's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaAdminClient
from kafka import TopicPartition as KafkaPlace
from kafka.protocol.admin import IncrementalAlterConfigsRequest

from kshunt.backend.admin.rpc.configs import BROKER
from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.errors import KshuntError
from tests.support.audit_checker import AuditedCluster, Json, Setting, lines_of, problems
from tests.support.brokers.launcher import PASSWORD, USER, RealKafka
from tests.support.faults.kill_backend import forked
from tests.support.faults.small_disk import filled
from tests.support.topics import records_of
from tests.support.waiting import wait_until

OVERRIDES: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "true",
}
PRINCIPAL: Final = f"User:{USER}"
JOURNAL: Final = "__kshunt_journal"
BROKERS: Final = (1, 2, 3)
SMALL_DISK_OF: Final = 3
"""The broker whose second log directory is a small volume."""
DISK_MB: Final = 400
FULL_S: Final = 15.0
"""The small volume stays full at most this long where its broker has nothing to write."""
RATE_KEYS: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LIST_KEYS: Final = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
DEADLINE_S: Final = 120.0
OWN: Final = (1, 2)
"""Sources of a topic's and of a broker's own settings, in librdkafka's numbers."""
Acl = tuple[ResourceType, str, AclOperation]
ALTER: Final[Acl] = (ResourceType.BROKER, "kafka-cluster", AclOperation.ALTER)
ALTER_CONFIGS: Final[Acl] = (ResourceType.BROKER, "kafka-cluster", AclOperation.ALTER_CONFIGS)
WRITE_JOURNAL: Final[Acl] = (ResourceType.TOPIC, JOURNAL, AclOperation.WRITE)


def own_settings(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, str]:
    """What is set on a broker or topic itself, of throttles."""
    resource = ConfigResource(kind, name)
    found = admin.describe_configs([resource], request_timeout=90)[resource].result(90)
    return {
        key: entry.value
        for key, entry in found.items()
        if "replication.throttled" in key and entry.source in OWN and entry.value
    }


def cluster_seen(admin: AdminClient, topic: str) -> AuditedCluster:
    """The throttles of the brokers and of a topic, and where its replicas are."""
    settings: dict[Setting, str] = {}
    for broker in BROKERS:
        for key, value in own_settings(admin, ResourceType.BROKER, str(broker)).items():
            settings["broker", str(broker), key] = value
    for key, value in own_settings(admin, ResourceType.TOPIC, topic).items():
        settings["topic", topic, key] = value
    partitions = admin.list_topics(topic, 30).topics[topic].partitions
    return AuditedCluster(settings, {(topic, p.id): tuple(p.replicas) for p in partitions.values()})


def untrue_of(client: BackendClient, servers: str, topic: str) -> list[str]:
    """What the audit says, as a backend shows it, of settings and of ends, and is not so."""
    lines = client.sender.get("/v1/audit")["entries"]
    unreadable = [f"{one['key']} is unreadable" for one in lines if one["unreadable"]]
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    return unreadable or problems(lines, cluster_seen(admin, topic), {})


class Ground:
    """The brokers, as others than kshunt reach them."""

    def __init__(self, kafka: RealKafka, folder: Path) -> None:
        self.kafka = kafka
        self.servers = kafka.bootstrap_servers
        self.folder = folder
        self.admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        self.raw = KafkaAdminClient(bootstrap_servers=self.servers.split(","))
        self._backends = 0
        plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
        self.properties = folder / "client.properties"
        self.properties.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f'sasl.jaas.config={plain} required username="{USER}" password="{PASSWORD}";\n'
        )
        for kind, name in ((ResourceType.BROKER, "kafka-cluster"), (ResourceType.TOPIC, JOURNAL)):
            self._create(kind, name, AclOperation.ALL, AclPermissionType.ALLOW)

    def close(self) -> None:
        self.raw.close()

    # What the cluster allows

    def _binding(
        self, kind: ResourceType, name: str, what: AclOperation, how: AclPermissionType
    ) -> AclBinding:
        return AclBinding(kind, name, ResourcePatternType.LITERAL, PRINCIPAL, "*", what, how)

    def _create(
        self, kind: ResourceType, name: str, what: AclOperation, how: AclPermissionType
    ) -> None:
        (done,) = self.admin.create_acls([self._binding(kind, name, what, how)]).values()
        done.result(90)

    @contextmanager
    def denied(self, acl: Acl) -> Iterator[None]:
        """Kshunt may not do it for a while."""
        self._create(*acl, AclPermissionType.DENY)
        try:
            yield
        finally:
            entry = self._filter(self._binding(*acl, AclPermissionType.DENY))
            (done,) = self.admin.delete_acls([entry]).values()
            done.result(90)

    @staticmethod
    def _filter(one: AclBinding) -> Any:
        return AclBindingFilter(
            one.restype,
            one.name,
            one.resource_pattern_type,
            one.principal,
            one.host,
            one.operation,
            one.permission_type,
        )

    # What others do

    def set(self, kind: ResourceType, name: str, key: str, value: str | None) -> None:
        """Set a key, or with None delete it. A broker without a name is the default of all."""
        if not name:
            # librdkafka knows no such resource.
            change = (key, 1 if value is None else 0, value)
            request = IncrementalAlterConfigsRequest(
                resources=[(BROKER, name, [change])], validate_only=False
            )
            self.raw._manager.run(self.raw._manager.send, request, BROKERS[0])
            return
        how = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        entry = ConfigEntry(key, value, incremental_operation=how)
        resource = ConfigResource(kind, name, incremental_configs=[entry])
        self.admin.incremental_alter_configs([resource])[resource].result(90)

    def rate(self, broker: int, key: str, value: int | None) -> None:
        self.set(ResourceType.BROKER, str(broker), key, None if value is None else str(value))

    def shown(self, rates: Mapping[tuple[int, str], int | None]) -> None:
        """Wait until the brokers show these rates of their own."""

        def all_there() -> bool:
            there = {b: self.own(ResourceType.BROKER, str(b)) for b, _ in rates}
            return all(
                there[broker].get(key) == (None if value is None else str(value))
                for (broker, key), value in rates.items()
            )

        wait_until(all_there, DEADLINE_S, "the brokers show the rates")

    def move(self, topic: str, partition: int, target: Sequence[int] | None) -> None:
        """Reassign a partition, or with None cancel."""
        wanted = {KafkaPlace(topic, partition): None if target is None else list(target)}
        self.raw.alter_partition_reassignments(wanted)

    def fill_disk(self) -> None:
        """Let the small volume be full for a while, then make room and restart its broker.

        The broker takes the directory offline when it next has to write there.
        """
        disk = str(self.kafka.log_dirs(SMALL_DISK_OF)[1])

        def offline() -> bool:
            (found,) = self.raw.describe_log_dirs(brokers=[SMALL_DISK_OF])
            return any(one["log_dir"] == disk and one["error_code"] for one in found["log_dirs"])

        with filled(Path(disk)), suppress(AssertionError):
            wait_until(offline, FULL_S, "the full directory is offline")
        # It may be the controller, which this client would keep asking; and of each attempt to
        # connect to a broker that is down kafka-python leaves a socket open.
        self.raw.close()
        self.kafka.stop_broker(SMALL_DISK_OF)
        self.kafka.start_broker(SMALL_DISK_OF)
        self.raw = KafkaAdminClient(bootstrap_servers=self.servers.split(","))

    def delete(self, topic: str) -> None:
        """Delete a topic: a hundred rounds do not fit on the small volume."""
        self.admin.delete_topics([topic])[topic].result(90)

    # What the cluster and the journal hold

    def own(self, kind: ResourceType, name: str) -> dict[str, str]:
        """What is set there itself, of throttles."""
        return own_settings(self.admin, kind, name)

    def cluster(self, topic: str) -> AuditedCluster:
        """The throttles of the brokers and of the topic, and where its replicas are."""
        return cluster_seen(self.admin, topic)

    def lines(self) -> list[Json]:
        """The whole audit, as it is in the journal."""
        known = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        if JOURNAL not in known.list_topics(timeout=30).topics:
            return []
        return lines_of(records_of(self.servers, JOURNAL))

    # Backends

    @property
    def newest_socket(self) -> Path:
        """Of the backend that was started last."""
        return self.folder / f"b{self._backends}.sock"

    def backend(self) -> tuple[BaseProcess, BackendClient]:
        """A new one."""
        self._backends += 1
        socket = self.newest_socket
        options = ["--bootstrap-server", self.kafka.sasl_bootstrap, "--socket", str(socket)]
        options += ["--command-config", str(self.properties)]
        options += ["--cluster-keys", str(self.folder / "cluster.keys")]
        process = forked(options, self.folder / f"b{self._backends}.log", watched=False)
        client = BackendClient(f"unix:{socket}", timeout_s=60.0)

        def serves() -> bool:
            with suppress(KshuntError):
                client.backend_status()
                return True
            return False

        wait_until(serves, DEADLINE_S, "a backend serves")
        return process, client
