"""The real clusters that the tests of one process share, whatever folders they are in.

pytest makes a fixture anew for each `conftest.py` that imports it, once a session. So that there is
one cluster all the same, the session keeps it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import TypeVar

import pytest

from tests.support.brokers.launcher import RealKafka
from tests.support.brokers.zookeeper import ZooKeeperKafka

C = TypeVar("C")
_KAFKA = pytest.StashKey[RealKafka]()
_ZOOKEEPER = pytest.StashKey[ZooKeeperKafka]()


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> RealKafka:
    """Three real brokers, shared: a test names its own topics and undoes what it alters."""
    return _shared(request.session, _KAFKA, RealKafka)


@pytest.fixture(scope="session")
def zookeeper(request: pytest.FixtureRequest) -> ZooKeeperKafka:
    """Three brokers that keep their metadata in a ZooKeeper, shared likewise."""
    return _shared(request.session, _ZOOKEEPER, ZooKeeperKafka)


def _shared(
    session: pytest.Session, key: pytest.StashKey[C], kind: Callable[[], AbstractContextManager[C]]
) -> C:
    """The session's cluster, which is started for whoever asks first and ends with the session."""
    if key not in session.stash:
        undo = ExitStack()
        session.stash[key] = undo.enter_context(kind())
        session.addfinalizer(undo.close)
    return session.stash[key]
