"""Elections of leaders: preferred ones (KIP-183), and unclean ones (KIP-460)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kshunt.backend.admin.port.item_result import PartitionResults
from kshunt.backend.domain.cluster.metadata import TopicPartition


class ElectionAdmin(Protocol):
    """See the module's text."""

    async def elect_preferred(
        self, partitions: Sequence[TopicPartition] | None, *, timeout_s: float
    ) -> PartitionResults:
        """Elect the preferred replica; of every partition if None.

        ELECTION_NOT_NEEDED is the answer for a partition that is led by it already.

        Raises:
            ClusterUnreachable: it did not answer in time.
        """
        ...

    async def elect_unclean(
        self, partitions: Sequence[TopicPartition], *, timeout_s: float
    ) -> PartitionResults:
        """Elect any replica that is up; what it has not copied is lost for good.

        ELECTION_NOT_NEEDED is the answer for a partition that has a leader, and
        ELIGIBLE_LEADERS_NOT_AVAILABLE for one none of whose replicas is up.

        Raises:
            ClusterUnreachable: it did not answer in time.
            NotSupported: this way to the cluster does not offer it.
        """
        ...
