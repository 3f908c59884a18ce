"""ACLs come and go: CreateAcls and DeleteAcls (Kafka's `AclControlManager`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kshunt.backend.embedded.controller.decision import (
    DecidedItem,
    Decision,
    ItemRefused,
    KafkaError,
)
from kshunt.backend.embedded.metadata.acls import (
    CLUSTER_NAME,
    UNKNOWN,
    Acl,
    AclFilter,
    AclOperationCode,
    PatternType,
    Permission,
    ResourceKind,
)
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.metadata.records import AclCreated, AclRemoved


class NewAcl(NamedTuple):
    """An ACL as a request has it: every code may be anything."""

    kind: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int


def create_acls(image: ClusterImage, wanted: Sequence[NewAcl]) -> Decision[int]:
    """Add ACLs; a result's item is the place in `wanted`. One that is there already stays.

    INVALID_REQUEST for an ACL that means nothing.
    """
    records: dict[AclCreated, None] = {}
    results: list[DecidedItem[int]] = []
    for place, new in enumerate(wanted):
        try:
            acl = _checked(new)
        except ItemRefused as refusal:
            results.append(DecidedItem.refused(place, refusal))
            continue
        if acl not in image.acls:
            records[created(acl)] = None
        results.append(DecidedItem(place))
    return Decision.of(records, results)


def delete_acls(
    image: ClusterImage, filters: Sequence[AclFilter]
) -> tuple[Decision[int], list[list[Acl]]]:
    """Remove the ACLs that filters match; with what each of them matches.

    INVALID_REQUEST for a filter that means nothing.
    """
    found: list[list[Acl]] = []
    results: list[DecidedItem[int]] = []
    for place, one in enumerate(filters):
        problem = filter_problem(one)
        found.append([] if problem else [acl for acl in image.acls if one.matches(acl)])
        error = KafkaError.INVALID_REQUEST if problem else KafkaError.NONE
        results.append(DecidedItem(place, error, problem))
    gone = dict.fromkeys(acl for matched in found for acl in matched)
    return Decision.of([removed(acl) for acl in gone], results), found


def filter_problem(one: AclFilter) -> str | None:
    """Why a filter can match nothing, or None."""
    codes = (one.kind, one.pattern, one.operation, one.permission)
    if UNKNOWN in codes or min(codes) < 0:
        return "The AclBindingFilter must not contain UNKNOWN elements."
    return None


def created(acl: Acl) -> AclCreated:
    """The record that adds an ACL."""
    return AclCreated(*_fields(acl))


def removed(acl: Acl) -> AclRemoved:
    """The record that removes an ACL."""
    return AclRemoved(*_fields(acl))


def _fields(acl: Acl) -> tuple[int, str, int, str, str, int, int]:
    kinds = int(acl.kind), acl.name, int(acl.pattern)
    return *kinds, acl.principal, acl.host, int(acl.operation), int(acl.permission)


def _checked(new: NewAcl) -> Acl:
    """Raises Refused, in the words of `AclApis` and `AclControlManager`."""
    error = KafkaError.INVALID_REQUEST
    if new.kind == ResourceKind.CLUSTER and new.name != CLUSTER_NAME:
        raise ItemRefused(error, f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not new.name:
        raise ItemRefused(error, "Invalid empty resource name")
    for what, code, known in (
        ("patternType", new.pattern, PatternType),
        ("resourceType", new.kind, ResourceKind),
        ("operation", new.operation, AclOperationCode),
        ("permissionType", new.permission, Permission),
    ):
        if code not in list(known):
            raise ItemRefused(error, f"Invalid {what} {code}")
    if ":" not in new.principal:
        raise ItemRefused(
            error,
            f"Could not parse principal from `{new.principal}` (no colon is present separating "
            "the principal type from the principal name)",
        )
    return Acl(
        ResourceKind(new.kind),
        new.name,
        PatternType(new.pattern),
        new.principal,
        new.host,
        AclOperationCode(new.operation),
        Permission(new.permission),
    )
