"""The routes of whole topics: which there are, how they are altered, and how they shrink."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query

from kshunt.backend.access.roles import Role
from kshunt.backend.api.core import two_person_changes
from kshunt.backend.api.core.backend import Backend
from kshunt.backend.api.core.change_checks import require_active
from kshunt.backend.api.core.request_values import once, timeout_s_of
from kshunt.backend.api.http import problems
from kshunt.backend.api.http.paths import TOPIC_PATTERN
from kshunt.backend.api.http.route_roles import Routes
from kshunt.backend.api.request_models.shrinks import (
    DeletePartitionsRequestModel,
    ShrinkRequestModel,
)
from kshunt.backend.api.request_models.topics import (
    AlterTopicsRequestModel,
    DescribeTopicsRequestModel,
)
from kshunt.backend.api.schema.shrinks import DeletionSupport
from kshunt.backend.api.schema.topics import TopicConfigs, Topics, TopicsAnswer
from kshunt.backend.domain.operations.approval import ShownProposal
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.shrink.check import ShrinkCheck
from kshunt.backend.domain.shrink.delete_partitions import ShrinkAnswer
from kshunt.backend.domain.shrink.facts import COPY_RATE_BYTES_PER_S
from kshunt.backend.domain.throttles.configs import RATE_MAX_BYTES_PER_S, RATE_MIN_BYTES_PER_S
from kshunt.backend.domain.topics.alteration import AlteredTopic
from kshunt.backend.domain.topics.partitioners import Partitioner
from kshunt.backend.domain.topics.summaries import summaries
from kshunt.backend.error_codes import UNKNOWN_TOPIC_OR_PARTITION
from kshunt.backend.limits import LIMITS

TopicName = Annotated[
    str, Path(min_length=1, max_length=249, json_schema_extra={"pattern": TOPIC_PATTERN})
]
Count = Annotated[int, Query(ge=-(2**31), le=2**31 - 1, description="partitions to keep")]
CopyRate = Annotated[
    int,
    Query(
        ge=RATE_MIN_BYTES_PER_S,
        le=RATE_MAX_BYTES_PER_S,
        description="assumed rate of the copy in bytes a second",
    ),
]

ChosenPartitioner = Annotated[
    Partitioner | None,
    Query(description="by which a copy would place keys; default: the one that the keys follow"),
]


def install(app: FastAPI, backend: Backend) -> None:
    """Add the routes."""
    _reads(app, backend)
    _changes(app, backend)
    _shrink_reads(app, backend)
    _shrink_changes(app, backend)


def _reads(app: FastAPI, backend: Backend) -> None:
    views = Routes(app, Role.VIEWER)
    timeout_s = backend.settings.request_timeout_s

    @views.get("/v1/topics", Topics)
    async def listed() -> Any:
        """Every topic, read from the cluster."""
        state = await backend.admin.cluster.describe(timeout_s=timeout_s)
        return await asyncio.to_thread(lambda: Topics(tuple(summaries(state.assignment))))

    @views.post(
        "/v1/topics/describe",
        TopicsAnswer,
        body_bytes=LIMITS.request_body_bytes,
    )
    async def describe(body: DescribeTopicsRequestModel) -> Any:
        """Topics with their partitions, read from the cluster."""
        found = await backend.admin.topics.describe(
            body.topics, configs=body.configs, min_isr=body.min_isr, timeout_s=timeout_s
        )
        return await asyncio.to_thread(TopicsAnswer.of, found)

    @views.get("/v1/topics/{topic}/configs", TopicConfigs)
    async def configs(topic: TopicName) -> Any:
        """The whole configuration of a topic, read from the cluster."""
        found = await backend.admin.configs.describe(topic, timeout_s=timeout_s)
        if found is None:
            return problems.problem(
                404,
                "No such topic",
                f"The cluster has no topic '{topic}'.",
                advice="It may have been deleted in the meantime.",
                kafka_code=UNKNOWN_TOPIC_OR_PARTITION,
            )
        return TopicConfigs(topic, tuple(found))


def _changes(app: FastAPI, backend: Backend) -> None:
    changes = Routes(app, Role.OPERATOR)

    @changes.post("/v1/topics/alter", ChangeAnswer, body_bytes=LIMITS.request_body_bytes)
    async def alter(body: AlterTopicsRequestModel) -> Any:
        """KIP-179's early draft, alterTopics: partitions, replication factor, assignment."""
        change = await require_active(backend, body)
        wanted = {
            entry.topic: AlteredTopic(
                entry.partitions,
                entry.replication_factor,
                {one.partition: tuple(one.replicas) for one in entry.assignment},
            )
            for entry in body.topics
        }
        once(len(wanted), len(body.topics), "topic")
        timeout_s = timeout_s_of(body.timeout_ms)
        return await backend.alterations.alter(wanted, change, timeout_s=timeout_s)


def _shrink_reads(app: FastAPI, backend: Backend) -> None:
    views = Routes(app, Role.VIEWER)

    @views.get("/v1/topics/deletion", DeletionSupport)
    async def support() -> Any:
        """Whether the cluster can delete partitions (KIP-694)."""
        timeout_s = backend.settings.request_timeout_s
        return DeletionSupport(await backend.admin.partition_deletions.support(timeout_s=timeout_s))

    @views.get("/v1/topics/{topic}/shrink", ShrinkCheck)
    async def shrink(
        topic: TopicName,
        partitions: Count,
        copy_rate: CopyRate = int(COPY_RATE_BYTES_PER_S),
        partitioner: ChosenPartitioner = None,
    ) -> Any:
        """The safety view of a shrink, read from the cluster. A count that makes no sense is a
        finding like others."""
        checks = backend.shrink_checks
        found = await checks.check(
            topic, partitions, copy_rate_bytes_per_s=copy_rate, partitioner=partitioner
        )
        if not found.current:
            finding = found.findings[0]
            return problems.problem(
                404,
                "No such topic",
                finding.words,
                advice=finding.advice,
                kafka_code=UNKNOWN_TOPIC_OR_PARTITION,
            )
        return found


def _shrink_changes(app: FastAPI, backend: Backend) -> None:
    admins = Routes(app, Role.ADMIN)

    @admins.post(
        "/v1/topics/delete-partitions",
        ShrinkAnswer,
        also={202: ShownProposal},
    )
    async def delete_partitions(body: DeletePartitionsRequestModel) -> Any:
        """KIP-694, deletePartitions: topics keep their first partitions, the others are deleted."""
        return await two_person_changes.request_change(backend, two_person_changes.DELETE, "", body)

    @admins.post("/v1/topics/{topic}/shrink", ChangeAnswer, also={202: ShownProposal})
    async def shrink(topic: TopicName, body: ShrinkRequestModel) -> Any:
        """Let a topic have fewer partitions, on a cluster that cannot drop one: an operation that
        copies and verifies it, and goes no further before the topic's name was typed."""
        return await two_person_changes.request_change(
            backend, two_person_changes.SHRINK, topic, body
        )
