"""What a wizard is: a title, two pages to fill in, and what they become. Data, and pure.

Every wizard goes the same way: goal, choices, preview, confirm, watch. The first two are what is
asked; the preview is what the backend says of it; the last shows what came of it, live.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from kshunt.backend.domain.shrink.check import ShrinkCheck
from kshunt.tui.changes.wizard.intent import Intent, TargetCluster
from kshunt.tui.dialogs.form import FormField
from kshunt.tui.text.fitting import servers_text


class Step(enum.IntEnum):
    """Where an operator is."""

    GOAL = 0
    CHOICES = 1
    PREVIEW = 2
    CONFIRM = 3
    WATCH = 4

    @property
    def title(self) -> str:
        """`1 Goal`."""
        return f"{self + 1} {self.name.capitalize()}"


@dataclass(frozen=True)
class Page:
    """Lines to read and fields to fill in."""

    lines: tuple[str, ...] = ()
    fields: tuple[FormField, ...] = ()


@dataclass(frozen=True)
class Wizard:
    """One kind of change."""

    title: str
    build: Callable[..., Intent]
    """From what was typed, field by field, to what would be sent. Called in a thread."""
    goal: Page = Page()
    """What it is about."""
    choices: Page = Page()
    """How it is done."""
    hints: Callable[[ShrinkCheck], Mapping[int, str]] | None = None
    """What the hints of some fields become, by their numbers, once there is a safety view."""
    leave: str = "changes nothing"
    """What Esc does at the first step."""
    filled: bool = False
    """Whether its fields hold what is wanted: it begins with the preview. Esc leads to them."""

    @property
    def pages(self) -> tuple[Page, Page]:
        """The goal and the choices."""
        return self.goal, self.choices

    @property
    def fields(self) -> tuple[FormField, ...]:
        """Every field, in the order in which they are asked for."""
        return (*self.goal.fields, *self.choices.fields)

    @property
    def first(self) -> Step:
        """The first step at which there is something to ask or to look at."""
        asked = (step for step, page in zip(Step, self.pages, strict=False) if page.fields)
        return next(asked, Step.PREVIEW)

    def before(self, step: Step) -> Step | None:
        """The step to go back to; None at the first one."""
        asked = [one for one, page in zip(Step, self.pages, strict=False) if page.fields]
        earlier = [one for one in (*asked, Step.PREVIEW) if one < step]
        return earlier[-1] if earlier else None

    def after(self, step: Step) -> Step:
        """The step that follows a page that is filled in."""
        asked = [one for one, page in zip(Step, self.pages, strict=False) if page.fields]
        return next((one for one in asked if one > step), Step.PREVIEW)


class Titled(Protocol):
    """A step that has a name."""

    @property
    def title(self) -> str:
        """`1 Goal`."""
        ...


def step_line(at: Titled, steps: Iterable[Titled] = Step) -> str:
    """`1 Goal > [2 Choices] > 3 Preview > 4 Confirm > 5 Watch`: the present one in brackets."""
    return " > ".join(f"[{step.title}]" if step is at else step.title for step in steps)


def goal_page(target: TargetCluster, *fields: FormField) -> Page:
    """The first page of a wizard: it names the target cluster and asks for these fields."""
    where = f"Cluster {target.cluster_id} at {servers_text(target.bootstrap_servers)}"
    return Page((where,), fields)
