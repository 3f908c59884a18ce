"""What the name of a placer stands for: a shipped one, an entry point, or `module:Class`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from backend.errors import ConfigError

GROUP: Final = "kshunt.placers"
"""The group of entry points by which an installed package offers placers."""

SHIPPED: Final[Mapping[str, str]] = {
    "striped": "backend.placement.striped:StripedReplicaPlacer",
    "prefer-new-brokers": "backend.placement.prefer_new:PreferNewBrokers",
    "avoid-removed-brokers": "backend.placement.avoid_removed:AvoidRemovedBrokers",
    "avoid-full-brokers": "backend.placement.avoid_full:AvoidFullBrokers",
    "rules": "backend.placement.by_rules:RulesPlacer",
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
        ConfigError: there is nothing of that name, or it cannot be imported.
    """
    entry = _entry_point(name.strip())
    try:
        return entry.load()
    # Whatever a stranger's module does when it is imported, it is the setting that is wrong.
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"The placer {name} cannot be made: {type(error).__name__}: {error}.", advice=ADVICE
        ) from error


def _entry_point(name: str) -> EntryPoint:
    where = SHIPPED["striped"] if name == KAFKA_STRIPED else SHIPPED.get(name, name)
    module, colon, attribute = where.partition(":")
    if module and attribute:
        return EntryPoint(name, where, GROUP)
    if colon or not name:
        raise ConfigError(f"'{name}' is no placer.", advice=ADVICE)
    return _installed(name)


def _installed(name: str) -> EntryPoint:
    found = {entry.value: entry for entry in entry_points(group=GROUP, name=name)}
    if not found:
        raise ConfigError(f"'{name}' is no placer: nothing installed offers it.", advice=ADVICE)
    if len(found) > 1:
        raise ConfigError(
            f"'{name}' may be any of {', '.join(sorted(found))}: several packages offer it.",
            advice="Write module:Class instead.",
        )
    return next(iter(found.values()))
