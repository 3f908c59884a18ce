"""How fast replicas catch up: the arithmetic of the table `rates`, on arrays of many replicas.

`kshunt.backend.pipeline.tables.rates` says what is computed: anchors, segments, marks and clean
bytes. Here an anchor is a row; what was carried of a replica is one row before its anchors (its
*seed*). "What was known last" is a running maximum of row numbers, and a window's base is found by
one search in all marks, sorted by replica and time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kshunt.backend.pipeline.kernels.nan_arithmetic import (
    Floats,
    first_of,
    half_up,
    in_bytes,
    ratio,
    whole,
)
from kshunt.backend.pipeline.kernels.replica_runs import NULL, Bools, Ints, ReplicaRuns, known, take

COUNTERS: Final = (
    "at",
    "leader_at",
    "segment",
    "offset",
    "leader_offset",
    "bytes",
    "messages",
    "leader_bytes",
    "leader_messages",
)
"""Of an anchor whose offset is known. Times in milliseconds; bytes and messages are the clean ones
since the replica was first seen."""
_SEGMENT: Final = COUNTERS.index("segment")
_OF_LAST: Final = (
    "leader",
    "segment",
    "offset",
    "leader_offset",
    "sized_segment",
    "sized_offset",
    "sized_size",
    "leader_sized_segment",
    "leader_sized_offset",
    "leader_sized_size",
    "bytes",
    "messages",
    "leader_bytes",
    "leader_messages",
)
"""What is carried of a replica's last anchor, in addition to its time."""
COPY: Final = ("copying", "remaining")
"""The same, of what it was about then; `NULL` where a former version left them out."""
_COUNTED: Final = len(_OF_LAST) + 2 * len(COUNTERS)
FIXED: Final = _COUNTED + len(COPY)
"""Numbers that are carried of every replica: of its last anchor, of the last whose offset is
known, and of the first of its segment; `COPY` at the end."""


@dataclass(frozen=True, slots=True)
class RateSettings:
    """What the table is made with; times in milliseconds."""

    tick_ms: int
    gap_ms: int
    windows: Sequence[tuple[str, int, int]]
    """Of each its name, how far it reaches back, and its step."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples by replica and time. Times in milliseconds; what is unknown is `NULL`."""

    rid: Ints
    at: Ints
    leader: Ints
    leader_at: Ints
    offset: Ints
    leader_offset: Ints
    size: Ints
    leader_size: Ints
    lag_bytes: Ints
    copying: Ints
    """1: it is added or out of the ISR, and another replica leads; else 0."""
    in_isr: Ints
    """1 or 0."""

    def __getitem__(self, rows: Any) -> Samples:
        return Samples(*(getattr(self, name)[rows] for name in Samples.__slots__))


@dataclass(frozen=True, slots=True)
class RateState:
    """What is carried of replicas, one row each, in any order."""

    rid: Ints
    at: Ints
    fixed: Ints
    """Shape (`FIXED`, replicas)."""
    marks: Sequence[tuple[Ints, Ints]]
    """Of each window: how many marks of each replica, and their counters, the oldest first;
    shape (len(`COUNTERS`), all of them)."""

    @classmethod
    def nothing(cls, windows: int) -> RateState:
        """Of no replica."""
        none = np.empty(0, np.int64)
        no_marks = (none, np.empty((len(COUNTERS), 0), np.int64))
        return cls(none, none, np.empty((FIXED, 0), np.int64), (no_marks,) * windows)

    @property
    def known(self) -> Ints:
        """The last counters that are known."""
        return self.fixed[len(_OF_LAST) : len(_OF_LAST) + len(COUNTERS)]

    @property
    def first(self) -> Ints:
        """The first counters of the segment."""
        return self.fixed[len(_OF_LAST) + len(COUNTERS) : _COUNTED]

    def of(self, name: str) -> Ints:
        """A number of each replica's last anchor."""
        place = _COUNTED + COPY.index(name) if name in COPY else _OF_LAST.index(name)
        number: Ints = self.fixed[place]
        return number


@dataclass(frozen=True, slots=True)
class RateTable:
    """What was made of samples."""

    anchors: Ints
    """Which samples are a row of the table each."""
    columns: dict[str, Any]
    """The columns that are computed; times in milliseconds, unknown numbers `NULL` or NaN."""
    state: RateState
    """What is to be carried on; of no replica where nobody asked for it."""


