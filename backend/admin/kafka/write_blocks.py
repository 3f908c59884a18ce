"""An ACL entry that keeps everybody but super users from writing to one topic.

It is one entry that nobody would make by chance: DENY WRITE on the topic of exactly this name, for
User:* from every host. Denials come before what is allowed, and only super users are not asked.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from kafka.protocol.admin import (
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ACLResourceType,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)

from kshunt.backend.admin.kafka.sent_changes import by_controller
from kshunt.backend.admin.port.item_result import OK, ItemResult
from kshunt.backend.admin.port.write_blocks import WriteBlock
from kshunt.backend.admin.rpc.broker_calls import BrokerCalls
from kshunt.backend.admin.rpc.error_mapping import decode_message, item_result, raise_for_code
from kshunt.backend.admin.rpc.requests import UNANSWERED, topic_entry, topic_request
from kshunt.backend.error_codes import SECURITY_DISABLED
from kshunt.backend.errors import Conflict, NotSupported
from kshunt.backend.wire.raw_request import RawAnswer, RawRequest

EVERYBODY: Final = "User:*"
EVERYWHERE: Final = "*"
_PATTERNS_FROM: Final = 1


class KafkaWriteBlocks:
    """See `WriteBlockAdmin`."""

    def __init__(self, calls: BrokerCalls) -> None:
        self._calls = calls

    async def describe(self, topic: str, *, timeout_s: float) -> WriteBlock:
        """See `WriteBlockAdmin.describe`."""
        answer = await self._calls.ask_controller(
            lambda: _describe_request(topic), timeout_s=timeout_s
        )
        response = decode_message(DescribeAclsResponse, answer)
        _check(response.error_code)
        raise_for_code(response.error_code, response.error_message, f"Reading the ACLs of {topic}")
        found = [(resource, acl) for resource in response.resources for acl in resource.acls]
        ours = [_is_ours(topic, resource, acl) for resource, acl in found]
        # Of the same broker: brokers learn of an entry one after the other.
        may_write = await self._may_write(topic, timeout_s)
        return WriteBlock(any(ours), may_write, alone=all(ours))

    async def _may_write(self, topic: str, timeout_s: float) -> bool | None:
        answer = await self._calls.ask_controller(
            lambda: topic_request(topic, operations=True), timeout_s=timeout_s
        )
        entry = topic_entry(answer)
        authorized: Collection[int] | None = None if entry is None else entry.authorized_operations
        return None if authorized is None else int(ACLOperation.WRITE) in authorized

    async def create(self, topic: str, *, timeout_s: float) -> ItemResult:
        """See `WriteBlockAdmin.create`."""
        if (await self.describe(topic, timeout_s=timeout_s)).alone:
            raise Conflict(
                f"There is no ACL for {topic}. If the brokers set allow.everyone.if.no.acl.found, "
                "an ACL that denies writing would also stop readers. Otherwise only super users "
                "can write to the topic. Nothing was changed.",
                advice=f"Add ACLs that allow the readers of {topic} to READ it, or continue "
                "without the write block.",
            )
        entry = CreateAclsRequest.AclCreation(
            resource_type=int(ACLResourceType.TOPIC),
            resource_name=topic,
            resource_pattern_type=int(ACLResourcePatternType.LITERAL),
            principal=EVERYBODY,
            host=EVERYWHERE,
            operation=int(ACLOperation.WRITE),
            permission_type=int(ACLPermissionType.DENY),
        )
        message = CreateAclsRequest(creations=[entry])

        def read(answer: RawAnswer) -> ItemResult:
            return _result(decode_message(CreateAclsResponse, answer).results)

        return await by_controller(self._calls, lambda: _acl_request(message), read, timeout_s)

    async def delete(self, topic: str, *, timeout_s: float) -> ItemResult:
        """See `WriteBlockAdmin.delete`."""
        ours = DeleteAclsRequest.DeleteAclsFilter(
            resource_type_filter=int(ACLResourceType.TOPIC),
            resource_name_filter=topic,
            pattern_type_filter=int(ACLResourcePatternType.LITERAL),
            principal_filter=EVERYBODY,
            host_filter=EVERYWHERE,
            operation=int(ACLOperation.WRITE),
            permission_type=int(ACLPermissionType.DENY),
        )
        message = DeleteAclsRequest(filters=[ours])

        def read(answer: RawAnswer) -> ItemResult:
            found = decode_message(DeleteAclsResponse, answer).filter_results
            refused = [one for entry in found for one in entry.matching_acls if one.error_code]
            return _result(refused or found)

        return await by_controller(self._calls, lambda: _acl_request(message), read, timeout_s)


def _is_ours(topic: str, resource: Any, acl: Any) -> bool:
    """Whether an entry is exactly that of `KafkaWriteBlocks.create`."""
    return (resource.resource_name, resource.pattern_type, *_who(acl)) == (
        topic,
        ACLResourcePatternType.LITERAL,
        EVERYBODY,
        EVERYWHERE,
        ACLOperation.WRITE,
        ACLPermissionType.DENY,
    )


def _who(acl: Any) -> tuple[Any, ...]:
    return acl.principal, acl.host, acl.operation, acl.permission_type


def _describe_request(topic: str) -> RawRequest:
    """Every entry that is about a topic: by its name, by how it begins, or about all topics."""
    message = DescribeAclsRequest(
        resource_type_filter=int(ACLResourceType.TOPIC),
        resource_name_filter=topic,
        pattern_type_filter=int(ACLResourcePatternType.MATCH),
        principal_filter=None,
        host_filter=None,
        operation=int(ACLOperation.ANY),
        permission_type=int(ACLPermissionType.ANY),
    )
    return _acl_request(message)


def _acl_request(message: Any) -> RawRequest:
    return RawRequest.of(message, min_version=_PATTERNS_FROM)


def _result(entries: Any) -> ItemResult:
    """The first refusal, or success.

    Raises:
        NotSupported: the cluster has no authorizer.
    """
    if not entries:
        return UNANSWERED
    entry = next((one for one in entries if one.error_code), entries[0])
    _check(entry.error_code)
    return item_result(entry.error_code, entry.error_message) if entry.error_code else OK


def _check(code: int) -> None:
    if code == SECURITY_DISABLED:
        raise NotSupported(
            "This cluster has no authorizer, so no ACL can keep producers from writing. Nothing "
            "was changed.",
            advice="Stop the producers, or continue without the write block. Right before kshunt "
            "deletes the topic, it sets max.message.bytes=78, so that the brokers reject "
            "all producers.",
        )
