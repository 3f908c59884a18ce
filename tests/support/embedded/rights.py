"""A cluster with an authorizer, asked without sockets by whichever principal a test likes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from kshunt.backend.embedded.cluster import EmbeddedCluster
from kshunt.backend.embedded.controller.acls import created
from kshunt.backend.embedded.controller.decision import Decision
from kshunt.backend.embedded.controller.topics import NewTopic, create_topics
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.embedded.metadata.acls import (
    CLUSTER_NAME,
    Acl,
    AclOperationCode,
    PatternType,
    Permission,
    ResourceKind,
)
from kshunt.backend.embedded.net.api import (
    KAFKA_APIS,
    SEED_APIS,
    WireReply,
    WireRequest,
    WireRequestHeader,
)
from kshunt.backend.embedded.net.frame_check import check_message
from kshunt.backend.embedded.net.server import RequestContext
from tests.support.embedded.background import Running

APIS = KAFKA_APIS | SEED_APIS
BY_NAME = {api.name: api for api in APIS.values()}
STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ADMIN, NOBODY = "User:admin", "User:nobody"
AUTHORIZED = {"authorizer.class.name": STANDARD, "super.users": ADMIN}
REFUSALS = {29, 30, 31, 53}
_CODES = {"error_code", "error", "partition_error_code"}


def allow(right: str, principal: str = NOBODY, *, denies: bool = False) -> Acl:
    """`READ topic orders`, `ALTER cluster`, `READ group g*` (a prefix) as an ACL."""
    operation, kind, *names = right.split()
    name = names[0] if names else CLUSTER_NAME
    prefixed = len(name) > 1 and name.endswith("*")
    return Acl(
        ResourceKind[kind.upper()],
        name.removesuffix("*") if prefixed else name,
        PatternType.PREFIXED if prefixed else PatternType.LITERAL,
        principal,
        "*",
        AclOperationCode[operation],
        Permission.DENY if denies else Permission.ALLOW,
    )


def grant(cluster: EmbeddedCluster, *rights: str, principal: str = NOBODY) -> None:
    """Let ACLs hold from here on."""
    records = [created(allow(right, principal)) for right in rights]
    cluster.core.commit(Decision.of(records))


def granted(handle: Running, *rights: str, principal: str) -> None:
    """The same for a cluster that runs elsewhere."""
    handle.call(lambda cluster: grant(cluster, *rights, principal=principal))


class RightsCluster:
    """Three brokers and two topics; see the module."""

    def __init__(self, *, authorizer: bool = True) -> None:
        static = {**(AUTHORIZED if authorizer else {}), "delete.topic.partition.enable": "true"}
        spec = ClusterSpec(plain_brokers(3), simulated=True, static=static)
        self.cluster = EmbeddedCluster(spec)
        registrations = [self.cluster._registration(broker) for broker in spec.brokers]
        self.cluster.core.start_all(registrations)
        for name in ("orders", "secret"):
            lists = dict.fromkeys(range(3), (1, 2))
            new = [NewTopic(name, assignments=lists)]
            core = self.cluster.core
            core.commit(create_topics(core.image, new, core.random))

    def topic_id(self, name: str) -> Any:
        """A topic's id as the wire has it."""
        found = self.cluster.image.topic(name)
        assert found is not None
        return UUID(found.topic_id)

    def ask(
        self,
        name: str,
        version: int,
        values: Mapping[str, Any],
        principal: str = NOBODY,
        broker: int = 1,
    ) -> Any:
        """The answer to a request, both by way of their bytes."""
        body = self.ask_bytes(name, version, values, principal, broker)
        return BY_NAME[name].response.decode(body, version=version)

    def ask_bytes(
        self,
        name: str,
        version: int,
        values: Mapping[str, Any],
        principal: str = NOBODY,
        broker: int = 1,
    ) -> bytes:
        """The same, encoded."""
        api = BY_NAME[name]
        made = build(api.request, version, values)
        body = bytes(made.encode(version=version))
        check_message(api.request, version, body)
        message = api.request.decode(body, version=version)
        header = WireRequestHeader(api.key, version, 1, "test")
        context = RequestContext(broker, header, 1, ("127.0.0.1", 50_000), principal)
        request = WireRequest(header, api, message)
        handler = self.cluster.servers[broker].handlers[api.key]
        try:
            frame = request.answer(asyncio.run(handler(context, message)))
        except WireReply as refused:
            frame = request.error(refused)
        return frame[8 + api.flexible(version) :]


def build(made: Any, version: int, values: Mapping[str, Any]) -> Any:
    """A message from the values that the version has fields for."""
    return made(version=version, **_fields(made._struct, version, values))


def _fields(struct: Any, version: int, values: Mapping[str, Any]) -> dict[str, Any]:
    known = {field.name: field for field in struct.untagged_fields(version)}
    return {name: _value(known[name], version, values[name]) for name in known.keys() & values}


def _value(field: Any, version: int, value: Any) -> Any:
    if value is None or not field.is_struct_array():
        return value
    return [
        field.data_class(version=version, **_fields(field.array_of, version, one)) for one in value
    ]


def codes(answer: Any) -> set[int]:
    """Every error code of an answer, at any depth."""
    found: set[int] = set()
    for field in answer._struct.untagged_fields(answer.version):
        value = getattr(answer, field.name)
        if field.name in _CODES:
            found.add(value)
        elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
            for one in value:
                if hasattr(one, "_struct"):
                    found |= codes(one)
    return found - {0}
