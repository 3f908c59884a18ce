"""The one registry of what an operator can do."""

from tui.actions.action import (
    AWAY,
    DRIFTED,
    FOREIGN,
    IDLE,
    MOVING,
    ORPHANED,
    PAST,
    PENDING,
    Action,
    can,
    key_name,
)
from tui.actions.keys import bind, use_keys
from tui.actions.registry import (
    ACTIONS,
    FOOTER_MOST,
    action_named,
    actions_of,
    footer_actions,
    grid_bindings,
    help_groups,
    key_of,
    key_table,
    screen_bindings,
)

__all__ = [
    "ACTIONS",
    "AWAY",
    "DRIFTED",
    "FOOTER_MOST",
    "FOREIGN",
    "IDLE",
    "MOVING",
    "ORPHANED",
    "PAST",
    "PENDING",
    "Action",
    "action_named",
    "actions_of",
    "bind",
    "can",
    "footer_actions",
    "grid_bindings",
    "help_groups",
    "key_name",
    "key_of",
    "key_table",
    "screen_bindings",
    "use_keys",
]
