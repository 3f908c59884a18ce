"""From a scenario's file to a `Scenario`, with every mistake named by file and key."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from kshunt.backend.embedded.core.spec import BrokerSpec
from kshunt.backend.embedded.data.hosts import Hardware
from kshunt.backend.embedded.metadata.acls import (
    ANY_HOST,
    CLUSTER_NAME,
    Acl,
    AclOperationCode,
    PatternType,
    Permission,
    ResourceKind,
)
from kshunt.backend.embedded.metadata.config_keys import KEYS, READ_ONLY
from kshunt.backend.embedded.metadata.records import ResourceType
from kshunt.backend.embedded.scenario.model import (
    DAY_S,
    FOLDER,
    BrokerEvent,
    Configure,
    FailLogDir,
    FailOver,
    PartitionsDeleted,
    PreferredElection,
    Reassign,
    Scenario,
    ScenarioEvent,
    SlowLink,
    TopicSpec,
    TrafficFactor,
    scenario_names,
)
from kshunt.backend.embedded.scenario.toml_table import TomlTable
from kshunt.backend.errors import BadInput

DEFAULT_LOG_DIRS: Final = ("/kafka/d1",)
BROKER_ACTIONS: Final = ("stop", "crash", "start", "stall", "resume")


def load_scenario(name: str) -> Scenario:
    """A scenario by its name, or by the path of a file that ends in `.toml`.

    Raises:
        BadInput: there is none of that name, or the file says something that cannot be meant.
    """
    if name.endswith(".toml"):
        return read_scenario(Path(name))
    if name not in scenario_names():
        raise BadInput(
            f"There is no scenario named '{name}'.",
            advice=f"Choose one of {', '.join(scenario_names())}, or give a file that ends in "
            ".toml.",
        )
    return read_scenario(FOLDER / f"{name}.toml")


def read_scenario(path: Path) -> Scenario:
    """The scenario of a file.

    Raises:
        BadInput: as `load_scenario`.
    """
    table = TomlTable.read(path)
    title, about = table.text("title"), table.text("about")
    static = _configs(table, "static", ResourceType.BROKER)
    users, acls = table.text_map("users"), tuple(map(_acl, table.tables("acls")))
    brokers = _brokers(table)
    reader = _ScenarioReader({broker.id: broker for broker in brokers})
    topics = tuple(reader.topic(one) for one in table.tables("topics"))
    for topic in topics:
        for name in topic.names:
            reader.partitions[name] = topic.partitions
    if len(reader.partitions) < sum(topic.count for topic in topics):
        raise table.bad("topics", "has a name twice")
    events = [reader.event(one) for one in table.tables("events")]
    table.done()
    events.sort(key=lambda event: event.at_s)
    return Scenario(path.stem, title, about, brokers, static, users, acls, topics, tuple(events))


def _acl(table: TomlTable) -> Acl:
    kinds = {_word(kind.name): kind for kind in ResourceKind}
    kind = kinds[table.choice("resource", list(kinds))]
    name = table.text("name", CLUSTER_NAME if kind is ResourceKind.CLUSTER else None)
    pattern = PatternType[table.choice("pattern", ["literal", "prefixed"], "literal").upper()]
    operations = {_word(one.name): one for one in AclOperationCode}
    acl = Acl(
        kind,
        name,
        pattern,
        table.text("principal"),
        table.text("host", ANY_HOST),
        operations[table.choice("operation", list(operations))],
        Permission[table.choice("permission", ["allow", "deny"], "allow").upper()],
    )
    if ":" not in acl.principal:
        raise table.bad("principal", "must be like User:alice")
    table.done()
    return acl


def _word(name: str) -> str:
    """`DESCRIBE_CONFIGS` as `kafka-acls` writes it."""
    return "".join(part.capitalize() for part in name.split("_"))


def _brokers(table: TomlTable) -> tuple[BrokerSpec, ...]:
    brokers: list[BrokerSpec] = []
    for group in table.tables("brokers"):
        brokers += _group(group, len(brokers) + 1)
    ids = [broker.id for broker in brokers]
    if len(set(ids)) < len(ids):
        raise table.bad("brokers", "has an id twice")
    if not any(broker.started for broker in brokers):
        raise table.bad("brokers", "has no started broker")
    return tuple(brokers)


def _group(group: TomlTable, first: int) -> list[BrokerSpec]:
    if group.has("ids") and group.has("count"):
        raise group.bad("count", "cannot be used with ids")
    ids: Sequence[int] = group.wholes("ids")
    if not ids:
        count = group.whole("count", minimum=1)
        ids = range(first, first + count)
    if min(ids) < 0:
        raise group.bad("ids", "has a negative one")
    racks: Sequence[str | None] = group.texts("racks") or (None,)
    log_dirs = group.texts("log_dirs") or DEFAULT_LOG_DIRS
    network = group.number("network_bytes_per_s", math.inf, least=1)
    disk = group.number("disk_bytes_per_s", math.inf, least=1)
    started = group.flag("started", True)
    group.done()
    hardware = Hardware(network, network, disk)
    return [
        BrokerSpec(number, racks[place % len(racks)], log_dirs, hardware, started)
        for place, number in enumerate(ids)
    ]


def _configs(table: TomlTable, key: str, kind: ResourceType) -> dict[str, str]:
    values = table.text_map(key)
    for name, value in values.items():
        known = KEYS[kind].get(name)
        problem = "is unknown to this Kafka" if known is None else known.problem(value)
        if problem is not None:
            raise table.bad(f"{key}.{name}", f"cannot be '{value}': {problem}")
    return values


class _ScenarioReader:
    """Reads what speaks of brokers and topics, which must exist."""

    def __init__(self, brokers: Mapping[int, BrokerSpec]) -> None:
        self._brokers = brokers
        self.partitions: dict[str, int] = {}
        """How many each topic has."""
        self._actions: Mapping[str, Callable[[TomlTable, float], ScenarioEvent]] = {
            **{action: self._broker_event(action) for action in BROKER_ACTIONS},
            "fail_log_dir": self._fail_log_dir,
            "slow_link": self._slow_link,
            "fail_over": lambda table, at_s: FailOver(at_s),
            "set_config": self._set_config,
            "delete_config": self._delete_config,
            "reassign": self._reassign,
            "elect": lambda table, at_s: PreferredElection(at_s, self._topics(table)),
            "delete_partitions": self._delete_partitions,
            "traffic": self._traffic,
        }

    def topic(self, table: TomlTable) -> TopicSpec:
        count = table.whole("count", 1, minimum=1)
        name = table.text("name")
        if ("{}" in name) != (count > 1):
            raise table.bad("name", "must have {} for a number if count is over 1, and only then")
        factor = table.whole("replication_factor", 3, minimum=1)
        brokers = self._ids(table, "brokers")
        running = [one.id for one in self._brokers.values() if one.started]
        if factor > len(brokers or running):
            raise table.bad("replication_factor", f"is {factor}, but there are fewer brokers")
        spec = TopicSpec(
            name=name,
            partitions=table.whole("partitions", minimum=1),
            count=count,
            replication_factor=factor,
            bytes_per_partition=table.number("bytes_per_partition", 0.0),
            size_spread=table.number("size_spread", 0.5),
            bytes_per_s=table.number("bytes_per_s", 0.0),
            rate_spread=table.number("rate_spread", 0.0),
            record_bytes=table.whole("record_bytes", 1_000, minimum=1),
            skew=table.number("skew", 0.0),
            swing=table.number("swing", 0.0),
            period_s=table.number("period_s", DAY_S, least=1.0),
            noise=table.number("noise", 0.0),
            configs=_configs(table, "configs", ResourceType.TOPIC),
            brokers=brokers,
            leaders=self._ids(table, "leaders"),
        )
        table.done()
        return spec

    def event(self, table: TomlTable) -> ScenarioEvent:
        at_s = table.number("at_s")
        action = table.choice("action", list(self._actions))
        event = self._actions[action](table, at_s)
        table.done()
        return event

    def _broker_event(self, action: str) -> Callable[[TomlTable, float], ScenarioEvent]:
        def read(table: TomlTable, at_s: float) -> ScenarioEvent:
            brokers = self._ids(table, "brokers")
            if not brokers:
                raise table.bad("brokers", "names no broker")
            return BrokerEvent(at_s, action, brokers)

        return read

    def _fail_log_dir(self, table: TomlTable, at_s: float) -> ScenarioEvent:
        broker = self._id(table, "broker")
        path = table.choice("path", self._brokers[broker].log_dirs)
        return FailLogDir(at_s, broker, path)

    def _slow_link(self, table: TomlTable, at_s: float) -> ScenarioEvent:
        source, target = self._id(table, "source"), self._id(table, "target")
        return SlowLink(at_s, source, target, table.number("bytes_per_s", math.inf, least=1.0))

    def _set_config(self, table: TomlTable, at_s: float) -> ScenarioEvent:
        topics, brokers, kind = self._resources(table)
        values = _configs(table, "values", kind)
        fixed = sorted(READ_ONLY & values.keys()) if kind is ResourceType.BROKER else []
        if fixed:
            raise table.bad(f"values.{fixed[0]}", "takes effect only when a broker starts")
        if not values:
            raise table.bad("values", "is missing")
        return Configure(at_s, values, topics, brokers)

    def _delete_config(self, table: TomlTable, at_s: float) -> ScenarioEvent:
        topics, brokers, kind = self._resources(table)
        keys = table.texts("keys")
        for place, key in enumerate(keys):
            if key not in KEYS[kind]:
                raise table.bad(f"keys[{place}]", f"is '{key}', which this Kafka does not know")
        if not keys:
            raise table.bad("keys", "is missing")
        return Configure(at_s, dict.fromkeys(keys), topics, brokers)

    def _resources(self, table: TomlTable) -> tuple[tuple[str, ...], tuple[int, ...], ResourceType]:
        if table.has("topics") and table.has("brokers"):
            raise table.bad("brokers", "cannot be used with topics")
        topics = self._topics(table)
        kind = ResourceType.TOPIC if topics else ResourceType.BROKER
        return topics, self._ids(table, "brokers"), kind

    def _reassign(self, table: TomlTable, at_s: float) -> ScenarioEvent:
        goals = [key for key in ("drain", "expand", "moves") if table.has(key)]
        if len(goals) != 1:
            raise table.bad("drain", "or expand or moves must be given, and only one of them")
        throttle = table.whole("throttle_bytes_per_s", 0)
        if table.has("by"):
            table.choice("by", ["kshunt"])
            by_kshunt = True
        else:
            by_kshunt = False
        return Reassign(
            at_s,
            drain=self._ids(table, "drain"),
            expand=self._ids(table, "expand"),
            moves=self._moves(table),
            topics=self._topics(table),
            partitions_max=table.whole("partitions_max", 2**31, minimum=1),
            throttle_bytes_per_s=throttle or None,
            remove_throttle=table.flag("remove_throttle", by_kshunt),
            by_kshunt=by_kshunt,
        )

    def _moves(self, table: TomlTable) -> dict[tuple[str, int], tuple[int, ...]]:
        moves = {}
        for name, replicas in table.whole_lists("moves").items():
            topic, _, number = name.rpartition("-")
            key = f"moves.{name}"
            known = number.isdecimal() and int(number) < self.partitions.get(topic, 0)
            if not known:
                raise table.bad(key, "is not a partition of the scenario")
            self._check_ids(table, key, replicas)
            if not replicas or len(set(replicas)) < len(replicas):
                raise table.bad(key, "is empty, or has a broker twice")
            moves[topic, int(number)] = replicas
        return moves

    def _delete_partitions(self, table: TomlTable, at_s: float) -> ScenarioEvent:
        (topic,) = self._check_topics(table, "topic", (table.text("topic"),))
        remaining = table.whole("partitions", minimum=1)
        if remaining >= self.partitions[topic]:
            raise table.bad("partitions", f"is not less than the number that {topic} has")
        return PartitionsDeleted(at_s, topic, remaining, table.whole("delay_ms", 0))

    def _traffic(self, table: TomlTable, at_s: float) -> ScenarioEvent:
        return TrafficFactor(at_s, table.number("factor"), self._topics(table))

    def _topics(self, table: TomlTable) -> tuple[str, ...]:
        return self._check_topics(table, "topics", table.texts("topics"))

    def _check_topics(self, table: TomlTable, key: str, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in self.partitions:
                raise table.bad(key, f"names '{name}', which is not a topic of the scenario")
        return names

    def _id(self, table: TomlTable, key: str) -> int:
        number = table.whole(key)
        self._check_ids(table, key, (number,))
        return number

    def _ids(self, table: TomlTable, key: str) -> tuple[int, ...]:
        ids = table.wholes(key)
        self._check_ids(table, key, ids)
        return ids

    def _check_ids(self, table: TomlTable, key: str, ids: Sequence[int]) -> None:
        for number in ids:
            if number not in self._brokers:
                raise table.bad(key, f"names broker {number}, which does not exist")
