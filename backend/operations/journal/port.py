"""The journal's port: what backends of one cluster remember together.

Entries are those of `kshunt.backend.operations.journal.entries`;
`kshunt.backend.operations.lease.lease` says who may write them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from kshunt.backend.errors import Conflict
from kshunt.backend.limits import LIMITS
from kshunt.backend.operations.journal.entries import (
    Body,
    Entry,
    EntryKind,
    JournalState,
    forecasts_key,
    kind_of,
    team_key,
)

LOT: Final = 200
"""Entries that are signed in one append."""
RETRY_S: Final = 0.5
"""Between two attempts to reach a journal that does not answer."""


@dataclass(frozen=True, slots=True)
class Repairs:
    """What a journal did to its own entries since this backend started: numbers of entries."""

    adopted: int = 0
    """Trusted without a signature, on an operator's word, and signed."""
    written_again: int = 0
    """After somebody else wrote in their place."""
    restored: int = 0
    """Written into a topic made anew, after somebody deleted the journal."""


class Journal(Protocol):
    """What backends remember together; see `kshunt.backend.operations.journal.entries` for its
    entries."""

    @property
    def any_loop(self) -> bool:
        """Whether `append` may be awaited on another event loop than the other calls."""
        ...

    @property
    def state(self) -> JournalState:
        """What was committed, as far as this backend has read or written it."""
        ...

    @property
    def remarks(self) -> tuple[str, ...]:
        """What an operator should know of the topic's settings; empty where all is well."""
        ...

    @property
    def repairs(self) -> Repairs:
        """What was done to the journal's own entries."""
        ...

    async def open(self) -> JournalState:
        """Become the writer: fence the one before, then read everything that was committed.

        Raises:
            JournalUnavailable: the cluster did not answer; the former writer may be fenced.
            JournalUnusable: the topic has settings that would lose entries, or is not the one
                that was read before.
            NotAuthorized: the cluster refuses this principal.
            WrongCluster: these brokers are of another cluster.
        """
        ...

    async def peek(self) -> JournalState:
        """What is committed, with what was acknowledged already and is not shown to readers yet.

        It waits a moment for a transaction that somebody left open, and then ignores it.

        Raises:
            JournalUnavailable: the cluster did not answer.
            JournalUnusable, NotAuthorized, WrongCluster: as `open`.
        """
        ...

    async def append(
        self, entries: Mapping[str, Body | None], *, replacing: Collection[str] = ()
    ) -> None:
        """Write all of the entries or none of them; None removes what is under a key.

        Returns once every in-sync replica has them. To repeat an append after it was in doubt
        writes it once. The keys of unreadable entries must be named in `replacing`.

        Raises:
            BadInput: an entry has no proper key, or is no JSON object.
            Conflict: an unreadable or an audit entry would be overwritten; nothing was written.
            JournalFenced: this backend is not the writer any more, and must not act.
            JournalUnavailable: it did not succeed in time; see `JournalUnavailable.written`.
            JournalUnusable: the topic is gone, or another; what it held is lost.
            NotAuthorized: the cluster refuses this principal.
        """
        ...

    async def resolve(self) -> bool:
        """Whether the append that was in doubt was written; True if none was.

        Raises:
            JournalFenced: it is not known, and this backend must not act. `follow` shows it.
            JournalUnavailable: it is not known yet.
        """
        ...

    def follow(self) -> AsyncGenerator[JournalState, None]:
        """What is committed, again and again, without writing.

        Each value ends where a transaction ended. It may be a moment behind: Kafka acknowledges
        an append before its readers see it. There is none while the cluster does not answer.
        To be closed before `open`.

        Raises:
            JournalUnusable: the topic is gone, or another; what it held is lost.
            NotAuthorized: the cluster refuses this principal.
            WrongCluster: these brokers are of another cluster.
        """
        ...

    def nudge(self) -> None:
        """Let `follow` look immediately, and not when its time comes."""
        ...

    async def close(self) -> None:
        """Release what is held; no other call may follow."""
        ...


def check_append(
    state: JournalState, entries: Mapping[str, Body | None], replacing: Collection[str] = ()
) -> None:
    """Refuse what would destroy an entry unseen.

    Raises:
        Conflict: an unreadable entry is not named in `replacing`, or an audit entry would change.
    """
    for key, body in entries.items():
        unreadable = state.unreadable.get(key)
        if unreadable is not None and key not in replacing:
            raise Conflict(
                f"The journal's entry '{key}' is {unreadable.why}: {unreadable.detail}",
                advice="Nothing was written. Check it, and remove it if nobody needs it.",
            )
        if body is not None and kind_of(key) is EntryKind.AUDIT and key in state.entries:
            raise Conflict(f"The audit entry '{key}' is already written. Nothing was written.")


def retired(
    state: JournalState,
    ended: Callable[[Entry], bool],
    *,
    operations_kept: int = LIMITS.operations_kept,
    audit_kept: int = LIMITS.audit_kept,
) -> Mapping[str, None]:
    """What to append so that the journal does not grow: tombstones for the oldest entries.

    `ended` says of an operation's entry that nobody has to finish it. The operations that were
    written last, and the newest audit entries, stay; what is unreadable stays too.
    """
    over = [entry for entry in state.of(EntryKind.OPERATION).values() if ended(entry)]
    over.sort(key=lambda entry: (entry.header.time_ms, entry.key))
    audit = sorted(entry.key for entry in state.of(EntryKind.AUDIT).values())
    gone = [entry.key for entry in over[: max(0, len(over) - operations_kept)]]
    # What people said about an operation is dropped with it, and what was forecast of it.
    ids = [key.removeprefix(f"{EntryKind.OPERATION}/") for key in gone]
    about = [key_of(id) for id in ids for key_of in (team_key, forecasts_key)]
    gone += [key for key in about if key in state.entries]
    return dict.fromkeys(gone + audit[: max(0, len(audit) - audit_kept)])


def in_lots(entries: Mapping[str, Body], lot: int = LOT) -> Iterator[tuple[dict[str, Body], bool]]:
    """The entries for several appends, and whether each is the last one.

    The audit's lines come first: what comes last makes the journal ours.
    """
    keys = sorted(entries, key=lambda key: kind_of(key) is not EntryKind.AUDIT)
    for at in range(0, len(keys), lot):
        some = keys[at : at + lot]
        yield {key: entries[key] for key in some}, at + lot >= len(keys)
