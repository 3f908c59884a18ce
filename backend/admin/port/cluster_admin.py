"""The one way to a cluster: subjects, each with its reads and the verbs of Kafka and the seeds.

A call raises only when the whole call failed. What happened to one partition, broker or topic
inside a call is an `ItemResult` with Kafka's error code, name and message.

A change of a topic, a configuration, a group or a write block is sent once. Its result is
REQUEST_TIMED_OUT, and retriable, where its answer was lost or the cluster itself gave up waiting:
then it was carried out or not, and may yet be. The caller looks, or repeats it: each may be
repeated. Any other result but OK is a refusal, and nothing was changed.
"""

from __future__ import annotations

from typing import Protocol

from kshunt.backend.admin.port.alteration import AlterationAdmin
from kshunt.backend.admin.port.capabilities import NotOffered
from kshunt.backend.admin.port.configs import ConfigAdmin
from kshunt.backend.admin.port.described_cluster import DescribedCluster
from kshunt.backend.admin.port.elections import ElectionAdmin
from kshunt.backend.admin.port.groups import GroupAdmin
from kshunt.backend.admin.port.logs import LogAdmin
from kshunt.backend.admin.port.partition_deletion import PartitionDeletionAdmin
from kshunt.backend.admin.port.reassignments import ReassignmentAdmin
from kshunt.backend.admin.port.records import RecordAdmin
from kshunt.backend.admin.port.replicas import ReplicaAdmin
from kshunt.backend.admin.port.throttles import ThrottleAdmin
from kshunt.backend.admin.port.topics import TopicAdmin
from kshunt.backend.admin.port.write_blocks import WriteBlockAdmin


class ClusterAdmin(Protocol):
    """A cluster, as its administrators see it.

    A subject that this way to the cluster does not offer raises `NotSupported` where it is named.
    """

    @property
    def not_offered(self) -> NotOffered:
        """What this way to the cluster cannot do, and why; see `capabilities`."""
        ...

    @property
    def cluster(self) -> DescribedCluster:
        """Brokers, and who hosts what."""
        ...

    @property
    def topics(self) -> TopicAdmin:
        """Topics described, created and deleted."""
        ...

    @property
    def configs(self) -> ConfigAdmin:
        """Configurations of topics."""
        ...

    @property
    def groups(self) -> GroupAdmin:
        """Consumer groups."""
        ...

    @property
    def records(self) -> RecordAdmin:
        """Offsets and producers of a topic, and its last records."""
        ...

    @property
    def logs(self) -> LogAdmin:
        """Logs on the disks of one broker."""
        ...

    @property
    def replicas(self) -> ReplicaAdmin:
        """How far replicas are behind."""
        ...

    @property
    def reassignments(self) -> ReassignmentAdmin:
        """What moves, and moves with their throttle."""
        ...

    @property
    def throttles(self) -> ThrottleAdmin:
        """Rates of brokers, and throttled replicas of topics."""
        ...

    @property
    def elections(self) -> ElectionAdmin:
        """Elections of leaders."""
        ...

    @property
    def alterations(self) -> AlterationAdmin:
        """Topics altered: partitions, replication factor, assignment."""
        ...

    @property
    def partition_deletions(self) -> PartitionDeletionAdmin:
        """Partitions that the cluster deletes by itself."""
        ...

    @property
    def write_blocks(self) -> WriteBlockAdmin:
        """ACLs that keep everybody from writing to a topic."""
        ...

    async def close(self) -> None:
        """Release the connections; no other call may follow."""
        ...
