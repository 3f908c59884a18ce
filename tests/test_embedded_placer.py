"""The placer of KIP-660 in the controller: named, asked, checked, and its errors passed on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random

import pytest

from backend.embedded.controller.alter_topics import AlteredTopic, alter_topics
from backend.embedded.controller.answers import KafkaError
from backend.embedded.controller.topics import NewPartitions, NewTopic, create_partitions
from backend.embedded.controller.topics import create_topics as create
from backend.embedded.metadata.records import ResourceType
from backend.errors import ConfigError
from backend.placement.placer import ReplicaPlacementFailed, UsableBroker, load_placer
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
        ("NoPlacer", "has not the methods"),
        ("Absent", "cannot be made"),
    ],
)
def test_what_a_placer_cannot_do_is_said_in_its_own_words(name: str, words: str) -> None:
    controller = placed_by(name)
    answer = create(controller.image, [NewTopic("t", 2, 2)], Random(1))
    assert errors(answer) == [KafkaError.REPLICA_PLACEMENT_FAILED]
    assert words in str(answer.results[0].message)
    assert not answer.records


@pytest.mark.parametrize("name", ["", "module", ":Class", "module:", "no_such_module_x:Class"])
def test_a_name_that_is_no_placer_is_refused(name: str) -> None:
    with pytest.raises(ConfigError):
        load_placer(name)
