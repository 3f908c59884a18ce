"""What a backend of a cluster in ZooKeeper needs next to its admin: a journal, and the recovery."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from kshunt.backend.access.cluster_keys import ClusterKeys
from kshunt.backend.admin.zookeeper.session import Session
from kshunt.backend.clock import Clock
from kshunt.backend.journal_storage.zookeeper.removal_records import PATIENCE_S, Recovery, Removal
from kshunt.backend.journal_storage.zookeeper.znode_journal import ZnodeJournal
from kshunt.backend.operations.journal.replay import Unproven
from kshunt.backend.operations.lease.membership import Membership


class ZooKeeperParts:
    """Both, of one session."""

    def __init__(
        self,
        session: Session,
        clock: Clock,
        keys: ClusterKeys,
        unproven: Unproven = Unproven.REFUSE,
        *,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._session, self._clock = session, clock
        self._keys, self._unproven = keys, unproven
        self._patience_s = patience_s
        self._journal: ZnodeJournal | None = None

    def open_journal(self, cluster_id: str, backend_id: str) -> ZnodeJournal:
        """The cluster's journal, given its id and the backend's."""
        self._journal = ZnodeJournal(
            self._session,
            cluster_id=cluster_id,
            writer=backend_id,
            clock=self._clock,
            keys=self._keys,
            unproven=self._unproven,
        )
        return self._journal

    @asynccontextmanager
    async def recovering(self, membership: Membership) -> AsyncIterator[None]:
        """Meanwhile `Recovery` removes the throttles that ZooKeeper asks to remove."""
        recovery = Recovery(
            self._session, membership, self._clock, self._explained, self._patience_s
        )
        task = asyncio.create_task(recovery.run(), name="removal")
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def _explained(self) -> Removal:
        return Removal() if self._journal is None else self._journal.explained()
