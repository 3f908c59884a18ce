"""What throttles are made of: the configurations of brokers and topics that hold them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from kshunt.backend.admin.port.item_result import ItemResult
from kshunt.backend.admin.rpc.configs import Changes, Values


class ThrottleConfigs(Protocol):
    """Read and written with brokers, or with ZooKeeper."""

    async def read_brokers(
        self, brokers: Sequence[int], *, timeout_s: float
    ) -> Mapping[int, Values]:
        """The brokers' rates; one of which nobody tells is absent."""
        ...

    async def read_topics(self, topics: Sequence[str], *, timeout_s: float) -> Mapping[str, Values]:
        """The topics' throttled replicas; one that does not exist is absent.

        Raises:
            ClusterUnreachable: they could not be read.
        """
        ...

    async def write_brokers(
        self, changes: Mapping[int, Changes], *, validate_only: bool, timeout_s: float
    ) -> Mapping[int, ItemResult]:
        """Each broker's configuration, by itself and all at the same time; never raises for one."""
        ...

    async def write_topics(
        self, changes: Mapping[str, Changes], *, validate_only: bool, timeout_s: float
    ) -> Mapping[str, ItemResult]:
        """The topics' configurations."""
        ...
