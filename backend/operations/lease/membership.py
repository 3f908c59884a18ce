"""A backend's seat among those of one cluster: it learns the cluster's id, then keeps its lease.

Until the cluster has said who it is there is no journal, and nothing may be changed.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final

from kshunt.backend.clock import Clock
from kshunt.backend.errors import ClusterError, NotActiveYet
from kshunt.backend.operations.core.known_operations import has_unfinished
from kshunt.backend.operations.journal.entries import Body, Heartbeat, JournalState
from kshunt.backend.operations.journal.port import Journal, Repairs
from kshunt.backend.operations.lease.lease import ActiveEntry, LeaseState, LeaseTimes
from kshunt.backend.operations.lease.lease_manager import GLANCE_S, BackendIdentity, LeaseManager

RETRY_S: Final = 1.0

log = logging.getLogger(__name__)

_ALONE: Final = frozenset({LeaseState.ACT, LeaseState.IDLE, LeaseState.TAKE_OVER})
"""Duties of a backend that mean that no other backend acts."""


class Membership:
    """See the module's text. It is the registry's scribe."""

    def __init__(
        self,
        cluster_id: Callable[[], Awaitable[str]],
        open_journal: Callable[[str, str], Journal],
        me: BackendIdentity,
        clock: Clock,
        changed: Callable[[LeaseState, JournalState], None],
        terms: LeaseTimes | None = None,
    ) -> None:
        """`open_journal` gets the cluster's id and ours; `changed` gets each duty."""
        self.me = me
        self._cluster_id = cluster_id
        self._open_journal = open_journal
        self._clock = clock
        self._changed = changed
        self._terms = terms
        self._journal: Journal | None = None
        self._lease_manager: LeaseManager | None = None

    @property
    def lease_manager(self) -> LeaseManager | None:
        """The lease's keeper; None until the cluster is known."""
        return self._lease_manager

    @property
    def duty(self) -> LeaseState:
        """What this backend has to do now."""
        return LeaseState.FOLLOW if self._lease_manager is None else self._lease_manager.duty

    @property
    def state(self) -> JournalState:
        """What the journal holds, as far as it was read or written."""
        return JournalState() if self._lease_manager is None else self._lease_manager.state

    @property
    def active(self) -> ActiveEntry:
        """Who acts, as far as the journal says."""
        return None if self._lease_manager is None else self._lease_manager.active

    @property
    def actor(self) -> Heartbeat | None:
        """The other backend that is known to act at this moment."""
        return None if self._lease_manager is None else self._lease_manager.actor

    @property
    def remarks(self) -> tuple[str, ...]:
        """What an operator should know of the journal; empty where all is well."""
        if self._journal is None:
            return ()
        remarks = (*self._journal.remarks, *self._journal.state.remarks)
        trouble = None if self._lease_manager is None else self._lease_manager.trouble
        return remarks if trouble is None else (*remarks, str(trouble))

    @property
    def repairs(self) -> Repairs:
        """What was done to the journal's own entries."""
        return Repairs() if self._journal is None else self._journal.repairs

    @property
    def patience_s(self) -> float:
        """For how much longer the one that acts has to be silent for this one to take over."""
        return 0.0 if self._lease_manager is None else self._lease_manager.patience_s

    async def other(self, timeout_s: float) -> Heartbeat | None:
        """The other backend that acts, if any; waits while that is not known."""
        until_s = self._clock.monotonic_s() + timeout_s
        while self._lease_manager is None and self._clock.monotonic_s() < until_s:
            await self._clock.wait_s(GLANCE_S)
        if self._lease_manager is None:
            return None
        return await self._lease_manager.other(until_s - self._clock.monotonic_s())

    async def run(self) -> None:
        """Keep the seat, until cancelled."""
        journal = self._open_journal(await self._identified(), self.me.backend)
        self._journal = journal
        self._lease_manager = LeaseManager(
            journal, self.me, self._clock, self._changed, self._terms, unfinished=has_unfinished
        )
        await self._lease_manager.run()

    async def _identified(self) -> str:
        while True:
            try:
                return await self._cluster_id()
            except ClusterError as error:
                log.info("The cluster has not reported its id: %s", error)
                await self._clock.wait_s(RETRY_S)

    async def release(self) -> None:
        """Leave the seat to others immediately; call it after `run` was cancelled."""
        if self._lease_manager is not None:
            await self._lease_manager.release()
        if self._journal is not None:
            await self._journal.close()

    async def ready(self, timeout_s: float) -> None:
        """Return once this backend may change the cluster.

        Raises:
            NotActive: another backend acts, or who acts was not settled in time.
            JournalUnusable, NotAuthorized, WrongCluster: the journal needs an operator's help.
        """
        until_s = self._clock.monotonic_s() + timeout_s
        while self._lease_manager is None:
            if self._clock.monotonic_s() >= until_s:
                self.require()
            await self._clock.wait_s(GLANCE_S)
        await self._lease_manager.ready(until_s - self._clock.monotonic_s())

    def require(self) -> None:
        """Return only where this backend may change the cluster now.

        Raises:
            NotActive: it may not.
        """
        if self._lease_manager is None:
            raise NotActiveYet(
                "The cluster has not been reached yet. Nothing was changed; try again."
            )
        self._lease_manager.require()

    def guard(self) -> None:
        """Stop what this backend began while it acted, and what another may have taken over since.

        For the last moment before a request is sent: between `require` and that moment the cluster
        is read, and the process may have been stopped. It lets pass what needs no right to act.

        Raises:
            NotActive: another backend acts, or may act.
        """
        if self._lease_manager is not None and self._lease_manager.duty not in _ALONE:
            self._lease_manager.require()

    async def wait_while_paused(self) -> None:
        """As `LeaseManager.wait_while_paused`."""
        if self._lease_manager is not None:
            await self._lease_manager.wait_while_paused()

    async def append(
        self, entries: Mapping[str, Body | None], *, replacing: Collection[str] = ()
    ) -> None:
        """Write to the journal; as `LeaseManager.append`."""
        if self._lease_manager is None:
            self.require()
        else:
            await self._lease_manager.append(entries, replacing=replacing)
