"""The frame of every wizard: one step after the other, and back without losing what was typed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual import events, on
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widget import Widget
from textual.widgets import Input

from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.errors import KshuntError
from kshunt.tui.changes.wizard.change_service import READ_ONLY, ChangePreview, ChangeService, Stale
from kshunt.tui.changes.wizard.intent import Intent
from kshunt.tui.changes.wizard.items_part import FRAME_LINES, ItemsPart
from kshunt.tui.changes.wizard.next_step import NEXT_KEYS, NextStep, next_step, show_progress
from kshunt.tui.changes.wizard.pages import Step, Wizard, step_line
from kshunt.tui.changes.wizard.phases_part import PhasesPart
from kshunt.tui.changes.wizard.question_parts import AnswerPart, AskPart, PreviewPart, error_lines
from kshunt.tui.changes.wizard.safety_part import SafetyPart
from kshunt.tui.dialogs.dialog import PAGE_KEYS, SCROLL_KEYS, Dialog, Lines, replace_children
from kshunt.tui.dialogs.form import FormPart, form_hint
from kshunt.tui.shell.navigation import go
from kshunt.tui.terminal.input import once_painted
from kshunt.tui.workers import run_latest

if TYPE_CHECKING:
    from kshunt.tui.shell.dashboard import Dashboard
    from kshunt.tui.tables.targets import Item

KEYS: Final = {
    Step.PREVIEW: "{agree}w adds a reason, {copy}Esc {back}",
    Step.CONFIRM: "",
    Step.WATCH: "{copy}Esc or Enter closes",
}
"""What the last line says at each step that is no form."""
PREVIEWS: Final = "previews"
CONTINUES: Final = "continues"
"""What Enter does in the last field of a form, by what comes next."""
STEPS_FROM: Final = 12
KEYS_FROM: Final = 8
"""Lower terminals have no room for the steps, or the keys."""


class WizardScreen(Dialog[NextStep | None]):
    """A wizard from its first step to its last; answers with what is to be done next, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "on", "Continue", show=False),
        Binding("left", "close", "Back", show=False),
        Binding("y", "agree", "Do it", show=False),
        Binding("n", "close", "Back", show=False),
        Binding("q", "leave", "Close", show=False),
        Binding("C", "copy", "Copy the command", show=False),
        Binding("w", "why", "Give the reason, or write the rollback", show=False),
        Binding("o", "removal", "Show what removes partitions already", show=False),
        *NEXT_KEYS,
        Binding("right,l", "app.focus_next", "Next", show=False),
        Binding("h", "app.focus_previous", "Previous", show=False),
        *SCROLL_KEYS,
        *PAGE_KEYS,
    ]
    AUTO_FOCUS = None

    def __init__(self, app: Dashboard, wizard: Wizard, service: ChangeService) -> None:
        super().__init__(wizard.title)
        self.wizard = wizard
        self.step = wizard.first
        """Where the operator is."""
        self.answer: ChangeAnswer | None = None
        """What came back, once it was sent."""
        self._kshunt, self._service = app, service
        self._values: dict[Step, tuple[Any, ...]] = {}
        self._intent: Intent | None = None
        self._looked: ChangePreview | None = None
        self._busy = False
        """True while something was asked of the backend."""
        self._seen = False
        """True once the preview was painted: what was typed before that agrees to nothing."""
        self.failed = False
        """True once it was sent and not answered, or refused."""

    def compose_body(self) -> Iterable[Widget]:
        """The steps with the present one, a place for each step, and the keys."""
        yield Lines(step_line(self.step), id="steps", classes="group")
        first = 0
        for step, page in zip(Step, self.wizard.pages, strict=False):
            with Vertical(id=f"step-{step.value}", classes="step"):
                if page.fields:
                    lines = (*self.wizard.goal.lines, *self.wizard.choices.lines)
                    yield FormPart(page.lines or lines, page.fields, first)
            first += len(page.fields)
        for step in (Step.PREVIEW, Step.CONFIRM, Step.WATCH):
            yield Vertical(id=f"step-{step.value}", classes="step")
        yield Lines("", id="keys", classes="hint")

    def on_mount(self) -> None:
        """Begin at the first step that asks something, unless that is known."""
        self._kshunt.changed.subscribe(self, self._on_changed)
        self._go(self.step)
        if self.wizard.filled:
            for form in self.place(self.step).query(FormPart):
                form.submit()

    @property
    def ready(self) -> bool:
        """False while something was asked of the backend, or is about to be shown."""
        asks = self.place(self.step).query(AskPart)
        unseen = self.step is Step.PREVIEW and self._looked is not None and not self._seen
        return (
            not (self._busy or unseen)
            and bool(self.place(self.step).children)
            and all(ask.was_painted for ask in asks)
        )

    def on_resize(self, event: events.Resize) -> None:
        """What is typed into stays in sight, however low the terminal is."""
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        if self not in self.app.screen_stack:
            return
        height = self.app.size.height
        around = FRAME_LINES
        for id, least in (("#steps", STEPS_FROM), ("#keys", KEYS_FROM)):
            line = self.query_one(id, Lines)
            line.display = height >= least and bool(line.plain)
            around += line.size.height if line.display else 0
        for form in self.place(self.step).query(FormPart):
            form.styles.max_height = max(height - around, 1)
            self.call_after_refresh(form.show_focused)
        for part in self.place(self.step).query(ItemsPart):
            part.fit(height - around)
            # Where even its lines are too many, they scroll and the keys stay.
            self.place(self.step).styles.max_height = max(height - around, 1)
        for safety in self.place(self.step).query(SafetyPart):
            safety.fit(height - around)

    # Steps

    def place(self, step: Step) -> Vertical:
        """Where a step is shown."""
        return self.query_one(f"#step-{step.value}", Vertical)

    def input(self, place: int) -> Input:
        """The input of a field, by its number among all of them."""
        return self.query_one(f"#field-{place}", Input)

    def hint(self, place: int) -> Lines:
        """The line beneath a field."""
        return self.query_one(f"#hint-{place}", Lines)

    def _go(self, step: Step, changed: str = "") -> None:
        """Show a step; `changed` says why the preview is shown again."""
        self.step = step
        for one in Step:
            self.place(one).display = one is step
        self.query_one("#steps", Lines).say(step_line(step))
        intent = self._intent if step > Step.CHOICES else None
        self.call_it(self.wizard.title if intent is None else intent.title)
        forms = list(self.place(step).query(FormPart))
        self._say_step_keys()
        for form in forms:
            form.begin()
        self.call_after_refresh(self._fit)
        if step is Step.PREVIEW:
            self._seen = False
            self.set_focus(None)
            self._busy = True
            self.ask(partial(self._look, changed))

    @on(FormPart.Moved)
    def _say_step_keys(self) -> None:
        """Say what the operator can press at this step."""
        forms = list(self.place(self.step).query(FormPart))
        if forms:
            goes_on = PREVIEWS if self.wizard.after(self.step) is Step.PREVIEW else CONTINUES
            self._say_keys(f"{form_hint(forms, goes_on)}Esc {self._back}")
        elif self.step in KEYS:
            agree = ""
            if self.step is Step.PREVIEW and self._looked is not None and self._intent is not None:
                typed = self._intent.typed
                agree = "Enter asks for the name, " if typed else f"y: {self._intent.button}, "
            able = self._looked is not None and self._intent is not None and self._intent.command
            copy = "C copies the command, " if able else ""
            self._say_keys(KEYS[self.step].format(agree=agree, copy=copy, back=self._back))

    @property
    def _back(self) -> str:
        """What Esc does."""
        return self.wizard.leave if self.wizard.before(self.step) is None else "goes back"

    def _say_keys(self, words: str) -> None:
        self.query_one("#keys", Lines).say(words)
        self.query_one("#keys").display = bool(words) and self.app.size.height >= KEYS_FROM

    async def _show(self, step: Step, *widgets: Widget) -> None:
        await replace_children(self.place(step), *widgets)

    @on(FormPart.Filled)
    def _filled(self, message: FormPart.Filled) -> None:
        if not self._busy:
            self._values[self.step] = message.values
            self._go(self.wizard.after(self.step))

    async def _look(self, changed: str) -> None:
        """Ask what it would do, and show it."""
        await self._show(Step.PREVIEW, Lines("Validating; nothing is changed yet."))
        typed = [value for step in sorted(self._values) for value in self._values[step]]
        self._looked = None
        try:
            # Thousands of partitions take a while to describe.
            self._intent = await asyncio.to_thread(self.wizard.build, *typed)
            self.call_it(self._intent.title)
            self._looked = await self._service.look(self._intent)
        except KshuntError as error:
            await self._show(Step.PREVIEW, *error_lines(error, sent=False))
            if self.step is Step.PREVIEW:
                self._say_keys(f"Enter tries again, Esc {self._back}")
            return
        finally:
            self._busy = False
        read_only = self._service.read_only
        glyphs = self._kshunt.glyphs
        if self._looked.check is not None:
            await self._show_safety(self._looked, read_only=read_only)
            return
        part = PreviewPart(self._intent, self._looked, glyphs, changed, read_only=read_only)
        await self._show(Step.PREVIEW, part)
        self._say_preview_keys()
        if self._intent.is_refused(read_only=read_only):
            self._say_keys("Nothing more can be done: kshunt was started read-only. Esc goes back")

    def _say_preview_keys(self) -> None:
        """The preview is there: what agrees to it, once it was painted."""
        if self.step is Step.PREVIEW:
            self._say_step_keys()
            self.call_after_refresh(self._fit)
            once_painted(self, self._was_seen)

    def _was_seen(self) -> None:
        self._seen = True

    async def _show_safety(self, looked: ChangePreview, *, read_only: bool) -> None:
        """What speaks against a shrink; what can be overruled is named where that is typed."""
        assert self._intent is not None
        assert looked.check is not None
        part = SafetyPart(
            self._intent, looked, self._kshunt.glyphs, self._removal(), read_only=read_only
        )
        await self._show(Step.PREVIEW, part)
        self._say_preview_keys()
        hints = self.wizard.hints(looked.check) if self.wizard.hints is not None else {}
        for form in self.query(FormPart):
            for place in form.fields.keys() & hints.keys():
                form.rehint(place, hints[place])
        shows = "" if part.removal is None else ". o shows what removes them"
        if part.refused:
            overruled = "; you can overrule codes there" if part.insistable else ""
            self._say_keys(f"Esc {self._back}{overruled}. Enter checks again{shows}")
        elif read_only:
            self._say_keys("Nothing more can be done: kshunt was started read-only. Esc goes back")
        elif shows:
            self._say_keys(f"o shows what removes them, {self.query_one('#keys', Lines).plain}")

    def _removal(self) -> Item | None:
        """What takes partitions of the topic away already."""
        store = self._kshunt.store
        if self._intent is None or self._intent.shrink is None or store.summary is None:
            return None
        from kshunt.tui.facts.leaving_partitions import removal_of

        topic, operations = self._intent.shrink.topic, store.scene.operations
        return removal_of(topic, store.summary.leaving, store.now_ms, operations)

    def action_removal(self) -> None:
        """Close, and go to what takes partitions of the topic away."""
        for part in self.place(Step.PREVIEW).query(SafetyPart):
            target = None if part.removal is None else part.removal.target
            if self.step is Step.PREVIEW and target is not None:
                self.dismiss(None)
                go(self._kshunt, target)

    @property
    def _refused(self) -> bool:
        return any(part.refused for part in self.place(Step.PREVIEW).query(SafetyPart))

    async def _ask(self) -> None:
        assert self._intent is not None
        for asked in self.place(Step.CONFIRM).query(AskPart):
            if asked.reason != asked.intent.reason:
                # It was said at the question, before it had to be asked again.
                self._intent = replace(self._intent, reason=asked.reason)
        part = AskPart(self._intent, read_only=self._service.read_only, leave="Back")
        target = self._intent.target
        lines = [f"{self._intent.title}?", f"Cluster {target.cluster_id}"]
        if self._intent.effect:
            lines.append(self._intent.effect)
        await self._show(Step.CONFIRM, *(Lines(line) for line in lines), part)
        part.begin()

    @on(AskPart.Decided)
    def _decided(self, message: AskPart.Decided) -> None:
        if self._busy or self.step is not Step.CONFIRM:
            return
        if not message.agreed:
            self.action_close()
            return
        self._busy = True
        self.ask(self._send)

    async def _send(self) -> None:
        """Send it, and show what came of it."""
        assert self._intent is not None
        assert self._looked is not None
        reason = self.place(Step.CONFIRM).query_one(AskPart).reason
        agreed = replace(self._intent, reason=reason or self._intent.reason)
        self._say_keys("Sent; waiting for the answer.")
        try:
            self.answer = await self._service.send(agreed, self._looked.preview)
        except Stale as stale:
            self._go(Step.PREVIEW, str(stale))
            return
        except KshuntError as error:
            self.failed = True
            self._go(Step.WATCH)
            await self._show(Step.WATCH, *error_lines(error, sent=True))
            self._say_keys("Esc goes back to the preview, what you typed stays; Enter closes")
            return
        finally:
            self._busy = False
        self._kshunt.clear_marks()
        self._go(Step.WATCH)
        if agreed.phased and self.answer.operation_id and not self.answer.failures:
            await self._show(Step.WATCH, PhasesPart(self.answer, self._kshunt.glyphs))
        else:
            app = self._kshunt
            part = AnswerPart(agreed, self.answer, app.glyphs, app.downloads)
            await self._show(Step.WATCH, part)
            part.begin()
            self.call_after_refresh(self._fit)
        self._on_changed("")

    def _on_changed(self, view: str) -> None:
        for watched in self.place(Step.WATCH).query(PhasesPart):
            shown = partial(watched.show_progress, self._kshunt)
            run_latest(self, shown, "progress")
        parts = list(self.place(Step.WATCH).query(AnswerPart))
        if parts and self.answer is not None:
            progress = partial(show_progress, self._kshunt.store, parts[0])
            run_latest(self, progress, "progress")

    # Keys

    async def action_on(self) -> None:
        """On to the question, or to the end."""
        if self.step is Step.WATCH:
            self.dismiss(None)
        elif self.step is not Step.PREVIEW or self._busy:
            return
        elif self._looked is None or self._refused:
            self._go(Step.PREVIEW)
        elif self._may_ask():
            self._go(Step.CONFIRM)
            await self._ask()

    def _may_ask(self) -> bool:
        read_only = self._service.read_only
        if self._intent is not None and self._intent.is_refused(read_only=read_only):
            self._say_keys(READ_ONLY)
            return False
        return not self._busy

    def action_close(self) -> None:
        """One step back; at the first one, and after an answer, out of it."""
        if self.step is Step.CONFIRM and self._busy:
            self._say_keys("It was sent: wait for the answer.")
            return
        if self.step is Step.CONFIRM and self.place(Step.CONFIRM).query_one(AskPart).left_why():
            return
        earlier = self.wizard.before(self.step)
        if self.step is Step.WATCH and self.answer is not None:
            earlier = None
        if earlier is None:
            self.dismiss(None)
        else:
            self._busy = False
            self._go(earlier)

    def action_leave(self) -> None:
        """Close after the last step."""
        if self.step is Step.WATCH:
            self.dismiss(None)

    async def action_agree(self) -> None:
        """Do it: what is previewed, or asked about."""
        if self.step is Step.PREVIEW:
            await self._agree_to_preview()
        elif self.step is Step.CONFIRM:
            self.place(Step.CONFIRM).query_one(AskPart).agree()

    @property
    def may_be_agreed_to(self) -> bool:
        """Whether the preview is there, was painted, and is not of a change that is refused."""
        return self._looked is not None and self._seen and not self._refused

    async def _agree_to_preview(self) -> None:
        """A name that has to be typed is asked for; else it is sent."""
        if not self.may_be_agreed_to or not self._may_ask():
            return
        self._go(Step.CONFIRM)
        await self._ask()
        assert self._intent is not None
        if not self._intent.typed:
            self._busy = True
            self.ask(self._send)

    async def action_why(self) -> None:
        """Say why; after the last step, write the way back."""
        if self.step is Step.PREVIEW:
            await self.action_on()
        if self.step is Step.CONFIRM:
            self.place(Step.CONFIRM).query_one(AskPart).why()
        elif self.step is Step.WATCH:
            for part in self.place(Step.WATCH).query(AnswerPart):
                await part.write()

    async def action_copy(self) -> None:
        """Copy the command of the shell that makes the previewed change, unless it is refused."""
        from kshunt.tui.changes.wizard.copy_command import copy_command

        if self._intent is None or self._looked is None or self.step < Step.PREVIEW:
            return
        if self._refused:
            return
        asked = list(self.place(Step.CONFIRM).query(AskPart))
        reason = (asked[0].reason if asked else "") or self._intent.reason
        said = await copy_command(self._kshunt, self._intent, reason)
        line = self.query_one("#keys", Lines)
        line.say_above(said)
        line.display = True
        self.call_after_refresh(self._fit)

    def action_next(self, verb: str) -> None:
        """Undo or cancel it, where that is possible; it is asked about as ever."""
        if self.step is Step.WATCH and self.answer is not None:
            able = next_step(self._kshunt.store, self.answer, verb)
            if able is not None:
                self.dismiss(able)

    def action_scroll(self, rows: int) -> None:
        """Move through the items."""
        for part in self.place(Step.PREVIEW).query(PreviewPart):
            part.scroll(rows)
        for safety in self.place(Step.PREVIEW).query(SafetyPart):
            safety.scroll(rows)

    def action_page(self, pages: int) -> None:
        """Scroll the items and the facts above them."""
        for part in self.place(Step.PREVIEW).query(PreviewPart):
            part.page(pages)
        for safety in self.place(Step.PREVIEW).query(SafetyPart):
            safety.page(pages)
