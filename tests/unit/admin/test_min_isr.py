"""min.insync.replicas of very many topics, and of topics that are not shown."""

from __future__ import annotations

from typing import Any

import pytest

from kshunt.backend.admin.rpc.config_reads import TOPICS_PER_REQUEST
from kshunt.backend.embedded.net.server import RequestContext
from kshunt.backend.errors import ClusterUnreachable
from tests.support.native import DESCRIBE_CONFIGS, TIMEOUT_S, administered, hang_up

TOPIC_FORBIDDEN = 29
TOPICS = TOPICS_PER_REQUEST + 1
"""More than one request holds."""


async def test_very_many_topics_are_read() -> None:
    async with administered() as (cluster, admin):
        for number in range(TOPICS):
            cluster.create(f"n{number}", [1], min_insync_replicas=str(1 + number % 2))
        found = await admin.configs.min_isr(timeout_s=TIMEOUT_S * 4)
        assert found == {f"n{number}": 1 + number % 2 for number in range(TOPICS)} | {"t": 1}
        assert cluster.asked.count(DESCRIBE_CONFIGS) >= 2


async def test_a_topic_that_is_not_shown_is_absent() -> None:
    async with administered() as (cluster, admin):
        cluster.create("secret", [1])

        async def discreet(context: RequestContext, message: Any) -> Any:
            answer: Any = await cluster.own[DESCRIBE_CONFIGS](context, message)
            for result in answer.results:
                if result.resource_name == "secret":
                    result.error_code, result.configs = TOPIC_FORBIDDEN, []
            return answer

        cluster.instead[DESCRIBE_CONFIGS] = discreet
        assert await admin.configs.min_isr(["t", "secret"], timeout_s=TIMEOUT_S) == {"t": 1}
        assert await admin.configs.min_isr(timeout_s=TIMEOUT_S) == {"t": 1}


async def test_a_cluster_that_does_not_answer_is_unreachable() -> None:
    async with administered() as (cluster, admin):
        cluster.instead[DESCRIBE_CONFIGS] = hang_up
        with pytest.raises(ClusterUnreachable):
            await admin.configs.min_isr(["t"], timeout_s=TIMEOUT_S)
