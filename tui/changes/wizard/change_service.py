"""Between a change and the backend: look at it, rehearse it, send it. Shows nothing itself.

Every change goes through here, so that each is told in the words of its intent, and recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.preview import Preview
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.shrink.check import ShrinkCheck
from kshunt.backend.domain.shrink.phases import ShrinkRequest
from kshunt.backend.errors import BackendError, BackendUnreachable, KshuntError
from kshunt.backend.operator_identity import who_am_i
from kshunt.tui.changes.wizard.intent import Intent
from kshunt.tui.facts.rate_band import KEPT, RateChange
from kshunt.tui.feed.messages import ActionTaken

if TYPE_CHECKING:
    from kshunt.backend.api.client.backend_client import BackendClient
    from kshunt.tui.shell.dashboard import Dashboard

T = TypeVar("T")
CONFLICT: Final = 409
"""The cluster, or who acts for it, is not as it was."""

READ_ONLY: Final = "READ-ONLY: this is what kshunt would send; nothing can be sent."


class Stale(Exception):
    """The cluster has changed since the preview that was agreed to; nothing was changed."""


@dataclass(frozen=True, slots=True)
class ChangePreview:
    """What a change would touch, and what a rehearsal says."""

    rehearsal: ChangeAnswer
    preview: Preview | None = None
    """None where the backend has no preview of it."""
    check: ShrinkCheck | None = None
    """The safety view of a shrink."""
    refused: KshuntError | None = None
    """Why the backend would refuse a shrink, in addition to what its safety view says."""

    @property
    def possible(self) -> bool:
        """False where the rehearsal says that every item would fail."""
        return any(result.ok for result in self.rehearsal.results)


class ChangeService:
    """See the module's text."""

    def __init__(self, app: Dashboard) -> None:
        self._app = app

    @property
    def read_only(self) -> bool:
        """True where nothing may be sent."""
        return self._app.read_only

    async def look(self, intent: Intent) -> ChangePreview:
        """What it would touch, and what a rehearsal says.

        Raises:
            KshuntError: that cannot be known; nothing was changed.
        """
        if intent.shrink is not None:
            return await self._look_at_shrink(intent, intent.shrink)
        preview = await self._preview(intent)
        rehearsal = await self._ask(intent, _check_of(intent))
        return ChangePreview(rehearsal, preview)

    async def _look_at_shrink(self, intent: Intent, request: ShrinkRequest) -> ChangePreview:
        """Its safety view; it is rehearsed only where that refuses nothing."""
        check = await self._tell(
            "previewed",
            intent,
            lambda client: client.shrinks.check(
                request.topic, request.total_count, partitioner=request.partitioner
            ),
        )
        looked = ChangePreview(ChangeAnswer(True, None, ()), check=check)
        if check.refusals(request.insisted):
            return looked
        try:
            rehearsal = await self._ask(intent, _check_of(intent))
        except BackendUnreachable:
            raise
        except KshuntError as error:
            return replace(looked, refused=error)
        return replace(looked, rehearsal=rehearsal)

    async def send(self, intent: Intent, preview: Preview | None = None) -> ChangeAnswer:
        """Send it in earnest.

        Raises:
            Stale: the cluster is not what the preview was made from; nothing was changed.
            KshuntError: it was refused, or nobody knows what became of it.
        """
        assert not intent.is_refused(read_only=self.read_only)
        change = Change(
            cluster_id=intent.target.cluster_id,
            preview=preview.fingerprint if preview is not None else "",
            who=who_am_i(),
            reason=intent.reason,
        )
        try:
            answer = await self._ask(intent, change)
        except BackendError as error:
            if preview is not None and await self._is_stale(error, intent, preview):
                raise Stale(error.message) from None
            raise
        self._keep_rates(intent, answer)
        self._app.polling.nudge()
        return answer

    def _keep_rates(self, intent: Intent, answer: ChangeAnswer) -> None:
        """Keep the rates from before a change, so that it can be taken back."""
        failed = {one.item for one in answer.failures}
        changed = {id for id in intent.restores if str(id) not in failed}
        if changed:
            before = {id: intent.restores[id] for id in changed}
            after = {id: intent.rates[id] for id in changed}
            changes = self._app.store.rate_changes
            changes.append(RateChange(intent.target.cluster_id, before, after))
            del changes[:-KEPT]

    async def send_note(
        self, words: str, send: Callable[[BackendClient], object], reason: str = ""
    ) -> None:
        """Send what changes nothing in the cluster: a claim, a note, a verdict on a proposal.

        Args:
            words: what is asked for, as recordings have it.
            send: sends it.
            reason: why, in the operator's words.

        Raises:
            KshuntError: it was refused, or nobody knows what became of it.
        """
        await self._app.link.change(ActionTaken("sent", words, who_am_i(), reason), send)
        self._app.polling.nudge()

    async def _preview(self, intent: Intent) -> Preview | None:
        ask = intent.preview
        return None if ask is None else await self._tell("previewed", intent, ask)

    async def _ask(self, intent: Intent, change: Change) -> ChangeAnswer:
        stage = "rehearsed" if change.validate_only else "sent"
        return await self._tell(stage, intent, lambda client: intent.send(client, change))

    async def _tell(self, stage: str, intent: Intent, ask: Callable[[BackendClient], T]) -> T:
        """What the backend answers to a stage of a change."""
        link = self._app.link
        if intent.local:
            return await link.ask(ask)
        return await link.change(ActionTaken(stage, intent.words, who_am_i(), intent.reason), ask)

    async def _is_stale(self, error: BackendError, intent: Intent, preview: Preview) -> bool:
        """Whether a conflict is about the preview: a new one differs from it."""
        if error.status != CONFLICT or not preview.fingerprint:
            return False
        try:
            newer = await self._preview(intent)
        except KshuntError:
            return False
        return newer is not None and newer.fingerprint != preview.fingerprint


def _check_of(intent: Intent) -> Change:
    return Change(validate_only=True, cluster_id=intent.target.cluster_id)
