"""What the authorizer of the embedded cluster decides, against Kafka's rules written down again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.embedded.controller.acls import (
    NewAcl,
    create_acls,
    created,
    delete_acls,
    removed,
)
from kshunt.backend.embedded.controller.decision import KafkaError
from kshunt.backend.embedded.metadata.acls import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    AclOperationCode,
    PatternType,
    Permission,
    ResourceKind,
)
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.metadata.records import decode, encode
from kshunt.backend.embedded.metadata.snapshot import image_records
from kshunt.backend.embedded.security.authorizer import Authorizer, Client, authorizer_of
from kshunt.backend.errors import BadInput

ALICE = Client("User:alice", "127.0.0.1")
BOB = Client("User:bob", "10.0.0.9")
TOPIC = ResourceKind.TOPIC
STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def acl(
    operation: AclOperationCode,
    name: str = "orders",
    *,
    principal: str = "User:alice",
    kind: ResourceKind = TOPIC,
    prefixed: bool = False,
    denies: bool = False,
    host: str = "*",
) -> Acl:
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    permission = Permission.DENY if denies else Permission.ALLOW
    return Acl(kind, name, pattern, principal, host, operation, permission)


def authorizer(*acls: Acl, allow: bool = False, super_users: Sequence[str] = ()) -> Authorizer:
    image = ClusterImage()
    for one in acls:
        image.replay(created(one))
    return Authorizer(image, super_users, allow_if_no_acl=allow)


def test_what_nobody_allowed_is_refused_but_to_super_users() -> None:
    found = authorizer(super_users=["User:bob"])
    assert not found.allows(ALICE, AclOperationCode.READ, TOPIC, "orders")
    assert found.allows(BOB, AclOperationCode.READ, TOPIC, "orders")


def test_a_deny_is_stronger_than_any_allow() -> None:
    found = authorizer(
        acl(AclOperationCode.ALL, "*"),
        acl(AclOperationCode.READ, "ord", prefixed=True, denies=True),
    )
    assert not found.allows(ALICE, AclOperationCode.READ, TOPIC, "orders")
    assert found.allows(ALICE, AclOperationCode.WRITE, TOPIC, "orders")
    assert found.allows(ALICE, AclOperationCode.READ, TOPIC, "others")


@pytest.mark.parametrize(
    "operation",
    [
        AclOperationCode.READ,
        AclOperationCode.WRITE,
        AclOperationCode.DELETE,
        AclOperationCode.ALTER,
    ],
)
def test_some_operations_allow_to_describe_and_deny_it_not(operation: AclOperationCode) -> None:
    assert authorizer(acl(operation)).allows(ALICE, AclOperationCode.DESCRIBE, TOPIC, "orders")
    found = authorizer(acl(operation, denies=True), acl(AclOperationCode.DESCRIBE))
    assert found.allows(ALICE, AclOperationCode.DESCRIBE, TOPIC, "orders")


def test_altering_configs_allows_to_describe_them_and_nothing_else() -> None:
    found = authorizer(acl(AclOperationCode.ALTER_CONFIGS))
    assert found.allows(ALICE, AclOperationCode.DESCRIBE_CONFIGS, TOPIC, "orders")
    assert not found.allows(ALICE, AclOperationCode.DESCRIBE, TOPIC, "orders")


def test_everyone_is_allowed_only_where_a_resource_has_no_acl_at_all() -> None:
    found = authorizer(acl(AclOperationCode.READ, principal="User:bob"), allow=True)
    assert not found.allows(ALICE, AclOperationCode.READ, TOPIC, "orders")
    assert found.allows(ALICE, AclOperationCode.READ, TOPIC, "payments")
    assert found.allows(ALICE, AclOperationCode.READ, ResourceKind.GROUP, "orders")


def test_hosts_and_every_user() -> None:
    found = authorizer(acl(AclOperationCode.READ, principal="User:*", host="10.0.0.9"))
    assert found.allows(BOB, AclOperationCode.READ, TOPIC, "orders")
    assert not found.allows(ALICE, AclOperationCode.READ, TOPIC, "orders")


def test_answers_follow_the_acls() -> None:
    image = ClusterImage()
    found, one = Authorizer(image), acl(AclOperationCode.READ)
    assert not found.allows(ALICE, AclOperationCode.READ, TOPIC, "orders")
    image.replay(created(one))
    assert found.allows(ALICE, AclOperationCode.READ, TOPIC, "orders")
    image.replay(removed(one))
    assert not found.allows(ALICE, AclOperationCode.READ, TOPIC, "orders")


def test_any_topic_to_write_to() -> None:
    assert not authorizer(acl(AclOperationCode.READ)).allows_any(
        ALICE, AclOperationCode.WRITE, TOPIC
    )
    assert authorizer(acl(AclOperationCode.WRITE)).allows_any(ALICE, AclOperationCode.WRITE, TOPIC)
    denied = acl(AclOperationCode.WRITE, "or", prefixed=True, denies=True)
    assert not authorizer(acl(AclOperationCode.WRITE), denied).allows_any(
        ALICE, AclOperationCode.WRITE, TOPIC
    )
    wider = acl(AclOperationCode.WRITE, "o", prefixed=True)
    assert authorizer(wider, denied).allows_any(ALICE, AclOperationCode.WRITE, TOPIC)
    everything = acl(AclOperationCode.WRITE, "*", denies=True)
    assert not authorizer(wider, everything).allows_any(ALICE, AclOperationCode.WRITE, TOPIC)
    assert authorizer(allow=True).allows_any(ALICE, AclOperationCode.WRITE, TOPIC)


NAMES = st.sampled_from(["a", "ab", "abc", "b", "*"])
ACLS = st.builds(
    Acl,
    st.sampled_from([TOPIC, ResourceKind.GROUP]),
    NAMES,
    st.sampled_from(PatternType),
    st.sampled_from(["User:alice", "User:bob", "User:*"]),
    st.sampled_from(["*", "127.0.0.1", "10.0.0.9"]),
    st.sampled_from(AclOperationCode),
    st.sampled_from(Permission),
)


def expected(acls: Sequence[Acl], client: Client, operation: AclOperationCode, name: str) -> bool:
    """Kafka's rules, without any index."""
    of_resource = [
        one
        for one in acls
        if one.kind is TOPIC
        and (
            one.name in (name, "*")
            if one.pattern is PatternType.LITERAL
            else name.startswith(one.name)
        )
    ]
    also = {
        AclOperationCode.DESCRIBE: ["READ", "WRITE", "DELETE", "ALTER"],
        AclOperationCode.DESCRIBE_CONFIGS: ["ALTER_CONFIGS"],
    }.get(operation, [])
    fitting = [
        one.permission
        for one in of_resource
        if one.principal in (client.principal, "User:*")
        and one.host in (client.host, "*")
        and (
            one.operation in (operation, AclOperationCode.ALL)
            or (one.permission is Permission.ALLOW and one.operation.name in also)
        )
    ]
    return Permission.ALLOW in fitting and Permission.DENY not in fitting


