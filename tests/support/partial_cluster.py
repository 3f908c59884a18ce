"""A cluster of which only some subjects are there."""

from __future__ import annotations

from kshunt.backend.admin.port.alteration import AlterationAdmin
from kshunt.backend.admin.port.capabilities import NotOffered
from kshunt.backend.admin.port.elections import ElectionAdmin
from kshunt.backend.admin.port.groups import GroupAdmin
from kshunt.backend.admin.port.logs import LogAdmin
from kshunt.backend.admin.port.partition_deletion import PartitionDeletionAdmin
from kshunt.backend.admin.port.records import RecordAdmin
from kshunt.backend.admin.port.replicas import ReplicaAdmin
from kshunt.backend.admin.port.topics import TopicAdmin
from kshunt.backend.admin.port.write_blocks import WriteBlockAdmin
from kshunt.backend.errors import NotSupported


class AbsentSubjects:
    """A `ClusterAdmin` that has none of these subjects."""

    @property
    def not_offered(self) -> NotOffered:
        return {}

    @property
    def topics(self) -> TopicAdmin:
        raise NotSupported("Topics stay as they are here.")

    @property
    def groups(self) -> GroupAdmin:
        raise NotSupported("There are no groups here.")

    @property
    def records(self) -> RecordAdmin:
        raise NotSupported("Nobody reads records here.")

    @property
    def logs(self) -> LogAdmin:
        raise NotSupported("Nobody asks for log directories here.")

    @property
    def replicas(self) -> ReplicaAdmin:
        raise NotSupported("Nobody asks for lags here.")

    @property
    def elections(self) -> ElectionAdmin:
        raise NotSupported("There are no elections here.")

    @property
    def alterations(self) -> AlterationAdmin:
        raise NotSupported("Topics stay as they are here.")

    @property
    def partition_deletions(self) -> PartitionDeletionAdmin:
        raise NotSupported("Partitions stay as they are here.")

    @property
    def write_blocks(self) -> WriteBlockAdmin:
        raise NotSupported("There are no ACLs here.")
