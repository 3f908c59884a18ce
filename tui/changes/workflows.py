"""From a key to an answer: ask what is needed, rehearse, ask once, send, show what came back.

Nothing here touches the store: the tables change when the cluster says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.operations.preview import Preview
from kshunt.backend.domain.shrink.delete_partitions import ShrinkSupport
from kshunt.backend.domain.text.formatting import many
from kshunt.backend.domain.throttles.configs import ThrottledRate
from kshunt.backend.domain.throttles.owners import ShownDrift, ShownOrphan
from kshunt.backend.errors import KshuntError
from kshunt.tui.actions import key_of
from kshunt.tui.changes.intents import (
    audit,
    election,
    operations,
    proposals,
    reassignment,
    throttles,
)
from kshunt.tui.changes.wizard.change_service import ChangePreview, ChangeService, Stale
from kshunt.tui.changes.wizard.confirm import ConfirmScreen
from kshunt.tui.changes.wizard.intent import Intent, TargetCluster
from kshunt.tui.changes.wizard.next_step import NextStep
from kshunt.tui.changes.wizard.pages import Wizard
from kshunt.tui.changes.wizard.question_parts import PreviewPart
from kshunt.tui.changes.wizard.result import ErrorScreen, ResultScreen
from kshunt.tui.changes.wizard.screen import WizardScreen
from kshunt.tui.terminal.downloads import NO_FILES

if TYPE_CHECKING:
    from kshunt.backend.domain.operations.approval import ShownProposal
    from kshunt.backend.domain.reassignment.answers import ChangeAnswer
    from kshunt.tui.changes.intents.alter import Present
    from kshunt.tui.facts.snapshot_facts import Facts
    from kshunt.tui.shell.dashboard import Dashboard, OperationVerb


def _nothing() -> None:
    """Do nothing more."""


class ChangeWorkflows:
    """One change at a time, each in a worker of the app."""

    def __init__(self, app: Dashboard) -> None:
        self._app = app
        self._service = ChangeService(app)
        self._unsent = ("", "")
        """Title of the change that could not be sent, and why it was wanted: it is tried again."""

    # What can be asked for

    def reassign(self) -> None:
        """Start from a JSON file."""
        glyphs = self._app.glyphs
        if self._app.downloads is not None:
            self._app.say(NO_FILES.format(plan=key_of("plan")), "warn")
            return
        self._fill(lambda facts, target: reassignment.start_wizard(facts, target, glyphs))

    def plan(self, *, brokers: Sequence[int] = (), topics: Sequence[str] = ()) -> None:
        """Make a plan for a goal; about these brokers and topics, where any are chosen."""
        self._start(lambda facts, target: self._plan(brokers, topics))

    def cancel(self, partitions: Sequence[TopicPartition] | None) -> None:
        """Cancel the moves of these partitions, or of all."""
        if self._chosen(partitions):
            self._start(lambda facts, target: self._cancel(facts, target, partitions))

    def elect(self, partitions: Sequence[TopicPartition] | None) -> None:
        """Elect the preferred leaders of these partitions, or of all."""
        if self._chosen(partitions):
            self._fill(lambda facts, target: election.election_wizard(facts, target, partitions))

    def edit_rates(self, brokers: Sequence[int] | None) -> None:
        """Edit the rates of these brokers, or of all."""

        def filled(facts: Facts, target: TargetCluster) -> Wizard:
            ids = sorted(facts.snapshot.brokers) if brokers is None else list(brokers)
            return throttles.rates_wizard(facts, target, self._app.glyphs, ids)

        self._fill(filled)

    def set_rates(
        self, rates: Mapping[int, ThrottledRate], done: Callable[[], None] = _nothing
    ) -> None:
        """Set rates that were edited in place; `done` is called once they were sent."""

        async def flow(facts: Facts, target: TargetCluster) -> None:
            glyphs = self._app.glyphs
            await self._carry_out(
                lambda: throttles.rates_intent(facts, target, rates, glyphs), done
            )

        self._start(flow)

    def edit_lists(self, topic: str) -> None:
        """Edit a topic's throttled replicas."""
        self._fill(lambda facts, target: throttles.lists_wizard(facts, target, topic))

    def shrink(self, topic: str) -> None:
        """Let a topic have fewer partitions: by the cluster itself, or by a copy."""
        self._start(lambda facts, target: self._shrink(facts, target, topic))

    def alter(self, topic: str) -> None:
        """Give a topic more partitions, or another replication factor."""

        def filled(facts: Facts, target: TargetCluster) -> Wizard:
            from kshunt.tui.changes.intents.alter import alter_wizard

            return alter_wizard(target, _present(facts, topic), self._app.glyphs)

        self._fill(filled)

    def confirm_shrink(self, operation: Operation) -> None:
        """The point of no return of a shrink."""
        self._start(lambda facts, target: self._confirm_shrink(target, operation))

    def steer(self, operation: Operation, verb: OperationVerb) -> None:
        """Pause, resume, cancel or undo an operation."""
        self._start(lambda facts, target: self._steer(facts, target, operation, verb))

    def abandon(self, operation: Operation) -> None:
        """End an operation although brokers that are gone for good have its throttle."""
        self._fill(lambda facts, target: operations.abandon_wizard(facts, target, operation))

    def decide_drift(self, drift: Sequence[ShownDrift], *, ours: bool) -> None:
        """Put our throttles back or keep theirs."""

        async def flow(facts: Facts, target: TargetCluster) -> None:
            glyphs = self._app.glyphs
            await self._carry_out(lambda: throttles.drift_intent(target, drift, glyphs, ours=ours))

        self._start(flow)

    def remove_orphans(self, orphans: Sequence[ShownOrphan], *, every: bool = False) -> None:
        """Remove throttles that no move justifies.

        `every`: these are all of them, so the operator has to type the cluster's short name.
        """

        async def flow(facts: Facts, target: TargetCluster) -> None:
            await self._carry_out(lambda: throttles.orphans_intent(target, orphans, every=every))

        self._start(flow)

    def adopt(self) -> None:
        """Take over the throttle of moves that somebody else started."""

        async def flow(facts: Facts, target: TargetCluster) -> None:
            moves = self._app.store.foreign
            await self._carry_out(lambda: throttles.adopt_intent(target, moves))

        self._start(flow)

    def approve(self, proposal: ShownProposal) -> None:
        """Let what somebody else proposed happen."""

        async def flow(facts: Facts, target: TargetCluster) -> None:
            now_ms = self._app.store.now_ms
            await self._carry_out(lambda: proposals.approve_intent(target, proposal, now_ms))

        self._start(flow)

    def export(self, operation: Operation | None) -> None:
        """Write the audit to a file."""
        known = [one.id for one in self._app.store.scene.operations]
        chosen = "" if operation is None else operation.id
        downloads = self._app.downloads
        self._fill(lambda facts, target: audit.audit_wizard(target, known, chosen, downloads))

    # How it goes

    def _chosen(self, partitions: Sequence[TopicPartition] | None) -> bool:
        """Whether there is a partition to change; says so if not."""
        if partitions is not None and not partitions:
            self._app.say("There is no partition to change here.", "warn")
            return False
        return True

    def _fill(self, build: Callable[[Facts, TargetCluster], Wizard]) -> None:
        """Show a wizard, and whatever is asked for at its end."""

        async def flow(facts: Facts, target: TargetCluster) -> None:
            await self._filled(build(facts, target))

        self._start(flow)

    async def _filled(self, wizard: Wizard) -> None:
        screen = WizardScreen(self._app, wizard, self._service)
        then = await self._app.push_screen_wait(screen)
        if screen.answer is None and not screen.failed:
            self._app.say("Nothing was changed.")
        await self._then(then)

    def _start(self, flow: Callable[[Facts, TargetCluster], Coroutine[Any, Any, None]]) -> None:
        app, store = self._app, self._app.store
        if store.facts is None or not store.scene.cluster_id:
            app.say("There is no cluster to change yet.", "warn")
        elif not store.scene.live:
            app.say("The connection is lost: nothing can be sent until it is back.", "bad")
        elif app.changing:
            app.say("A change is running; wait for its answer.", "warn")
        else:
            target = TargetCluster(store.facts.snapshot.cluster_id, store.scene.bootstrap_servers)
            # What is asked for may bring rows before the one that it is about.
            app.hold_row()
            app.run_worker(self._alone(flow(store.facts, target)), group="change")

    async def _alone(self, flow: Coroutine[Any, Any, None]) -> None:
        self._app.changing = True
        try:
            await flow
        finally:
            self._app.changing = False

    async def _steer(
        self, facts: Facts | None, target: TargetCluster, operation: Operation, verb: OperationVerb
    ) -> None:
        await self._carry_out(lambda: operations.operation_intent(facts, target, operation, verb))

    async def _then(self, then: NextStep | None) -> None:
        """What an operator wants next of the operation that was just started."""
        scene = self._app.store.scene
        if then is None:
            return
        target = TargetCluster(scene.cluster_id, scene.bootstrap_servers)
        if then.name == "confirm":
            await self._confirm_shrink(target, then.operation)
        else:
            verb = operations.verb_named(then.name)
            await self._steer(self._app.store.facts, target, then.operation, verb)

    async def _plan(self, brokers: Sequence[int], topics: Sequence[str]) -> None:
        from kshunt.tui.changes.plan.screen import Beginning, PlanScreen

        chosen = {"brokers": brokers, "topics": topics}
        texts = {name: ", ".join(map(str, names)) for name, names in chosen.items() if names}
        screen = PlanScreen(self._app, self._service, Beginning(texts))
        then = await self._app.push_screen_wait(screen)
        if not screen.started and not screen.failed:
            self._app.say("Nothing was changed.")
        await self._then(then)

    async def _shrink(self, facts: Facts, target: TargetCluster, topic: str) -> None:
        from kshunt.tui.changes.intents.shrink import Shrunk, delete_wizard, shrink_wizard

        app = self._app
        there = facts.partitions_in(topic)
        if there < 2:
            app.say(f"{topic} has {many(there, 'partition')}: it cannot have fewer.", "warn")
            return
        try:
            support = await app.link.ask(lambda client: client.shrinks.support())
        except KshuntError as error:
            await app.push_screen_wait(ErrorScreen(f"Shrink {topic}", error, sent=False))
            return
        copies = support is ShrinkSupport.UNSUPPORTED
        about = Shrunk(topic, there, frozenset(facts.snapshot.topics), copies)
        native = support is ShrinkSupport.ENABLED
        await self._filled((delete_wizard if native else shrink_wizard)(target, about))

    async def _confirm_shrink(self, target: TargetCluster, operation: Operation) -> None:
        from kshunt.tui.changes.intents.cut_over import CutOverScreen
        from kshunt.tui.changes.intents.shrink import confirm_intent
        from kshunt.tui.facts.shrink_phases import waits_for_name

        app = self._app
        newest = app.store.scene.operation(operation.id) or operation
        progress = newest.details.shrink
        if progress is None or not waits_for_name(newest):
            app.say("It does not wait for the name of its topic now.", "warn")
            return
        intent = confirm_intent(target, operation, progress)
        question = CutOverScreen(app, intent, operation.id)
        if not await app.push_screen_wait(question):
            app.say("Nothing was changed.")
            return
        answer = await self._sent(replace(intent, reason=question.reason), None)
        if answer is not None:
            await self._show(intent, answer)

    async def _cancel(
        self, facts: Facts, target: TargetCluster, partitions: Sequence[TopicPartition] | None
    ) -> None:
        from kshunt.tui.facts.progress import cancellable

        able = await asyncio.to_thread(cancellable, facts, self._app.store.scene.operations)
        chosen = sorted(able if partitions is None else able.intersection(partitions))
        if not chosen:
            self._app.say(_not_moving(partitions, len(able)), "warn")
            return
        every = partitions is None
        await self._carry_out(
            lambda: reassignment.cancel_intent(facts, target, chosen, every=every)
        )

    # Rehearse, ask, send, show

    async def _carry_out(
        self, build: Callable[[], Intent], done: Callable[[], None] = _nothing
    ) -> None:
        """Ask until it is agreed to by what the cluster is like, or not at all."""
        app = self._app
        # Thousands of partitions take a while to describe.
        intent = await asyncio.to_thread(build)
        title, reason = self._unsent
        if title == intent.title and not intent.reason:
            intent = replace(intent, reason=reason)
        changed = ""
        while True:
            looked = await self._look(intent)
            if looked is None:
                return
            read_only = self._service.read_only
            preview = PreviewPart(intent, looked, app.glyphs, changed, read_only=read_only)
            question = ConfirmScreen(preview)
            if not await app.push_screen_wait(question):
                app.say("Nothing was changed.")
                return
            intent = replace(intent, reason=question.reason or intent.reason)
            try:
                answer = await self._sent(intent, looked.preview)
            except Stale as stale:
                changed = str(stale)
                continue
            self._unsent = (intent.title, intent.reason) if answer is None else ("", "")
            if answer is not None:
                done()
                app.clear_marks()
                await self._show(intent, answer)
            return

    async def _show(self, intent: Intent, answer: ChangeAnswer) -> None:
        app = self._app
        await self._then(await app.push_screen_wait(ResultScreen(app, intent, answer, app.glyphs)))

    async def _look(self, intent: Intent) -> ChangePreview | None:
        """What it would touch, and what a rehearsal says; None where that cannot be known."""
        app = self._app
        app.say("Validating; nothing is changed yet.")
        try:
            looked = await self._service.look(intent)
        except KshuntError as error:
            app.say("")
            await app.push_screen_wait(ErrorScreen(intent.title, error, sent=False))
            return None
        app.say("")
        return looked

    async def _sent(self, intent: Intent, preview: Preview | None) -> ChangeAnswer | None:
        """The answer to a change that was agreed to; None where it was refused, which is said.

        Raises:
            Stale: the cluster is not what the preview was made from; nothing was changed.
        """
        app = self._app
        app.say("Sent; waiting.")
        try:
            answer = await self._service.send(intent, preview)
        except KshuntError as error:
            app.say("")
            await app.push_screen_wait(ErrorScreen(intent.title, error, sent=True))
            return None
        app.say("")
        return answer


def _not_moving(partitions: Sequence[TopicPartition] | None, moving: int) -> str:
    if not moving:
        return "Nothing moves."
    what = "it does" if partitions is not None and len(partitions) == 1 else "they do"
    every = key_of("cancel_all")
    return f"Nothing to cancel here: {what} not move. {every} cancels all {moving:,} that do."


def _present(facts: Facts, topic: str) -> Present:
    """A topic as it is."""
    from kshunt.tui.changes.intents.alter import Present

    places = facts.rows_of(topic, 0)
    rows = facts.rows
    factor = sum(1 for place in places if not rows.adding[place])
    up = [status for status in facts.snapshot.brokers.values() if status.registered]
    moving = facts.summary.moving_partitions > 0
    leaving = {one.mode: one.count for one in facts.leaving if one.topic == topic}
    read_only, going = (
        leaving.get(mode, 0) for mode in (PartitionMode.READ_ONLY, PartitionMode.NONE)
    )
    count = facts.partitions_in(topic)
    return Present(topic, count, factor, len(up), moving, read_only, going)
