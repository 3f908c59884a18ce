"""A cluster in a thread of its own, for tests that are not asynchronous."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Final, TypeVar, overload

from kshunt.backend.embedded.cluster import EmbeddedCluster
from kshunt.backend.embedded.core.spec import ClusterSpec
from kshunt.backend.embedded.running import RunningCluster, run_cluster
from kshunt.backend.embedded.scenario.model import Scenario

Value = TypeVar("Value")

DEADLINE_S: Final = 60.0
"""For the start, for a call, and for the end."""


class Running:
    """A handle on a cluster; any thread may use it."""

    def __init__(self, here: RunningCluster, loop: asyncio.AbstractEventLoop) -> None:
        self.bootstrap_servers = here.cluster.bootstrap_servers
        """`host:port,host:port` of the brokers that were started."""
        self._cluster = here.cluster
        self._loop = loop

    @overload
    def call(self, action: Callable[[EmbeddedCluster], Coroutine[Any, Any, Value]]) -> Value: ...

    @overload
    def call(self, action: Callable[[EmbeddedCluster], Value]) -> Value: ...

    def call(self, action: Callable[[EmbeddedCluster], Any]) -> Any:
        """Do something with the cluster on its own loop, and wait for what it returns.

        Raises:
            TimeoutError: it took longer than `DEADLINE_S`.
            Exception: whatever the action raises.
        """

        async def act() -> Any:
            outcome = action(self._cluster)
            return await outcome if asyncio.iscoroutine(outcome) else outcome

        return asyncio.run_coroutine_threadsafe(act(), self._loop).result(DEADLINE_S)


@contextmanager
def running(what: ClusterSpec | Scenario, seed: int = 0) -> Iterator[Running]:
    """A cluster of a specification, or of a scenario with a seed, until the end of the block.

    Raises:
        TimeoutError: it did not start in time.
        Exception: whatever made the start fail.
    """
    scenario = what if isinstance(what, Scenario) else None
    spec = what if isinstance(what, ClusterSpec) else ClusterSpec(what.brokers, seed=seed)
    started: Future[Running] = Future()
    over = asyncio.Event()

    async def serve() -> None:
        async with run_cluster(spec, scenario) as here:
            started.set_result(Running(here, asyncio.get_running_loop()))
            await over.wait()

    def work() -> None:
        try:
            asyncio.run(serve())
        # The edge of the thread: who waits for the start is told why there is none.
        except Exception as error:
            if started.done():
                raise
            started.set_exception(error)

    thread = threading.Thread(target=work, name="kshunt-cluster", daemon=True)
    thread.start()
    handle = started.result(DEADLINE_S)
    try:
        yield handle
    finally:
        handle._loop.call_soon_threadsafe(over.set)
        thread.join(DEADLINE_S)
