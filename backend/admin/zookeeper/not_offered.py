"""What cannot be done through ZooKeeper, and why."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from kshunt.backend.admin.port.capabilities import NotOffered, Verb, refusal
from kshunt.backend.errors import NotSupported

NOT_OFFERED: Final[NotOffered] = MappingProxyType(
    {
        Verb.CANCEL: "a controller looks at /admin/reassign_partitions only when it is made, and "
        "deleting it stops nothing",
        Verb.UNCLEAN_ELECTION: "no znode asks for one",
        Verb.LOG_DIRS: "only the broker itself takes such a move",
        Verb.ALTER_TOPICS: "that way is for reassignments and preferred elections",
        Verb.SHRINK: "it needs the brokers for every step",
    }
)


def refused(verb: Verb) -> NotSupported:
    """What is said of one of these."""
    return refusal(verb, NOT_OFFERED[verb])
