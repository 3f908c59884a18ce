"""The plan wizard: goal, choices, proposal, throttles, rehearsal; then a change like any other.

It changes nothing itself. At its end it opens the wizard that starts a plan from a file, with this
plan and the chosen throttle. So there is one preview, one question, and one place from which moves
are started.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from rich.text import Text
from textual import events, on
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widget import Widget
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from kshunt.backend.domain.planning.goals import Goal
from kshunt.backend.domain.planning.requests import PlanRequest, RehearsalRequest
from kshunt.backend.domain.reassignment.plan import rollback_path
from kshunt.backend.domain.text.formatting import clock_text, duration_text, file_time_text
from kshunt.backend.errors import BadInput, KshuntError
from kshunt.tui.changes.intents.reassignment import Planned, planned_wizard
from kshunt.tui.changes.plan import fields, proposal_tables
from kshunt.tui.changes.plan.fields import NOTHING
from kshunt.tui.changes.plan.goals import BROKERS, TITLES, PlanStep, asked_of, fields_of, request_of
from kshunt.tui.changes.plan.proposal_part import PickForm, ProposalPart, Proposed
from kshunt.tui.changes.plan.rehearsal_part import RehearsalPart
from kshunt.tui.changes.plan.save_dialog import save_plan_screen
from kshunt.tui.changes.wizard.change_service import ChangeService
from kshunt.tui.changes.wizard.intent import TargetCluster
from kshunt.tui.changes.wizard.next_step import NextStep
from kshunt.tui.changes.wizard.pages import step_line
from kshunt.tui.changes.wizard.question_parts import error_lines
from kshunt.tui.changes.wizard.screen import KEYS_FROM, STEPS_FROM, WizardScreen
from kshunt.tui.dialogs.dialog import PAGE_KEYS, SCROLL_KEYS, Dialog, Lines, replace_children
from kshunt.tui.dialogs.form import FormField, FormPart, form_hint
from kshunt.tui.dialogs.options import DialogOptionList
from kshunt.tui.facts.pending_rates import typed_rate
from kshunt.tui.feed.backend_link import ask_planner
from kshunt.tui.text.fitting import servers_text

if TYPE_CHECKING:
    from pathlib import Path

    from kshunt.tui.shell.dashboard import Dashboard

GOALS: Final = tuple(TITLES)
THROTTLES: Final = "25MB/s, 50MB/s, 100MB/s"
"""What is rehearsed at first."""
_KEYS: Final = {
    PlanStep.GOAL: "Enter chooses, or 1 to 8; Esc changes nothing",
    PlanStep.CHOICES: "Up Down move, Esc goes back",
    PlanStep.PROPOSAL: "Enter rehearses, r starts, s saves, Tab switches, Esc goes back",
    PlanStep.THROTTLES: "Esc goes back",
    PlanStep.REHEARSAL: "h l choose, Enter starts it, Tab switches, s saves, Esc goes back",
}
_GOES_ON: Final = {PlanStep.CHOICES: "plans it", PlanStep.THROTTLES: "rehearses"}
"""What Enter does in the last field of a form."""
_WORKING: Final = "Esc leaves, and stops the work"
_AGAIN: Final = "Enter tries again, Esc goes back to what you typed"
_TICK_S: Final = 1.0
_ROOM: Final = 22
"""Cells of a goal's name."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """What was chosen where the wizard was opened."""

    texts: Mapping[str, str] = field(default_factory=dict)
    """By a request's names: what stands in the fields at first."""
    goal: Goal = Goal.DRAIN


