"""A broker that is slow is given longer, rather than asked for the same again and again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.replicas.snapshot import Snapshot
from kshunt.backend.embedded.net.server import RequestContext
from kshunt.backend.settings import SamplerSettings
from kshunt.backend.telemetry.sampling.request_timeouts import MOST, RESTS, RequestTimeouts
from kshunt.backend.telemetry.sampling.sampler import Sampler
from kshunt.backend.telemetry.sampling.snapshot_hub import SnapshotHub
from tests.support.native import LIST_OFFSETS, administered

PATIENCE_S = 0.15


def waited_s(snapshot: Snapshot) -> dict[int | None, float]:
    """How long each broker was waited for in vain the last time, seconds."""
    failed = snapshot.failed_requests
    return {one.broker: one.waited_s for one in failed if one.waited_s is not None}


def test_a_time_out_doubles_until_it_is_enough_and_falls_back() -> None:
    patience = RequestTimeouts(2.0)
    key = ("offsets", 1)
    given = []
    for _ in range(5):
        given.append(patience.timeout_s(key))
        patience.note(key, given[-1])
    assert given == [2.0, 4.0, 8.0, 16.0, 16.0]
    patience.note(key, 3.0)
    assert patience.timeout_s(key) == 8.0
    patience.note(key, 0.2)
    assert patience.timeout_s(key) == 2.0


def test_a_slow_sweep_is_followed_by_a_longer_rest() -> None:
    patience = RequestTimeouts(2.0)
    key = ("sweep", 1)
    assert patience.rest_s(key, 10.0) == 10.0
    patience.note(key, 1.0)
    assert patience.rest_s(key, 10.0) == 10.0
    patience.note(key, 6.0)
    assert patience.rest_s(key, 10.0) == 6.0 * RESTS


@pytest.mark.slow
async def test_who_does_not_answer_in_time_is_given_longer_up_to_a_bound() -> None:
    answers = asyncio.Event()
    async with administered() as (cluster, admin):
        usual = cluster.own[LIST_OFFSETS]

        async def late(context: RequestContext, message: Any) -> Any:
            if context.broker_id == 1:
                await answers.wait()
            return await usual(context, message)

        cluster.instead[LIST_OFFSETS] = late
        settings = SamplerSettings(tick_s=0.05, sweep_s=0.05, broker_timeout_s=PATIENCE_S)
        sampler = Sampler(admin, SystemClock(), settings, SnapshotHub())
        seen: list[float] = []
        async with asyncio.timeout(60):
            while not seen or seen[-1] < PATIENCE_S * MOST:
                snapshot = await sampler.tick()
                silent = {} if snapshot is None else waited_s(snapshot)
                if 1 in silent and silent[1] not in seen:
                    seen.append(silent[1])
            assert seen[0] == PATIENCE_S
            assert seen == sorted(seen)
            assert seen[-1] == PATIENCE_S * MOST
            answers.set()
            while snapshot is None or snapshot.brokers[1].problem:
                snapshot = await sampler.tick()
