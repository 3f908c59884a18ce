"""What the writer does about records of others, and about a topic that was deleted.

Goals
    While a backend acts, what it wrote stays in the journal even if others write there. A journal
    that was deleted under it comes back whole.
Constraints
    Kafka has no exclusive writer: others can write between two transactions, and Kafka
    says so to nobody.
Algorithm
    A writer knows the offset after its own last record, and a transaction's end takes one more. A
    gap before its next record means that somebody else wrote. It then reads from there, keeps what
    it finds as entries that nobody believes, and writes each entry of its own that was touched once
    more. `TopicRepair` notices; `restoring_appends` says what to write into a topic that was made
    anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from kshunt.backend.errors import JournalUnavailable
from kshunt.backend.journal_storage.topic.clients import Clients
from kshunt.backend.journal_storage.topic.fenced_transactions import CommittedReader, Writer
from kshunt.backend.operations.journal.entries import (
    BACKEND_KEY,
    MANIFEST_KEY,
    Body,
    EntryHeader,
    JournalState,
    Record,
)
from kshunt.backend.operations.journal.port import LOT, Repairs, in_lots
from kshunt.backend.operations.journal.replay import JournalReplay

HEAL_S: Final = 1.0
"""An append takes that much longer, at most, where somebody else wrote."""


class TopicRepair:
    """Finds what others wrote while this backend is the writer."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._reader: CommittedReader | None = None
        self._touched: dict[str, None] = {}
        """Entries to write once more, in the order in which they were found."""
        self._strange = 0
        self._lost = 0
        """Entries that were written into a topic made anew."""
        self.repairs = Repairs()
        """What is known to be written."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """What an operator should know of it."""
        found = []
        if self._strange:
            found.append(
                f"another client wrote {self._strange} records into the journal while this "
                "backend was active, and the backend wrote its own entries again; restrict WRITE "
                "on the topic by ACLs"
            )
        if self._lost:
            found.append(
                f"the topic of the journal was deleted, and the backend wrote its {self._lost} "
                "entries again from memory"
            )
        return tuple(found)

    def look(self, writer: Writer, fold: JournalReplay, until: float) -> bool:
        """Read what is between the writer's records; True where something was found.

        What is not reached in time is read the next time.
        """
        if writer.strange_from is None:
            return bool(self._touched)
        before = self._strange

        def take(key: bytes | None, value: bytes | None) -> None:
            touched = fold.foreign(key, value)
            self._strange += touched is not None or value is not None
            if touched is not None:
                self._touched[touched] = None

        if self._reader is None:
            self._reader = CommittedReader(self._clients, take, writer.strange_from)
        try:
            self._reader.read_to(writer.reached, until)
        except JournalUnavailable:
            return self._strange > before
        self.stop()
        writer.strange_from = None
        return self._strange > before or bool(self._touched)

    def due(self, state: JournalState) -> dict[str, Body]:
        """The next entries to write once more, and no more than one append takes."""
        some = list(self._touched)[:LOT]
        for key in some:
            del self._touched[key]
        wanted = (key for key in some if key not in (MANIFEST_KEY, BACKEND_KEY))
        return {key: state.entries[key].body for key in wanted if key in state.entries}

    def stop(self) -> None:
        """Release the consumer."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def came_back(self, entries: int) -> None:
        """Count the entries that were written into a topic made anew."""
        self._lost = entries
        self.repairs = replace(self.repairs, restored=self.repairs.restored + entries)

    def written_again(self, entries: int) -> None:
        """Count the entries that were due and are written."""
        total = self.repairs.written_again + entries
        self.repairs = replace(self.repairs, written_again=total)

    def adopted(self, entries: int) -> None:
        """Count the entries that are trusted on an operator's word, and signed."""
        self.repairs = replace(self.repairs, adopted=self.repairs.adopted + entries)


def restoring_appends(
    state: JournalState, fold: JournalReplay, header: EntryHeader
) -> Iterator[list[Record]]:
    """What to write, append by append, so that a topic made anew holds a state and nothing else.

    `fold` is that of the topic; it takes what was written before it is asked for more.
    """
    odd = [key for key in fold.state().entries if key not in state.entries and key != BACKEND_KEY]
    if odd:
        # Of an append that came into the new topic, and whose caller was told that it failed.
        yield fold.records(dict.fromkeys(odd), header, unfinished=True)
    bodies = {key: entry.body for key, entry in state.entries.items() if key != BACKEND_KEY}
    for some, last in in_lots(bodies):
        yield fold.records(some, header, unfinished=not last)
