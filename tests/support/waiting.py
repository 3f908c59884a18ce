"""What many tests need: requirements, waiting for a condition, topics with records in them."""

import asyncio
import inspect
import os
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

POLL_S = 0.02
RESTS = 10
"""A slow question keeps the program that is asked busy: the pause is this many times longer."""
REST_S = 0.1
"""But not longer than this."""
PATIENCE_IN_CI = 4
"""A deadline only ends what hangs: where four workers share two cores, it may take longer."""


def in_ci() -> bool:
    """Whether a test that cannot run must fail: a green CI run must have run it."""
    return os.environ.get("CI", "").lower() == "true"


def give_up_at_s(deadline_s: float) -> float:
    """When a wait that begins now has failed, by `time.monotonic`; in CI it may take longer."""
    return time.monotonic() + deadline_s * (PATIENCE_IN_CI if in_ci() else 1)


def require(missing: str | None) -> None:
    """Skip the test for this reason, if there is one; fail it in CI."""
    if missing is None:
        return
    if in_ci():
        pytest.fail(f"CI=true and {missing}", pytrace=False)
    pytest.skip(missing)


def wait_until(
    condition: Callable[[], object], deadline_s: float, what: str, poll_s: float = POLL_S
) -> None:
    """Wait until `condition()` is true; fail with `what` at the deadline.

    What takes seconds, and is dear to ask, is asked each `poll_s`.
    """
    give_up = give_up_at_s(deadline_s)
    pause = threading.Event()
    began_s = time.monotonic()
    while not condition():
        _fail_after(give_up, deadline_s, what)
        pause.wait(_pause_s(poll_s, began_s))
        began_s = time.monotonic()


async def wait_until_async(
    condition: Callable[[], object | Awaitable[object]], deadline_s: float, what: str
) -> None:
    """`wait_until` on an event loop; `condition` may be a plain or an async function."""
    give_up = give_up_at_s(deadline_s)
    pause = asyncio.Event()
    while True:
        began_s = time.monotonic()
        answer = condition()
        # What an async function waits for costs nothing.
        pause_s = POLL_S if inspect.isawaitable(answer) else _pause_s(POLL_S, began_s)
        if await _awaited(answer):
            return
        _fail_after(give_up, deadline_s, what)
        with suppress(TimeoutError):
            await asyncio.wait_for(pause.wait(), pause_s)


def _pause_s(poll_s: float, began_s: float) -> float:
    """How long to rest after a question that began then, and has just been answered."""
    return max(poll_s, min(RESTS * (time.monotonic() - began_s), REST_S))


async def _awaited(value: object) -> object:
    return await value if inspect.isawaitable(value) else value


def _fail_after(give_up: float, deadline_s: float, what: str) -> None:
    if time.monotonic() > give_up:
        raise AssertionError(f"not within {deadline_s:g} s: {what}")