class PlanScreen(Dialog[NextStep | None]):
    """See the module's text. Answers with what is to be done next with what was started."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "on", "Continue", show=False),
        Binding("r", "begin", "Start without a rehearsal", show=False),
        Binding("s", "save", "Save", show=False),
        Binding("tab", "turn", "Turn", show=False),
        *(Binding(str(n), f"choose({n})", "Goal", show=False) for n in range(1, len(GOALS) + 1)),
        *SCROLL_KEYS,
        *PAGE_KEYS,
    ]
    AUTO_FOCUS = None

    def __init__(self, app: Dashboard, service: ChangeService, beginning: Beginning) -> None:
        super().__init__("Plan")
        self.step = PlanStep.GOAL
        """Where the operator is."""
        self.started = False
        """True once something was sent, and answered."""
        self.failed = False
        """True once something was sent, and not answered or refused."""
        self._kshunt, self._service = app, service
        self._goal = beginning.goal
        self._texts = {"throttles": THROTTLES, "deadline": NOTHING, **beginning.texts}
        self._again: Callable[[], None] | None = None
        """Asks once more what was not answered."""
        self._proposed: Proposed | None = None
        self._working: _Working | None = None
        self._starting = False

    # What it is made of

    def compose_body(self) -> Iterable[Widget]:
        """The steps with the present one, a place for each step, and the keys."""
        yield Lines("", id="steps", classes="group")
        for step in _KEYS:
            yield Vertical(id=f"step-{step.value}", classes="step")
        yield Lines("", id="keys", classes="hint")

    async def on_mount(self) -> None:
        """Begin with the goals."""
        self.set_interval(_TICK_S, self._say_working)
        store = self._kshunt.store
        where = f"Cluster {store.scene.cluster_id} at {servers_text(store.scene.bootstrap_servers)}"
        goals = [f"{n} {TITLES[goal][0]:<{_ROOM}}{TITLES[goal][1]}" for n, goal in _numbered()]
        options = DialogOptionList(
            *(Option(Text(goal, no_wrap=True)) for goal in goals), compact=True
        )
        await self._show(PlanStep.GOAL, Lines(where), Lines("What is the goal?"), options)
        self._go(PlanStep.GOAL)

    @property
    def ready(self) -> bool:
        """False while something was asked of the backend, or is about to be shown."""
        return self._working is None and bool(self.place(self.step).children)

    def place(self, step: PlanStep) -> Vertical:
        """Where a step is shown."""
        return self.query_one(f"#step-{step.value}", Vertical)

    def form(self, step: PlanStep) -> FormPart:
        """The fields of a step."""
        return self.place(step).query_one(FormPart)

    async def _show(self, step: PlanStep, *widgets: Widget) -> None:
        await replace_children(self.place(step), *widgets)

    def on_resize(self, event: events.Resize) -> None:
        """Low terminals have no room for the steps, or the keys."""
        self._fit()

    def _fit(self) -> None:
        height = self.app.size.height
        for id, least in (("#steps", STEPS_FROM), ("#keys", KEYS_FROM)):
            self.query_one(id, Lines).display = height >= least
        for line in self.place(PlanStep.GOAL).query_children(Lines):
            line.display = height >= STEPS_FROM

    def _say_keys(self, words: str) -> None:
        self.query_one("#keys", Lines).say(words)

    # Steps

    def _go(self, step: PlanStep) -> None:
        """Show a step."""
        self.step = step
        for one in _KEYS:
            self.place(one).display = one is step
        self.query_one("#steps", Lines).say(step_line(step, PlanStep))
        goal = "Plan" if step is PlanStep.GOAL else f"Plan: {TITLES[self._goal][0].lower()}"
        self.call_it(goal)
        self._say_step_keys()
        self._fit()
        self._begin_step()

    @on(FormPart.Moved)
    def _say_step_keys(self) -> None:
        """Say what the operator can press at this step."""
        words = _KEYS[self.step]
        if self.step in _GOES_ON:
            forms = self.place(self.step).query(FormPart)
            words = form_hint(forms, _GOES_ON[self.step]) + words
        self._say_keys(_WORKING if self._working else words)

    def _begin_step(self) -> None:
        """Put the focus where the keys of this step are."""
        self.set_focus(None)
        place = self.place(self.step)
        for options in place.query(DialogOptionList):
            options.highlighted = GOALS.index(self._goal)
            options.focus()
        for form in place.query(FormPart):
            form.begin()
        for proposal in place.query(ProposalPart):
            proposal.begin()
        for rehearsal in place.query(RehearsalPart):
            rehearsal.begin()

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        self.action_choose(event.option_index + 1)

    def action_choose(self, number: int) -> None:
        """Take a goal by its number."""
        if self.step is PlanStep.GOAL:
            self._goal = GOALS[number - 1]
            self.ask(self._open_choices)

    async def _open_choices(self) -> None:
        facts, goal, glyphs = self._kshunt.store.facts, self._goal, self._kshunt.glyphs
        assert facts is not None
        about = await asyncio.to_thread(proposal_tables.about, facts)
        picks = BROKERS in asked_of(goal)
        picked = await asyncio.to_thread(proposal_tables.pick_table, facts) if picks else None
        fields = fields_of(goal, about, self._texts)
        title, what = TITLES[goal]
        form = PickForm(f"{title}: {what}.", fields, picked, glyphs)
        await self._show(PlanStep.CHOICES, form)
        self._go(PlanStep.CHOICES)

    def _remember_texts(self) -> None:
        """What was typed stays, also for another goal."""
        names = asked_of(self._goal)
        if self.step is PlanStep.THROTTLES:
            names = ("throttles", "deadline")
        for form in self.place(self.step).query(FormPart):
            self._texts.update({name: form.text(place) for place, name in enumerate(names)})

    @on(FormPart.Filled)
    def _filled(self, message: FormPart.Filled) -> None:
        message.stop()
        if self._working is not None:
            return
        self._remember_texts()
        if self.step is PlanStep.THROTTLES:
            throttles, deadline = message.values
            self._ask_rehearsal(throttles, deadline)
        elif self.step is PlanStep.CHOICES:
            try:
                request = request_of(self._goal, message.values)
            except BadInput as error:
                self._say_keys(str(error))
            else:
                self._ask_proposal(request)

    # Questions to the planners

    def _ask_proposal(self, request: PlanRequest) -> None:
        self._proposed = None
        self._again = partial(self._ask_proposal, request)
        self._ask(PlanStep.PROPOSAL, "Working out a plan", partial(self._propose, request))

    async def _propose(self, request: PlanRequest) -> None:
        app = self._kshunt
        answer = await ask_planner(app.address, lambda client: client.plans.propose(request))
        proposed = await asyncio.to_thread(
            lambda: Proposed(
                answer,
                proposal_tables.impact_table(answer.impact, app.glyphs),
                proposal_tables.DiffTable(answer.proposal, app.store.facts, app.glyphs),
            )
        )
        part = ProposalPart(proposed, app.glyphs, read_only=self._service.read_only)
        await self._show(PlanStep.PROPOSAL, part)
        self._proposed = proposed

    async def _open_throttles(self) -> None:
        """The fields of a rehearsal, with what was typed into them before."""
        form = (
            FormField(
                "Throttles",
                self._texts["throttles"],
                "50MB/s, 4MiB/s, or none; several with commas between them; or nothing",
                fields.throttles,
            ),
            FormField(
                "Deadline",
                self._texts["deadline"],
                f"done by 06:00 (UTC), in 90m, in 8h; or {NOTHING}",
                self._deadline,
            ),
        )
        words = "A twin of the cluster runs the moves; nothing is changed."
        await self._show(PlanStep.THROTTLES, FormPart((words,), form))
        self._go(PlanStep.THROTTLES)

    def _deadline(self, text: str) -> int | None:
        """The deadline that was typed.

        Raises:
            BadInput: it is none, or there is no throttle either.
        """
        found = fields.a_deadline(text, self._kshunt.store.now_ms)
        if found is None and not self.form(PlanStep.THROTTLES).text(0).strip():
            raise BadInput("Type throttles above, or a deadline here, or both.")
        return found

    def _ask_rehearsal(self, throttles: tuple[int | None, ...], deadline_ms: int | None) -> None:
        assert self._proposed is not None
        targets = self._proposed.answer.proposal.targets
        request = RehearsalRequest(targets, throttles, deadline_ms)
        self._again = partial(self._ask_rehearsal, throttles, deadline_ms)
        work = partial(self._rehearse, request)
        self._ask(PlanStep.REHEARSAL, "Rehearsing", work)

    async def _rehearse(self, request: RehearsalRequest) -> None:
        app = self._kshunt
        answer = await ask_planner(app.address, lambda client: client.plans.rehearse(request))
        await self._show(PlanStep.REHEARSAL, RehearsalPart(answer, app.glyphs))

    def _ask(self, step: PlanStep, what: str, work: Callable[[], Awaitable[None]]) -> None:
        """Do what takes long, and say so meanwhile; it is given up by leaving the step."""
        store = self._kshunt.store
        self._working = working = _Working(what, store.now_ms, store.now_s())

        async def asked() -> None:
            await self._show(step, Lines(working.words(store.now_s()), id="working"))
            self._go(step)
            try:
                await work()
            except KshuntError as error:
                self._end(working)
                await self._show(step, *error_lines(error, sent=False))
                self._say_keys(_AGAIN)
            else:
                self._end(working)
                self._go(step)
            finally:
                self._end(working)

        self.ask(asked)

    def _end(self, working: _Working) -> None:
        """It is over, unless something else was asked meanwhile."""
        if self._working is working:
            self._working = None

    def _say_working(self) -> None:
        if self._working is not None:
            for line in self.query("#working").results(Lines):
                line.say(self._working.words(self._kshunt.store.now_s()))

    # Keys

    def action_on(self) -> None:
        """On to the rehearsal, or to the start; or ask again what was not answered."""
        if self._working is not None or self.step not in (PlanStep.PROPOSAL, PlanStep.REHEARSAL):
            return
        rehearsed = list(self.place(PlanStep.REHEARSAL).query(RehearsalPart))
        if self.step is PlanStep.REHEARSAL and rehearsed:
            part = rehearsed[0]
            deadline = part.answer.deadline
            rate = typed_rate(part.chosen.throttle_bytes_per_s)
            self._start(rate, None if deadline is None else deadline.at_ms)
        elif self.step is PlanStep.PROPOSAL and self._proposed is not None:
            self._on_to_rehearsal(self._proposed)
        elif self._again is not None:
            self._again()

    def _on_to_rehearsal(self, proposed: Proposed) -> None:
        if not proposed.answer.proposal.targets:
            self._say_keys("There is nothing to change and nothing to start. Esc goes back")
        elif not proposed.answer.impact.added:
            self._say_keys("Nothing is copied between brokers: r starts it immediately")
        else:
            self.ask(self._open_throttles)

    def action_begin(self) -> None:
        """Start it without a rehearsal."""
        if self.step is PlanStep.PROPOSAL and self._proposed is not None:
            if self._proposed.answer.proposal.targets:
                self._start("")
            else:
                self._on_to_rehearsal(self._proposed)

    def action_close(self) -> None:
        """One step back, which gives up what is being asked; at the first one, out of it."""
        self.workers.cancel_group(self, "ask")
        self._working = None
        if self.step is PlanStep.GOAL:
            self.dismiss(None)
            return
        self._remember_texts()
        self._go(PlanStep(self.step - 1))

    def action_turn(self) -> None:
        """Show the next table."""
        for proposal in self.place(self.step).query(ProposalPart):
            proposal.turn()
        for rehearsal in self.place(self.step).query(RehearsalPart):
            rehearsal.turn()

    def action_scroll(self, rows: int) -> None:
        """Move through the goals, or through the table below."""
        for options in self.place(self.step).query(DialogOptionList):
            options.move(rows)
        for rehearsal in self.place(self.step).query(RehearsalPart):
            rehearsal.scroll(rows)

    def action_page(self, pages: int) -> None:
        """Move through the table below by whole pages."""
        for rehearsal in self.place(self.step).query(RehearsalPart):
            rehearsal.page(pages)

    # What comes of it

    def action_save(self) -> None:
        """Write the plan, and the one that leads back."""
        proposed = self._proposed
        if self.step not in (PlanStep.PROPOSAL, PlanStep.REHEARSAL) or proposed is None:
            return
        if not proposed.answer.proposal.targets:
            self._say_keys("There is nothing to change, so there is no plan to save.")
            return
        name = f"kshunt-{self._goal.value}-{file_time_text(self._kshunt.store.now_ms)}.json"
        screen = save_plan_screen(proposed.answer, name, self._kshunt.downloads)
        self.app.push_screen(screen, self._saved)

    def _saved(self, path: Path | None) -> None:
        if path is not None:
            self._say_keys(f"Written: {path} and {rollback_path(path).name}")

    def _start(self, throttle: str, deadline_ms: int | None = None) -> None:
        """Lead into the wizard of every start; back from it, everything is as it was."""
        store = self._kshunt.store
        assert self._proposed is not None
        if not store.scene.live:
            self._say_keys("The connection is lost: nothing can be sent until it is back.")
        elif self._proposed.answer.cluster_id != store.scene.cluster_id:
            self._say_keys("This is another cluster now: make a new plan.")
        elif not self._starting:
            self._starting = True
            start = self._in_earnest(self._proposed, throttle, deadline_ms)
            self.run_worker(start, group="start")

    async def _in_earnest(self, proposed: Proposed, throttle: str, deadline_ms: int | None) -> None:
        app, answer = self._kshunt, proposed.answer
        assert app.store.facts is not None
        target = TargetCluster(answer.cluster_id, app.store.scene.bootstrap_servers)
        planned = Planned(answer.plan, answer.proposal.goal, throttle, deadline_ms)
        wizard = planned_wizard(app.store.facts, target, app.glyphs, planned)
        screen = WizardScreen(app, wizard, self._service)
        try:
            then = await self.app.push_screen_wait(screen)
        finally:
            self._starting = False
        self.failed = self.failed or screen.failed
        if screen.answer is not None:
            self.started = True
            self.dismiss(then)


@dataclass(frozen=True, slots=True)
class _Working:
    """A question that is not answered yet."""

    what: str
    since_ms: int
    since_s: float

    def words(self, now_s: float) -> str:
        """What is being done, and since when."""
        since = clock_text(self.since_ms, seconds=True)
        took = duration_text(max(now_s - self.since_s, 0.0))
        return f"{self.what} since {since} UTC, for {took}. It changes nothing."


def _numbered() -> Iterable[tuple[int, Goal]]:
    return enumerate(GOALS, 1)
