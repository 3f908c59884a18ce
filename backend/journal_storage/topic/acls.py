"""Who can write the journal's topic, as far as the cluster's ACLs say.

Importing this module loads librdkafka.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kshunt.backend.journal_storage.topic.clients import READ_TIMEOUT_S

EVERYBODY: Final = "User:*"
NAMED_MAX: Final = 5
_WRITES: Final = frozenset({"WRITE", "ALL"})

log = logging.getLogger(__name__)


def acl_remarks(topic: str, writers: Collection[str]) -> tuple[str, ...]:
    """What an operator should know of who may write a topic.

    Args:
        topic: its name.
        writers: principals that an ACL allows to write it.
    """
    if EVERYBODY in writers:
        return (
            f"an ACL allows all principals to write {topic}: allow only the backends' principal",
        )
    if len(writers) > 1:
        some = ", ".join(sorted(writers)[:NAMED_MAX])
        more = f" and {len(writers) - NAMED_MAX} more" if len(writers) > NAMED_MAX else ""
        return (f"ACLs allow several principals to write {topic}: {some}{more}",)
    return ()


def writers_of(admin: AdminClient, topic: str) -> Collection[str]:
    """The principals that an ACL allows to write a topic; none where that cannot be asked."""
    anyone: Any = None  # its stub wants a text
    wanted = AclBindingFilter(
        *(ResourceType.TOPIC, topic, ResourcePatternType.MATCH, anyone, anyone),
        *(AclOperation.ANY, AclPermissionType.ALLOW),
    )
    try:
        found: Any = admin.describe_acls(wanted, request_timeout=READ_TIMEOUT_S).result()
    except KafkaException as refused:
        if refused.args[0].code() == KafkaError.SECURITY_DISABLED:
            log.warning(
                "The cluster has no authorizer: every client can write the journal. Its entries "
                "are signed, so backends ignore foreign ones, but a client can remove entries."
            )
        return ()
    return {one.principal for one in found if one.operation.name in _WRITES}
