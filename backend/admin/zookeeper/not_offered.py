"""What cannot be done through ZooKeeper, and why."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from kshunt.backend.admin.port.capabilities import NotOffered, Verb, refusal
from kshunt.backend.errors import NotSupported

NOT_OFFERED: Final[NotOffered] = MappingProxyType(
    {
        Verb.CANCEL: "a controller reads /admin/reassign_partitions only when the znode is "
        "created, and deleting it stops nothing",
        Verb.UNCLEAN_ELECTION: "there is no znode for it",
        Verb.LOG_DIRS: "only the broker itself accepts such a move",
        Verb.ALTER_TOPICS: "ZooKeeper accepts only reassignments and preferred elections",
        Verb.SHRINK: "every step of it needs the brokers",
    }
)


def refused(verb: Verb) -> NotSupported:
    """What is said of one of these."""
    return refusal(verb, NOT_OFFERED[verb])
