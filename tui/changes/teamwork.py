"""From a key to what others see of it: claims, notes, proposals, and who is here."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.operations.team import Claim, note_text
from kshunt.backend.errors import KshuntError
from kshunt.backend.operator_identity import who_am_i
from kshunt.tui.changes.wizard.change_service import READ_ONLY, ChangeService
from kshunt.tui.changes.wizard.result import ErrorScreen
from kshunt.tui.data.team import my_name, steered_words
from kshunt.tui.dialogs.text_prompt import TextPromptScreen, needed
from kshunt.tui.workers import run_latest

if TYPE_CHECKING:
    from kshunt.backend.api.client.backend_client import BackendClient
    from kshunt.backend.domain.operations.approval import ShownProposal
    from kshunt.tui.shell.dashboard import Dashboard


class Teamwork:
    """Each in a worker of the app; what it came to is shown once the backend says so."""

    def __init__(self, app: Dashboard) -> None:
        self._app = app
        self._service = ChangeService(app)

    def here(self) -> None:
        """Who is connected, and what they look at."""
        from kshunt.tui.dialogs.presence import PresenceScreen

        self._app.push_screen(PresenceScreen(self._app))

    def claim(self, operation: Operation) -> None:
        """Claim an operation, release it, or take it over."""
        me, claim = my_name(self._app.store), operation.claim
        if claim is None:
            self._start(self._claim(operation))
        elif claim.who == me:
            release = partial(_release, operation.id, self._cluster_id)
            title = f"Release operation {operation.id}"
            self._start(self._send(title, release, "It is released."))
        else:
            self._start(self._take_over(operation, claim))

    def remark(self, operation: Operation) -> None:
        """Write a note on an operation."""
        self._start(self._remark(operation))

    def proposals(self) -> None:
        """Show what takes two people, and do what is wanted with it."""
        run_latest(self._app, self._proposals, "proposals")

    # What is asked, and what is sent

    async def _claim(self, operation: Operation) -> None:
        lines = (
            operation.summary,
            "Others see it, and are asked before they change the operation.",
        )
        title = f"Claim operation {operation.id}"
        hint = "the reason, for the others and the audit; may be empty"
        reason = await self._asked(
            TextPromptScreen(title, lines, "Why", hint=hint, check=str.strip)
        )
        if reason is not None:
            claim = partial(_claim, operation.id, self._cluster_id, reason, False)
            await self._send(title, claim, "You have claimed it.", reason=reason)

    async def _take_over(self, operation: Operation, claim: Claim) -> None:
        steered = f"{steered_words(claim)}; others see that you took it over."
        lines = (operation.summary, steered)
        title = f"Take over operation {operation.id}"
        hint = f"the reason, for {claim.who} and the audit"
        reason = await self._asked(TextPromptScreen(title, lines, "Why", hint=hint, check=needed))
        if reason is not None:
            take = partial(_claim, operation.id, self._cluster_id, reason, True)
            await self._send(title, take, "You have claimed it.", reason=reason)

    async def _remark(self, operation: Operation) -> None:
        title = f"Note on operation {operation.id}"
        hint = "one line; everybody sees it, and the audit keeps it"
        screen = TextPromptScreen(title, (operation.summary,), "Note", hint=hint, check=note_text)
        text = await self._asked(screen)
        if text is not None:
            note = partial(_note, operation.id, self._cluster_id, text)
            await self._send(title, note, "It is noted.", text=text)

    async def _proposals(self) -> None:
        from kshunt.tui.dialogs.proposals import ProposalsScreen

        app = self._app
        app.polling.nudge()
        wish = await app.push_screen_wait(ProposalsScreen(app))
        if wish is None or self._refused():
            return
        if wish.verb == "approve":
            app.workflows.approve(wish.proposal)
        elif wish.verb == "reject":
            self._start(self._reject(wish.proposal))
        else:
            withdraw = partial(_withdraw, wish.proposal.id, self._cluster_id)
            title = f"Withdraw proposal {wish.proposal.id}"
            self._start(self._send(title, withdraw, "It is withdrawn."))

    async def _reject(self, proposal: ShownProposal) -> None:
        title = f"Reject proposal {proposal.id}"
        hint = f"the reason, for {proposal.who} and the audit"
        screen = TextPromptScreen(title, (proposal.summary,), "Why", hint=hint, check=needed)
        reason = await self._asked(screen)
        if reason is not None:
            reject = partial(_reject, proposal.id, self._cluster_id, reason)
            await self._send(title, reject, "It is rejected.", reason=reason)

    @property
    def _cluster_id(self) -> str:
        return self._app.store.scene.cluster_id

    async def _asked(self, screen: TextPromptScreen) -> str | None:
        found = await self._app.push_screen_wait(screen)
        if found is None:
            self._app.say("Nothing was sent.")
        return found

    async def _send(
        self,
        title: str,
        send: Callable[[BackendClient], object],
        said: str,
        *,
        text: str = "",
        reason: str = "",
    ) -> None:
        app = self._app
        words = f"{title}: {text}" if text else title
        try:
            await self._service.send_note(words, send, reason)
        except KshuntError as error:
            await app.push_screen_wait(ErrorScreen(title, error, sent=True))
            return
        app.say(said)

    def _refused(self) -> bool:
        """Say why nothing can be sent; True if so."""
        app = self._app
        why = app.playback.refusal() or (READ_ONLY if app.read_only else "")
        if not why and not app.store.scene.live:
            why = "The connection is lost: nothing can be sent until it is back."
        if why:
            app.say(why, "warn")
        return bool(why)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        if self._refused():
            work.close()
        else:
            self._app.run_worker(work, group="teamwork")


def _claim(id: str, cluster: str, reason: str, take_over: bool, client: BackendClient) -> None:
    change = Change(cluster_id=cluster, who=who_am_i(), reason=reason)
    client.operations.claim(id, change, take_over=take_over)


def _release(id: str, cluster: str, client: BackendClient) -> None:
    client.operations.release(id, Change(cluster_id=cluster, who=who_am_i()))


def _note(id: str, cluster: str, text: str, client: BackendClient) -> None:
    client.operations.add_note(id, text, Change(cluster_id=cluster, who=who_am_i()))


def _reject(id: str, cluster: str, reason: str, client: BackendClient) -> None:
    client.proposals.reject(id, Change(cluster_id=cluster, reason=reason))


def _withdraw(id: str, cluster: str, client: BackendClient) -> None:
    client.proposals.withdraw(id, Change(cluster_id=cluster))
