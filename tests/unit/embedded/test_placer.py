"""The placer of KIP-660 in the controller: named, asked, checked, and its errors passed on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from threading import Event

import pytest
from confluent_kafka import KafkaError as ClientError
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)
from confluent_kafka.admin import NewPartitions as MorePartitions
from confluent_kafka.admin import NewTopic as KafkaTopic

from kshunt.backend.embedded.cluster import EmbeddedCluster
from kshunt.backend.embedded.controller import replica_placement as placing
from kshunt.backend.embedded.controller.alter_topics import AlterTopicsEntry, alter_topics
from kshunt.backend.embedded.controller.brokers import (
    Registration,
    fence_broker,
    register_broker,
    unfence_broker,
)
from kshunt.backend.embedded.controller.decision import Decision, KafkaError
from kshunt.backend.embedded.controller.replica_placement import (
    NamedPlacer,
    place,
    striped_placement,
    with_principal,
)
from kshunt.backend.embedded.controller.topics import NewPartitions, NewTopic, create_partitions
from kshunt.backend.embedded.controller.topics import create_topics as create
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.embedded.metadata.records import ConfigChanged, ResourceType
from kshunt.backend.embedded.scenario.reading import read_scenario
from kshunt.backend.errors import BadInput, ConfigError
from kshunt.backend.placement.placer import (
    InvalidReplicationFactor,
    ReplicaPlacementFailed,
    UsableBroker,
    load_placer,
)
from kshunt.backend.placement.placer_names import KAFKA_STRIPED
from tests.support.embedded.background import running
from tests.support.embedded.controller import Controller, errors
from tests.support.topics import create_topic

KEY = "replica.placer.class.name"
DEADLINE_S = 30.0


class Descending:
    """Places on the highest ids, and counts on from the partition's number."""

    seen: list[tuple[int, int, int, list[UsableBroker]]]

    def __init__(self) -> None:
        self.seen = []

    def configure(self, configs: Mapping[str, str]) -> None:
        self.configs = configs

    def close(self) -> None:
        self.seen.clear()

    def place(
        self,
        start_partition: int,
        num_partitions: int,
        num_replicas: int,
        brokers: Iterator[UsableBroker],
    ) -> Sequence[Sequence[int]]:
        given = list(brokers)
        self.seen.append((start_partition, num_partitions, num_replicas, given))
        ids = sorted((broker.id for broker in given), reverse=True)
        return [ids[:num_replicas] for _ in range(num_partitions)]


class Refusing(Descending):
    def place(self, *_: object) -> Sequence[Sequence[int]]:
        raise ReplicaPlacementFailed("The storage of rack 2 is full.")


class Broken(Descending):
    def place(self, *_: object) -> Sequence[Sequence[int]]:
        raise KeyError("rack")


class Short(Descending):
    def place(self, *_: object) -> Sequence[Sequence[int]]:
        return [[1, 2]]


class Twice(Descending):
    def place(self, *_: object) -> Sequence[Sequence[int]]:
        return [[1, 1], [2, 3]]


class Fenced(Descending):
    def place(self, *_: object) -> Sequence[Sequence[int]]:
        return [[5, 1], [1, 2]]


class NotPlaced(Descending):
    def place(self, *_: object) -> Sequence[Sequence[int]]:
        return "01"  # type: ignore[return-value]


class Strange(Descending):
    def place(self, *_: object) -> Sequence[Sequence[int]]:
        return [[1, 2], [1, 9]]


class TooMany(Descending):
    def place(self, *_: object) -> Sequence[Sequence[int]]:
        raise InvalidReplicationFactor("Two is too many.")


class Noting(Descending):
    """Writes down what it is told, and when it is closed."""

    def _note(self, line: str) -> None:
        with Path(self.configs["note.file"]).open("a") as file:
            file.write(f"{line}\n")

    def describe(self, topic: str | None, principal: str | None) -> None:
        self._note(f"{topic} for {principal}")

    def close(self) -> None:
        self._note("closed")


class Hanging(Descending):
    let_go = Event()

    def place(self, *_: object) -> Sequence[Sequence[int]]:
        self.let_go.wait()
        return []


class NoPlacer:
    pass


def named(name: str, **configs: str) -> NamedPlacer:
    """A placer of this module."""
    return NamedPlacer(
        f"{__name__}:{name}", {key.replace("_", "."): configs[key] for key in configs}
    )


