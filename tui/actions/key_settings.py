"""An operator's own keys: from the settings file into the registry.

A dashboard is one process with one set of keys, so they are kept here for all of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Final

from textual.keys import Keys, _character_to_key

from kshunt.backend.errors import ConfigError
from kshunt.tui.actions.action import KEY_NAMES, Action

if TYPE_CHECKING:
    from textual.binding import Binding
    from textual.dom import DOMNode

_chosen: dict[str, tuple[str, ...]] = {}
"""By an action's id: the keys that an operator chose."""

_BY_NAME: Final = {name.lower(): key for key, name in KEY_NAMES.items()}
_NAMED: Final = {key.value for key in Keys}


def use_keys(actions: Sequence[Action], chosen: Mapping[str, Sequence[str]]) -> None:
    """Give actions other keys than their own; those that are not named keep theirs.

    Args:
        actions: every action.
        chosen: by `Action.name`: keys, as Textual or the help screen writes them.

    Raises:
        ConfigError: there is no such action or key, or one key would mean two things in a view.
    """
    by_name = {action.name: action for action in actions}
    keys: dict[str, tuple[str, ...]] = {}
    for name, written in chosen.items():
        if name not in by_name:
            raise ConfigError(
                f"[keys] {name}: there is no such action.",
                advice=f"There are: {', '.join(sorted(by_name))}.",
            )
        keys[by_name[name].id] = tuple(_key(name, one) for one in written)
    _check([_with(action, keys) for action in actions])
    _chosen.clear()
    _chosen.update(keys)


def with_chosen_keys(action: Action) -> Action:
    """The action with the keys that an operator chose for it."""
    return _with(action, _chosen)


def _with(action: Action, keys: Mapping[str, tuple[str, ...]]) -> Action:
    return replace(action, keys=keys[action.id]) if action.id in keys else action


def _key(action: str, written: str) -> str:
    """Textual's name of a key: `/`, `Ctrl-D`, `PgDn` and `pagedown` are all understood."""
    text = written.strip()
    lowered = text.lower()
    if lowered in _BY_NAME:
        return _BY_NAME[lowered]
    for prefix in ("ctrl-", "ctrl+"):
        if lowered.startswith(prefix) and len(text) == len(prefix) + 1:
            return f"ctrl+{lowered[-1]}"
    if len(text) == 1:
        return _character_to_key(text)
    if lowered in _NAMED:
        return lowered
    raise ConfigError(
        f"[keys] {action}: '{written}' is not a key.",
        advice="Use a character, or a name as the help (?) shows it: Ctrl-D, PgDn, Space.",
    )


def _check(actions: Sequence[Action]) -> None:
    for one, other in combinations(actions, 2):
        both = set(one.keys) & set(other.keys)
        if both and set(one.views) & set(other.views):
            raise ConfigError(
                f"[keys] {one.name} and {other.name} both have the key {sorted(both)[0]}.",
                advice="Use another key for one of them.",
            )


def bind(node: DOMNode, bindings: Sequence[Binding]) -> None:
    """Bind these on a screen or widget that is being made: its class is older than the keys."""
    for binding in bindings:
        node._bindings.key_to_bindings[binding.key] = [binding]
