"""A topic of real brokers is shrunk by a backend that is lost; and its write block by ACLs.

Through the real job, whose processes are killed too, it is in `tests/spark/test_shrink_killed.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.shrink.phases import ShrinkRequest
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.errors import Conflict, NotSupported
from tests.support.brokers.launcher import RealKafka
from tests.support.embedded.background import running
from tests.support.shrink.cases import hunted, run
from tests.support.shrink.check import QUIET
from tests.support.shrink.driver import Driver
from tests.support.topics import BROKER_DEADLINE_S, create_topic
from tests.support.waiting import wait_until_async

PARTITIONS, PARTITIONS_LEFT = 8, 3
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "true",
}


@pytest.mark.kafka
def test_a_backend_is_lost_once_at_every_place(kafka: RealKafka, tmp_path: Path) -> None:
    hunted(kafka.bootstrap_servers, tmp_path)


def allow_reading(servers: str, topic: str) -> None:
    """An entry of an operator's own."""
    entry = AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        "User:reader",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    admin = AdminClient({**QUIET, "bootstrap.servers": servers})
    (done,) = admin.create_acls([entry]).values()
    done.result(BROKER_DEADLINE_S)


@pytest.mark.kafka
def test_nobody_else_can_write_while_writes_are_blocked(tmp_path: Path) -> None:
    with RealKafka(1, AUTHORIZER) as guarded:
        servers = guarded.bootstrap_servers
        create_topic(servers, "guarded", [[1]] * PARTITIONS)
        wanted = ShrinkRequest("guarded", PARTITIONS_LEFT, 0, write_block=True)
        with pytest.raises(Conflict, match="There is no ACL for"):
            run(Driver(servers, tmp_path), lambda one: one.start(wanted))
        allow_reading(servers, "guarded")
        driver = Driver(servers, tmp_path)

        async def blocked() -> bool:
            return (await driver.admin.write_blocks.describe("guarded", timeout_s=10.0)).present

        async def unblocked() -> bool:
            return not await blocked()

        async def watched(driver: Driver) -> None:
            await driver.until("confirm")
            assert await blocked()
            await driver.confirm()
            await driver.until()
            # The controller answers before a broker has learnt of it.
            await wait_until_async(unblocked, BROKER_DEADLINE_S, "writes are let in again")

        run(driver, lambda one: one.start(wanted), watched)
        assert driver.done, driver.operation


def test_without_an_authorizer_a_write_block_is_refused(tmp_path: Path) -> None:
    with running(ClusterSpec(plain_brokers(1), native=False)) as handle:
        servers = handle.bootstrap_servers
        create_topic(servers, "unguarded", [[1]] * PARTITIONS)

        async def refused(driver: Driver) -> None:
            wanted = ShrinkRequest("unguarded", PARTITIONS_LEFT, 0, write_block=True)
            with pytest.raises(NotSupported):
                await driver.verbs.start(wanted, Change())

        run(Driver(servers, tmp_path), refused)
