"""The same requests to a real broker with its StandardAuthorizer: it refuses what ours refuse."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from kshunt.backend.embedded.metadata.acls import Acl, PatternType, ResourceKind
from tests.support.brokers.launcher import PASSWORD, USER, RealKafka
from tests.support.embedded.rights import (
    BY_NAME,
    REFUSALS,
    STANDARD,
    RightsCluster,
    allow,
    build,
    codes,
)
from tests.support.embedded.rights_cases import CASES, Case
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.own_brokers]

DEADLINE_S = 30.0
CLIENT = f"User:{USER}"
OVERRIDES = {"authorizer.class.name": STANDARD, "super.users": "User:ANONYMOUS"}
KAFKAS = [(name, case) for name, case in CASES if BY_NAME[name].key < 10_000]
EVERY = pytest.mark.parametrize(
    ("name", "case"), KAFKAS, ids=[f"{place}-{name}" for place, (name, _) in enumerate(KAFKAS)]
)
KINDS = {
    ResourceKind.TOPIC: ResourceType.TOPIC,
    ResourceKind.GROUP: ResourceType.GROUP,
    ResourceKind.CLUSTER: ResourceType.BROKER,
    ResourceKind.TRANSACTIONAL_ID: ResourceType.TRANSACTIONAL_ID,
}


class Real:
    """A real broker: its rights by a super user, and requests by a user that has none else."""

    def __init__(self, kafka: RealKafka) -> None:
        self._where = kafka.sasl_bootstrap
        self._admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
        self.versions = {
            one.api_key: (one.min_version, one.max_version)
            for one in self.ask([("ApiVersions", 0, {})])[0].api_keys
        }

    def topic_id(self, name: str) -> UUID:
        [asked] = self.ask([("Metadata", 12, {"topics": [{"name": name}]})])
        found: UUID = asked.topics[0].topic_id
        return found

    def prepare(self, *acls: Acl) -> None:
        """The topics that requests speak of, and these ACLs only."""
        missing = {"orders", "secret"} - set(self._admin.list_topics(timeout=DEADLINE_S).topics)
        new = [NewTopic(name, 3, 1) for name in sorted(missing)]
        if new:
            for made in self._admin.create_topics(new, request_timeout=DEADLINE_S).values():
                made.result(DEADLINE_S)
        [gone] = self._admin.delete_acls([_every()], request_timeout=DEADLINE_S).values()
        gone.result(DEADLINE_S)
        wanted = [_binding(acl) for acl in acls]
        if wanted:
            for made in self._admin.create_acls(wanted, request_timeout=DEADLINE_S).values():
                made.result(DEADLINE_S)

        def settled() -> bool:
            found = self._admin.describe_acls(_every(), request_timeout=DEADLINE_S)
            there = set(self._admin.list_topics(timeout=DEADLINE_S).topics)
            return set(found.result(DEADLINE_S)) == set(wanted) and {"orders", "secret"} <= there

        wait_until(settled, DEADLINE_S, "the broker knows its ACLs and topics")

    def ask(self, requests: Sequence[tuple[str, int, Mapping[str, Any]]]) -> list[Any]:
        """The answers to requests, one after the other."""
        return asyncio.run(self._ask(requests))

    async def _ask(self, requests: Sequence[tuple[str, int, Mapping[str, Any]]]) -> list[Any]:
        host, _, port = self._where.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))

        async def one(name: str, version: int, values: Mapping[str, Any]) -> Any:
            api = BY_NAME[name]
            flexible = api.flexible(version)
            head = struct.pack(">hhih", api.key, version, 1, -1) + b"\0" * flexible
            body = bytes(build(api.request, version, values).encode(version=version))
            writer.write(struct.pack(">i", len(head + body)) + head + body)
            async with asyncio.timeout(DEADLINE_S):
                size = int.from_bytes(await reader.readexactly(4), "big")
                answer = await reader.readexactly(size)
            return api.response.decode(answer[4 + flexible :], version=version)

        try:
            await one("SaslHandshake", 1, {"mechanism": "PLAIN"})
            token = f"\0{USER}\0{PASSWORD}".encode()
            assert (await one("SaslAuthenticate", 1, {"auth_bytes": token})).error_code == 0
            return [await one(*request) for request in requests]
        finally:
            writer.close()
            await writer.wait_closed()


def _every() -> AclBindingFilter:
    anything: Any = None
    any_acl = AclOperation.ANY, AclPermissionType.ANY
    kinds = ResourceType.ANY, anything, ResourcePatternType.ANY
    return AclBindingFilter(*kinds, anything, anything, *any_acl)


def _binding(acl: Acl) -> AclBinding:
    prefixed = acl.pattern is PatternType.PREFIXED
    pattern = ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL
    rights = AclOperation[acl.operation.name], AclPermissionType[acl.permission.name]
    return AclBinding(KINDS[acl.kind], acl.name, pattern, acl.principal, acl.host, *rights)


@pytest.fixture(scope="module")
def real() -> Iterator[Real]:
    with RealKafka(1, OVERRIDES, sasl=True) as kafka:
        yield Real(kafka)


def versions(name: str, real: Real) -> range:
    """Those that both kinds of brokers answer."""
    api = BY_NAME[name]
    lowest, highest = real.versions[api.key]
    return range(max(api.min_version, lowest), min(api.max_version, highest) + 1)


def requests(
    name: str, case: Case, real: Real, ids: Any
) -> list[tuple[str, int, Mapping[str, Any]]]:
    def values(version: int) -> Mapping[str, Any]:
        return case.values(ids, version) if callable(case.values) else case.values

    return [(name, version, values(version)) for version in versions(name, real)]


@EVERY
def test_both_refuse_alike(name: str, case: Case, real: Real) -> None:
    # Ids of topics are told only to who may describe them.
    real.prepare(allow("DESCRIBE topic *", CLIENT))
    ids = {topic: real.topic_id(topic) for topic in ("orders", "secret")}
    real.prepare()
    ours = RightsCluster()
    found = [codes(answer) for answer in real.ask(requests(name, case, real, _Ids(ids)))]
    own = [codes(ours.ask(*request)) for request in requests(name, case, real, ours)]
    assert own == found


@EVERY
def test_the_rights_are_enough_for_both(name: str, case: Case, real: Real) -> None:
    acls = [allow(right, CLIENT) for right in case.rights]
    real.prepare(*acls, allow("DESCRIBE topic *", CLIENT))
    ids = {topic: real.topic_id(topic) for topic in ("orders", "secret")}
    real.prepare(*acls)
    last = requests(name, case, real, _Ids(ids))[-1]
    [answer] = real.ask([last])
    if case.rights:
        assert not codes(answer) & REFUSALS


class _Ids:
    """Topics' ids, as `RightsCluster` tells them."""

    def __init__(self, ids: Mapping[str, UUID]) -> None:
        self._ids = ids

    def topic_id(self, name: str) -> UUID:
        return self._ids[name]