def anchors_of(rid: Ints, at: Ints, tick_ms: int) -> Ints:
    """The last sample of each replica and tick, of samples by replica and time."""
    last = np.ones(len(at), np.bool_)
    tick = at // tick_ms
    last[:-1] = (rid[1:] != rid[:-1]) | (tick[1:] != tick[:-1])
    return np.flatnonzero(last)


def rates(
    samples: Samples, state: RateState, settings: RateSettings, *, carries: bool = True
) -> RateTable:
    """The rows of the table, and what is to be carried on if `carries`.

    `state` is older than all `samples`.
    """
    anchors = anchors_of(samples.rid, samples.at, settings.tick_ms)
    rows = _RateRows.of(samples[anchors], state, settings)
    columns = rows.columns()
    columns["tick"] = samples.at[anchors] // settings.tick_ms * settings.tick_ms
    columns["samples"] = np.diff(anchors, prepend=-1)
    carried = rows.state(columns) if carries else RateState.nothing(len(settings.windows))
    return RateTable(anchors, columns, carried)


@dataclass(frozen=True, slots=True)
class _RateRows:
    """Seeds and anchors by replica and time."""

    settings: RateSettings
    runs: ReplicaRuns
    is_anchor: Bools
    s: Samples
    segment: Ints
    own: _Log
    leaders: _Log
    pool: Ints
    """Counters of all rows, where known, then of the first anchors of the seeds' segments, then of
    carried marks. Shape (len(`COUNTERS`), ...)."""
    last_known: Ints
    """Of each row the last whose counters are known; -1: none."""
    prev_known: Ints
    """The same of the rows before it."""
    first: Ints
    """Where in the pool the first counters of its segment are, if any are known; else others."""
    marks: Sequence[_Marks]
    remaining: Ints
    """What each seed lacked; of anchors `NULL`."""

    @classmethod
    def of(cls, anchors: Samples, state: RateState, settings: RateSettings) -> _RateRows:
        """Put them into one order, and find out what holds for each."""
        s, seeds, is_anchor = _merged(anchors, state)
        runs = ReplicaRuns.of_keys(s.rid)
        segment = _segments(s, runs, seeds, state, settings.gap_ms)
        own = _Log.of(runs, segment, (s.offset, s.size), seeds, state, "")
        leaders = _Log.of(runs, segment, (s.leader_offset, s.leader_size), seeds, state, "leader_")
        counters = np.array(
            [s.at, s.leader_at, segment, s.offset, s.leader_offset, *own.sums, *leaders.sums]
        )
        counters[:, seeds] = state.known
        pool = np.concatenate([counters, state.first, *(m for _, m in state.marks)], axis=1)
        has = s.offset != NULL
        has[seeds] = state.known[0] != NULL
        last_known = runs.last(has)
        prev_known = runs.before(last_known)
        first = _firsts(runs, pool, segment, has, prev_known, seeds)
        here = has & (counters[0] == s.at)
        marks = _all_marks(settings, runs, s.at, here, seeds, state)
        remaining = np.full(len(s.at), NULL)
        remaining[seeds] = state.of("remaining")
        return cls(
            settings,
            runs,
            is_anchor,
            s,
            segment,
            own,
            leaders,
            pool,
            last_known,
            prev_known,
            first,
            marks,
            remaining,
        )

    def _base(self, window: int) -> Ints:
        """Where in the pool the counters are that a window starts at; -1: nothing is known."""
        ats, segments = self.pool[0], self.pool[_SEGMENT]
        marked = self.marks[window].before(self.s.at - self.settings.windows[window][1])
        marked = np.where(segments[marked] == self.segment, marked, -1)
        first = self.first
        earlier = (segments[first] == self.segment) & (ats[first] < self.s.at)
        return np.where(marked >= 0, marked, np.where(earlier, first, -1))

    # The rows of the table

    def columns(self) -> dict[str, Any]:
        """Of the anchors only."""
        rows = np.flatnonzero(self.is_anchor)
        bases = [self._base(i)[rows] for i in range(len(self.settings.windows))]
        gained = _Gained(self.pool, rows, self.last_known[rows] == rows)
        sizes = [gained.message_sizes(base) for base in bases]
        own_long, leaders_long = sizes[-1]
        size = first_of(own_long, leaders_long)
        segment = self.segment[rows]
        columns: dict[str, Any] = {"bytes_per_message": size, "segment_start": segment}
        for (name, _, _), base, (own, leaders) in zip(
            self.settings.windows, bases, sizes, strict=True
        ):
            own, leaders = first_of(own, size), first_of(leaders, leaders_long, size)
            columns |= gained.window(name, base, own, leaders)
        prev = self.prev_known[rows]
        columns |= gained.step(np.where(self.pool[_SEGMENT][prev] == segment, prev, -1), size)
        produced = columns[f"produced_{self.settings.windows[0][0]}_messages_per_s"]
        columns |= _remaining(self.s[rows], produced, size)
        return columns | self._copied(rows, columns)

    def _copied(self, rows: Ints, columns: dict[str, Any]) -> dict[str, Any]:
        """What each was copied since the row before it, and from which broker.

        A row belongs to a copy if the replica is copied then. It also does if the replica was
        copied at the row before and has come into the ISR since. So the time in which it arrives
        is part of the copy. Its log end says how far it advanced. Where that is not known, as when
        the leadership changed with the arrival, it copied what it had lacked. It cannot have copied
        more than its log holds, if retention has made that shorter meanwhile.
        """
        s, remaining = self.s, self._remaining_of(columns)
        prev = self.runs.before(np.arange(len(s.at)))[rows]
        seconds = (s.at[rows] - take(s.at, prev)) / 1e3
        near = (prev >= 0) & (s.at[rows] - s.at[prev] <= self.settings.gap_ms)
        came = near & (s.copying[prev] == 1) & (s.in_isr[rows] == 1)
        copying = s.copying[rows] == 1
        advanced, lacked = columns["advanced_bytes"], take(remaining, prev)
        left = np.where(copying & (remaining[rows] != NULL), remaining[rows], 0)
        rest = came & (advanced == NULL) & (lacked != NULL)
        copied = np.where(copying | came, advanced, NULL)
        copied = np.where(rest, np.maximum(lacked - left, 0), copied)
        cut = (copied != NULL) & self.own.shrank[rows] & (copied > s.size[rows])
        took = np.where(copying | came, columns["elapsed_s"], np.nan)
        source = np.where(copying & ~rest, s.leader[rows], take(s.leader, prev))
        return {
            "copied_from": np.where(copying | came, source, NULL),
            "copied_bytes": np.where(cut, s.size[rows], copied),
            "copied_s": np.where(rest, seconds, took),
        }

    def _remaining_of(self, columns: dict[str, Any]) -> Ints:
        """What each row lacks, those of the seeds included."""
        remaining = self.remaining.copy()
        remaining[self.is_anchor] = columns["remaining_bytes"]
        return remaining

    # What is carried on

    def state(self, columns: dict[str, Any]) -> RateState:
        """Of all replicas, those included that only the former state knows."""
        ends, s = self.runs.ends, self.s
        offsets = [self.runs.last(known(x))[ends] for x in (s.offset, s.leader_offset)]
        of_last = [
            s.leader[ends],
            self.segment[ends],
            take(s.offset, offsets[0]),
            take(s.leader_offset, offsets[1]),
            *(take(values, self.own.last[ends]) for values in self.own.pair),
            *(take(values, self.leaders.last[ends]) for values in self.leaders.pair),
            *(values[ends] for values in (*self.own.sums, *self.leaders.sums)),
        ]
        both = (self.last_known[ends], self.first[ends])
        counters = [take(values, at) for at in both for values in self.pool]
        marks = [self._marks_since(window, ends) for window in range(len(self.settings.windows))]
        copies = [s.copying[ends], self._remaining_of(columns)[ends]]
        return RateState(s.rid[ends], s.at[ends], np.array(of_last + counters + copies), marks)

    def _marks_since(self, window: int, ends: Ints) -> tuple[Ints, Ints]:
        """Marks that a window of a later tick may start at: the last before it, and later."""
        until = self.s.at[ends] - self.settings.windows[window][1]
        counts, where = self.marks[window].since(until, ends)
        return counts, self.pool[:, where]


