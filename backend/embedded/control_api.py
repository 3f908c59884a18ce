"""The control API of a cluster: its faults and its clock, over HTTP on a loopback port.

It is for tests and operators on the same host. JSON goes in and out; a key that is unknown, or of
the wrong type, is refused. A request that carries an `Origin` comes from a web page, and is
refused too: a page must not be able to stop brokers behind its visitor's back.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from kshunt.backend.domain.untrusted.strict_json import UnreadableJson, read_json
from kshunt.backend.embedded.net.server import LOOPBACK
from kshunt.backend.embedded.running import RunningCluster
from kshunt.backend.errors import BadInput, KshuntError
from kshunt.backend.local_sockets import tcp_listener

HOSTS: Final = ["127.0.0.1", "localhost"]
BODY_BYTES_MAX: Final = 65_536
REQUIRED: Final = object()

Action = Callable[["_Control", "_StrictObject", int], Awaitable[None]]


class _StrictObject:
    """A JSON object, taken apart strictly."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    @classmethod
    async def of(cls, request: Request) -> _StrictObject:
        """The body of a request; none is an empty object."""
        data = bytearray()
        async for chunk in request.stream():
            data += chunk
            if len(data) > BODY_BYTES_MAX:
                raise BadInput(f"A request holds at most {BODY_BYTES_MAX} bytes.")
        try:
            values = read_json(bytes(data), bytes_max=BODY_BYTES_MAX) if data else {}
        except UnreadableJson:
            raise BadInput("The body is not JSON.") from None
        if not isinstance(values, dict):
            raise BadInput("The body is not a JSON object.")
        return cls(values)

    def whole(self, key: str, default: Any = REQUIRED) -> int:
        """A whole number that is not negative."""
        value = self._take(key, default)
        if value is default:
            return value  # type: ignore[no-any-return]
        if type(value) is not int or value < 0:
            raise BadInput(f"'{key}' must be a whole number of at least 0.")
        return value

    def rate(self, key: str) -> float:
        """Bytes a second; null is without limit."""
        value = self._take(key, REQUIRED)
        if value is None:
            return math.inf
        if type(value) not in (int, float) or not 0 < value < math.inf:
            raise BadInput(f"'{key}' must be a positive number or null.")
        return float(value)

    def text(self, key: str) -> str:
        """A string."""
        value = self._take(key, REQUIRED)
        if type(value) is not str:
            raise BadInput(f"'{key}' is not a string.")
        return value

    def done(self) -> None:
        """Every key was taken."""
        for key in self._values:
            raise BadInput(f"'{key}' is unknown.")

    def _take(self, key: str, default: Any) -> Any:
        if key not in self._values and default is REQUIRED:
            raise BadInput(f"'{key}' is missing.")
        return self._values.pop(key, default)


