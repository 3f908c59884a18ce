"""A topic that is read and written, for the tests of the check before a shrink."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.support.topics import BROKER_DEADLINE_S
from tests.support.waiting import wait_until

QUIET: Mapping[str, Any] = {"log_level": 0}
THREE_BY_TWO = [[1, 2], [2, 3], [3, 1], [1, 3], [2, 1], [3, 2]]
"""Six partitions on three brokers."""


@asynccontextmanager
async def on_thread(manager: AbstractContextManager[None]) -> AsyncIterator[None]:
    """A context that is entered and left on another thread, because that takes its time."""
    await asyncio.to_thread(manager.__enter__)
    try:
        yield
    finally:
        await asyncio.to_thread(manager.__exit__, None, None, None)


def write(
    servers: str,
    topic: str,
    counts: Mapping[int, int],
    *,
    key: bytes | None = b"k",
    settings: Mapping[str, Any] = QUIET,
) -> None:
    """Write that many records to each partition, and wait until they are there."""
    producer = Producer({**QUIET, "bootstrap.servers": servers, "acks": "all", **settings})
    for number, count in counts.items():
        for index in range(count):
            value = b"v%d" % index
            producer.produce(topic, value, key=key, partition=number)
    assert producer.flush(BROKER_DEADLINE_S) == 0


def commit(servers: str, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    """Set committed offsets of a group without members."""
    consumer = Consumer({**QUIET, "bootstrap.servers": servers, "group.id": group})
    places = [TopicPartition(topic, number, offset) for number, offset in offsets.items()]
    try:
        # The first group of a cluster waits for __consumer_offsets to be made.
        wait_until(lambda: _committed(consumer, places), BROKER_DEADLINE_S, f"{group} commits")
    finally:
        consumer.close()


def _committed(consumer: Consumer, places: list[TopicPartition]) -> bool:
    try:
        consumer.commit(offsets=places, asynchronous=False)
    except KafkaException as refused:
        if refused.args[0].retriable():
            return False
        raise
    return True


@contextmanager
def member(
    servers: str, group: str, topic: str, settings: Mapping[str, Any] = QUIET
) -> Iterator[None]:
    """A member of a group, with partitions assigned, that reads and commits nothing."""
    consumer = Consumer(
        {
            **QUIET,
            "bootstrap.servers": servers,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **settings,
        }
    )
    consumer.subscribe([topic])
    stop = threading.Event()

    def poll() -> None:
        while not stop.is_set():
            consumer.poll(0.05)

    thread = threading.Thread(target=poll)
    try:
        wait_until(
            lambda: (consumer.poll(0.05), consumer.assignment())[1],
            BROKER_DEADLINE_S,
            f"{group} has partitions",
        )
        thread.start()
        yield
    finally:
        stop.set()
        if thread.ident is not None:
            thread.join()
        consumer.close()


@contextmanager
def transaction(servers: str, name: str, topic: str, number: int) -> Iterator[None]:
    """A transaction that has written a record and stays open."""
    producer = Producer({**QUIET, "bootstrap.servers": servers, "transactional.id": name})
    producer.init_transactions(BROKER_DEADLINE_S)
    producer.begin_transaction()
    producer.produce(topic, b"open", key=b"k", partition=number)
    assert producer.flush(BROKER_DEADLINE_S) == 0
    try:
        yield
    finally:
        producer.abort_transaction(BROKER_DEADLINE_S)
