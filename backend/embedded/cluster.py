"""A whole cluster: its state, a listener for each broker, and the clock that drives it.

Goals: `start` gives a cluster that any Kafka client can use, in a fraction of a second; every
fault can be had on demand, and hits sockets and state alike.

Constraints: one event loop owns everything; nothing here is safe to call from another thread.

Algorithm: on the machine's clock a task lets the core catch up every few milliseconds, less often
where that is expensive. A simulated clock stands still but for `advance`, and for producers that
wait for replicas.
"""

from __future__ import annotations

import asyncio
import math
from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from random import Random
from typing import Any, Final
from uuid import UUID

from kshunt.backend.clock import Clock, SystemClock
from kshunt.backend.domain.cluster.config_names import PLACER_CLASS
from kshunt.backend.embedded.controller.acls import created
from kshunt.backend.embedded.controller.brokers import Registration
from kshunt.backend.embedded.controller.decision import Decision
from kshunt.backend.embedded.controller.replica_placement import NamedPlacer, striped_placement
from kshunt.backend.embedded.coordinator.group_coordinator import GroupCoordinator
from kshunt.backend.embedded.coordinator.transaction_coordinator import TransactionCoordinator
from kshunt.backend.embedded.core.cluster_core import ControllerLost, Core
from kshunt.backend.embedded.core.spec import SIMULATED_START_MS, BrokerSpec, ClusterSpec
from kshunt.backend.embedded.core.store import ClusterStore
from kshunt.backend.embedded.core.world import World
from kshunt.backend.embedded.data.data_plane import DataPlane
from kshunt.backend.embedded.data.hosted_partition import HostedPartition
from kshunt.backend.embedded.handler_table import handler_table
from kshunt.backend.embedded.handlers.coordination import transactions
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.metadata.records import Record
from kshunt.backend.embedded.net.api import WireClose
from kshunt.backend.embedded.net.server import LOOPBACK, BrokerServer, Handler, RequestContext
from kshunt.backend.embedded.security.authorizer import authorizer_of
from kshunt.backend.embedded.security.sasl_plain import PlainUsers
from kshunt.backend.errors import BadInput
from kshunt.backend.placement.placer_names import KAFKA_STRIPED

PUMP_S: Final = 0.01
"""How often the cluster catches up with the clock, where that costs little."""
_PUMP_SHARE: Final = 4
"""It rests this many times as long as it worked."""
_ID_BYTES: Final = 16


