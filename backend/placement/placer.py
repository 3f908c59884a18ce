"""The pluggable placement of new partitions (KIP-660): its interface, and how one is loaded.

A placer is named by `replica.placer.class.name`; `kshunt.backend.placement.placer_names` says what
may stand there. A placer is somebody else's code.
`kshunt.backend.placement.placer_calls.place_with` asks it, waits only until a deadline, and checks
every answer.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Any, ClassVar, Final, Protocol, runtime_checkable

from kshunt.backend.domain.cluster.config_names import PLACER_CLASS
from kshunt.backend.errors import ConfigError, KshuntError
from kshunt.backend.placement.placer_names import find_placer


@dataclass(frozen=True, slots=True)
class UsableBroker:
    """A broker where a replica can be placed (KIP-660, UsableBroker)."""

    id: int
    rack: str | None
    fenced: bool
    """It is registered and not up; to be used only where no other is left."""


class InvalidReplicationFactor(KshuntError):
    """More replicas were asked for than there are brokers."""

    title = "Invalid replication factor"
    kafka_code: ClassVar[int] = 38
    http_status: ClassVar[int] = 422


class ReplicaPlacementFailed(KshuntError):
    """A placer could not, or would not, place a topic or partition; asking again is no use."""

    title = "Replica placement failed"
    kafka_code: ClassVar[int] = 10_000
    http_status: ClassVar[int] = 409


@runtime_checkable
class ReplicaPlacer(Protocol):
    """KIP-660, ReplicaPlacer; made without arguments.

    A placer whose answers leave racks out of account says so by a class attribute
    `ignores_racks = True`; otherwise they are checked for racks.
    `kshunt.backend.placement.optional_interfaces` has what a placer may learn in addition."""

    def place(
        self,
        start_partition: int,
        num_partitions: int,
        num_replicas: int,
        brokers: Iterator[UsableBroker],
    ) -> Sequence[Sequence[int]]:
        """The replica list of each new partition, its preferred leader first.

        Args:
            start_partition: The number of the first of them.
            num_partitions: How many to place.
            num_replicas: Replicas of each.
            brokers: Every broker where a replica may go.

        Raises:
            InvalidReplicationFactor: too many replicas were requested.
            ReplicaPlacementFailed: there is no placement.
        """
        ...

    def configure(self, configs: Mapping[str, str]) -> None:
        """Take the brokers' configuration, before anything is placed."""
        ...

    def close(self) -> None:
        """Let go of what is held; nothing is placed after this."""
        ...


_ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "place": ("start_partition", "num_partitions", "num_replicas", "brokers"),
    "configure": ("configs",),
    "close": (),
}

_Key = tuple[str, tuple[tuple[str, str], ...]]
_loaded: dict[_Key, ReplicaPlacer] = {}
_loading = RLock()


def load_placer(name: str, configs: Mapping[str, str] | None = None) -> ReplicaPlacer:
    """The placer of that name; it is made and configured when it is first asked for.

    Each name and configuration has one placer, which is kept until `forget_placers`. Its
    configuration is `configs`, and its own name under `replica.placer.class.name`.

    Raises:
        ConfigError: it cannot be found, imported or made, does not fit the interface, or refuses
            its configuration.
    """
    key = (name, tuple(sorted((configs or {}).items())))
    with _loading:
        if key not in _loaded:
            _loaded[key] = make_placer(name, configs)
        return _loaded[key]


def make_placer(name: str, configs: Mapping[str, str] | None = None) -> ReplicaPlacer:
    """A new placer of that name, configured. The caller closes it.

    Raises:
        ConfigError: as `load_placer`.
    """
    return _configured(name, _made(name), {**(configs or {}), PLACER_CLASS: name})


def forget_placers() -> list[tuple[str, ReplicaPlacer]]:
    """Every placer that was loaded, with its name; the caller closes them."""
    with _loading:
        placers = [(name, placer) for (name, _), placer in _loaded.items()]
        _loaded.clear()
    return placers


def _made(name: str) -> ReplicaPlacer:
    maker = find_placer(name)
    try:
        made: Any = maker()
    # The setting is wrong, whatever the class does when it is made.
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"The placer {name} cannot be created: {type(error).__name__}: {error}.",
            advice=f"It must be a class without arguments; see {PLACER_CLASS}.",
        ) from error
    missing = [method for method in _ARGUMENTS if not callable(getattr(made, method, None))]
    if missing:
        raise ConfigError(
            f"{name} does not have the method{'s' if len(missing) > 1 else ''} "
            f"{', '.join(missing)}.",
            advice="A placer needs place, configure and close.",
        )
    for method, arguments in _ARGUMENTS.items():
        if not _takes(getattr(made, method), arguments):
            raise ConfigError(
                f"{name}: its method {method} must accept ({', '.join(arguments)}).",
                advice="kshunt passes them by position.",
            )
    fitting: ReplicaPlacer = made
    return fitting


def _takes(method: Any, arguments: Sequence[str]) -> bool:
    try:
        signature = inspect.signature(method)
    except ValueError:
        return True  # Compiled code does not always tell.
    try:
        signature.bind(*arguments)
    except TypeError:
        return False
    return True


def _configured(name: str, placer: ReplicaPlacer, settings: Mapping[str, str]) -> ReplicaPlacer:
    try:
        placer.configure(settings)
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"The placer {name} rejects its configuration: {type(error).__name__}: {error}.",
            advice=f"See {PLACER_CLASS} and the settings of that placer.",
        ) from error
    return placer