@given(st.lists(ACLS, max_size=12))
def test_the_index_decides_as_the_rules_do(acls: list[Acl]) -> None:
    found = authorizer(*dict.fromkeys(acls))
    for client, operation, name in product(
        (ALICE, BOB), AclOperationCode, ("a", "ab", "abcd", "c")
    ):
        wanted = expected(acls, client, operation, name)
        assert found.allows(client, operation, TOPIC, name) is wanted


@given(st.lists(ACLS, max_size=8, unique=True))
def test_acls_outlive_a_snapshot_and_their_bytes(acls: list[Acl]) -> None:
    image = ClusterImage()
    for one in acls:
        image.replay(decode(encode(created(one))))
    again = ClusterImage()
    for record in image_records(image):
        again.replay(record)
    assert list(again.acls) == acls
    for one in acls:
        again.replay(removed(one))
    assert not again.acls


# Creating and deleting


def test_acls_that_mean_nothing_are_refused_in_kafkas_words() -> None:
    good = NewAcl(2, "orders", 3, "User:a", "*", 3, 3)
    wrong = {
        good._replace(kind=4): "The only valid name for the CLUSTER resource is kafka-cluster",
        good._replace(name=""): "Invalid empty resource name",
        good._replace(pattern=2): "Invalid patternType 2",
        good._replace(kind=1): "Invalid resourceType 1",
        good._replace(operation=1): "Invalid operation 1",
        good._replace(permission=0): "Invalid permissionType 0",
        good._replace(principal="a"): "Could not parse principal from `a` (no colon is present "
        "separating the principal type from the principal name)",
    }
    image = ClusterImage()
    decision = create_acls(image, [*wrong, good, good])
    assert [one.message for one in decision.results] == [*wrong.values(), None, None]
    errors = {one.error for one in decision.results[: len(wrong)]}
    assert errors == {KafkaError.INVALID_REQUEST}
    assert len(decision.records) == 1
    for record in decision.records:
        image.replay(record)
    assert not create_acls(image, [good]).records


