"""Calls to the brokers of one cluster: to one of them, to the controller, or to whichever answers.

Where brokers are is read when it is first needed, and anew when the controller has moved. Brokers
say it themselves, or a `describe` that knows the cluster in another way.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias, TypeVar

from kshunt.backend.admin.rpc import requests
from kshunt.backend.admin.rpc.bootstrap import bootstrap_addresses
from kshunt.backend.admin.rpc.concurrency import first_answer
from kshunt.backend.admin.rpc.connections import BrokerConnections, Lane, silence_clients
from kshunt.backend.admin.rpc.error_mapping import BrokerDown, BrokerName
from kshunt.backend.admin.security.client_properties import load_client_config
from kshunt.backend.clock import Clock
from kshunt.backend.domain.cluster.assignment import ClusterState
from kshunt.backend.domain.cluster.metadata import NO_BROKER
from kshunt.backend.errors import BrokerUnreachable, ClusterError, ClusterUnreachable
from kshunt.backend.limits import LIMITS
from kshunt.backend.settings import Settings
from kshunt.backend.wire import metadata
from kshunt.backend.wire.raw_request import RawAnswer, RawRequest

log = logging.getLogger(__name__)

T = TypeVar("T")
Describe: TypeAlias = Callable[[Sequence[str] | None, float], Awaitable[ClusterState]]
"""Given topics, or None for all, and seconds to wait: brokers, and who hosts what."""

HEDGE_S: Final = 0.5
"""A read that any broker can answer is sent to another one after this long."""
ASK_BROKERS_MAX: Final = 4
"""Brokers that one such read is sent to at most."""
DECODE_INLINE_BYTES_MAX: Final = 64 * 1024
"""A larger answer is decoded on another thread, so that the event loop continues."""
RETRY_TIMEOUT_S_MIN: Final = 1.0
CONTROLLER_SEARCH_S: Final = 2.0
"""A controller that is down is looked for this long; `BrokerConnections` remembers a refusal for
half of it. In KRaft each answer names a broker at random, also one that has just started."""
CONTROLLER_SEARCH_PAUSE_S: Final = 0.1

NO_TOPICS: Final[Sequence[str]] = ()
"""Describe with these, and only the brokers are told."""


class BrokerCalls:
    """See the module's text. One instance belongs to one event loop."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        guard: Callable[[], None],
        describe: Describe | None = None,
    ) -> None:
        """Nothing is connected to yet.

        Args:
            settings: Have the bootstrap servers. They also name the client configuration.
            clock: Measures the time left for a call.
            guard: Asked right before anything is sent that changes the cluster.
            describe: Says where brokers are. None: they say it themselves.

        Raises:
            ConfigError: the client configuration cannot be used, or no server is given.
        """
        silence_clients()
        self.config = load_client_config(settings.command_config)
        """How brokers are connected to."""
        if self.config.ignored:
            named = ", ".join(self.config.ignored)
            log.info(
                "%s: ignored properties, which have no effect here: %s",
                settings.command_config,
                named,
            )
        self.bootstrap_servers = settings.bootstrap_servers
        """`host:port,host:port`, as it was given."""
        self._clock = clock
        self._describe = describe or self._described_by_brokers
        self._servers = bootstrap_addresses(settings.bootstrap_servers)
        self._links = BrokerConnections(
            self.config, frame_bytes_max=LIMITS.response_frame_bytes, guard=guard
        )
        self._controller = NO_BROKER
        self._responsive: BrokerName = self._servers[0]
        """The broker or server that answered last."""

    async def describe(
        self, topics: Sequence[str] | None = None, *, timeout_s: float
    ) -> ClusterState:
        """See `DescribedCluster.describe`."""
        state = await self._describe(topics, timeout_s)
        self._links.learn({b.id: (b.host, b.port) for b in state.brokers.values() if b.host})
        self._controller = state.controller
        return state

    async def _described_by_brokers(
        self, topics: Sequence[str] | None, timeout_s: float
    ) -> ClusterState:
        answer = await self.ask_any(lambda: requests.metadata_request(topics), timeout_s=timeout_s)
        state = await decoded(answer, lambda: metadata.decode_metadata(answer.body, answer.version))
        if not state.brokers:
            raise ClusterUnreachable("The bootstrap servers know no broker yet.")
        return state

    async def has(
        self, api_key: int, *, version: int = 0, broker: int | None = None, timeout_s: float
    ) -> bool:
        """True if a broker, or the controller, advertises a version of an API."""
        return await self.highest_version(api_key, broker, timeout_s=timeout_s) >= version

    async def highest_version(
        self, api_key: int, broker: int | None = None, *, timeout_s: float
    ) -> int:
        """The highest version of an API that a broker, or the controller, advertises, or -1.

        It is -1 too for a broker that cannot be reached: what is asked of it then says so.
        """
        try:
            if self._controller not in self._links.known:
                await self.describe(NO_TOPICS, timeout_s=timeout_s)
            asked = self._controller if broker is None else broker
            return await self._links.highest_version(asked, api_key, timeout_s=timeout_s)
        except ClusterError:
            return -1

    async def call(
        self, broker: int, request: RawRequest, *, timeout_s: float, lane: Lane = "read"
    ) -> RawAnswer:
        """One broker's answer; where to find it is asked for first if it is not known."""
        if broker not in self._links.known:
            await self.describe(NO_TOPICS, timeout_s=timeout_s)
        return await self._links.call(broker, request, timeout_s=timeout_s, lane=lane)

    async def ask_any(self, request: Callable[[], RawRequest], *, timeout_s: float) -> RawAnswer:
        """The answer of whichever broker gives it first; see `first_answer`."""
        # The one that answered last comes first: what it has said once, it does not unsay.
        known = random.sample(sorted(self._links.known), len(self._links.known))
        order = [self._responsive, *known[:ASK_BROKERS_MAX], *self._servers]
        targets: list[BrokerName] = list(dict.fromkeys(order))

        def attempt(target: BrokerName) -> Callable[[], Awaitable[tuple[BrokerName, RawAnswer]]]:
            async def ask() -> tuple[BrokerName, RawAnswer]:
                return target, await self._links.call(target, request(), timeout_s=timeout_s)

            return ask

        self._responsive, answer = await first_answer(
            [attempt(target) for target in targets],
            hedge_s=min(HEDGE_S, timeout_s / 4),
            asked=self.bootstrap_servers,
        )
        return answer

    async def ask_controller(
        self, request: Callable[[], RawRequest], *, timeout_s: float, lane: Lane = "read"
    ) -> RawAnswer:
        """The controller's answer, looking for the controller again if it is not where it was.

        A change is sent a second time only if the first was surely not carried out.

        Raises:
            BrokerDown: nothing was sent; no controller was up within `CONTROLLER_SEARCH_S`.
        """
        deadline = self._clock.monotonic_s() + timeout_s
        if self._controller not in self._links.known:
            await self.describe(NO_TOPICS, timeout_s=timeout_s)
        try:
            answer = await self._links.call(
                self._controller, request(), timeout_s=timeout_s, lane=lane
            )
            if not requests.is_for_another_controller(answer):
                return answer
        except BrokerUnreachable as error:
            if lane == "write" and not isinstance(error, BrokerDown):
                raise
        search_until = min(deadline, self._clock.monotonic_s() + CONTROLLER_SEARCH_S)
        while True:
            remaining_s = max(deadline - self._clock.monotonic_s(), RETRY_TIMEOUT_S_MIN)
            await self.describe(NO_TOPICS, timeout_s=remaining_s)
            try:
                return await self._links.call(
                    self._controller, request(), timeout_s=remaining_s, lane=lane
                )
            except BrokerDown:
                if self._clock.monotonic_s() >= search_until:
                    raise
            await self._clock.wait_s(CONTROLLER_SEARCH_PAUSE_S)

    async def close(self) -> None:
        """Release the connections; no other call may follow."""
        await self._links.close()


async def decoded(answer: RawAnswer, decode: Callable[[], T]) -> T:
    """What an answer is decoded to, off the event loop where it is large."""
    if len(answer.body) <= DECODE_INLINE_BYTES_MAX:
        return decode()
    return await asyncio.to_thread(decode)