class EmbeddedCluster:
    """See the module. `async with EmbeddedCluster(spec) as cluster:` starts and stops it."""

    def __init__(self, spec: ClusterSpec, clock: Clock | None = None) -> None:
        """Make or, with a data folder that holds one, restore a cluster; nothing listens yet.

        Raises:
            BadInput: two brokers have one id, or there is none.
            ConfigError: the placer cannot be loaded, or refuses its configuration.
            Conflict: another process uses the data folder.
            RecordLogError: the data folder is damaged.
            OSError: the data folder cannot be read or written.
        """
        _check(spec)
        self.spec = spec
        self._clock = clock or SystemClock()
        with ExitStack() as opened:
            name = spec.static.get(PLACER_CLASS, KAFKA_STRIPED)
            # The default draws from the cluster's own source, so that a seed repeats a run.
            striped = name in ("striped", KAFKA_STRIPED)
            self._placer = None if striped else NamedPlacer(name, spec.static)
            if self._placer is not None:
                opened.callback(self._placer.close)
            self._make()
            opened.pop_all()

    def _make(self) -> None:
        spec = self.spec
        self.store = ClusterStore(spec.data) if spec.data is not None else None
        now_ms = SIMULATED_START_MS if spec.simulated else self._clock.now_ms()
        image = ClusterImage(static=dict(spec.static))
        plane = DataPlane(
            image,
            now_ms,
            hardware={broker.id: broker.hardware for broker in spec.brokers},
            lag_time_max_ms=spec.lag_time_max_ms,
            grain_ms=spec.grain_ms,
            seed=spec.seed,
            sink=_LogSink(self.store, self._forget),
        )
        random = Random(spec.seed)
        cluster_id = urlsafe_b64encode(random.randbytes(_ID_BYTES)).decode("ascii").rstrip("=")
        self.core = Core(image, plane, random, timing=spec.timing, store=self.store)
        self.world = World(
            self.core,
            cluster_id=cluster_id,
            simulated=spec.simulated,
            native=spec.native,
            clock=self._clock,
            placement=self._placer or striped_placement,
            authorizer=authorizer_of(image),
        )
        ids = Random(spec.seed ^ 1)
        self.groups = GroupCoordinator(
            self._persist, new_id=lambda: str(UUID(int=ids.getrandbits(128), version=4))
        )
        self.transactions = TransactionCoordinator(
            self._persist, transactions.marker_writer(self.world), self.groups
        )
        if self.store is not None:
            self.world.cluster_id = self.store.restore(self.core, cluster_id, self._replay)
        self.servers = self._listeners()
        """The listener of each broker; its `faults` are those of the connections."""
        self._pump: asyncio.Task[None] | None = None
        self._starts = self.core.image.offset

    def _listeners(self) -> dict[int, BrokerServer]:
        handlers = handler_table(self.world, self.groups, self.transactions)
        guarded = {key: _guarded(handler) for key, handler in handlers.items()}
        users = PlainUsers(self.spec.users) if self.spec.users else None
        return {
            broker.id: BrokerServer(broker.id, guarded, native=self.spec.native, users=users)
            for broker in self.spec.brokers
        }

    def _persist(self, records: Sequence[Record]) -> None:
        if self.store is not None:
            self.store.persist(records)

    def _replay(self, record: Record) -> None:
        self.groups.replay(record)
        self.transactions.replay(record)

    def _forget(self, held: HostedPartition) -> None:
        """A partition is gone: no group has an offset in it any more."""
        self.groups.forget_partitions(held.topic, [held.number])

    @property
    def image(self) -> ClusterImage:
        """What the controller knows; to be read."""
        return self.core.image

    @property
    def bootstrap_servers(self) -> str:
        """`host:port,host:port` of the brokers that were started."""
        ports = [self.servers[broker.id].port for broker in self.spec.brokers if broker.started]
        return ",".join(f"{LOOPBACK}:{port}" for port in ports)

    # --- life

    async def start(self) -> None:
        """Listen, and let every broker register.

        Raises:
            OSError: a port is taken.
        """
        wanted = [broker for broker in self.spec.brokers if broker.started]
        try:
            for place, broker in enumerate(self.spec.brokers):
                if broker.started:
                    base = self.spec.port_base
                    await self.servers[broker.id].start(base + place if base else 0)
        except OSError:
            await self._close_servers(0.0)
            if self._placer is not None:
                self._placer.close()
            raise
        if not self.image.offset:
            self.core.commit(Decision.of(map(created, dict.fromkeys(self.spec.acls))))
        self.core.start_all([self._registration(broker) for broker in wanted])
        if not self.spec.simulated:
            self._pump = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop listening, write down what is to be kept, and close the placer."""
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.gather(self._pump, return_exceptions=True)
            self._pump = None
        await self._close_servers(1.0)
        if self.store is not None:
            self.store.close(self.core)
        if self._placer is not None:
            await asyncio.to_thread(self._placer.close)

    async def __aenter__(self) -> EmbeddedCluster:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _close_servers(self, grace_s: float) -> None:
        await asyncio.gather(*(server.stop(grace_s) for server in self.servers.values()))

    async def _run(self) -> None:
        while True:
            started_s = self._clock.monotonic_s()
            self._catch_up(max(self._clock.now_ms(), self.core.now_ms))
            worked_s = self._clock.monotonic_s() - started_s
            await asyncio.sleep(max(PUMP_S, _PUMP_SHARE * worked_s))

    def _catch_up(self, now_ms: int) -> None:
        self.core.advance(now_ms)
        self.groups.tick(self._clock.monotonic_s())
        self.transactions.tick(self._clock.monotonic_s())
        if self.store is not None:
            self.store.checkpoint(self.core)
        self.world.changed()

    def advance(self, milliseconds: int) -> int:
        """Move a simulated clock on; returns the cluster's time, milliseconds since the epoch.

        Raises:
            BadInput: the clock is the machine's, or would go back.
        """
        if not self.spec.simulated:
            raise BadInput("The cluster runs on the machine's clock, which cannot be changed.")
        if milliseconds < 0:
            raise BadInput(f"A clock cannot go back by {-milliseconds} ms.")
        self._catch_up(self.core.now_ms + milliseconds)
        return self.core.now_ms

    # --- faults

    async def stop_broker(self, broker: int, *, crash: bool = False) -> None:
        """A broker shuts down; or crashes, which the controller notices when its session ends.

        Raises:
            BadInput: there is no such broker.
        """
        server = self._server(broker)
        if not self.core.plane.is_up(broker):
            return
        if crash:
            self.core.lose_broker(broker)
            await server.reset_connections()
        else:
            self.core.stop_broker(broker)
        self.world.changed()
        await server.stop(0.0 if crash else 1.0)

    async def start_broker(self, broker: int) -> None:
        """A broker starts: for the first time, again, or anew if it runs or hangs.

        Raises:
            BadInput: there is no such broker.
            OSError: its port is taken by now.
        """
        server = self._server(broker)
        if server.port and broker in self.image.brokers:
            await self.stop_broker(broker, crash=True)
        server.faults.heal()
        await server.start(self._port(broker))
        spec = next(one for one in self.spec.brokers if one.id == broker)
        self.core.start_all([self._registration(spec)], together=False)
        self.world.changed()

    def stall_broker(self, broker: int) -> None:
        """A broker hangs, with its sockets open.

        Raises:
            BadInput: there is no such broker.
        """
        self._server(broker).faults.stall()
        if self.core.plane.is_up(broker):
            self.core.lose_broker(broker, stalled=True)
        self.world.changed()

    def resume_broker(self, broker: int) -> None:
        """A broker that hung continues.

        Raises:
            BadInput: there is no such broker.
        """
        server = self._server(broker)
        if server.faults.stalled:
            server.faults.resume()
            self.core.resume_broker(broker)
        self.world.changed()

    async def fail_log_dir(self, broker: int, path: str) -> None:
        """A broker's disk fails; without any disk left the broker stops.

        Raises:
            BadInput: there is no such broker or directory.
        """
        server = self._server(broker)
        state = self.image.brokers.get(broker)
        if state is None or path not in state.log_dirs:
            raise BadInput(f"Broker {broker} has no log directory {path}.")
        self.core.fail_log_dir(broker, path)
        self.world.changed()
        if not self.core.plane.is_up(broker):
            await server.stop(0.0)

    def slow_link(self, source: int, target: int, bytes_per_s: float = math.inf) -> None:
        """Limit what goes from one broker to another; `math.inf` heals the link.

        Raises:
            BadInput: there is no such broker, or the rate is not positive.
        """
        for broker in (source, target):
            self._server(broker)
            if broker not in self.image.brokers:
                raise BadInput(f"Broker {broker} was never started.")
        if not bytes_per_s > 0:
            raise BadInput(f"A link cannot carry {bytes_per_s} B/s.")
        self.core.plane.set_link(source, target, bytes_per_s)

    def fail_over(self) -> None:
        """Another broker becomes the controller."""
        self.core.fail_over()
        self.world.changed()

    def _server(self, broker: int) -> BrokerServer:
        if broker not in self.servers:
            raise BadInput(f"There is no broker {broker}.")
        return self.servers[broker]

    def _port(self, broker: int) -> int:
        base = self.spec.port_base
        place = [one.id for one in self.spec.brokers].index(broker)
        return base + place if base else 0

    def _registration(self, broker: BrokerSpec) -> Registration:
        self._starts += 1
        return Registration(
            broker.id,
            f"{self.spec.seed:x}-{self._starts:x}",
            LOOPBACK,
            self.servers[broker.id].port,
            broker.rack,
            broker.log_dirs,
        )


class _LogSink:
    """Reports what becomes of logs to the store, if there is one.

    It also gives each partition that is gone to `forget`.
    """

    def __init__(
        self, store: ClusterStore | None, forget: Callable[[HostedPartition], None]
    ) -> None:
        self._store = store
        self._forget = forget

    def appended(self, held: HostedPartition, batch: bytes) -> None:
        """A batch is at its place in the log."""
        if self._store is not None:
            self._store.appended(held, batch)

    def shortened(self, held: HostedPartition) -> None:
        """A log was cut back, or lost its front."""
        if self._store is not None:
            self._store.shortened(held)

    def dropped(self, held: HostedPartition) -> None:
        """A partition is gone."""
        if self._store is not None:
            self._store.dropped(held)
        self._forget(held)


def _guarded(handler: Handler) -> Handler:
    """Where the controller crashes under a request, its client gets no answer."""

    async def answer(context: RequestContext, message: Any) -> Any | bytes | None:
        try:
            return await handler(context, message)
        except ControllerLost as lost:
            raise WireClose(lost.message) from None

    return answer


def _check(spec: ClusterSpec) -> None:
    ids = [broker.id for broker in spec.brokers]
    if not any(broker.started for broker in spec.brokers):
        raise BadInput("A cluster needs a broker.")
    if len(set(ids)) < len(ids) or min(ids) < 0:
        raise BadInput("The brokers' ids are not distinct, or one is negative.")