LITERAL = acl(AclOperationCode.READ, "orders")
STAR = acl(AclOperationCode.READ, "*")
PREFIX = acl(AclOperationCode.WRITE, "ord", prefixed=True, principal="User:bob")
GROUP = acl(AclOperationCode.READ, "orders", kind=ResourceKind.GROUP, denies=True)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AclFilter(), [LITERAL, STAR, PREFIX, GROUP]),
        (AclFilter(kind=2), [LITERAL, STAR, PREFIX]),
        (AclFilter(kind=2, name="orders", pattern=3), [LITERAL]),
        (AclFilter(kind=2, name="orders", pattern=2), [LITERAL, STAR, PREFIX]),
        (AclFilter(name="ord", pattern=1), [PREFIX]),
        (AclFilter(pattern=4), [PREFIX]),
        (AclFilter(principal="User:bob"), [PREFIX]),
        (AclFilter(operation=3, permission=2), [GROUP]),
        (AclFilter(host="10.0.0.9"), []),
    ],
)
def test_filters_match_as_kafkas(wanted: AclFilter, found: list[Acl]) -> None:
    image = ClusterImage()
    for one in (LITERAL, STAR, PREFIX, GROUP):
        image.replay(created(one))
    decision, matched = delete_acls(image, [wanted])
    assert matched == [found]
    for record in decision.records:
        image.replay(record)
    assert list(image.acls) == [one for one in (LITERAL, STAR, PREFIX, GROUP) if one not in found]


def test_a_filter_with_an_unknown_code_is_refused() -> None:
    decision, matched = delete_acls(ClusterImage(), [AclFilter(kind=0), AclFilter()])
    assert [one.error for one in decision.results] == [KafkaError.INVALID_REQUEST, KafkaError.NONE]
    assert matched == [[], []]


def test_what_the_brokers_properties_say() -> None:
    assert authorizer_of(ClusterImage()) is None
    with pytest.raises(BadInput, match="There is no authorizer acme"):
        authorizer_of(ClusterImage(static={"authorizer.class.name": "acme"}))
    static = {
        "authorizer.class.name": STANDARD,
        "super.users": "User:alice; User:root",
        "allow.everyone.if.no.acl.found": "true",
    }
    found = authorizer_of(ClusterImage(static=static))
    assert found is not None
    cluster = ResourceKind.CLUSTER, CLUSTER_NAME
    assert found.allows(Client("User:root", "h"), AclOperationCode.ALTER, *cluster)
    assert found.allows(BOB, AclOperationCode.ALTER, *cluster)
