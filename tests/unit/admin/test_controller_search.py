"""Calls to a controller that has just moved, over real sockets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kshunt.backend.admin.rpc import requests
from kshunt.backend.admin.rpc.broker_calls import NO_TOPICS, BrokerCalls, Describe
from kshunt.backend.admin.rpc.error_mapping import BrokerDown
from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.cluster.assignment import ClusterState
from kshunt.backend.domain.cluster.metadata import Broker
from kshunt.backend.settings import Settings
from tests.support.embedded.listeners import listening
from tests.support.ports import HOST, free_ports

TIMEOUT_S = 5.0


@pytest.mark.parametrize("refusals", [1, 2, 4])
async def test_a_controller_that_refuses_a_connection_is_looked_for_again(refusals: int) -> None:
    """In KRaft each answer names a broker at random, also one that was down a moment ago."""
    async with listening() as cluster:
        told = await _told_by(cluster.bootstrap_servers)
        down = replace(told, brokers={**told.brokers, told.controller: _nobody(told.controller)})
        answers = [down] * refusals

        async def describe(topics: Sequence[str] | None, timeout_s: float) -> ClusterState:
            return answers.pop() if answers else told

        calls = _calls(cluster.bootstrap_servers, describe)
        try:
            answer = await calls.ask_controller(
                lambda: requests.metadata_request(NO_TOPICS), timeout_s=TIMEOUT_S, lane="write"
            )
        finally:
            await calls.close()
        assert answer.body
        assert not answers


async def test_a_controller_that_stays_down_is_an_error_that_names_it() -> None:
    async with listening() as cluster:
        told = await _told_by(cluster.bootstrap_servers)
        down = replace(told, brokers={**told.brokers, told.controller: _nobody(told.controller)})

        async def describe(topics: Sequence[str] | None, timeout_s: float) -> ClusterState:
            return down

        calls = _calls(cluster.bootstrap_servers, describe)
        try:
            with pytest.raises(BrokerDown, match=f"Broker {told.controller} .* is down"):
                await calls.ask_controller(
                    lambda: requests.metadata_request(NO_TOPICS), timeout_s=TIMEOUT_S
                )
        finally:
            await calls.close()


def _calls(servers: str, describe: Describe | None = None) -> BrokerCalls:
    return BrokerCalls(Settings(servers), SystemClock(), lambda: None, describe)


async def _told_by(servers: str) -> ClusterState:
    calls = _calls(servers)
    try:
        return await calls.describe(NO_TOPICS, timeout_s=TIMEOUT_S)
    finally:
        await calls.close()


def _nobody(broker: int) -> Broker:
    return Broker(broker, HOST, free_ports(1)[0])
