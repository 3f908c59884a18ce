"""What was done to the journal's own entries, in the audit: few lines, even for many writes."""

from __future__ import annotations

from dataclasses import replace

from kshunt.backend.domain.audit.lines import AuditEvent
from kshunt.backend.domain.operations.change import Requester
from kshunt.backend.operations.core.journal_audit import PAUSE_S, JournalAudit, discarded_line
from kshunt.backend.operations.journal.port import Repairs
from tests.support.operations.approvals import Side, side


class Told:
    """An audit of a journal that counts as a test says."""

    def __init__(self) -> None:
        self.here: Side = side()
        self.repairs = Repairs()
        self.audit = JournalAudit(self.here.registry, self.here.clock, lambda: self.repairs)

    async def after(self, **counts: int) -> list[tuple[AuditEvent, str]]:
        """The lines that are new once the journal has counted these numbers of repairs."""
        before = len(self.here.audit())
        self.repairs = replace(self.repairs, **counts)
        await self.audit.tell()
        return [(line.event, line.outcome) for line in self.here.audit()[before:]]


ADOPTED = "kshunt trusts and signs {}, as --adopt-unsigned-journal says"
RESTORED = "somebody deleted the journal; kshunt wrote {} from memory"
AGAIN = "somebody else overwrote entries; kshunt wrote {} again"
REPAIRED = AuditEvent.JOURNAL_REPAIRED


async def test_each_thing_is_told_once_with_what_was_added() -> None:
    told = Told()
    assert await told.after() == []
    assert await told.after(adopted=1) == [
        (AuditEvent.JOURNAL_ADOPTED, ADOPTED.format("1 unsigned entry"))
    ]
    assert await told.after() == []
    assert await told.after(adopted=2_001, restored=1) == [
        (AuditEvent.JOURNAL_ADOPTED, ADOPTED.format("2,000 unsigned entries")),
        (REPAIRED, RESTORED.format("1 entry")),
    ]
    assert await told.after(restored=3) == [(REPAIRED, RESTORED.format("2 entries"))]
    line = told.here.audit()[-1]
    assert (line.who, line.kind, line.operation_id) == ("kshunt", "journal", "")


async def test_entries_that_are_written_again_make_one_line_in_ten_minutes() -> None:
    told = Told()
    assert await told.after(written_again=1) == [(REPAIRED, AGAIN.format("1 entry"))]
    assert await told.after(written_again=3) == []
    await told.here.clock.wait_s(PAUSE_S - 1)
    assert await told.after(written_again=5) == []
    await told.here.clock.wait_s(1)
    assert await told.after() == [(REPAIRED, AGAIN.format("4 entries"))]
    await told.here.clock.wait_s(PAUSE_S)
    assert await told.after() == []


async def test_all_at_once_are_three_lines() -> None:
    told = Told()
    assert len(await told.after(adopted=1, restored=1, written_again=1)) == 3
    assert await told.after() == []


def test_what_an_operator_discards_is_a_line_with_their_name() -> None:
    line = discarded_line(2, Requester("ada", "an old one"))
    assert (line.event, line.who, line.reason) == (
        *(AuditEvent.PRIOR_DISCARDED, "ada", "an old one"),
    )
    assert line.outcome == (
        "2 throttle records of a lost journal discarded; the settings stay as they are"
    )
    assert (line.time_ms, line.number) == (0, 0)
