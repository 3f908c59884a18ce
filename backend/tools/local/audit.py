"""The audit read from the journal by this very process, for when no backend runs.

It follows, and never becomes the writer: it creates no topic, writes nothing, and fences nobody.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import aclosing
from typing import Final

from kshunt.backend.access.cluster_keys import ClusterKeys, default_path, named_path, read_keys
from kshunt.backend.admin.security.client_properties import load_client_config
from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.audit.lines import AuditRow, selected
from kshunt.backend.errors import ClusterUnreachable
from kshunt.backend.journal_storage.topic.topic_journal import TopicJournal
from kshunt.backend.operations.audit.lines import read_audit
from kshunt.backend.operations.journal.audit_chain import verified
from kshunt.backend.operations.journal.entries import JournalState
from kshunt.backend.operations.journal.port import Journal
from kshunt.backend.operations.journal.replay import Unproven
from kshunt.backend.operations.journal.second_copy import path_of, read_file
from kshunt.backend.operations.reassignment.queries import Queries
from kshunt.backend.tools.local.cluster import LocalCluster

READ_S: Final = 30.0
"""A journal that cannot be read to its end in this time is given up."""
NOT_PROVEN: Final = (
    "WARNING: these lines cannot be verified. This host has no key that signed them "
    "(--cluster-keys of a backend, or KSHUNT_CLUSTER_KEYS), or an earlier kshunt wrote them "
    "unsigned."
)
WRITER: Final = "audit"
"""It never becomes one."""


class LocalAudit:
    """What a backend would answer of the audit, read here."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster

    def rows(
        self,
        *,
        since_ms: int | None = None,
        until_ms: int | None = None,
        operation_id: str = "",
    ) -> tuple[str, tuple[AuditRow, ...]]:
        """See `AuditClient.rows`.

        Raises:
            ClusterUnreachable: the journal could not be read in time.
            NotAuthorized: the cluster refuses this principal.
        """
        cluster_id, state = self._cluster.run(self._read())
        if state.adopted:
            sys.stderr.write(f"{NOT_PROVEN}\n")
        rows = selected(
            read_audit(state), since_ms=since_ms, until_ms=until_ms, operation_id=operation_id
        )
        return cluster_id, rows

    def verify(self) -> tuple[int, tuple[str, ...]]:
        """See `AuditClient.verify`.

        Raises:
            ClusterUnreachable, NotAuthorized: as `rows`.
        """
        cluster_id, state = self._cluster.run(self._read())
        keys = _keys(cluster_id)
        known = read_file(path_of(cluster_id), cluster_id, keys)
        found = verified(state, "" if known is None else known.newest)
        if state.adopted:
            return 0, (NOT_PROVEN,)
        return found.lines, found.problems

    async def _read(self) -> tuple[str, JournalState]:
        cluster_id = await Queries(self._cluster.admin, SystemClock()).cluster_id()
        journal = self._journal(cluster_id)
        try:
            async with asyncio.timeout(READ_S), aclosing(journal.follow()) as states:
                await anext(states)
                # What a backend has just committed may not be handed to readers yet.
                return cluster_id, await journal.peek()
        except TimeoutError:
            raise ClusterUnreachable(
                f"The journal could not be read to its end within {READ_S:g} s. Nothing was "
                "changed.",
                advice="Check that its topic has a leader, and that no broker is overloaded.",
            ) from None
        finally:
            await journal.close()

    def _journal(self, cluster_id: str) -> Journal:
        clock, admin, settings = SystemClock(), self._cluster.admin, self._cluster.settings
        if settings.zookeeper:
            from kshunt.backend.admin.zookeeper.zookeeper_admin import ZooKeeperAdmin
            from kshunt.backend.journal_storage.zookeeper.parts import ZooKeeperParts

            if isinstance(admin, ZooKeeperAdmin):
                parts = ZooKeeperParts(admin.session, clock, _keys(cluster_id), Unproven.ADOPT)
                return parts.open_journal(cluster_id, WRITER)
        return TopicJournal(
            settings.bootstrap_servers,
            load_client_config(settings.command_config),
            cluster_id=cluster_id,
            writer=WRITER,
            clock=clock,
            keys=_keys(cluster_id),
            unproven=Unproven.ADOPT,
        )


def _keys(cluster_id: str) -> ClusterKeys:
    """Those of the cluster's backends, if this host has them: nothing is made here.

    Raises:
        ConfigError: a key file cannot be read or trusted.
    """
    named = named_path(None)
    path = named or default_path(cluster_id, os.environ)
    return read_keys(path) if named is not None or path.exists() else ClusterKeys.new()
