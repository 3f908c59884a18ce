"""Several calls at the same time: all of them, or the first that answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from kshunt.backend.admin.rpc.error_mapping import whole_cluster_error

T = TypeVar("T")


async def together(calls: Iterable[Awaitable[T]]) -> list[T]:
    """Every result, in order. The first failure cancels the others and is raised as it is."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        await _ended(tasks)


async def first_answer(
    attempts: Sequence[Callable[[], Awaitable[T]]], *, hedge_s: float, asked: str
) -> T:
    """The first answer of several brokers that could all give it.

    The next one is asked when those before have failed, or have not answered for `hedge_s`.

    Args:
        attempts: The calls, in the order of preference.
        hedge_s: Seconds until another broker is asked as well.
        asked: Whom, in words, for the error.

    Raises:
        ClusterUnreachable: all failed; or the more telling error of one of them.
    """
    waiting = list(attempts)
    tasks: list[asyncio.Future[T]] = []
    pending: set[asyncio.Future[T]] = set()
    try:
        while waiting or pending:
            if waiting:
                tasks.append(asyncio.ensure_future(waiting.pop(0)()))
                pending.add(tasks[-1])
            done, pending = await asyncio.wait(
                pending,
                timeout=hedge_s if waiting else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for task in done:
                if task.exception() is None:
                    return task.result()
    finally:
        await _ended(tasks)
    failures = [error for task in tasks if (error := task.exception()) is not None]
    raise whole_cluster_error(failures, asked)


async def _ended(tasks: Sequence[asyncio.Future[T]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
