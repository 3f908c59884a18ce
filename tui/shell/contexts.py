"""Which clusters a person can open, and the wish to open another one.

The shell command implements `Contexts`: it alone knows the configuration, and starts backends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Origin(StrEnum):
    """Where a choice comes from."""

    CONTEXT = "context"
    RECENT = "recent"
    RUNNING = "running"
    DEMO = "demo"


@dataclass(frozen=True, slots=True)
class ClusterChoice:
    """One cluster that can be opened."""

    origin: Origin
    title: str
    """The context's name, the brokers, or the cluster's id."""
    detail: str
    """How it is reached; empty where the title says it."""
    command: tuple[str, ...]
    """The words after `kshunt` that open it."""
    answers: bool = False
    """A backend for it runs and accepts connections."""


class Contexts(Protocol):
    """What can be opened."""

    @property
    def present(self) -> tuple[str, ...] | None:
        """The words that opened what is shown; None where nothing is."""

    @property
    def failure(self) -> str:
        """Why the last choice could not be opened, or empty."""

    def known(self) -> Sequence[ClusterChoice]:
        """What files say; returns immediately."""

    def looked_up(self) -> Sequence[ClusterChoice]:
        """The same with the backends that run; may take seconds."""

    def open(self, choice: ClusterChoice) -> None:
        """Note the wish. The command opens it once the present screen has been left."""
