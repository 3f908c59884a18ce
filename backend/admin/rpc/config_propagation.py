"""Waiting until brokers show a configuration that was written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

from kshunt.backend.admin.rpc.configs import Changes, Values, in_force
from kshunt.backend.clock import Clock
from kshunt.backend.errors import ClusterError

Name = TypeVar("Name", int, str)

IN_FORCE_TIMEOUT_S: Final = 1.0
IN_FORCE_POLL_S: Final = 0.01


async def wait_until_in_force(
    clock: Clock,
    changes: Mapping[Name, Changes],
    read: Callable[[Sequence[Name]], Awaitable[Mapping[Name, Values]]],
) -> None:
    """Wait until the brokers show what was written, so that what follows finds it there.

    The controller acknowledges a change before the brokers have it; they follow within
    milliseconds. One that takes longer is not waited for: the change is made.
    """
    deadline = clock.monotonic_s() + IN_FORCE_TIMEOUT_S
    waiting = list(changes)
    while waiting and clock.monotonic_s() < deadline:
        try:
            values = await read(waiting)
        except ClusterError:
            return
        waiting = [
            name for name in waiting if name in values and not in_force(changes[name], values[name])
        ]
        if waiting:
            await clock.wait_s(IN_FORCE_POLL_S)