def _merged(anchors: Samples, state: RateState) -> tuple[Samples, Ints, Bools]:
    """Both by replica and time; which rows the state's are, and which are not."""
    none = np.full(len(state.rid), NULL)
    seeds = Samples(
        rid=state.rid,
        at=state.at,
        leader=state.of("leader"),
        leader_at=none,
        offset=state.of("offset"),
        leader_offset=state.of("leader_offset"),
        size=none,
        leader_size=none,
        lag_bytes=none,
        copying=state.of("copying"),
        in_isr=none,
    )
    if not len(state.rid):
        return anchors, np.empty(0, np.int64), np.ones(len(anchors.rid), np.bool_)
    names = Samples.__slots__
    both = Samples(*(np.concatenate([getattr(x, n) for x in (seeds, anchors)]) for n in names))
    order = np.argsort(both.rid, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return both[order], place[: len(state.rid)], order >= len(state.rid)


def _segments(s: Samples, runs: ReplicaRuns, seeds: Ints, state: RateState, gap_ms: int) -> Ints:
    """When each row's segment began."""
    breaks = np.ones(len(s.at), np.bool_)
    breaks[1:] = (s.leader[1:] != s.leader[:-1]) | (s.at[1:] - s.at[:-1] > gap_ms)
    for offset in (s.offset, s.leader_offset):
        has = offset != NULL
        prev = runs.before(runs.last(has))
        breaks |= has & (prev >= 0) & (offset < offset[prev])
    breaks[runs.starts] = True
    starts = s.at.copy()
    starts[seeds] = state.of("segment")
    # The first row of a replica is always a start.
    return starts[runs.last(breaks)]


@dataclass(frozen=True, slots=True)
class _Log:
    """A log's clean bytes and messages so far: what it gained where it did not shrink."""

    pair: tuple[Ints, Ints, Ints]
    """Of each row segment, offset and size, where both of these are known."""
    last: Ints
    """Of each row the last at which they were; -1: none."""
    sums: tuple[Ints, Ints]
    """Bytes and messages so far."""
    shrank: Bools
    """Where it is shorter than it was when that was last known."""

    @classmethod
    def of(
        cls,
        runs: ReplicaRuns,
        segment: Ints,
        seen: tuple[Ints, Ints],
        seeds: Ints,
        state: RateState,
        whose: str,
    ) -> _Log:
        """`seen` are offset and size; `whose` is how the state calls the log."""
        pair = (segment.copy(), seen[0].copy(), seen[1].copy())
        for values, name in zip(pair, ("segment", "offset", "size"), strict=True):
            values[seeds] = state.of(f"{whose}sized_{name}")
        segments, offset, size = pair
        has = known(offset, size)
        last = runs.last(has)
        prev = runs.before(last)
        follows = has & (prev >= 0)
        shrank = follows & (size < size[prev])
        clean = follows & (segments[prev] == segments) & ~shrank
        gained = [np.where(clean, values - values[prev], 0) for values in (size, offset)]
        for values, name in zip(gained, ("bytes", "messages"), strict=True):
            values[seeds] = state.of(f"{whose}{name}")
        return cls(pair, last, (runs.sums(gained[0]), runs.sums(gained[1])), shrank)


def _firsts(
    runs: ReplicaRuns, pool: Ints, segment: Ints, has: Bools, prev_known: Ints, seeds: Ints
) -> Ints:
    n = len(segment)
    begins = has & ((prev_known < 0) | (pool[_SEGMENT][prev_known] != segment))
    where = np.arange(n)
    # The seeds' first counters follow those of the rows.
    begins[seeds] = pool[0, n : n + len(seeds)] != NULL
    where[seeds] = n + np.arange(len(seeds))
    last = runs.last(begins)
    return np.where(last >= 0, where[last], -1)


@dataclass(frozen=True, slots=True)
class _Marks:
    """The anchors that a window may start at, by replica and time."""

    pool: Ints
    """Where their counters are."""
    keys: Ints
    """Replica and time as one number."""
    starts: Ints
    """Of each row: the first mark of its replica, if it has any."""
    of: Ints
    """Of each row: its replica."""
    low: int
    span: int

    @classmethod
    def of_rows(cls, runs: ReplicaRuns, at: Ints, of: Ints, times: Ints, pool: Ints) -> _Marks:
        """Marks of replicas `of` at `times`, each replica's in order."""
        order = np.argsort(of, kind="stable")
        of, times, pool = of[order], times[order], pool[order]
        low = int(times.min()) - 1 if len(times) else 0
        span = max(int(at.max()) if len(at) else 0, low) - low + 1
        keys = of * span + (times - low)
        return cls(pool, keys, np.searchsorted(of, np.arange(len(runs.starts))), runs.of, low, span)

    def _place(self, until: Ints, of: Ints) -> Ints:
        """The last mark of a replica up to a time; the one before its first where there is none."""
        wanted = np.clip(until - self.low, 0, self.span - 1)
        return np.searchsorted(self.keys, of * self.span + wanted, side="right") - 1

    def before(self, until: Ints) -> Ints:
        """Of each row: where in the pool the last mark up to `until` is; -1: there is none."""
        place = self._place(until, self.of)
        return np.where(place >= self.starts[self.of], take(self.pool, place), -1)

    def since(self, until: Ints, ends: Ints) -> tuple[Ints, Ints]:
        """Of each replica how many marks there are from that one on; and all, in the pool."""
        replicas = self.of[ends]
        begin = np.maximum(self._place(until, replicas), self.starts)
        counts = np.append(self.starts[1:], len(self.keys))[: len(begin)] - begin
        shift = begin - (np.cumsum(counts) - counts)
        return counts, self.pool[np.repeat(shift, counts) + np.arange(counts.sum())]


def _all_marks(
    settings: RateSettings, runs: ReplicaRuns, at: Ints, here: Bools, seeds: Ints, state: RateState
) -> list[_Marks]:
    """Of each window: those carried, and rows whose step of time ended with the row after."""
    begin = len(at) + len(seeds)
    found = []
    for (_, _, step_ms), (counts, values) in zip(settings.windows, state.marks, strict=True):
        bucket = at // step_ms
        ended = np.zeros(len(at), np.bool_)
        ended[:-1] = bucket[1:] > bucket[:-1]
        ended[runs.ends] = False
        rows = np.flatnonzero(here & ended)
        of = np.concatenate([np.repeat(runs.of[seeds], counts), runs.of[rows]])
        times = np.concatenate([values[0], at[rows]])
        pool = np.concatenate([begin + np.arange(values.shape[1]), rows])
        found.append(_Marks.of_rows(runs, at, of, times, pool))
        begin += values.shape[1]
    return found


@dataclass(frozen=True, slots=True)
class _Gained:
    """What was gained between an earlier anchor and each row of the table."""

    pool: Ints
    rows: Ints
    here: Bools
    """The row's own counters are known."""

    def _since(self, counter: str, base: Ints) -> Floats:
        """NaN where either is not known."""
        values = self.pool[COUNTERS.index(counter)]
        this, then = values[self.rows], values[base]
        fits = self.here & (base >= 0) & known(this, then)
        return np.where(fits, (this - then).astype(np.float64), np.nan)

    def message_sizes(self, base: Ints) -> tuple[Floats, Floats]:
        """Bytes a message: of the replica's log, and of its leader's."""
        own = ratio(self._since("bytes", base), self._since("messages", base))
        leaders = (self._since(name, base) for name in ("leader_bytes", "leader_messages"))
        return own, ratio(*leaders)

    def window(self, name: str, base: Ints, own: Floats, leaders: Floats) -> dict[str, Floats]:
        """The rates since `base`, in bytes by these sizes of messages."""
        seconds, leader_seconds = (self._since(at, base) / 1e3 for at in ("at", "leader_at"))
        caught_up = ratio(self._since("offset", base), seconds)
        produced = ratio(self._since("leader_offset", base), leader_seconds)
        return {
            f"span_{name}_s": seconds,
            f"catch_up_{name}_messages_per_s": caught_up,
            f"catch_up_{name}_bytes_per_s": in_bytes(caught_up, own),
            f"produced_{name}_messages_per_s": produced,
            f"produced_{name}_bytes_per_s": in_bytes(produced, leaders),
        }

    def step(self, prev: Ints, size: Floats) -> dict[str, Any]:
        """What was copied since the anchor before, in the same segment."""
        advanced = self._since("offset", prev)
        # What was gained between the two where the log did not shrink, else by the messages' size.
        clean = self._since("messages", prev) == advanced
        guessed = half_up(in_bytes(advanced, size))
        return {
            "elapsed_s": self._since("at", prev) / 1e3,
            "advanced_messages": whole(advanced),
            "advanced_bytes": whole(np.where(clean, self._since("bytes", prev), guessed)),
        }


def _remaining(s: Samples, produced: Floats, size: Floats) -> dict[str, Any]:
    """The leader's log continues to grow between its report and the replica's."""
    grown = np.nan_to_num(produced * ((s.at - s.leader_at) / 1e3))
    fits = known(s.offset, s.leader_offset)
    lacks = np.where(fits, (s.leader_offset - s.offset).astype(np.float64), np.nan)
    messages = np.maximum(half_up(lacks + np.maximum(grown, 0.0)), 0.0)
    guessed = whole(half_up(in_bytes(messages, size)))
    return {
        "remaining_messages": whole(messages),
        "remaining_bytes": np.where(s.lag_bytes != NULL, s.lag_bytes, guessed),
    }
