"""Configurations as brokers tell them: a few keys, or all, of topics and of brokers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from kshunt.backend.admin.rpc.broker_calls import BrokerCalls, decoded
from kshunt.backend.admin.rpc.concurrency import together
from kshunt.backend.admin.rpc.configs import BROKER, TOPIC, Values, describe_request, described
from kshunt.backend.errors import BrokerUnreachable
from kshunt.backend.wire.raw_request import RawAnswer

T = TypeVar("T")

TOPICS_PER_REQUEST: Final = 2_000


async def read_topics(
    calls: BrokerCalls,
    topics: Sequence[str],
    keys: Sequence[str],
    read: Callable[[RawAnswer], Mapping[str, T]],
    *,
    timeout_s: float,
) -> dict[str, T]:
    """What any broker says of a few keys of topics, however many; see `read_some`.

    Raises:
        ClusterUnreachable: no broker answered in time.
    """
    found = await together(
        read_some(calls, some, keys, read, timeout_s=timeout_s) for some in by_request(topics)
    )
    return {topic: values for some in found for topic, values in some.items()}


async def read_some(
    calls: BrokerCalls,
    topics: Sequence[str],
    keys: Sequence[str] | None,
    read: Callable[[RawAnswer], T],
    *,
    timeout_s: float,
) -> T:
    """What any broker says of a few keys of these topics, or of every key if None.

    Raises:
        ClusterUnreachable: no broker answered in time.
    """
    answer = await calls.ask_any(lambda: describe_request(TOPIC, topics, keys), timeout_s=timeout_s)
    return await decoded(answer, lambda: read(answer))


def by_request(topics: Sequence[str]) -> list[Sequence[str]]:
    """The topics in parts, one for each request that is needed."""
    size = TOPICS_PER_REQUEST
    return [topics[start : start + size] for start in range(0, len(topics), size)]


async def read_brokers(
    calls: BrokerCalls, brokers: Sequence[int], keys: Sequence[str], *, timeout_s: float
) -> Mapping[int, Values]:
    """What brokers say of a few of their keys; one that does not answer is absent."""
    wanted = list(dict.fromkeys(brokers))

    async def ask(broker: int) -> Values | None:
        try:
            return await read_broker(calls, broker, keys, timeout_s=timeout_s)
        except BrokerUnreachable:
            return None

    found = zip(wanted, await together(map(ask, wanted)), strict=True)
    return {broker: values for broker, values in found if values is not None}


async def read_broker(
    calls: BrokerCalls, broker: int, keys: Sequence[str], *, timeout_s: float
) -> Values | None:
    """What a broker says of a few of its keys; None where it does not know itself.

    Raises:
        BrokerUnreachable: it did not answer in time.
        NotAuthorized: it does not show them to us.
    """
    request = describe_request(BROKER, [str(broker)], keys)
    return described(await calls.call(broker, request, timeout_s=timeout_s)).get(str(broker))
