"""The one registry of what an operator can do."""

from tui.actions.action import (
    DRIFTED,
    FOREIGN,
    IDLE,
    MOVING,
    ORPHANED,
    Action,
    can,
    key_name,
)
from tui.actions.registry import (
    ACTIONS,
    FOOTER_MOST,
    action_named,
    actions_of,
    footer_actions,
    grid_bindings,
    help_groups,
    key_table,
    screen_bindings,
)

__all__ = [
    "ACTIONS",
    "DRIFTED",
    "FOOTER_MOST",
    "FOREIGN",
    "IDLE",
    "MOVING",
    "ORPHANED",
    "Action",
    "action_named",
    "actions_of",
    "can",
    "footer_actions",
    "grid_bindings",
    "help_groups",
    "key_name",
    "key_table",
    "screen_bindings",
]
