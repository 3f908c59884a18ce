"""What goes into each broker's properties file: a pure function of the plan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.brokers.tls import TlsFiles
from tests.support.ports import HOST

USER = "kshunt"
PASSWORD = "kshunt-secret"
SCRAM_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = ("PLAIN", *SCRAM_MECHANISMS)
LOG_DIRS_PER_BROKER = 2

PROTOCOLS = {
    "PLAINTEXT": "PLAINTEXT",
    "CONTROLLER": "PLAINTEXT",
    "SASL": "SASL_PLAINTEXT",
    "SSL": "SSL",
    "SASLSSL": "SASL_SSL",
    "FAR": "PLAINTEXT",
}
"""Security protocol of each listener, by the listener's name."""


FAR, NETWORK = "FAR", "NETWORK"
"""A listener that clients reach over a network. The broker tells them the port `NETWORK` for it.
The broker itself does not listen there: the network in between does, and forwards to the port of
`FAR`."""


@dataclass(frozen=True)
class BrokerPlan:
    """One broker, before it has been started."""

    broker_id: int
    folder: Path
    ports: Mapping[str, int]
    """Port of each listener, by the listener's name."""

    @property
    def log_dirs(self) -> tuple[Path, ...]:
        """Where it keeps replicas; the first one holds the cluster metadata too."""
        return tuple(self.folder / f"disk-{n + 1}" for n in range(LOG_DIRS_PER_BROKER))

    @property
    def rack(self) -> str:
        return f"rack-{self.broker_id}"

    @property
    def properties_file(self) -> Path:
        return self.folder / "server.properties"

    @property
    def log_file(self) -> Path:
        """What the process prints, Kafka's log among it."""
        return self.folder / "broker.log"

    def address(self, listener: str) -> str:
        return f"{HOST}:{self.ports[listener]}"


def listener_names(*, sasl: bool, ssl: bool, far: bool = False) -> tuple[str, ...]:
    """The listeners each broker opens; and `NETWORK`, for those that are reached over one."""
    wanted = {"PLAINTEXT": True, "CONTROLLER": True, "SASL": sasl, "SSL": ssl}
    wanted["SASLSSL"] = sasl and ssl
    wanted |= {FAR: far, NETWORK: far}
    return tuple(name for name, on in wanted.items() if on)


def plan_brokers(
    count: int, listeners: Sequence[str], ports: Sequence[int], folder: Path
) -> tuple[BrokerPlan, ...]:
    """Deal `ports` out to brokers 1, 2, … in turn."""
    width = len(listeners)
    return tuple(
        BrokerPlan(
            broker_id=n + 1,
            folder=folder / f"broker-{n + 1}",
            ports=dict(zip(listeners, ports[n * width : (n + 1) * width], strict=True)),
        )
        for n in range(count)
    )


def properties(
    plan: BrokerPlan,
    cluster: Sequence[BrokerPlan],
    tls: TlsFiles | None,
    overrides: Mapping[str, str],
) -> str:
    """The text of the broker's properties file."""
    entries = _identity(plan, cluster) | _small_cluster(len(cluster))
    if "SASL" in plan.ports:
        entries |= _sasl(plan)
    if tls is not None:
        entries |= _tls(tls)
    entries |= overrides
    return "".join(f"{key}={value}\n" for key, value in entries.items())


def _identity(plan: BrokerPlan, cluster: Sequence[BrokerPlan]) -> dict[str, str]:
    opened = [name for name in plan.ports if name != NETWORK]
    addresses = {name: f"{name}://{plan.address(name)}" for name in opened}
    listening = addresses | ({FAR: f"{FAR}://{plan.address(NETWORK)}"} if FAR in opened else {})
    advertised = [address for name, address in listening.items() if name != "CONTROLLER"]
    voters = [f"{peer.broker_id}@{peer.address('CONTROLLER')}" for peer in cluster]
    return {
        "process.roles": "broker,controller",
        "node.id": str(plan.broker_id),
        "broker.rack": plan.rack,
        "controller.quorum.voters": ",".join(voters),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listeners": ",".join(addresses.values()),
        "advertised.listeners": ",".join(advertised),
        "listener.security.protocol.map": ",".join(f"{n}:{PROTOCOLS[n]}" for n in opened),
        "log.dirs": ",".join(str(log_dir) for log_dir in plan.log_dirs),
    }


def _small_cluster(brokers: int) -> dict[str, str]:
    """Defaults of a data centre made small, and nothing that moves or deletes by itself."""
    replicas, in_sync = str(min(3, brokers)), str(min(2, brokers))
    return {
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        "share.coordinator.state.topic.num.partitions": "4",
        "auto.create.topics.enable": "false",
        "auto.leader.rebalance.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        "log.retention.ms": "-1",
        "log.retention.bytes": "-1",
        # An idle controller would write a record each half a second, which all brokers read and
        # publish: a third of the work of a cluster on which nothing happens.
        "metadata.max.idle.interval.ms": "5000",
        # A broker learns at its next heartbeat that it may serve: half a second, not two.
        "broker.heartbeat.interval.ms": "500",
        # A broker that restarts, even after an orderly stop, may register only when the session
        # of its former life has run out: this is what `start_broker` waits for.
        "broker.session.timeout.ms": "4000",
    }


def _sasl(plan: BrokerPlan) -> dict[str, str]:
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule"
    entries = {"sasl.enabled.mechanisms": ",".join(MECHANISMS)}
    for listener in plan.ports.keys() & {"SASL", "SASLSSL"}:
        prefix = f"listener.name.{listener.lower()}"
        entries[f"{prefix}.plain.sasl.jaas.config"] = f'{plain} required user_{USER}="{PASSWORD}";'
        for mechanism in SCRAM_MECHANISMS:
            entries[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = f"{scram} required;"
    return entries


def _tls(tls: TlsFiles) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(tls.broker_keystore),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(tls.ca),
        "ssl.client.auth": "requested",
    }
