"""Whether a principal may do something: the decisions of Kafka's `StandardAuthorizer`.

Goals
    Decide as Kafka's KRaft brokers do, and cost little for each of a request's topics.
Constraints
    A cluster without an authorizer has none of this in its way.
Algorithm (org.apache.kafka.metadata.authorizer.StandardAuthorizerData)
    1. A super user may do everything.
    2. The ACLs of the resource are those of its name, those of `*`, and those of its prefixes.
    3. One of them that fits principal, host and operation, and denies, decides. Otherwise one that
       allows does. An ACL for ALL fits every operation. One that allows to read, write, delete or
       alter also allows to describe. One that allows to alter configs also allows to describe them.
    4. Where the resource has no ACL at all, `allow.everyone.if.no.acl.found` decides; where it has
       some, and none fits, the answer is no.
    Answers are kept until an ACL comes or goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from kshunt.backend.embedded.metadata.acls import (
    ANY_HOST,
    ANY_NAME,
    IMPLIED_BY,
    SUPPORTED,
    Acl,
    AclOperationCode,
    PatternType,
    Permission,
    ResourceKind,
)
from kshunt.backend.embedded.metadata.config_keys import (
    ALLOW_IF_NO_ACL,
    AUTHORIZER_CLASS,
    STANDARD_AUTHORIZER,
    SUPER_USERS,
)
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.security.principals import WILDCARD
from kshunt.backend.errors import BadInput

DECISIONS_MAX: Final = 100_000
"""The number of answers that are kept; when it is reached, all are forgotten."""


class Client(NamedTuple):
    """Who asks, and from where."""

    principal: str
    host: str


class _Index:
    """The ACLs of one resource type, by how a resource finds them."""

    def __init__(self) -> None:
        self.literal: dict[str, list[Acl]] = {}
        self.prefixed: dict[str, list[Acl]] = {}

    def add(self, acl: Acl) -> None:
        named = self.literal if acl.pattern is PatternType.LITERAL else self.prefixed
        named.setdefault(acl.name, []).append(acl)

    def of(self, name: str) -> Iterator[Acl]:
        """Every ACL that holds for a resource."""
        yield from self.literal.get(name, ())
        if name != ANY_NAME:
            yield from self.literal.get(ANY_NAME, ())
        for prefix, acls in self.prefixed.items():
            if name.startswith(prefix):
                yield from acls


class Authorizer:
    """See the module."""

    def __init__(
        self,
        image: ClusterImage,
        super_users: Iterable[str] = (),
        *,
        allow_if_no_acl: bool = False,
    ) -> None:
        """`super_users` are principals; `allow_if_no_acl` is Kafka's
        `allow.everyone.if.no.acl.found`."""
        self._image = image
        self._super_users = frozenset(super_users)
        self._allow_if_no_acl = allow_if_no_acl
        self._seen = -1
        self._by_kind: dict[ResourceKind, _Index] = {}
        self._decisions: dict[tuple[Client, AclOperationCode, ResourceKind, str], bool] = {}

    def allows(
        self, client: Client, operation: AclOperationCode, kind: ResourceKind, name: str
    ) -> bool:
        """Whether a client may do something with a resource."""
        if client.principal in self._super_users:
            return True
        self._look()
        question = (client, operation, kind, name)
        found = self._decisions.get(question)
        if found is None:
            if len(self._decisions) >= DECISIONS_MAX:
                self._decisions.clear()
            found = self._decisions[question] = self._decided(*question)
        return found

    def allows_any(self, client: Client, operation: AclOperationCode, kind: ResourceKind) -> bool:
        """Whether there is any resource with which a client may do something.

        As `Authorizer.authorizeByResourceType`: what is denied by prefix or for all does not count.
        """
        if self.allows(client, operation, kind, "hardcode"):
            return True
        index = self._by_kind.get(kind, _Index())
        fitting = [
            acl
            for named in (index.literal, index.prefixed)
            for acls in named.values()
            for acl in acls
            if _fits(acl, client, operation)
        ]
        denied = [acl for acl in fitting if acl.permission is Permission.DENY]
        allowed = [acl for acl in fitting if acl.permission is Permission.ALLOW]
        return any(not any(_covers(deny, allow) for deny in denied) for allow in allowed)

    def operations(self, client: Client, kind: ResourceKind, name: str) -> frozenset[int]:
        """The operations that a client may do with a resource (KIP-430)."""
        wanted = map(AclOperationCode, SUPPORTED[kind])
        return frozenset(int(one) for one in wanted if self.allows(client, one, kind, name))

    def _decided(
        self, client: Client, operation: AclOperationCode, kind: ResourceKind, name: str
    ) -> bool:
        index = self._by_kind.get(kind)
        acls = list(index.of(name)) if index is not None else []
        if not acls:
            return self._allow_if_no_acl
        fitting = [acl.permission for acl in acls if _fits(acl, client, operation)]
        return bool(fitting) and Permission.DENY not in fitting

    def _look(self) -> None:
        if self._seen == self._image.acl_changes:
            return
        self._seen = self._image.acl_changes
        self._decisions.clear()
        self._by_kind = {}
        for acl in self._image.acls:
            self._by_kind.setdefault(acl.kind, _Index()).add(acl)


def _fits(acl: Acl, client: Client, operation: AclOperationCode) -> bool:
    if acl.principal not in (client.principal, WILDCARD) or acl.host not in (client.host, ANY_HOST):
        return False
    if acl.operation in (operation, AclOperationCode.ALL):
        return True
    implied = acl.operation in IMPLIED_BY.get(operation, ())
    return implied and acl.permission is Permission.ALLOW


def _covers(deny: Acl, allow: Acl) -> bool:
    """Whether all that one ACL allows is denied by another."""
    if deny.pattern is PatternType.PREFIXED:
        return allow.name.startswith(deny.name)
    if deny.name == ANY_NAME:
        return True
    return allow.pattern is PatternType.LITERAL and allow.name == deny.name


def authorizer_of(image: ClusterImage) -> Authorizer | None:
    """The authorizer that the brokers' properties name, if they name one.

    Raises:
        BadInput: it is not one that there is here.
    """
    name = image.static.get(AUTHORIZER_CLASS)
    if not name:
        return None
    if name != STANDARD_AUTHORIZER:
        raise BadInput(f"There is no authorizer {name}.", advice=f"Use {STANDARD_AUTHORIZER}.")
    users = (one.strip() for one in image.static.get(SUPER_USERS, "").split(";"))
    allow = image.static.get(ALLOW_IF_NO_ACL, "false").strip().lower() == "true"
    return Authorizer(image, filter(None, users), allow_if_no_acl=allow)
