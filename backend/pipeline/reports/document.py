"""A report as blocks, before it is Markdown or HTML. All text in it is plain: writers escape it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.text.axes import Unit

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Heading:
    """Begins a section."""

    text: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A few sentences."""

    text: str


@dataclass(frozen=True, slots=True)
class FactList:
    """Names, with a fact about each."""

    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Bullets:
    """Sentences of equal weight."""

    items: Sequence[str]


@dataclass(frozen=True, slots=True)
class TableBlock:
    """Rows of cells; a column whose name is in `numbers` is set to the right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class PlotLine:
    """One line of a plot. NaN leaves a gap."""

    name: str
    values: Floats
    limit: bool = False
    """Drawn with dashes: something that holds the others."""


@dataclass(frozen=True, eq=False)
class Plot:
    """Lines over time."""

    title: str
    times_ms: Floats
    """Ascending."""
    unit: Unit
    lines: Sequence[PlotLine]
    band: tuple[PlotLine, PlotLine] | None = None
    """Below and above; the area between them is shaded."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One of several."""

    name: str
    value: float
    """At least 0."""
    text: str
    """The value in words."""


@dataclass(frozen=True, slots=True)
class Bars:
    """Values of things, one below the other."""

    title: str
    rows: Sequence[Bar]


Block: TypeAlias = Heading | Paragraph | FactList | Bullets | TableBlock | Plot | Bars


@dataclass(frozen=True, slots=True)
class Document:
    """The whole report."""

    title: str
    blocks: Sequence[Block]