class _Control:
    """The routes, and what they do to the cluster."""

    def __init__(self, here: RunningCluster) -> None:
        self._cluster = here.cluster
        self._scenario = here.scenario
        self._slowed: set[tuple[int, int]] = set()

    def routes(self) -> list[Route]:
        posts = {
            "/v1/brokers/{id}/{action}": self._broker,
            "/v1/links": self._link,
            "/v1/network": self._network,
            "/v1/controller/fail-over": self._fail_over,
            "/v1/controller/crash": self._crash_controller,
            "/v1/clock/advance": self._advance,
            "/v1/heal": self._heal,
        }
        routes = [Route("/v1/cluster", self._describe, methods=["GET"])]
        return routes + [
            Route(path, _answering(act), methods=["POST"]) for path, act in posts.items()
        ]

    # --- what is

    async def _describe(self, request: Request) -> Response:
        cluster = self._cluster
        return JSONResponse(
            {
                "cluster_id": cluster.world.cluster_id,
                "bootstrap_servers": cluster.bootstrap_servers,
                "controller": cluster.image.controller,
                "controller_epoch": cluster.image.controller_epoch,
                "clock": {"simulated": cluster.spec.simulated, "now_ms": cluster.core.now_ms},
                "scenario": self._scenario.name if self._scenario else None,
                "brokers": [self._broker_document(one.id) for one in cluster.spec.brokers],
            }
        )

    def _broker_document(self, broker: int) -> dict[str, Any]:
        cluster = self._cluster
        spec = next(one for one in cluster.spec.brokers if one.id == broker)
        state = cluster.image.brokers.get(broker)
        offline = state.offline_dirs if state else ()
        return {
            "id": broker,
            "state": self._state(broker),
            "fenced": state.fenced if state else None,
            "port": cluster.servers[broker].port,
            "rack": spec.rack,
            "log_dirs": [{"path": p, "online": p not in offline} for p in spec.log_dirs],
        }

    def _state(self, broker: int) -> str:
        if self._cluster.servers[broker].faults.stalled:
            return "stalled"
        if self._cluster.core.plane.is_up(broker):
            return "up"
        return "down" if broker in self._cluster.image.brokers else "never started"

    # --- what changes

    async def _broker(self, request: Request, body: _StrictObject) -> None:
        action = _BROKER_ACTIONS.get(request.path_params["action"])
        # Not as a number in the route: one of 5,000 digits is refused by Python.
        named = request.path_params["id"]
        broker = next((id for id in self._cluster.servers if str(id) == named), None)
        if action is None or broker is None:
            raise _NotFound
        await action(self, body, broker)

    async def stop(self, body: _StrictObject, broker: int) -> None:
        body.done()
        await self._cluster.stop_broker(broker)

    async def crash(self, body: _StrictObject, broker: int) -> None:
        body.done()
        await self._cluster.stop_broker(broker, crash=True)

    async def start(self, body: _StrictObject, broker: int) -> None:
        body.done()
        await self._cluster.start_broker(broker)

    async def stall(self, body: _StrictObject, broker: int) -> None:
        body.done()
        self._cluster.stall_broker(broker)

    async def resume(self, body: _StrictObject, broker: int) -> None:
        body.done()
        self._cluster.resume_broker(broker)

    async def fail_log_dir(self, body: _StrictObject, broker: int) -> None:
        path = body.text("path")
        body.done()
        await self._cluster.fail_log_dir(broker, path)

    async def reset_connections(self, body: _StrictObject, broker: int) -> None:
        body.done()
        await self._cluster.servers[broker].reset_connections()

    async def cut(self, body: _StrictObject, broker: int) -> None:
        api_key, times = body.whole("api_key", None), body.whole("times", 1)
        body.done()
        self._cluster.servers[broker].faults.cut(api_key, times)

    async def _link(self, request: Request, body: _StrictObject) -> None:
        source, target, rate = body.whole("source"), body.whole("target"), body.rate("bytes_per_s")
        body.done()
        self._cluster.slow_link(source, target, rate)
        self._slowed.add((source, target))

    async def _network(self, request: Request, body: _StrictObject) -> None:
        broker = body.whole("broker")
        rates = body.rate("in_bytes_per_s"), body.rate("out_bytes_per_s")
        body.done()
        if broker not in self._cluster.image.brokers:
            raise BadInput(f"No broker {broker} was ever started.")
        self._cluster.core.plane.set_network(broker, *rates)

    async def _fail_over(self, request: Request, body: _StrictObject) -> None:
        body.done()
        self._cluster.fail_over()

    async def _crash_controller(self, request: Request, body: _StrictObject) -> None:
        after = body.whole("after_records")
        body.done()
        self._cluster.core.lose_controller(after)

    async def _advance(self, request: Request, body: _StrictObject) -> None:
        milliseconds = body.whole("ms")
        body.done()
        self._cluster.advance(milliseconds)

    async def _heal(self, request: Request, body: _StrictObject) -> None:
        """Brokers run, disks work, and networks and links carry what they did at first."""
        body.done()
        cluster = self._cluster
        for spec in cluster.spec.brokers:
            state = cluster.image.brokers.get(spec.id)
            if state is None:
                continue
            if cluster.servers[spec.id].faults.stalled:
                cluster.resume_broker(spec.id)
            cluster.servers[spec.id].faults.heal()
            if state.offline_dirs or not cluster.core.plane.is_up(spec.id):
                await cluster.start_broker(spec.id)
            machine = spec.hardware
            rates = machine.network_in_bytes_per_s, machine.network_out_bytes_per_s
            cluster.core.plane.set_network(spec.id, *rates)
        for source, target in self._slowed:
            cluster.slow_link(source, target)
        self._slowed.clear()


_BROKER_ACTIONS: Final[dict[str, Action]] = {
    "stop": _Control.stop,
    "crash": _Control.crash,
    "start": _Control.start,
    "stall": _Control.stall,
    "resume": _Control.resume,
    "fail-log-dir": _Control.fail_log_dir,
    "reset-connections": _Control.reset_connections,
    "cut": _Control.cut,
}


class _NotFound(Exception):
    """There is nothing of that name."""


def _answering(
    act: Callable[[Request, _StrictObject], Awaitable[None]],
) -> Callable[[Request], Awaitable[Response]]:
    """A route that answers `{}` once it is done, or with a sentence why it is not."""

    async def answer(request: Request) -> Response:
        if "origin" in request.headers:
            return _problem(403, "Requests from web pages are rejected.")
        try:
            await act(request, await _StrictObject.of(request))
        except _NotFound:
            return _problem(404, f"There is no {request.url.path}.")
        except KshuntError as error:
            return _problem(error.http_status, str(error))
        except OSError as error:
            return _problem(409, f"The port cannot be used: {error.strerror}.")
        return JSONResponse({})

    return answer


def _problem(status: int, message: str) -> Response:
    return JSONResponse({"message": message}, status)


async def _unknown(request: Request, error: Exception) -> Response:
    return _problem(404, f"There is no {request.url.path}.")


def control_app(here: RunningCluster) -> Starlette:
    """The API of one cluster."""
    trusted = Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS)
    routes = _Control(here).routes()
    return Starlette(routes=routes, middleware=[trusted], exception_handlers={404: _unknown})


class _ControlServer(uvicorn.Server):
    """uvicorn's server, which leaves signals to the process that runs the cluster."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Nothing."""
        yield


@asynccontextmanager
async def control_api(here: RunningCluster, port: int = 0) -> Any:
    """The API on a loopback port, 0 for a free one; yields its address.

    Raises:
        OSError: the port is taken.
    """
    listener = tcp_listener(LOOPBACK, port)
    config = uvicorn.Config(
        control_app(here),
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=1,
        server_header=False,
    )
    server = _ControlServer(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"http://{LOOPBACK}:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
        listener.close()
