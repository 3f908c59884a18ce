"""What was done to the journal's own entries, in the audit.

Goals
    An operator sees when entries were trusted without a signature, and when a backend had to write
    entries again.
Constraints
    Somebody who writes to the journal all the time must not fill the audit: the lines are few.
    A backend that is killed before its next look at the operations leaves no such line.
Algorithm
    The journal counts. What was added since the last line makes the next one; entries that are
    written again make one line in ten minutes at most.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from kshunt.backend.clock import Clock
from kshunt.backend.domain.audit.lines import AuditEntry, AuditEvent
from kshunt.backend.domain.operations.change import Requester
from kshunt.backend.domain.text.formatting import many
from kshunt.backend.operations.core.registry import Registry
from kshunt.backend.operations.journal.port import Repairs

PAUSE_S: Final = 600.0
"""Between two lines of entries that were written again."""
WHO: Final = "kshunt"
KIND: Final = "journal"


class JournalAudit:
    """See the module's text."""

    def __init__(self, registry: Registry, clock: Clock, repairs: Callable[[], Repairs]) -> None:
        """`repairs` is asked each time."""
        self._registry = registry
        self._clock = clock
        self._repairs = repairs
        self._audited = Repairs()
        self._quiet_until_s = 0.0

    async def tell(self) -> None:
        """Write a line for each thing that was done since the last one of its kind.

        Raises:
            NotActive, JournalFenced, JournalUnavailable: it was not written.
        """
        found, audited = self._repairs(), self._audited
        if adopted := found.adopted - audited.adopted:
            words = f"kshunt trusts and signs {_entries(adopted, 'unsigned ')}"
            audited = replace(audited, adopted=found.adopted)
            words += ", as --adopt-unsigned-journal says"
            await self._write(AuditEvent.JOURNAL_ADOPTED, words, audited)
        if restored := found.restored - audited.restored:
            words = f"somebody deleted the journal; kshunt wrote {_entries(restored)} from memory"
            audited = replace(audited, restored=found.restored)
            await self._write(AuditEvent.JOURNAL_REPAIRED, words, audited)
        now_s, again = self._clock.monotonic_s(), found.written_again - audited.written_again
        if again and now_s >= self._quiet_until_s:
            words = f"somebody else overwrote entries; kshunt wrote {_entries(again)} again"
            audited = replace(audited, written_again=found.written_again)
            await self._write(AuditEvent.JOURNAL_REPAIRED, words, audited)
            self._quiet_until_s = now_s + PAUSE_S

    async def _write(self, event: AuditEvent, outcome: str, audited: Repairs) -> None:
        await self._registry.tell(AuditEntry(0, 0, event, kind=KIND, who=WHO, outcome=outcome))
        self._audited = audited


def _entries(count: int, kind: str = "") -> str:
    return many(count, f"{kind}entry", f"{kind}entries")


def discarded_line(records: int, requester: Requester) -> AuditEntry:
    """An operator wants no values of before from a journal that was lost."""
    words = f"{many(records, 'throttle record')} of a lost journal discarded"
    return AuditEntry(
        time_ms=0,
        number=0,
        event=AuditEvent.PRIOR_DISCARDED,
        kind=KIND,
        who=requester.who,
        reason=requester.reason,
        outcome=f"{words}; the settings stay as they are",
    )