@pytest.mark.conforms("kip-660-draft:place", "kip-660-draft:when-created")
def test_new_topics_partitions_and_alterations_ask_the_placer() -> None:
    controller, placement, random = Controller(), named("Descending"), Random(1)
    image = controller.image
    controller.do(create(image, [NewTopic("t", 2, 2)], random, placement=placement))
    assert controller.at("t", 1).replicas == (4, 3)
    more = {"t": NewPartitions(3)}
    controller.do(create_partitions(image, more, random, placement=placement))
    altered = [AlterTopicsEntry("t", partitions=5)]
    controller.do(alter_topics(image, altered, random, placement=placement))
    assert controller.at("t", 4).replicas == (4, 3)
    placer = placement._placer
    assert isinstance(placer, Descending)
    assert [call[:3] for call in placer.seen] == [(0, 2, 2), (2, 1, 2), (3, 2, 2)]
    assert placer.seen[0][3] == [UsableBroker(b, None, fenced=False) for b in (1, 2, 3, 4)]
    assert placer.configs[KEY].endswith(":Descending")


@pytest.mark.conforms("kip-660-draft:placement-failed", "kip-660-draft:error-code")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Refusing", "The storage of rack 2 is full."),
        ("Broken", "rack"),
        ("Short", "placed 1 of 2 partitions"),
        ("Twice", "broker 1 more than once"),
        ("Fenced", "led by broker 5, which is fenced"),
        ("NotPlaced", "partition 0 names '0', which is not a broker id"),
        ("Strange", "partition 1 names broker 9"),
    ],
)
def test_what_a_placer_cannot_do_is_said_in_its_own_words(name: str, words: str) -> None:
    controller = Controller()
    controller.do(
        register_broker(controller.image, Registration(5, "i5", "host", 9092, None, ("/a",)))
    )
    answer = create(controller.image, [NewTopic("t", 2, 2)], Random(1), placement=named(name))
    assert errors(answer) == [KafkaError.REPLICA_PLACEMENT_FAILED]
    assert words in str(answer.results[0].message)
    assert not answer.records


@pytest.mark.conforms("kip-660-draft:invalid-factor")
def test_too_many_replicas_for_a_placer_are_kafkas_error() -> None:
    placement = named("TooMany")
    answer = create(Controller().image, [NewTopic("t", 2, 2)], Random(1), placement=placement)
    assert errors(answer) == [KafkaError.INVALID_REPLICATION_FACTOR]
    words = "Unable to replicate the partition 2 time(s): Two is too many."
    assert answer.results[0].message == words


@pytest.mark.conforms("kip-660-draft:placer-that-hangs")
def test_a_placer_that_hangs_costs_its_deadline_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placing, "PLACER_DEADLINE_S", 0.05)
    monkeypatch.setattr(Hanging, "let_go", Event())
    image, placement = Controller().image, named("Hanging")
    messages = []
    for _ in range(2):
        answer = create(image, [NewTopic("t", 2, 2)], Random(1), placement=placement)
        assert errors(answer) == [KafkaError.REPLICA_PLACEMENT_FAILED]
        messages.append(str(answer.results[0].message))
    Hanging.let_go.set()
    placement.close()
    assert "gave no answer within 0.05 s" in messages[0]
    assert "Hanging hangs" in messages[1]


@pytest.mark.conforms("kip-660-draft:config")
@pytest.mark.parametrize("name", ["striped", "prefer-new-brokers", KAFKA_STRIPED])
def test_a_shipped_placer_is_named_as_an_entry_point_or_as_kafka_does(name: str) -> None:
    controller, placement = Controller(), NamedPlacer(name, {})
    answer = create(controller.image, [NewTopic("t", 4, 2)], Random(1), placement=placement)
    controller.do(answer)
    placed = [controller.at("t", number).replicas for number in range(4)]
    assert all(len(set(replicas)) == 2 for replicas in placed)
    assert sorted(broker for replicas in placed for broker in replicas) == [1, 1, 2, 2, 3, 3, 4, 4]


@pytest.mark.conforms("kip-660-draft:one-topic-at-a-time")
def test_new_partitions_go_to_the_broker_that_holds_least() -> None:
    controller = Controller(brokers=3)
    controller.create("old", *[[1, 2, 3]] * 4)
    controller.start(4)
    placement = NamedPlacer("prefer-new-brokers", {})
    new = [NewTopic("new", 4, 1)]
    controller.do(create(controller.image, new, Random(1), placement=placement))
    assert [controller.at("new", number).replicas for number in range(4)] == [(4,)] * 4


