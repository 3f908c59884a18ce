"""ACLs: who may, or may not, do what with which resources (Kafka's KIP-11 and KIP-290)."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

CLUSTER_NAME: Final = "kafka-cluster"
"""The only resource of the type CLUSTER."""
ANY_NAME: Final = "*"
"""A literal resource name that matches every resource of its type."""
ANY_HOST: Final = "*"

UNKNOWN, ANY, MATCH = 0, 1, 2
"""Codes that only a filter has; MATCH is of patterns."""


class ResourceKind(enum.IntEnum):
    """Kafka's `ResourceType`: what ACLs are about."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(enum.IntEnum):
    """How an ACL's resource name matches resources."""

    LITERAL = 3
    PREFIXED = 4


class AclOperationCode(enum.IntEnum):
    """Kafka's `AclOperation`."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class Permission(enum.IntEnum):
    """Kafka's `AclPermissionType`."""

    DENY = 2
    ALLOW = 3


IMPLIED_BY: Final = {
    AclOperationCode.DESCRIBE: frozenset(
        {
            AclOperationCode.READ,
            AclOperationCode.WRITE,
            AclOperationCode.DELETE,
            AclOperationCode.ALTER,
        }
    ),
    AclOperationCode.DESCRIBE_CONFIGS: frozenset({AclOperationCode.ALTER_CONFIGS}),
}
"""An ACL that allows one of these allows the operation too. One that denies it does not."""

SUPPORTED: Final = {
    ResourceKind.TOPIC: (3, 4, 5, 6, 7, 8, 10, 11),
    ResourceKind.GROUP: (3, 6, 8, 10, 11),
    ResourceKind.CLUSTER: (5, 7, 8, 9, 10, 11, 12),
    ResourceKind.TRANSACTIONAL_ID: (4, 8),
}
"""The operations that a resource of each type knows (`AclEntry.supportedOperations`)."""


@dataclass(frozen=True, slots=True)
class Acl:
    """One ACL; two that are alike are the same."""

    kind: ResourceKind
    name: str
    """A resource's name, a prefix, or `*`."""
    pattern: PatternType
    principal: str
    """`User:alice`, or `User:*`."""
    host: str
    """An IP address, or `*`."""
    operation: AclOperationCode
    permission: Permission


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Which ACLs a request is about; None and ANY stand for all (`AclBindingFilter`)."""

    kind: int = ANY
    name: str | None = None
    pattern: int = ANY
    """MATCH: every ACL that holds for the resource of that name."""
    principal: str | None = None
    host: str | None = None
    operation: int = ANY
    permission: int = ANY

    def matches(self, acl: Acl) -> bool:
        """Whether the filter matches an ACL."""
        return (
            self.kind in (ANY, acl.kind)
            and self.operation in (ANY, acl.operation)
            and self.permission in (ANY, acl.permission)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self._matches_name(acl)
        )

    def _matches_name(self, acl: Acl) -> bool:
        if self.pattern not in (ANY, MATCH, acl.pattern):
            return False
        if self.name is None or self.pattern != MATCH:
            return self.name in (None, acl.name)
        if acl.pattern is PatternType.PREFIXED:
            return self.name.startswith(acl.name)
        return acl.name in (self.name, ANY_NAME)
