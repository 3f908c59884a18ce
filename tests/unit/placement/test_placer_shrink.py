"""A shrink's placer (KIP-660) after the point of no return: a broker leaves that was chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kshunt.backend.domain.shrink.phases import ShrinkPhase
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.placement.placer_calls import close_placers
from kshunt.backend.settings import PlacerSettings
from tests.support.admin import states_of
from tests.support.embedded.background import running
from tests.support.placement.given_placers import FULL, named
from tests.support.shrink.cases import PARTITIONS_LEFT, is_shrunk, made, run, started
from tests.support.shrink.driver import Driver

GONE = 99


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with running(ClusterSpec(plain_brokers(3), native=False)) as handle:
        yield handle.bootstrap_servers
    close_placers()


async def lose_a_broker(driver: Driver) -> None:
    """Continue until the topic is deleted; then somebody takes a broker away that was chosen."""
    while driver.work.phase is not ShrinkPhase.CREATE:
        await driver.tick()
    work = replace(driver.work, assignment=((GONE, 1),) * PARTITIONS_LEFT)
    await driver.context.registry.put(driver.operation, shrink=work)


def to_the_loss(driver: Driver, topic: str) -> None:
    run(driver, started(topic), lambda one: one.until("confirm"), Driver.confirm, lose_a_broker)


@pytest.mark.slow
def test_the_placer_is_asked_again_where_a_broker_that_it_chose_has_left(
    servers: str, tmp_path: Path
) -> None:
    placed: list[Sequence[int]] = []
    before = made(servers, "left")
    driver = Driver(servers, tmp_path, placer=PlacerSettings(named("Counting")))
    to_the_loss(driver, "left")

    async def look(driver: Driver) -> None:
        states = await states_of(driver.admin, "left")
        placed.extend(states[number].replicas for number in sorted(states))

    run(driver, Driver.to_end, look)
    assert driver.done, driver.operation
    assert placed == [(3, 2), (2, 1)]
    is_shrunk(before)


@pytest.mark.slow
def test_where_it_does_not_place_then_an_operator_is_waited_for(
    servers: str, tmp_path: Path
) -> None:
    before = made(servers, "kept")
    driver = Driver(servers, tmp_path)
    to_the_loss(driver, "kept")
    driver.placer = PlacerSettings(named("Refusing"))
    said: list[str] = []

    async def waited_for(driver: Driver) -> None:
        await driver.until("operator")
        said.append(driver.words)

    run(driver, waited_for)
    assert FULL in said[0]
    assert driver.work.assignment[0] == (GONE, 1)
    # A backend that is started with another placer, or none, continues.
    driver.placer = PlacerSettings()
    run(driver, Driver.to_end)
    assert driver.done, driver.operation
    is_shrunk(before)
