"""ACLs on the wire: DescribeAcls, CreateAcls, DeleteAcls (KIP-140, KIP-290).

Kafka's `AclApis`. A cluster without an authorizer answers SECURITY_DISABLED.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kshunt.backend.embedded.controller.acls import NewAcl, create_acls, delete_acls, filter_problem
from kshunt.backend.embedded.core.world import World
from kshunt.backend.embedded.handlers.responses import committed, response
from kshunt.backend.embedded.metadata.acls import Acl, AclFilter, PatternType, ResourceKind
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.net.api import KAFKA_APIS, WireReply
from kshunt.backend.embedded.net.server import Handler, RequestContext
from kshunt.backend.error_codes import INVALID_REQUEST, SECURITY_DISABLED
from kshunt.backend.wire.api_keys import CREATE_ACLS_KEY, DELETE_ACLS_KEY, DESCRIBE_ACLS_KEY

NO_AUTHORIZER: Final = "No Authorizer is configured."


def handlers(world: World) -> dict[int, Handler]:
    """The APIs of this module by key."""
    answers = _Acls(world)
    return {
        DESCRIBE_ACLS_KEY: answers.describe_acls,
        CREATE_ACLS_KEY: answers.create_acls,
        DELETE_ACLS_KEY: answers.delete_acls,
    }


class _Acls:
    """One method an API."""

    def __init__(self, world: World) -> None:
        self._world = world

    @property
    def _image(self) -> ClusterImage:
        return self._world.core.image

    def _check_authorizer(self, words: str = NO_AUTHORIZER) -> None:
        if self._world.authorizer is None:
            raise WireReply(SECURITY_DISABLED, words)

    async def describe_acls(self, context: RequestContext, message: Any) -> Any:
        """The ACLs that a filter matches, by resource."""
        self._check_authorizer("No Authorizer is configured on the broker")
        wanted = AclFilter(
            message.resource_type_filter,
            message.resource_name_filter,
            message.pattern_type_filter,
            message.principal_filter,
            message.host_filter,
            message.operation,
            message.permission_type,
        )
        problem = filter_problem(wanted)
        if problem is not None:
            raise WireReply(INVALID_REQUEST, problem)
        found: dict[tuple[ResourceKind, str, PatternType], list[Acl]] = {}
        for acl in self._image.acls:
            if wanted.matches(acl):
                found.setdefault((acl.kind, acl.name, acl.pattern), []).append(acl)
        resources = _resources(context.version, found)
        return response(DESCRIBE_ACLS_KEY, context.version, error_message=None, resources=resources)

    async def create_acls(self, context: RequestContext, message: Any) -> Any:
        """Add ACLs, each for itself."""
        self._check_authorizer()
        wanted = [
            NewAcl(
                one.resource_type,
                one.resource_name,
                one.resource_pattern_type,
                one.principal,
                one.host,
                one.operation,
                one.permission_type,
            )
            for one in message.creations
        ]
        decision = committed(self._world, create_acls(self._image, wanted))
        made = KAFKA_APIS[CREATE_ACLS_KEY].response.AclCreationResult
        results = [
            made(version=context.version, error_code=int(one.error), error_message=one.message)
            for one in decision.results
        ]
        return response(CREATE_ACLS_KEY, context.version, results=results)

    async def delete_acls(self, context: RequestContext, message: Any) -> Any:
        """Remove what filters match; the answer tells what that was."""
        self._check_authorizer()
        version = context.version
        filters = [
            AclFilter(
                one.resource_type_filter,
                one.resource_name_filter,
                one.pattern_type_filter,
                one.principal_filter,
                one.host_filter,
                one.operation,
                one.permission_type,
            )
            for one in message.filters
        ]
        decision, matched = delete_acls(self._image, filters)
        committed(self._world, decision)
        made = KAFKA_APIS[DELETE_ACLS_KEY].response.DeleteAclsFilterResult
        results = []
        for one, acls in zip(decision.results, matched, strict=True):
            entry = made(version=version, error_code=int(one.error), error_message=one.message)
            entry.matching_acls = [_deleted(made.DeleteAclsMatchingAcl, version, a) for a in acls]
            results.append(entry)
        return response(DELETE_ACLS_KEY, version, filter_results=results)


def _resources(
    version: int, found: Mapping[tuple[ResourceKind, str, PatternType], Iterable[Acl]]
) -> list[Any]:
    made = KAFKA_APIS[DESCRIBE_ACLS_KEY].response.DescribeAclsResource
    resources = []
    for (kind, name, pattern), acls in found.items():
        entry = made(version=version, resource_type=int(kind), resource_name=name)
        entry.pattern_type = int(pattern)
        entry.acls = [_described(made.AclDescription, version, acl) for acl in acls]
        resources.append(entry)
    return resources


def _described(made: Any, version: int, acl: Acl) -> Any:
    return made(
        version=version,
        principal=acl.principal,
        host=acl.host,
        operation=int(acl.operation),
        permission_type=int(acl.permission),
    )


def _deleted(made: Any, version: int, acl: Acl) -> Any:
    entry = _described(made, version, acl)
    entry.error_code, entry.error_message = 0, None
    entry.resource_type, entry.resource_name = int(acl.kind), acl.name
    entry.pattern_type = int(acl.pattern)
    return entry
