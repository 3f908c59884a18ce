"""What the administrative handlers have in common."""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar
from uuid import UUID

from kshunt.backend.embedded.controller.decision import Decision, KafkaError
from kshunt.backend.embedded.controller.topics import NAME_MAX
from kshunt.backend.embedded.core.world import World
from kshunt.backend.embedded.net.api import KAFKA_APIS, WireReply
from kshunt.backend.error_codes import REQUEST_TIMED_OUT

Item = TypeVar("Item")

NOT_LISTED: Final = -(2**31)
"""The authorized operations of a client that did not ask for them."""
TOPIC_OPERATIONS: Final = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
"""What anybody may do with a topic where nobody authorizes, as bits of `AclOperation`."""
CLUSTER_OPERATIONS: Final = frozenset({5, 7, 8, 9, 10, 11, 12})
"""The same for the cluster, as kafka-python has it."""

_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


def response(key: int, version: int, **fields: Any) -> Any:
    """The answer of an API, to be encoded at that version."""
    return KAFKA_APIS[key].response(version=version, **fields)


def committed(world: World, decision: Decision[Item]) -> Decision[Item]:
    """The decision, once it holds.

    Raises:
        WireReply: it refuses the request as a whole.
        ControllerLost: the controller crashed in the middle of it.
    """
    if decision.error is not KafkaError.NONE:
        raise WireReply(int(decision.error), decision.message or "")
    return world.commit(decision)


def check_time(message: Any) -> None:
    """Let a request pass that leaves time to decide it; a controller drops what comes too late.

    Raises:
        WireReply: its `timeout_ms` is 0 or less (REQUEST_TIMED_OUT).
    """
    if message.timeout_ms <= 0:
        raise WireReply(REQUEST_TIMED_OUT)


def invalid_topic_name(name: str) -> str | None:
    """Why a name cannot be a topic's, in the words of Kafka's `Topic.validate`, or None."""
    if not name:
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = f"'{name}' is not allowed"
    elif len(name) > NAME_MAX:
        problem = f"the length of '{name}' is longer than the max allowed length {NAME_MAX}"
    elif not _NAME.fullmatch(name):
        problem = (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    else:
        return None
    return f"Topic name is invalid: {problem}"


def topic_id_of(wire_id: UUID | None) -> str | None:
    """The image's form of a topic's id on the wire, where zero stands for none."""
    return wire_id.hex if wire_id is not None and wire_id.int else None
