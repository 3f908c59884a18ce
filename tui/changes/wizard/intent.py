"""One change that an operator asked for: what names it, and how it is sent. Plain values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.preview import Preview
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.shrink.phases import ShrinkRequest
from kshunt.backend.domain.text.formatting import listed
from kshunt.backend.domain.throttles.configs import ThrottledRate
from kshunt.tui.changes.wizard.command_line import CommandLine

if TYPE_CHECKING:
    from kshunt.backend.api.client.backend_client import BackendClient

SHORT_NAME = 6
"""Characters of a cluster's id that name it."""
NAMES_MOST = 8
"""Names that are listed one by one; the rest is counted."""


@dataclass(frozen=True, slots=True)
class TargetCluster:
    """The cluster that was on the screen when the operator asked."""

    cluster_id: str
    bootstrap_servers: str


@dataclass(frozen=True)
class Intent:
    """One change, ready to be previewed, rehearsed, agreed to, and sent."""

    title: str
    """What will be done, as a heading."""
    button: str
    """What the button says that does it."""
    target: TargetCluster
    touches: tuple[tuple[str, str], ...]
    """Label and names: what it touches."""
    send: Callable[[BackendClient, Change], ChangeAnswer]
    preview: Callable[[BackendClient], Preview] | None = None
    """What it would touch; None where the backend has no preview of it."""
    changes: Mapping[str, str] = field(default_factory=dict)
    """By item: before and after."""
    effect: str = ""
    """What an operator should know before agreeing."""
    reason: str = ""
    """Why, in the operator's words."""
    lines: tuple[str, ...] = ()
    """More lines of the preview, which it shows as they are: before and after."""
    outcome: Callable[[ChangeAnswer], Sequence[str]] | None = None
    """What the answer means, in lines like these."""
    typed: tuple[str, ...] = ()
    """What an operator has to type to agree, any of it: destructive changes only."""
    local: bool = False
    """True where nothing in the cluster changes, so that it may be done read-only."""
    shrink: ShrinkRequest | None = None
    """A topic that is to have fewer partitions: its safety view takes the preview's place."""
    restores: Mapping[int, ThrottledRate] = field(default_factory=dict)
    """Of a change of rates: what was set before it, by broker; it can be taken back."""
    rates: Mapping[int, ThrottledRate] = field(default_factory=dict)
    """And what it sets."""
    command: CommandLine | None = None
    """The shell command that does the same; None if kshunt has no such command."""
    phased: bool = False
    """True where it starts an operation that goes through phases, for hours."""

    def is_refused(self, *, read_only: bool) -> bool:
        """True where kshunt was started read-only, and this changes the cluster."""
        return read_only and not self.local

    @property
    def words(self) -> str:
        """What is asked for, in one line, as recordings have it."""
        touches = [f"{label.lower()} {names}" for label, names in self.touches[:NAMES_MOST]]
        more = len(self.touches) - len(touches)
        touches += [f"and {more:,} more"] if more else []
        return f"{self.title} ({'; '.join(touches)})" if touches else self.title


def short_name(cluster_id: str) -> str:
    """What an operator types to name a cluster: the start of its id."""
    return cluster_id[:SHORT_NAME]


def counted(names: Sequence[object]) -> str:
    """`a, b, c (3)`: both the names and how many there are; `-` for none."""
    if not names:
        return "-"
    text = listed(names, NAMES_MOST)
    return text if len(names) == 1 else f"{text} ({len(names):,})"


def partition_lines(
    partitions: Iterable[TopicPartition],
) -> tuple[tuple[str, str], tuple[str, str]]:
    """The topics and the partitions that a change touches, each as a line."""
    named = list(partitions)
    topics = sorted({partition.topic for partition in named})
    return ("Topics", counted(topics)), ("Partitions", counted(sorted(named)))
