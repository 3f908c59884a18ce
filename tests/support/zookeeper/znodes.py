"""What the tests on a real ZooKeeper share."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from kshunt.backend.addresses import ZOOKEEPER_SCHEME
from kshunt.backend.admin.zookeeper.ensemble_config import ensemble_config
from kshunt.backend.admin.zookeeper.session import Session
from kshunt.backend.admin.zookeeper.zookeeper_admin import ZooKeeperAdmin
from kshunt.backend.clock import SystemClock
from kshunt.backend.journal_storage.zookeeper.znode_journal import ZnodeJournal
from kshunt.backend.settings import Settings
from tests.support.access.keys import KEYS

DEADLINE_S = 30.0
TIMEOUT_S = 5.0
CLUSTER_ID = "a-cluster"

ON_ZOOKEEPER = [pytest.mark.kafka, pytest.mark.zookeeper]
"""The marks of a test that needs one."""

_numbers = itertools.count()


def settings_of(connect: str, config: Path | None = None) -> Settings:
    """Of a backend that is told `--zookeeper`."""
    return Settings(f"{ZOOKEEPER_SCHEME}{connect}", config)


@asynccontextmanager
async def session_of(connect: str, config: Path | None = None) -> AsyncIterator[Session]:
    """A session that is open."""
    session = Session(ensemble_config(connect, config))
    await session.open()
    try:
        yield session
    finally:
        await session.close()


@asynccontextmanager
async def admin_of(connect: str, config: Path | None = None) -> AsyncIterator[ZooKeeperAdmin]:
    """An admin of the cluster, closed at the end."""
    admin = await ZooKeeperAdmin.opened(settings_of(connect, config))
    try:
        await admin.connect()
        yield admin
    finally:
        await admin.close()


@contextmanager
def client_of(connect: str, **more: Any) -> Iterator[KazooClient]:
    """Somebody else's session, which is no code of ours."""
    client = KazooClient(connect, **more)
    client.start(DEADLINE_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()


@contextmanager
def tree(address: str) -> Iterator[tuple[str, KazooClient]]:
    """A chroot with what a Kafka cluster without brokers has; where it is, and a client there."""
    chroot = f"/tree-{next(_numbers)}"
    with client_of(address) as above:
        above.create(chroot)
    with client_of(f"{address}{chroot}") as client:
        client.create("/cluster/id", jsoned({"version": "1", "id": CLUSTER_ID}), makepath=True)
        for path in ("/admin", "/brokers/ids", "/brokers/topics", "/config/changes"):
            client.ensure_path(path)
        yield f"{address}{chroot}", client


def journal_in(session: Session, writer: str = "one") -> ZnodeJournal:
    """A journal of that cluster, of a backend of that name."""
    return ZnodeJournal(
        session, cluster_id=CLUSTER_ID, writer=writer, clock=SystemClock(), keys=KEYS
    )


def jsoned(found: Mapping[str, Any]) -> bytes:
    """As somebody else may write it."""
    return json.dumps(found).encode()


def unjsoned(client: KazooClient, path: str) -> Any:
    """What a znode holds; None where there is none."""
    try:
        return json.loads(client.get(path)[0])
    except NoNodeError:
        return None


def named_for_removal(client: KazooClient) -> tuple[list[str], list[int]]:
    """The topics and brokers whose throttles go, by the seed's znodes."""
    topics = unjsoned(client, "/admin/throttled_replicas_removal") or {"topics": []}
    brokers = unjsoned(client, "/admin/throttled_rates_removal") or {"brokers": []}
    return topics["topics"], brokers["brokers"]
