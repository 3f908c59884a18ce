"""How one of the seeds' RPCs is called, and when its verb is composed instead."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from kafka.errors import KafkaTimeoutError, RequestTimedOutError

from kshunt.backend.admin.port.item_result import ItemResult
from kshunt.backend.admin.rpc.broker_calls import BrokerCalls
from kshunt.backend.admin.rpc.connections import Lane
from kshunt.backend.admin.rpc.error_mapping import BrokerDown
from kshunt.backend.error_codes import NOT_CONTROLLER, UNSUPPORTED_VERSION
from kshunt.backend.errors import BrokerUnreachable, ClusterUnreachable, KshuntError, NotSupported
from kshunt.backend.wire.raw_request import RawAnswer, RawRequest
from kshunt.backend.wire.reader import WireError

log = logging.getLogger(__name__)

Name = TypeVar("Name")

REFUSALS: Final = frozenset({UNSUPPORTED_VERSION, NOT_CONTROLLER})
"""Codes that refuse the call, and not what it asks for; nothing was done then."""
LOST: Final = (BrokerUnreachable, ClusterUnreachable, WireError)
"""What leaves open whether a call was carried out."""


class RpcNotServed(Exception):
    """The cluster advertises an RPC and does not serve it."""


async def answered(
    calls: BrokerCalls,
    request: Callable[[], RawRequest],
    read: Callable[[RawAnswer], Mapping[Name, ItemResult]],
    *,
    timeout_s: float,
    lane: Lane,
) -> Mapping[Name, ItemResult]:
    """The controller's results.

    Raises:
        RpcNotServed: it refuses the call itself.
    """
    try:
        answer = await calls.ask_controller(request, timeout_s=timeout_s, lane=lane)
    except NotSupported as refused:
        raise RpcNotServed(str(refused)) from None
    # Off the event loop: there may be very many.
    results = await asyncio.to_thread(read, answer)
    codes = {result.error_code for result in results.values()}
    if codes and codes <= REFUSALS:
        raise RpcNotServed(" and ".join(sorted({r.error_name for r in results.values()})))
    return results


async def answered_or_none(
    calls: BrokerCalls,
    request: Callable[[], RawRequest],
    read: Callable[[RawAnswer], Mapping[Name, ItemResult]],
    *,
    timeout_s: float,
    lane: Lane,
) -> Mapping[Name, ItemResult] | None:
    """The controller's results, or None if there are none: the verb is then to be composed.

    For what may be done twice: a call whose answer was lost may have been carried out.
    """
    try:
        return await answered(calls, request, read, timeout_s=timeout_s, lane=lane)
    except (*LOST, RpcNotServed) as why:
        log_fallback(request().name.removesuffix("Request"), why)
        return None


def timed_out(lost: KshuntError) -> bool:
    """True where an answer did not come in time, so that the call may yet be carried out.

    Where a connection ended, or none could be made, what is read from the cluster holds.
    """
    if not isinstance(lost, BrokerUnreachable) or isinstance(lost, BrokerDown):
        return False
    cause = lost.__cause__
    return cause is None or isinstance(cause, RequestTimedOutError | KafkaTimeoutError)


def log_fallback(what: str, why: object) -> None:
    """Note that a verb is composed although the cluster advertises an RPC for it."""
    reason = str(why).rstrip(".")
    log.warning("%s is advertised but not served: %s. Kafka's own calls are used.", what, reason)
