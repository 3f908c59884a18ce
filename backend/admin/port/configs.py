"""Configurations of topics: what is in force, what is set on a topic itself, and setting it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from kshunt.backend.admin.port.item_result import ItemResult
from kshunt.backend.domain.topics.configs import TopicConfig


class ConfigAdmin(Protocol):
    """See the module's text; `ClusterAdmin` says what a lost answer comes to."""

    async def describe(self, topic: str, *, timeout_s: float) -> tuple[TopicConfig, ...] | None:
        """Everything a topic is configured with, sorted by name; None if there is no such topic.

        Raises:
            ClusterUnreachable: no broker answered in time.
            NotAuthorized: the cluster does not show it.
        """
        ...

    async def overrides(self, topic: str, *, timeout_s: float) -> Mapping[str, str] | None:
        """What is set on the topic itself; None if there is no such topic.

        Raises:
            ClusterUnreachable: no broker answered in time.
            NotAuthorized: the cluster does not show it.
        """
        ...

    async def min_isr(
        self, topics: Sequence[str] | None = None, *, timeout_s: float
    ) -> Mapping[str, int]:
        """The min.insync.replicas in force, by topic: of all topics, or of those named.

        A topic that does not exist, or whose configuration the cluster does not show, is absent.

        Raises:
            ClusterUnreachable: the configurations could not be read.
        """
        ...

    async def alter(
        self, topic: str, changes: Mapping[str, str | None], *, timeout_s: float
    ) -> ItemResult:
        """Set overrides of a topic, and remove those that are None; the others stay.

        A success says that it is written, and brokers obey it a moment later: see `in_force`.

        Raises:
            ClusterUnreachable, BrokerUnreachable: nothing was sent.
        """
        ...

    async def in_force(
        self, topic: str, names: Sequence[str], brokers: Sequence[int], *, timeout_s: float
    ) -> Mapping[int, Mapping[str, str]]:
        """What each of these brokers says that these configurations of a topic are.

        A broker that does not answer in time is absent, and so is what it does not know. A broker
        says so a moment before its logs obey it, on a busy machine a second; one that keeps its
        metadata in ZooKeeper says what is written.
        """
        ...
