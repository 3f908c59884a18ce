"""An embedded cluster in the foreground of a process, as a command line asks for it."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import signal
import sys
from argparse import Namespace
from contextlib import AsyncExitStack
from pathlib import Path

from kshunt.backend.addresses import PORT_MAX
from kshunt.backend.commandline.reading import UsageError
from kshunt.backend.domain.cluster.config_names import PLACER_CLASS
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.embedded.metadata.config_keys import (
    AUTHORIZER_CLASS,
    STANDARD_AUTHORIZER,
    SUPER_USERS,
)
from kshunt.backend.embedded.running import RunningCluster, run_cluster
from kshunt.backend.embedded.scenario.model import Scenario, scenario_names
from kshunt.backend.embedded.scenario.reading import load_scenario
from kshunt.backend.embedded.scenario.timeline import OwnMove
from kshunt.backend.embedded.security.principals import user
from kshunt.backend.errors import BadInput, ConfigError
from kshunt.backend.secret_files import read_secret


def run(options: Namespace) -> None:
    """Run a cluster until a signal ends it.

    Raises:
        KshuntError: it cannot be had as it was asked for.
    """
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    scenario = None if options.scenario is None else load_scenario(options.scenario)
    if scenario is not None and "brokers" in options.given:
        raise UsageError(
            "A scenario has its own brokers; --brokers cannot be used with --scenario."
        )
    try:
        asyncio.run(_run(options, _spec(options, scenario), scenario))
    except OSError as error:
        raise ConfigError(f"The cluster cannot start: {error}.") from None


def scenario_list() -> str:
    """Every scenario with its title, a line each."""
    scenarios = [load_scenario(name) for name in scenario_names()]
    width = max(len(scenario.name) for scenario in scenarios)
    return "".join(f"{one.name:<{width}}  {one.title}\n" for one in scenarios)


def _spec(options: Namespace, scenario: Scenario | None) -> ClusterSpec:
    brokers = scenario.brokers if scenario else plain_brokers(options.brokers)
    if options.port_base and options.port_base + len(brokers) - 1 > PORT_MAX:
        raise UsageError(
            f"There are not enough ports for {len(brokers)} brokers from port "
            f"{options.port_base} on."
        )
    return ClusterSpec(
        brokers,
        static=_static(options, scenario),
        users=dict(map(_user, options.sasl_user)),
        seed=options.seed,
        native=options.native,
        simulated=options.clock == "simulated",
        port_base=options.port_base,
        data=options.data,
    )


def _static(options: Namespace, scenario: Scenario | None) -> dict[str, str]:
    """What the options say of the brokers' properties."""
    static: dict[str, str] = {}
    if options.replica_placer is not None:
        static[PLACER_CLASS] = options.replica_placer
    if options.authorizer:
        static[AUTHORIZER_CLASS] = STANDARD_AUTHORIZER
    if options.super_user:
        if AUTHORIZER_CLASS not in {**static, **(scenario.static if scenario else {})}:
            raise UsageError("--super-user has no effect without --authorizer.")
        static[SUPER_USERS] = ";".join(map(user, options.super_user))
    return static


def _user(text: str) -> tuple[str, str]:
    """A user and the password that its file holds.

    Raises:
        BadInput: the option is not NAME:PASSWORD-FILE, or the file is empty.
        ConfigError: the file cannot be read, or others can read it.
    """
    name, colon, file = text.partition(":")
    if not (name and colon and file):
        raise UsageError(f"--sasl-user {text} is not NAME:PASSWORD-FILE.")
    password = read_secret(Path(file), "The password file")
    if not password:
        raise BadInput(f"The password file {file} is empty.")
    return name, password


async def _run(options: Namespace, spec: ClusterSpec, scenario: Scenario | None) -> None:
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, over.set)
    own_moves = _OwnMoves() if options.hand_over else None
    if own_moves is not None:
        # The process that takes the moves holds the other end of standard input while it lives.
        loop.add_reader(sys.stdin.fileno(), _look_at_input, over)
    async with AsyncExitStack() as stack:
        gc.disable()
        submit = own_moves.take if own_moves is not None else None
        here = await stack.enter_async_context(run_cluster(spec, scenario, submit))
        # What a large cluster consists of stays; looking through it again and again costs pauses.
        gc.freeze()
        gc.enable()
        _say(f"ready {here.cluster.bootstrap_servers}")
        if own_moves is not None:
            own_moves.open()
        if options.control_port is not None:
            await _serve_control(stack, here, options.control_port)
        await over.wait()


def _look_at_input(over: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 1):
        over.set()


async def _serve_control(stack: AsyncExitStack, here: RunningCluster, port: int) -> None:
    # The web framework takes as long to load as the cluster to start.
    from kshunt.backend.embedded.control_api import control_api

    address = await stack.enter_async_context(control_api(here, port))
    sys.stderr.write(f"control {address}\n")
    sys.stderr.flush()


class _OwnMoves:
    """Prints the moves that kshunt is to submit, once it can connect."""

    def __init__(self) -> None:
        self._waiting: list[OwnMove] | None = []

    def take(self, move: OwnMove) -> None:
        """Print a move, now or as soon as the cluster is ready."""
        if self._waiting is not None:
            self._waiting.append(move)
        else:
            _say(f"move {_document(move)}")

    def open(self) -> None:
        """The cluster is ready."""
        waiting, self._waiting = self._waiting or [], None
        for move in waiting:
            self.take(move)


def _document(move: OwnMove) -> str:
    """A move as a reassignment's JSON, and its throttle."""
    partitions = [
        {"topic": item.topic, "partition": item.partition, "replicas": list(replicas)}
        for item, replicas in move.targets.items()
    ]
    plan = {"version": 1, "partitions": partitions}
    return json.dumps({"plan": plan, "throttle_bytes_per_s": move.throttle_bytes_per_s})


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
