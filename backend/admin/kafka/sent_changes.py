"""Changes that are sent once over our own connections; see `ClusterAdmin` for a lost answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from kshunt.backend.admin.port.item_result import ItemResult
from kshunt.backend.admin.rpc.broker_calls import NO_TOPICS, BrokerCalls
from kshunt.backend.admin.rpc.connections import Lane
from kshunt.backend.admin.rpc.error_mapping import BrokerDown, item_result
from kshunt.backend.admin.rpc.requests import UNANSWERED
from kshunt.backend.error_codes import NOT_CONTROLLER, REQUEST_TIMED_OUT
from kshunt.backend.errors import BrokerUnreachable
from kshunt.backend.wire.raw_request import RawAnswer, RawRequest
from kshunt.backend.wire.reader import WireError


async def by_controller(
    calls: BrokerCalls,
    request: Callable[[], RawRequest],
    read: Callable[[RawAnswer], ItemResult],
    timeout_s: float,
    lane: Lane = "write",
) -> ItemResult:
    """The controller's answer to a change; see `result_or_lost`.

    Raises:
        ClusterUnreachable, BrokerDown: nothing was sent.
    """

    async def asked() -> ItemResult:
        return read(await calls.ask_controller(request, timeout_s=timeout_s, lane=lane))

    result = await result_or_lost(asked)
    if result.error_code != NOT_CONTROLLER:
        return result
    # Who it is by now is learnt from any broker.
    await calls.describe(NO_TOPICS, timeout_s=timeout_s)
    return await result_or_lost(asked)


async def result_or_lost(asked: Callable[[], Awaitable[ItemResult]]) -> ItemResult:
    """A change's result; REQUEST_TIMED_OUT where its answer was lost.

    Raises:
        ClusterUnreachable, BrokerDown: nothing was sent.
        NotAuthorized, NotSupported, ClusterError: the whole call was refused.
    """
    try:
        return await asked()
    except BrokerDown:
        raise
    except (BrokerUnreachable, WireError) as lost:
        why = f"whether it was done is unknown; check the cluster, or repeat it: {lost.message}"
        return item_result(REQUEST_TIMED_OUT, why)


def only_result(entries: Sequence[Any]) -> ItemResult:
    """The result of the one item that was asked for."""
    if not entries:
        return UNANSWERED
    # The words come from Kafka 2.8 on; DeleteTopics had none before.
    return item_result(entries[0].error_code, getattr(entries[0], "error_message", None))