@pytest.mark.conforms("kip-660-draft:default")
def test_the_default_goes_on_after_the_last_partition_of_a_topic() -> None:
    controller = Controller()
    controller.create("t", [1, 2], [2, 3])
    image, default = controller.image, striped_placement
    assert place(image, 2, 2, default, Random(), 2, topic="t") == [(3, 4), (4, 1)]
    firsts = {place(image, 1, 1, default, Random(), topic="new")[0] for _ in range(50)}
    assert len(firsts) > 1


@pytest.mark.conforms("kip-660-draft:principal")
def test_a_rule_for_a_topic_or_a_principal_holds_in_the_controller(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(
        '[[rule]]\ntopics = ["a."]\nbrokers = [4]\n'
        '[[rule]]\nprincipals = ["User:u"]\nbrokers = [2]\n'
    )
    rules = NamedPlacer("rules", {"kshunt.placer.rules": str(path)})
    image, dice = Controller().image, Random(1)
    assert place(image, 1, 1, rules, dice, topic="a.b") == [(4,)]
    assert place(image, 1, 1, with_principal("User:u", rules), dice, topic="b") == [(2,)]


@pytest.mark.conforms("kip-660-draft:configurable")
def test_a_placer_has_the_brokers_properties_file() -> None:
    placement = NamedPlacer("avoid-removed-brokers", {"kshunt.placer.removed.brokers": "1,2"})
    wanted = [NewTopic("t", 1, 2), NewTopic("u", 1, 3)]
    answer = create(Controller().image, wanted, Random(1), placement=placement)
    assert errors(answer) == [KafkaError.NONE, KafkaError.REPLICA_PLACEMENT_FAILED]
    assert "broker 1 is being removed" in str(answer.results[1].message)


@pytest.mark.conforms("kip-660-draft:config")
@pytest.mark.parametrize("name", ["", "module", ":Class", "module:", "no_such_module_x:Class"])
def test_a_name_that_is_no_placer_is_refused(name: str) -> None:
    with pytest.raises(ConfigError):
        load_placer(name)


# The default of KIP-660 and its refusals


@pytest.mark.conforms("kip-660-draft:default")
def test_the_default_uses_a_fenced_broker_where_no_other_is_left_but_never_to_lead() -> None:
    controller = Controller(brokers=3)
    controller.do(fence_broker(controller.image, 3))
    controller.do(create(controller.image, [NewTopic("t", 6, 3)], Random(1)))
    for number in range(6):
        partition = controller.at("t", number)
        assert set(partition.replicas) == {1, 2, 3}
        assert partition.replicas[-1] == 3
        assert set(partition.isr) == {1, 2}


def test_the_default_refuses_more_replicas_than_brokers_in_kafkas_words() -> None:
    answer = create(Controller(brokers=3).image, [NewTopic("t", 1, 4)], Random(1))
    assert errors(answer) == [KafkaError.INVALID_REPLICATION_FACTOR]
    assert answer.results[0].message == (
        "Unable to replicate the partition 4 time(s): The target replication factor of 4 cannot "
        "be reached because only 3 broker(s) are registered."
    )


def test_the_default_refuses_to_place_on_fenced_brokers_only() -> None:
    controller = Controller(brokers=2)
    for broker in (1, 2):
        controller.do(fence_broker(controller.image, broker))
    answer = create(controller.image, [NewTopic("t", 1, 1)], Random(1))
    assert errors(answer) == [KafkaError.INVALID_REPLICATION_FACTOR]
    assert str(answer.results[0].message).endswith("All brokers are currently fenced.")


@pytest.mark.conforms("kip-660-draft:racks-and-no-racks")
def test_the_default_refuses_brokers_with_and_without_a_rack() -> None:
    controller = Controller(brokers=2)
    request = Registration(3, "i3", "host", 9092, "rack-a", ("/a",))
    controller.do(register_broker(controller.image, request))
    controller.do(unfence_broker(controller.image, 3))
    answer = create(controller.image, [NewTopic("t", 1, 1)], Random(1))
    assert errors(answer) == [KafkaError.REPLICA_PLACEMENT_FAILED]
    assert "Not all brokers have rack information" in str(answer.results[0].message)


def test_a_raised_replication_factor_goes_to_brokers_that_run() -> None:
    controller = Controller(brokers=4)
    controller.create("t", [1, 2])
    controller.do(fence_broker(controller.image, 3))
    altered = [AlterTopicsEntry("t", replicas=3)]
    controller.do(alter_topics(controller.image, altered, Random(1)))
    assert controller.at("t").target == (1, 2, 4)


# A running cluster


@pytest.mark.conforms("kip-660-draft:principal", "kip-660-draft:closeable")
def test_a_running_cluster_tells_its_placer_who_asks_and_closes_it_once(tmp_path: Path) -> None:
    note = tmp_path / "note"
    static = {KEY: f"{__name__}:Noting", "note.file": str(note)}
    with running(ClusterSpec(plain_brokers(2), static=static)) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        made = admin.create_topics([KafkaTopic("t", 2, 2)], request_timeout=DEADLINE_S)
        made["t"].result(DEADLINE_S)
        again = admin.create_partitions([MorePartitions("t", 3)], request_timeout=DEADLINE_S)
        again["t"].result(DEADLINE_S)
        assert note.read_text().splitlines() == ["t for User:ANONYMOUS"] * 2
        # A handle that stops it early, and the end of the block.
        cluster.call(lambda here: here.stop())
    assert note.read_text().splitlines()[2:] == ["closed"]


def test_a_placer_is_closed_where_the_cluster_cannot_start(tmp_path: Path) -> None:
    note = tmp_path / "note"
    static = {KEY: f"{__name__}:Noting", "note.file": str(note)}
    folder = tmp_path / "data"
    folder.write_text("in the way")
    with pytest.raises(NotADirectoryError):
        EmbeddedCluster(ClusterSpec(plain_brokers(1), static=static, data=folder))
    assert note.read_text() == "closed\n"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "'' is not a placer"),
        ("no-such-placer", "no installed package has it"),
        (f"{__name__}:NoPlacer", "does not have the methods"),
        (f"{__name__}:Absent", "cannot be created"),
    ],
)
def test_a_wrong_placer_keeps_a_cluster_from_starting(name: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        EmbeddedCluster(ClusterSpec(plain_brokers(1), static={KEY: name}))


@pytest.mark.conforms("kip-660-draft:config-read-only")
@pytest.mark.parametrize("value", ["striped", f"{__name__}:Descending", ""])
def test_a_client_can_neither_name_a_placer_nor_unset_it(value: str) -> None:
    refusal = f"Cannot update these configs dynamically: Set({KEY})"
    with running(ClusterSpec(plain_brokers(1))) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        resource = ConfigResource(ConfigResource.Type.BROKER, "1")
        change = ConfigEntry(KEY, value, incremental_operation=AlterConfigOpType.SET)
        resource.add_incremental_config(change)
        [incremental] = admin.incremental_alter_configs([resource]).values()
        whole = ConfigResource(ConfigResource.Type.BROKER, "1", set_config={KEY: value})
        with pytest.warns(DeprecationWarning, match="alter_configs"):
            [replaced] = admin.alter_configs([whole]).values()
        for answer in (incremental, replaced):
            with pytest.raises(KafkaException) as refused:
                answer.result(DEADLINE_S)
            error = refused.value.args[0]
            assert (error.code(), error.str()) == (ClientError.INVALID_REQUEST, refusal)
        own = ConfigResource(ConfigResource.Type.BROKER, "1")
        [described] = admin.describe_configs([own]).values()
        entry = described.result(DEADLINE_S)[KEY]
        assert (entry.value, entry.is_read_only) == (KAFKA_STRIPED, True)


def test_a_placer_that_an_older_log_names_is_not_asked(tmp_path: Path) -> None:
    spec = ClusterSpec(plain_brokers(1), data=tmp_path / "data")
    named_before = ConfigChanged(ResourceType.BROKER, "", KEY, f"{__name__}:Refusing")
    with running(spec) as cluster:
        cluster.call(lambda here: here.core.commit(Decision.of([named_before])))
    with running(spec) as cluster:
        assert cluster.call(lambda here: here.image.cluster_config(KEY)).endswith(":Refusing")
        create_topic(cluster.bootstrap_servers, "t", ((1,),))
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        made = admin.create_partitions([MorePartitions("t", 2)], request_timeout=DEADLINE_S)
        made["t"].result(DEADLINE_S)


@pytest.mark.parametrize(
    "text",
    [
        f'[static]\n"{KEY}" = "some_module:Class"\n[[brokers]]\ncount = 1',
        f"[[brokers]]\ncount = 1\n[[events]]\nat_s = 1\naction = 'set_config'\n"
        f"values = {{ '{KEY}' = 'striped' }}",
    ],
)
def test_a_scenario_names_shipped_placers_only_and_before_the_start(
    text: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f"title = 'x'\nabout = 'y'\n{text}\n")
    with pytest.raises(BadInput, match=r"placer\.class\.name"):
        read_scenario(path)
    allowed = text.replace("some_module:Class", "striped").partition("[[events]]")[0]
    path.write_text(f"title = 'x'\nabout = 'y'\n{allowed}\n")
    read_scenario(path)
