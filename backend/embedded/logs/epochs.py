"""Which leader epoch wrote which offsets (KIP-101, KIP-279)."""

from __future__ import annotations

from bisect import bisect_right

UNDEFINED = (-1, -1)
"""Epoch and end offset of an epoch that this log knows nothing of."""


class LeaderEpochs:
    """The first offset of each leader epoch, both rising."""

    __slots__ = ("_starts",)

    def __init__(self) -> None:
        self._starts: list[tuple[int, int]] = []

    @property
    def latest(self) -> int:
        """The newest epoch, or -1."""
        return self._starts[-1][0] if self._starts else -1

    def assign(self, epoch: int, start_offset: int) -> None:
        """An epoch begins; one that is not newer than the latest changes nothing."""
        if epoch > self.latest:
            while self._starts and self._starts[-1][1] >= start_offset:
                self._starts.pop()
            self._starts.append((epoch, start_offset))

    def end_offset(self, epoch: int, log_end: int) -> tuple[int, int]:
        """Epoch and end offset as OffsetForLeaderEpoch answers them, or `UNDEFINED`.

        The largest epoch that is not above the one asked for, and the offset at which the next
        begins; an epoch before the first known one ends where that begins.
        """
        if not self._starts or epoch < 0 or epoch > self.latest:
            return UNDEFINED
        if epoch == self.latest:
            return epoch, log_end
        after = bisect_right(self._starts, epoch, key=lambda entry: entry[0])
        floor = self._starts[after - 1][0] if after else epoch
        return floor, self._starts[after][1]

    def at(self, offset: int) -> int:
        """The epoch that wrote an offset, or -1."""
        after = bisect_right(self._starts, offset, key=lambda entry: entry[1])
        return self._starts[after - 1][0] if after else -1

    def truncate_end(self, offset: int) -> None:
        """Forget the epochs that begin at `offset` or after it."""
        while self._starts and self._starts[-1][1] >= offset:
            self._starts.pop()

    def truncate_start(self, offset: int) -> None:
        """Let the epoch that holds `offset` begin there, and forget those before it."""
        after = bisect_right(self._starts, offset, key=lambda entry: entry[1])
        if after:
            self._starts[:after] = [(self._starts[after - 1][0], offset)]
