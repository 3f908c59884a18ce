"""The names of the views, which keys, tables and screens share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

OVERVIEW: Final = "overview"
PARTITIONS: Final = "partitions"
BROKERS: Final = "brokers"
THROTTLES: Final = "throttles"
OPERATIONS: Final = "operations"
HISTORY: Final = "history"
TOPICS: Final = "topics"
VIEWS: Final = (OVERVIEW, PARTITIONS, BROKERS, THROTTLES, OPERATIONS, HISTORY, TOPICS)
"""In the order of their number keys."""
TABLES: Final = (PARTITIONS, BROKERS, THROTTLES, OPERATIONS, TOPICS)
"""The views that are one table, which can be sorted and whose rows have details."""


GROUPS: Final = "groups"
"""The partitions view by groups: a table with columns of its own."""
CHOSEN_TABLES: Final = (*TABLES, GROUPS)
"""The tables whose columns can be chosen."""


class Title(NamedTuple):
    """What a view is called."""

    full: str
    short: str
    """Where the terminal is narrow."""


TITLES: Final[Mapping[str, Title]] = {
    OVERVIEW: Title("Overview", "Home"),
    PARTITIONS: Title("Partitions", "Parts"),
    BROKERS: Title("Brokers", "Brokers"),
    THROTTLES: Title("Throttles", "Thr"),
    OPERATIONS: Title("Operations", "Ops"),
    HISTORY: Title("History", "Hist"),
    TOPICS: Title("Topics", "Topics"),
}


def number_key(view: str) -> str:
    """The key that goes to a view where nobody chose another (`kshunt.tui.actions.view_key`
    knows)."""
    return str(VIEWS.index(view) + 1)
