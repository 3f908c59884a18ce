"""What the name of a placer stands for: a shipped one, an entry point, or `module:Class`.

A placer is code of the operator's. So it comes only from where the operator put code on purpose:
from what is installed, or from a folder that PYTHONPATH names. `python -m` and an empty entry of
PYTHONPATH also let Python import from the working directory, in which anybody may have left a file
of the right name. Nothing is loaded from there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from kshunt.backend.errors import ConfigError

GROUP: Final = "kshunt.placers"
"""The group of entry points by which an installed package offers placers."""

SHIPPED: Final[Mapping[str, str]] = {
    "striped": "kshunt.backend.placement.striped:StripedReplicaPlacer",
    "prefer-new-brokers": "kshunt.backend.placement.prefer_new:PreferNewBrokers",
    "avoid-removed-brokers": "kshunt.backend.placement.avoid_removed:AvoidRemovedBrokers",
    "avoid-full-brokers": "kshunt.backend.placement.avoid_full:AvoidFullBrokers",
    "rules": "kshunt.backend.placement.by_rules:RulesPlacer",
}
"""The placers of kshunt itself. They are found by these names even where kshunt runs from a
checkout, whose entry points may be those of an older installation."""

KAFKA_STRIPED: Final = "org.apache.kafka.metadata.placement.StripedReplicaPlacer"
"""Kafka's own class, as a properties file of real brokers may name it."""

ADVICE: Final = (
    f"Write module:Class, or the name of an entry point of the group {GROUP}. "
    f"Shipped: {', '.join(SHIPPED)}."
)


def find_placer(name: str) -> Any:
    """The class, or whatever else makes a placer when it is called without arguments.

    Raises:
        ConfigError: there is nothing of that name, it cannot be imported, or it is imported from
            the working directory.
    """
    entry = _entry_point(name.strip())
    _check_place(name, entry.module)
    try:
        return entry.load()
    # Whatever a stranger's module does when it is imported, it is the setting that is wrong.
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"The placer {name} cannot be created: {type(error).__name__}: {error}.", advice=ADVICE
        ) from error


def _entry_point(name: str) -> EntryPoint:
    where = SHIPPED["striped"] if name == KAFKA_STRIPED else SHIPPED.get(name, name)
    module, colon, attribute = where.partition(":")
    if module and attribute:
        return EntryPoint(name, where, GROUP)
    if colon or not name:
        raise ConfigError(f"'{name}' is not a placer.", advice=ADVICE)
    return _installed(name)


def _installed(name: str) -> EntryPoint:
    found = {entry.value: entry for entry in entry_points(group=GROUP, name=name)}
    if not found:
        raise ConfigError(f"'{name}' is not a placer: no installed package has it.", advice=ADVICE)
    if len(found) > 1:
        raise ConfigError(
            f"'{name}' can be any of {', '.join(sorted(found))}: several packages have it.",
            advice="Write module:Class instead.",
        )
    return next(iter(found.values()))


def _check_place(name: str, module: str) -> None:
    """Refuse a module that only the working directory offers.

    Raises:
        ConfigError: it is there, and nobody named that folder.
    """
    package = module.partition(".")[0]
    here = Path.cwd()
    if package in sys.modules or _is_named(here, sys.path, os.environ.get("PYTHONPATH", "")):
        return
    theirs = PathFinder.find_spec(package, [str(here)])
    if theirs is not None and _places(theirs) & _places(find_spec(package)):
        raise ConfigError(
            f"The placer {name} is in the working directory {here}. kshunt loads nothing from "
            "there.",
            advice="Install it, or add its folder to PYTHONPATH.",
        )


def _is_named(folder: Path, path: Sequence[str], python_path: str) -> bool:
    """Whether an operator or an installation put a folder on Python's path.

    Python puts the working directory first by itself, unless it is started with -P, and an empty
    or relative entry of PYTHONPATH stands for whichever one that is.
    """
    entries = python_path.split(os.pathsep) if python_path else []
    given = [entry for entry in entries if _same(entry, folder)]
    if any(os.path.isabs(entry) for entry in given):
        return True
    found = sum(_same(entry, folder) for entry in path if entry)
    by_python = not sys.flags.safe_path and bool(path and path[0]) and _same(path[0], folder)
    return found > by_python + bool(given)


def _same(entry: str, folder: Path) -> bool:
    return os.path.realpath(entry or ".") == os.path.realpath(folder)


def _places(spec: ModuleSpec | None) -> set[str]:
    """Where a module or a package lies."""
    if spec is None:
        return set()
    folders = spec.submodule_search_locations or ()
    return {os.path.realpath(place) for place in (spec.origin, *folders) if place}
