"""A backend's webhooks: looks at the backend, and hands on what is worth a message."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from kshunt.backend.api.core.backend import WRITERS, Backend
from kshunt.backend.api.core.readiness import answers
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.untrusted.json_codec import to_document
from kshunt.backend.errors import KshuntError
from kshunt.backend.notify.changes import BackendMoment, Facts, Watch
from kshunt.backend.notify.deletions import PendingDeletions, pending_deletions
from kshunt.backend.notify.message import News
from kshunt.backend.notify.notifier import Notifier
from kshunt.backend.operations.lease.lease import LeaseState
from kshunt.backend.operations.throttles.repair import (
    change_id,
    orphan_words,
    shown_drift,
    shown_orphan,
)

log = logging.getLogger(__name__)

LOOK_S: Final = 1.0
ORPHANS_S: Final = 60.0
"""Orphans are looked for this often, and only where a throttle is set at all: all topics'
configurations are read for it."""


@asynccontextmanager
async def notifying_webhooks(
    backend: Backend, notifier: Notifier, orphans_s: float = ORPHANS_S
) -> AsyncIterator[None]:
    """Tell the hooks what changes meanwhile, and at the end that the backend was stopped.

    Raises:
        ConfigError: the file of messages that wait cannot be used.
    """
    await notifier.start()
    events = WebhookEvents(backend, notifier, orphans_s)
    backend.listeners.append(events.operation)
    backend.hooks = lambda: notifier.status
    task = asyncio.create_task(events.run(), name="webhook events")
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        events.ended()
        await notifier.stop()


class WebhookEvents:
    """See the module's text."""

    def __init__(self, backend: Backend, notifier: Notifier, orphans_s: float) -> None:
        self._backend = backend
        self._notifier = notifier
        self._orphans_s = orphans_s
        self._orphans_from_s = float("-inf")
        self._watch = Watch()
        self._last: BackendMoment | None = None

    def operation(self, operation: Operation) -> None:
        """An operation has changed, here or in the journal."""
        # The edge of the hooks: a caller that changes an operation must not fail for their sake.
        try:
            self._operation(operation)
        except Exception:
            log.exception("Operation %s could not be reported to the webhooks", operation.id)

    def _operation(self, operation: Operation) -> None:
        # As the writer begins, it reads what another one did, who has told it.
        active = self._backend.membership.duty is LeaseState.ACT
        if active and not self._watch.active:
            self._look(None)
        at_s = self._backend.clock.monotonic_s()
        self._tell(self._watch.operation(operation, at_s, tell=active))

    async def run(self) -> None:
        """Look, until cancelled."""
        while True:
            # The edge of the hooks: what fails in one look must not end all that come after it.
            try:
                self._look(await self._orphans())
            except Exception:
                log.exception("The check for webhooks failed")
            await self._backend.clock.wait_s(LOOK_S)

    def ended(self) -> None:
        """The backend has ended in good order."""
        if self._last is not None:
            self._tell(self._watch.ended(self._last))

    def _look(self, orphans: Facts | None) -> None:
        self._last = replace(self._seen(), orphans=orphans)
        self._tell(self._watch.seen(self._last))

    def _tell(self, news: Iterable[News]) -> None:
        snapshot = self._backend.hub.latest
        cluster = "" if snapshot is None else snapshot.cluster_id
        for one in news:
            self._notifier.tell(one, cluster)

    def _seen(self) -> BackendMoment:
        backend = self._backend
        duty, registry = backend.membership.duty, backend.registry
        unfinished = frozenset(registry.unfinished)
        # The engine stands still where nothing runs, and with it what it saw last.
        drift = [one for one in backend.engine.drift if unfinished & set(one.operations)]
        return BackendMoment(
            at_s=backend.clock.monotonic_s(),
            backend=backend.membership.me.backend,
            host=socket.gethostname(),
            active=duty is LeaseState.ACT,
            writes=duty in WRITERS,
            reachable=answers(backend),
            ends={} if backend.hub.latest is None else backend.hub.latest.expected_ends,
            drift={
                change_id(one): {**to_document(shown_drift(one)), "text": str(one)} for one in drift
            },
            operations=[one for one in registry if one.id in unfinished],
            leaving=self._leaving(),
            proposals=backend.approvals.listed(),
        )

    def _leaving(self) -> Mapping[str, PendingDeletions] | None:
        snapshot = self._backend.hub.latest
        if snapshot is None:
            return None
        before = self._last.leaving if self._last is not None else None
        still = {name for name, one in (before or {}).items() if one.readonly or one.deleting}
        return pending_deletions(snapshot, still)

    async def _orphans(self) -> Facts | None:
        """Orphans, where it is time to look; None where not, or where another backend tells."""
        backend, now_s = self._backend, self._backend.clock.monotonic_s()
        mine = backend.membership.duty in (LeaseState.ACT, LeaseState.IDLE)
        snapshot = backend.hub.latest
        if not mine or snapshot is None or now_s < self._orphans_from_s:
            return None
        self._orphans_from_s = now_s + self._orphans_s
        throttles = snapshot.throttles
        if not throttles.replicas and not any(one.sources for one in throttles.rates.values()):
            return {}
        try:
            found = await backend.throttle_repair.orphans()
        except KshuntError as error:
            log.info("The check for orphan throttles failed: %s", error)
            return None
        return {
            change_id(one): {**to_document(shown_orphan(one)), "text": orphan_words(one)}
            for one in found
        }
