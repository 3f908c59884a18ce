"""Where configurations are from, on three clusters and in a broker's file, and min ISR."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest
from kafka.protocol.admin import IncrementalAlterConfigsRequest

from kshunt.backend.admin.connect import Reached
from kshunt.backend.admin.rpc.configs import BROKER, TOPIC
from kshunt.backend.domain.cluster.config_names import MIN_ISR
from kshunt.backend.domain.throttles.configs import (
    FOLLOWER_RATE,
    LEADER_RATE,
    LOG_DIR_RATE,
    BrokerThrottle,
    ThrottledRate,
)
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.operations.ownership.cells import RateKey
from kshunt.backend.operations.ownership.ownership import found_settings
from kshunt.backend.wire.raw_request import RawRequest
from tests.support.admin import DEADLINE_S, TIMEOUT_S, connected, topic_with
from tests.support.brokers.launcher import RealKafka
from tests.support.clusters import KAFKA, NATIVE
from tests.support.embedded.background import running
from tests.support.waiting import wait_until_async

SET, DELETE = 0, 1
"""Operations of IncrementalAlterConfigs (KIP-339)."""
ALL_BROKERS = ""
"""The name of the brokers' cluster-wide default (KIP-226)."""
OWN, INHERITED, FILE = (
    "DYNAMIC_BROKER_CONFIG",
    "DYNAMIC_DEFAULT_BROKER_CONFIG",
    "STATIC_BROKER_CONFIG",
)


async def write(admin: Reached, kind: int, name: str, key: str, value: str | None) -> None:
    """Set a key, or delete it. The cluster-wide default cannot be written by confluent-kafka."""
    operation = DELETE if value is None else SET
    message = IncrementalAlterConfigsRequest(
        resources=[(kind, name, [(key, operation, value)])], validate_only=False
    )
    # A broker's own configuration is written by that broker alone.
    broker = int(name) if kind == BROKER and name else 1
    await admin.cluster.call(broker, RawRequest.of(message), timeout_s=TIMEOUT_S, lane="write")


@asynccontextmanager
async def configured(admin: Reached, *rates: tuple[str, str, int]) -> AsyncIterator[None]:
    """Rates (broker or `ALL_BROKERS`, key, value) that are gone at the end."""
    try:
        for name, key, value in rates:
            await write(admin, BROKER, name, key, str(value))
        yield
    finally:
        for name, key, _ in rates:
            await write(admin, BROKER, name, key, None)


async def becomes(admin: Reached, wanted: BrokerThrottle) -> None:
    """Wait until a broker shows these rates from these sources."""

    async def now() -> bool:
        found = await admin.throttles.describe([wanted.broker], [], timeout_s=TIMEOUT_S)
        return found.rates[wanted.broker] == wanted

    await wait_until_async(now, DEADLINE_S, f"the broker shows {wanted}")


def showing(
    leader: tuple[int | None, str] = (None, ""),
    follower: tuple[int | None, str] = (None, ""),
    log_dir: tuple[int | None, str] = (None, ""),
    broker: int = 2,
) -> BrokerThrottle:
    """A broker's rates, each with its source."""
    return BrokerThrottle(
        broker,
        ThrottledRate(leader[0], follower[0]),
        log_dir[0],
        leader_source=leader[1],
        follower_source=follower[1],
        log_dir_source=log_dir[1],
    )


# Sources of rates


async def test_rates_are_effective_values_with_their_source(admin: Reached) -> None:
    await becomes(admin, showing())
    async with configured(admin, (ALL_BROKERS, LEADER_RATE, 7_000_000)):
        await becomes(admin, showing((7_000_000, INHERITED)))
        async with configured(admin, ("2", LEADER_RATE, 5_000_000)):
            await becomes(admin, showing((5_000_000, OWN)))
        await becomes(admin, showing((7_000_000, INHERITED)))
        # The number by which Kafka says that there is no rate.
        async with configured(admin, ("2", LEADER_RATE, 2**63 - 1)):
            await becomes(admin, showing())
    await becomes(admin, showing())


async def test_each_rate_of_a_broker_has_its_own_source(admin: Reached) -> None:
    rates = (
        (ALL_BROKERS, LEADER_RATE, 7_000_000),
        ("2", FOLLOWER_RATE, 5_000_000),
        (ALL_BROKERS, LOG_DIR_RATE, 3_000_000),
    )
    async with configured(admin, *rates):
        wanted = showing((7_000_000, INHERITED), (5_000_000, OWN), (3_000_000, INHERITED))
        await becomes(admin, wanted)
        present = found_settings(await admin.throttles.describe([2], [], timeout_s=TIMEOUT_S), ())
        assert [present.rates[2, key].source for key in RateKey] == [INHERITED, OWN, INHERITED]
        assert [present.rates[2, key].own_bytes_per_s for key in RateKey] == [None, 5_000_000, None]
    await becomes(admin, showing())


@contextmanager
def one_broker(flavour: str, properties: dict[str, str]) -> Iterator[str]:
    """A cluster of one broker whose file holds these properties; its bootstrap servers."""
    if flavour == KAFKA:
        with RealKafka(1, properties) as kafka:
            yield kafka.bootstrap_servers
    else:
        with running(ClusterSpec(plain_brokers(1), static=properties)) as handle:
            yield handle.bootstrap_servers


@pytest.mark.parametrize("flavour", [NATIVE, pytest.param(KAFKA, marks=pytest.mark.kafka)])
async def test_a_rate_in_the_brokers_file_is_told_from_its_own(flavour: str) -> None:
    with one_broker(flavour, {LEADER_RATE: "9000000", FOLLOWER_RATE: "8000000"}) as servers:
        async with connected(servers) as admin:
            from_file = (9_000_000, FILE), (8_000_000, FILE)
            await becomes(admin, showing(*from_file, broker=1))
            async with configured(admin, ("1", FOLLOWER_RATE, 5_000_000)):
                await becomes(admin, showing(from_file[0], (5_000_000, OWN), broker=1))
            await becomes(admin, showing(*from_file, broker=1))


# min.insync.replicas


async def test_min_isr_is_what_is_in_force_on_each_topic(
    admin: Reached, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kshunt.backend.admin.rpc.config_reads.TOPICS_PER_REQUEST", 2)
    default, own = [await topic_with(admin, "min-isr", [[1, 2, 3]]) for _ in range(2)]
    more = [await topic_with(admin, "min-isr", [[1]]) for _ in range(3)]
    await write(admin, TOPIC, own, MIN_ISR, "2")
    asked = [default, own, *more, "no-such-topic", "no/topic"]
    wanted = dict.fromkeys([default, *more], 1) | {own: 2}

    async def now() -> bool:
        return await admin.configs.min_isr(asked, timeout_s=TIMEOUT_S) == wanted

    await wait_until_async(now, DEADLINE_S, f"{own} needs two replicas in sync")
    everything = await admin.configs.min_isr(timeout_s=TIMEOUT_S)
    assert everything.items() >= wanted.items()
    assert await admin.configs.min_isr([], timeout_s=TIMEOUT_S) == {}
