"""What the data pipeline has delivered: tables over days, each with its age."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PipelineTable:
    """One table of results."""

    name: str
    """`lag`, `throughput`, `eta`, `stalls` or `load`."""
    newest_ms: int | None
    """Of the newest sample in it, milliseconds since the epoch; None for an empty table."""
    columns: tuple[str, ...] = ()
    """Titles, with their units."""
    rows: tuple[tuple[str, ...], ...] = ()
    """As they are to be read; the first ones matter most."""


@dataclass(frozen=True, slots=True)
class PipelineStanding:
    """Whether a pipeline runs, and what there is of it."""

    state: str
    """`absent`, `running` or `failed`."""
    reason: str = ""
    """Why there is nothing, or why what there is grows old; empty while all is well."""
    tables: tuple[PipelineTable, ...] = ()


ABSENT = PipelineStanding("absent", "This backend runs no pipeline.")
"""Of a backend that was not told to run one."""
