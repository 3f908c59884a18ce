"""What a way to a cluster cannot do, and why: said before anything is written down or changed."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Protocol, TypeAlias

from kshunt.backend.errors import NotSupported


class Verb(enum.StrEnum):
    """What not every way to a cluster can do."""

    CANCEL = "cancel"
    UNCLEAN_ELECTION = "unclean election"
    LOG_DIRS = "moves between log directories"
    ALTER_TOPICS = "altering topics"
    SHRINK = "shrinking topics"


NotOffered: TypeAlias = Mapping[Verb, str]
"""Why, by what is not offered."""


class Way(Protocol):
    """A way to a cluster."""

    @property
    def not_offered(self) -> NotOffered:
        """What it cannot do; empty for one that can do all."""
        ...


def refusal(verb: Verb, why: str) -> NotSupported:
    """The error that says that a way does not offer this, and why."""
    return NotSupported(
        f"This cluster is reached through ZooKeeper, which does not support {verb}: {why}. "
        "Nothing was changed.",
        advice="Brokers support it: start kshunt with --bootstrap-server.",
    )


def require(verb: Verb, way: Way) -> None:
    """Return only where this can be done this way.

    Raises:
        NotSupported: it cannot; nothing was changed.
    """
    if (why := way.not_offered.get(verb)) is not None:
        raise refusal(verb, why)
