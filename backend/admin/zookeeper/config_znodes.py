"""Throttles in Kafka's configuration znodes: read, and changed without losing what others wrote.

A change reads the znode, and commits the new text for the version that was read, together with
the notification that has brokers read it anew. Where another client was quicker, the change begins
again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kshunt.backend.admin.port.item_result import OK, ItemResult
from kshunt.backend.admin.rpc.configs import Changes, ConfigValue, Values
from kshunt.backend.admin.rpc.error_mapping import item_error
from kshunt.backend.admin.zookeeper import znode_layout
from kshunt.backend.admin.zookeeper.session import Create, Outdated, Put, Session, Znode
from kshunt.backend.domain.cluster.config_names import ConfigSource
from kshunt.backend.errors import ClusterError, KshuntError, NotActive

ATTEMPTS: Final = 20
"""Somebody else would have to write the same znode as often, each time between look and commit."""
PAUSE_S: Final = 0.01
"""At most, times the number of the attempt: so two that are at it get out of each other's way."""


def topic_entity(topic: str) -> str:
    """What a topic's configuration is called."""
    return f"topics/{topic}"


def broker_entity(broker: int | str) -> str:
    """What a broker's configuration is called."""
    return f"brokers/{broker}"


async def configured(
    session: Session, entities: Iterable[str], *, timeout_s: float
) -> list[dict[str, str] | None]:
    """What is set on each of these itself; None where nothing ever was.

    Raises:
        UnreadableZnode: a znode cannot be understood.
    """
    paths = [znode_layout.config_path(entity) for entity in entities]
    found = await session.read_many(paths, timeout_s=timeout_s)
    return [
        None if znode is None else znode_layout.read_config(path, znode.data)
        for path, znode in zip(paths, found, strict=True)
    ]


async def read_topics(
    session: Session, topics: Sequence[str], keys: Sequence[str], *, timeout_s: float
) -> Mapping[str, Values]:
    """These keys of topics; a topic that there is not is absent."""
    there = await _there(session, topics, timeout_s=timeout_s)
    found = await configured(session, map(topic_entity, there), timeout_s=timeout_s)
    return {
        topic: _values(own or {}, keys, ConfigSource.DYNAMIC_TOPIC)
        for topic, own in zip(there, found, strict=True)
    }


async def _there(session: Session, topics: Sequence[str], *, timeout_s: float) -> list[str]:
    wanted = list(filter(znode_layout.may_be_topic, dict.fromkeys(topics)))
    paths = [znode_layout.topic_path(topic) for topic in wanted]
    found = await session.read_many(paths, timeout_s=timeout_s)
    return [topic for topic, znode in zip(wanted, found, strict=True) if znode is not None]


async def read_brokers(
    session: Session, brokers: Sequence[int], keys: Sequence[str], *, timeout_s: float
) -> Mapping[int, Values]:
    """These keys of brokers that are up, or are configured; others are absent."""
    wanted = list(dict.fromkeys(brokers))
    names = [broker_entity(znode_layout.DEFAULT_BROKER), *map(broker_entity, wanted)]
    inherited, *found = await configured(session, names, timeout_s=timeout_s)
    up = await session.read_many(
        [f"{znode_layout.BROKERS}/{b}" for b in wanted], timeout_s=timeout_s
    )
    default = _values(inherited or {}, keys, ConfigSource.DYNAMIC_DEFAULT_BROKER)
    return {
        broker: {**default, **_values(own or {}, keys, ConfigSource.DYNAMIC_BROKER)}
        for broker, own, registered in zip(wanted, found, up, strict=True)
        if own is not None or registered is not None
    }


def _values(own: Mapping[str, str], keys: Sequence[str], source: str) -> dict[str, ConfigValue]:
    return {key: ConfigValue(own[key], source) for key in keys if own.get(key)}


async def change(
    session: Session, entity: str, changes: Changes, *, timeout_s: float
) -> ItemResult:
    """Set keys of a topic's or broker's configuration, and remove those that are None.

    If every key already has its new value, nothing is written and no broker is notified.

    Raises:
        NotActive: another backend has taken over; nothing was changed.
    """
    try:
        for attempt in range(ATTEMPTS):
            try:
                await _attempt(session, entity, changes, timeout_s)
            except Outdated:
                await asyncio.sleep(random.random() * PAUSE_S * attempt)
                continue
            return OK
    except NotActive:
        raise
    except KshuntError as error:
        return item_error(error)
    why = f"another process writes {znode_layout.config_path(entity)} all the time"
    return item_error(ClusterError(why))


async def _attempt(session: Session, entity: str, changes: Changes, timeout_s: float) -> None:
    path = znode_layout.config_path(entity)
    znode = await session.read(path, timeout_s=timeout_s)
    before = {} if znode is None else znode_layout.read_config(path, znode.data)
    after = {k: v for k, v in before.items() if k not in changes}
    after |= {key: value for key, value in changes.items() if value is not None}
    if after == before:
        return
    notification = Create(znode_layout.CHANGES, znode_layout.change_text(entity), sequence=True)
    await session.commit(
        [_written(path, znode, znode_layout.config_text(after)), notification], timeout_s=timeout_s
    )


def _written(path: str, znode: Znode | None, data: bytes) -> Create | Put:
    return Create(path, data) if znode is None else Put(path, data, znode.version)
