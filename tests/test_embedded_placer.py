"""The placer of KIP-660 in the controller: named, asked, checked, and its errors passed on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from threading import Event

import pytest

from backend.embedded.controller import placing
from backend.embedded.controller.alter_topics import AlteredTopic, alter_topics
from backend.embedded.controller.answers import KafkaError
from backend.embedded.controller.brokers import Registration, register_broker
from backend.embedded.controller.topics import NewPartitions, NewTopic, create_partitions
from backend.embedded.controller.topics import create_topics as create
from backend.embedded.metadata.image import ClusterImage
from backend.embedded.metadata.records import ResourceType
from backend.errors import ConfigError
from backend.placement.find import KAFKA_STRIPED
from backend.placement.placer import (
    InvalidReplicationFactor,
    ReplicaPlacementFailed,
    UsableBroker,
    load_placer,
)
from backend.placement.placing import close_placers
from tests.test_embedded_controller_support import Controller, errors

KEY = "replica.placer.class.name"


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


class Hanging(Descending):
    let_go = Event()

    def place(self, *_: object) -> Sequence[Sequence[int]]:
        self.let_go.wait()
        return []


class NoPlacer:
    pass


def placed_by(name: str) -> Controller:
    controller = Controller()
    controller.set(ResourceType.BROKER, "", **{KEY: f"{__name__}:{name}"})
    return controller


def test_new_topics_partitions_and_alterations_ask_the_placer() -> None:
    controller = placed_by("Descending")
    random = Random(1)
    controller.do(create(controller.image, [NewTopic("t", 2, 2)], random))
    assert controller.at("t", 1).replicas == (4, 3)
    controller.do(create_partitions(controller.image, {"t": NewPartitions(3)}, random))
    controller.do(alter_topics(controller.image, [AlteredTopic("t", partitions=5)], random))
    assert controller.at("t", 4).replicas == (4, 3)
    placer = load_placer(f"{__name__}:Descending")
    assert isinstance(placer, Descending)
    assert [call[:3] for call in placer.seen] == [(0, 2, 2), (2, 1, 2), (3, 2, 2)]
    assert placer.seen[0][3] == [UsableBroker(b, None, fenced=False) for b in (1, 2, 3, 4)]
    assert placer.configs[KEY].endswith(":Descending")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Refusing", "The storage of rack 2 is full."),
        ("Broken", "rack"),
        ("Short", "placed 1 of 2 partitions"),
        ("Twice", "broker 1 more than once"),
        ("Fenced", "led by broker 5, which is fenced"),
        ("NotPlaced", "partition 0 names '0', which is no broker id"),
        ("Strange", "partition 1 names broker 9"),
        ("NoPlacer", "has not the methods"),
        ("Absent", "cannot be made"),
    ],
)
def test_what_a_placer_cannot_do_is_said_in_its_own_words(name: str, words: str) -> None:
    controller = placed_by(name)
    controller.do(
        register_broker(controller.image, Registration(5, "i5", "host", 9092, None, ("/a",)))
    )
    answer = create(controller.image, [NewTopic("t", 2, 2)], Random(1))
    assert errors(answer) == [KafkaError.REPLICA_PLACEMENT_FAILED]
    assert words in str(answer.results[0].message)
    assert not answer.records


def test_too_many_replicas_for_a_placer_are_kafkas_error() -> None:
    controller = placed_by("TooMany")
    answer = create(controller.image, [NewTopic("t", 2, 2)], Random(1))
    assert errors(answer) == [KafkaError.INVALID_REPLICATION_FACTOR]
    assert answer.results[0].message == "Two is too many."


def test_a_placer_that_hangs_costs_its_deadline_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placing, "PLACER_DEADLINE_S", 0.05)
    monkeypatch.setattr(Hanging, "let_go", Event())
    controller = placed_by("Hanging")
    messages = []
    for _ in range(2):
        answer = create(controller.image, [NewTopic("t", 2, 2)], Random(1))
        assert errors(answer) == [KafkaError.REPLICA_PLACEMENT_FAILED]
        messages.append(str(answer.results[0].message))
    Hanging.let_go.set()
    close_placers()
    assert "gave no answer within 0.05 s" in messages[0]
    assert "Hanging hangs" in messages[1]


@pytest.mark.parametrize("name", ["striped", "prefer-new-brokers", KAFKA_STRIPED])
def test_a_shipped_placer_is_named_as_an_entry_point_or_as_kafka_does(name: str) -> None:
    controller = Controller()
    controller.set(ResourceType.BROKER, "", **{KEY: name})
    controller.do(create(controller.image, [NewTopic("t", 4, 2)], Random(1)))
    placed = [controller.at("t", number).replicas for number in range(4)]
    assert all(len(set(replicas)) == 2 for replicas in placed)
    assert sorted(broker for replicas in placed for broker in replicas) == [1, 1, 2, 2, 3, 3, 4, 4]


def test_new_partitions_go_to_the_broker_that_holds_least() -> None:
    controller = Controller(brokers=3)
    controller.create("old", *[[1, 2, 3]] * 4)
    controller.start(4)
    controller.set(ResourceType.BROKER, "", **{KEY: "prefer-new-brokers"})
    controller.do(create(controller.image, [NewTopic("new", 4, 1)], Random(1)))
    assert [controller.at("new", number).replicas for number in range(4)] == [(4,)] * 4


def test_a_placer_is_told_of_the_topic_that_it_goes_on_with() -> None:
    controller = Controller()
    controller.create("t", [1, 2], [2, 3])
    controller.set(ResourceType.BROKER, "", **{KEY: "striped"})
    image, default = controller.image, placing.default_placement
    assert placing.place(image, 2, 2, default, Random(), 2, topic="t") == [(3, 4), (4, 1)]
    firsts = {placing.place(image, 1, 1, default, Random(), topic="new")[0] for _ in range(50)}
    assert len(firsts) > 1


def test_a_rule_for_a_topic_or_a_principal_holds_in_the_controller(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(
        '[[rule]]\ntopics = ["a."]\nbrokers = [4]\n'
        '[[rule]]\nprincipals = ["User:u"]\nbrokers = [2]\n'
    )
    controller = Controller()
    image = ClusterImage(static={KEY: "rules", "kshunt.placer.rules": str(path)})
    for record in controller.log:
        image.replay(record)
    default, dice = placing.default_placement, Random(1)
    assert placing.place(image, 1, 1, default, dice, topic="a.b") == [(4,)]
    assert placing.place(image, 1, 1, default, dice, topic="b", principal="User:u") == [(2,)]


def test_a_placer_has_the_brokers_properties_file() -> None:
    file = {"kshunt.placer.removed.brokers": "1,2"}
    image = ClusterImage(static={**file, KEY: "avoid-removed-brokers"})
    controller = Controller()
    for record in controller.log:
        image.replay(record)
    answer = create(image, [NewTopic("t", 1, 2), NewTopic("u", 1, 3)], Random(1))
    assert errors(answer) == [KafkaError.NONE, KafkaError.REPLICA_PLACEMENT_FAILED]
    assert "broker 1 is being removed" in str(answer.results[1].message)


@pytest.mark.parametrize("name", ["", "module", ":Class", "module:", "no_such_module_x:Class"])
def test_a_name_that_is_no_placer_is_refused(name: str) -> None:
    with pytest.raises(ConfigError):
        load_placer(name)
