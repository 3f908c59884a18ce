"""What was copied by moves that have ended while others of the same batch continue.

Goals
    Progress over all moves never goes back because one of them ends.
Constraints
    Of a move that nobody here owns, a snapshot tells only as long as it runs. A snapshot from
    before the last one (the operator looks at the past) forgets what ended after it. Memory is
    bounded by the replicas that one batch copies.
Algorithm
    A replica counts with what it holds while it is copied, or while its operation runs. One that
    counted in the last snapshot and does not count in this one has ended. It still counts: with
    what it has by then, or with what it had if that was more or if it is gone. A batch lives as
    long as anything is copied, or an operation that moves something runs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kshunt.tui.facts.snapshot_facts import Facts

Ints = NDArray[np.int64]
_NO_KEYS: Final[Ints] = np.empty(0, np.int64)
_NONE_ENDED: Final[Ints] = np.empty((3, 0), np.int64)


class FinishedMoves:
    """Remembers the replicas of one batch of moves. For one thread."""

    def __init__(self) -> None:
        self._topics = _Numbers()
        self._brokers = _Numbers()
        self._at_ms = -1
        self._last: tuple[Ints, Ints] = (_NO_KEYS, _NO_KEYS)
        """Sorted keys of what counted in the last snapshot, and the bytes of each."""
        self._ended = _NONE_ENDED
        """Keys of what has ended, the bytes of each, and when it was seen to have ended."""

    @property
    def partitions(self) -> int:
        """How many partitions the replicas that have ended are of."""
        return len(np.unique(self._ended[0] >> 20))

    def take(self, facts: Facts, counted: NDArray[np.bool_], *, lives: bool) -> int:
        """A snapshot came in which these rows count: the bytes that were copied, by all.

        `lives` False ends the batch.
        """
        taken_ms = facts.snapshot.taken_ms
        if not lives:
            self._last, self._ended = (_NO_KEYS, _NO_KEYS), _NONE_ENDED
        if taken_ms < self._at_ms:
            self._ended = self._ended[:, self._ended[2] <= taken_ms]
        self._at_ms = taken_ms
        keys, sizes = self._keys(facts, np.flatnonzero(counted))
        present = self._known(keys, sizes)
        self._end(facts, keys)
        self._last = (keys, present)
        return int(present.sum()) + int(self._ended[1].sum())

    def _keys(self, facts: Facts, places: NDArray[np.intp]) -> tuple[Ints, Ints]:
        """The rows' keys, sorted, and their sizes."""
        rows = facts.rows
        topic = self._topics.of(facts.snapshot.topics)[rows.topic_index[places]]
        brokers, which = np.unique(rows.broker[places], return_inverse=True)
        broker = self._brokers.of(brokers.tolist())[which]
        keys = (topic << 44) | (rows.partition[places].astype(np.int64) << 20) | broker
        order = np.argsort(keys)
        return keys[order], rows.size_bytes[places][order]

    def _known(self, keys: Ints, sizes: Ints) -> Ints:
        """The sizes; where one is not known, the last that was."""
        old_keys, old = self._last
        if not len(old_keys) or not (sizes < 0).any():
            return np.maximum(sizes, 0)
        place = np.minimum(np.searchsorted(old_keys, keys), len(old_keys) - 1)
        was = np.where(old_keys[place] == keys, old[place], 0)
        return np.where(sizes < 0, was, sizes)

    def _end(self, facts: Facts, keys: Ints) -> None:
        """What counted and does not count any more has ended; what counts again has not."""
        old_keys, old = self._last
        self._ended = self._ended[:, ~np.isin(self._ended[0], keys)]
        if np.array_equal(old_keys, keys):
            return
        gone = ~np.isin(old_keys, keys)
        ended, had = old_keys[gone], old[gone]
        if not len(ended):
            return
        every, sizes = self._keys(facts, np.arange(len(facts.rows)))
        place = np.minimum(np.searchsorted(every, ended), max(len(every) - 1, 0))
        holds = np.where(every[place] == ended, sizes[place], 0) if len(every) else had
        when = np.full(len(ended), facts.snapshot.taken_ms, np.int64)
        new = np.stack((ended, np.maximum(had, holds), when))
        self._ended = np.concatenate((self._ended, new), axis=1)


class _Numbers:
    """A number for each name, the same one from snapshot to snapshot."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._of: object = None
        self._found = _NO_KEYS

    def of(self, names: Iterable[Hashable]) -> Ints:
        """The numbers of these names, in their order."""
        if names is not self._of:
            numbers = self._numbers
            found = [numbers.setdefault(name, len(numbers)) for name in names]
            self._found, self._of = np.array(found, np.int64), names
        return self._found
