"""Even out, or empty, the log directories of one broker.

Goals
    1. No replica lies in a directory that is to be emptied. Measured as the bytes left there.
    2. Where none is to be emptied: each directory holds between `1 - tolerance` and `1 + tolerance`
       times its share of the broker's bytes. The shares go by the sizes of the volumes, or are
       equal where one size is not known. Measured as the bytes above and below that.
    3. The fewest bytes are copied that reach what is reached of it.
Constraints
    - Replicas stay on their broker: the plan names the lists as they are, and directories
      (KIP-113).
    - What is added to a directory fits: its volume may be used up to `Scope.disk_fraction`; what
      leaves it is not counted as free. Nothing goes to one that is offline.
    - A replica of unknown directory stays. So does one of unknown size, unless its directory is to
      be emptied; then it counts as the largest known size.
    - Topics outside the scope and partitions that are being reassigned stay, and count.
Algorithm
    To empty: the largest replica first goes to the directory that is least full for its share. To
    even out: the best of all choices where they are few (`exhaustive_search`), else shed and pull
    (`leveller`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace as changed

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.cluster.metadata import LogDir, TopicPartition
from kshunt.backend.domain.planning.proposal import Cost, Measure, PlanNote, Proposal
from kshunt.backend.domain.text.formatting import bytes_text, listed, many
from kshunt.backend.errors import BadInput
from kshunt.backend.placement.plans.draft import PlanDraft, first_least
from kshunt.backend.placement.plans.exhaustive_search import Choices, best_of_all, few_enough
from kshunt.backend.placement.plans.leveller import Band, Floats, Items, Leveller
from kshunt.backend.placement.plans.rebalance import check_tolerance
from kshunt.backend.placement.plans.scope import Scope
from kshunt.backend.placement.plans.situation import BrokerFacts, Situation


def move_log_dirs(
    situation: Situation,
    broker: int,
    *,
    empty: Sequence[str] = (),
    tolerance: float = 0.1,
    scope: Scope | None = None,
) -> Proposal:
    """Empty the named directories of a broker, or even out all of them if none is named.

    Raises:
        BadInput: the broker is unknown, is down or has reported no directory. Also: a directory is
            not one of its own, or every one is to be emptied. Also: the tolerance is below 0, or
            no topic is in scope.
    """
    check_tolerance(tolerance)
    draft = PlanDraft(situation, scope or Scope())
    dirs = _Dirs(draft, draft.require([broker])[0], empty)
    if empty:
        before = dirs.left()
        notes = list(_drain(dirs))
        measure = Measure(
            "bytes left in the emptied directories", before, dirs.left(), in_bytes=True
        )
        return dirs.proposal(f"empty {listed(empty)} of broker {broker}", measure, notes)
    band = dirs.band(tolerance)
    before = float(band.outside(dirs.loads).sum())
    if before and not _solve(dirs, band):
        free = _Free(dirs)
        Leveller(free.items(), dirs.loads, band, free).level()
    after = float(band.outside(dirs.loads).sum())
    measure = Measure("bytes outside the band", before, after, in_bytes=True)
    notes = list(_uneven(dirs, band))
    return dirs.proposal(f"even out the log directories of broker {broker}", measure, notes)


class _Dirs:
    """The directories of a broker, and the replicas in them as items 0, 1, 2 and so on."""

    def __init__(self, draft: PlanDraft, broker: int, empty: Sequence[str]) -> None:
        self.draft = draft
        self.broker = draft.ids[broker]
        self.dirs = _directories(draft.facts[broker], empty)
        self.open = np.array([d.path not in empty and d.error is None for d in self.dirs], np.bool_)
        self.closed = [place for place, each in enumerate(self.dirs) if each.path in empty]
        self.room: Floats = np.array([_room(d, draft.scope.disk_fraction) for d in self.dirs])
        self.homeless, found = _where(
            draft, broker, {each.path: place for place, each in enumerate(self.dirs)}
        )
        self.rows = [row for row, _ in found]
        self.source = [place for _, place in found]
        self.target = list(self.source)
        sizes = draft.situation.size_bytes[self.rows] if found else np.zeros(0, np.int64)
        self.weights: Floats = np.maximum(sizes, 0).astype(np.float64)
        self.loads = np.bincount(
            np.array(self.source, np.int64), self.weights, minlength=len(self.dirs)
        ).astype(np.float64)

    def left(self) -> float:
        """Bytes in the directories to be emptied, by the sizes planned with."""
        there = [row for row, at in zip(self.rows, self.target, strict=True) if at in self.closed]
        return float(sum(self.draft.size(row) for row in there))

    def band(self, tolerance: float) -> Band:
        """Round each directory's share; one that is offline has none."""
        totals = np.array([each.total_bytes for each in self.dirs], np.float64)
        volumes = totals if (totals[self.open] > 0).all() else np.ones(len(totals))
        share = np.where(self.open, volumes, 0.0)
        goal = share / max(float(share.sum()), 1.0) * float(self.loads[self.open].sum())
        return Band(
            low=np.where(self.open, goal * (1 - tolerance), -np.inf),
            goal=goal,
            high=np.where(self.open, goal * (1 + tolerance), np.inf),
        )

    def free(self) -> NDArray[np.bool_]:
        """Replicas that may move to even out the directories. Shape (replicas,)."""
        movable = self.draft.movable[self.rows] if self.rows else np.zeros(0, np.bool_)
        at = np.array(self.source, np.int64)
        free: NDArray[np.bool_] = movable & (self.weights > 0) & self.open[at]
        return free

    def may_take(self, item: int) -> NDArray[np.bool_]:
        """Directories that may take it. Shape (directories,)."""
        mask = self.open & (self.room >= self.draft.size(self.rows[item]))
        mask[self.target[item]] = False
        return mask

    def move(self, item: int, target: int) -> None:
        """Put it there; where it was before, to undo its move."""
        size, home = self.draft.size(self.rows[item]), self.source[item]
        self.room[self.target[item]] += size if self.target[item] != home else 0
        self.room[target] -= size if target != home else 0
        self.target[item] = target

    def proposal(self, goal: str, measure: Measure, notes: Sequence[PlanNote]) -> Proposal:
        """What has come of it."""
        moved = [item for item, at in enumerate(self.target) if at != self.source[item]]
        names = {item: self.draft.name(self.rows[item]) for item in moved}
        ids = self.draft.ids
        lists = {
            names[item]: tuple(ids[broker] for broker in self.draft.replicas[self.rows[item]])
            for item in moved
        }
        unknown = [item for item in moved if self.draft.situation.size_bytes[self.rows[item]] < 0]
        return Proposal(
            goal=goal,
            before=lists,
            targets=dict(lists),
            cost=Cost(
                log_dir_bytes=int(sum(self.weights[item] for item in moved)),
                log_dir_replicas=len(moved),
                unknown_sizes=len(unknown),
            ),
            measure=measure,
            notes=(*notes, *self._reservations(len(unknown))),
            log_dirs=self._named(names, self.target),
            log_dirs_before=self._named(names, self.source),
        )

    def _reservations(self, unknown: int) -> Iterator[PlanNote]:
        """What the proposal rests on and nobody has measured."""
        if self.homeless:
            yield PlanNote(
                f"The directory of {many(self.homeless, 'replica')} of it is unknown; they stay.",
                "Plan again when the broker has reported it.",
                broker=self.broker,
            )
        if unknown:
            yield PlanNote(
                f"{many(unknown, 'replica')} of unknown size move; each counts as the largest "
                "known one.",
                "Plan again when the broker has reported its sizes.",
                broker=self.broker,
            )

    def _named(
        self, names: Mapping[int, TopicPartition], places: Sequence[int]
    ) -> dict[tuple[TopicPartition, int], str]:
        return {(name, self.broker): self.dirs[places[item]].path for item, name in names.items()}


class _Free:
    """The replicas that may move to even out the directories, as items of `leveller`."""

    def __init__(self, dirs: _Dirs) -> None:
        self._dirs = dirs
        self._items = np.flatnonzero(dirs.free()).tolist()

    def items(self) -> Items:
        """A column each."""
        weight = self._dirs.weights[self._items]
        source = np.array([self._dirs.source[item] for item in self._items], np.int64)
        return Items(source, weight, weight)

    def may_take(self, item: int) -> NDArray[np.bool_]:
        """Directories that may take it. Shape (directories,)."""
        return self._dirs.may_take(self._items[item])

    def may_return(self, item: int) -> bool:
        """Always: it is still there."""
        return True

    def move(self, item: int, target: int) -> None:
        """Put it there."""
        self._dirs.move(self._items[item], target)


def _directories(facts: BrokerFacts, empty: Sequence[str]) -> list[LogDir]:
    """The broker's directories by path.

    Raises:
        BadInput: as `move_log_dirs` says.
    """
    dirs = sorted(facts.log_dirs, key=lambda each: each.path)
    if not facts.up or not dirs:
        raise BadInput(
            f"Broker {facts.id} is down or has not reported its directories.",
            advice="Nothing was planned; start it, and try again.",
        )
    strange = [path for path in empty if path not in {each.path for each in dirs}]
    if strange:
        raise BadInput(
            f"Broker {facts.id} has no log directory {listed(strange)}.",
            advice=f"It has {listed(each.path for each in dirs)}. Nothing was planned.",
        )
    if all(each.error is not None or each.path in empty for each in dirs):
        raise BadInput(
            f"Broker {facts.id} would have no log directory left.",
            advice="Drain the broker instead; nothing was planned.",
        )
    return dirs


def _where(
    draft: PlanDraft, broker: int, places: Mapping[str, int]
) -> tuple[int, list[tuple[int, int]]]:
    """How many of the broker's replicas lie nobody knows where, and (row, directory) of the others.

    The largest comes first.
    """
    rows, positions = np.nonzero(draft.table == broker)
    paths = draft.situation.log_dir_paths
    found = [
        (row, places[paths[at]])
        for row, at in zip(rows.tolist(), draft.situation.log_dir[rows, positions], strict=True)
        if at >= 0 and paths[at] in places
    ]
    ordered = sorted(found, key=lambda each: (-draft.size(each[0]), each[0]))
    return len(rows) - len(found), ordered


def _room(directory: LogDir, fraction: float) -> float:
    """What may be added to a directory; infinity where its volume is not known."""
    if directory.total_bytes < 0 or directory.usable_bytes < 0:
        return float("inf")
    used = directory.total_bytes - directory.usable_bytes
    return max(fraction * directory.total_bytes - used, 0.0)


def _drain(dirs: _Dirs) -> Iterator[PlanNote]:
    share = np.where(dirs.open, np.maximum(dirs.band(0.0).goal, 1.0), 1.0)
    for item, row in enumerate(dirs.rows):
        if dirs.source[item] not in dirs.closed:
            continue
        path = dirs.dirs[dirs.source[item]].path
        if not dirs.draft.movable[row]:
            note = dirs.draft.fixed(row)
            yield changed(note, broker=dirs.broker, why=f"{note.why} It stays in {path}.")
            continue
        target = first_least(dirs.may_take(item), dirs.loads / share)
        if target is None:
            yield PlanNote(
                f"No directory has space for {bytes_text(dirs.draft.size(row))}, so it stays in "
                f"{path}.",
                "Free some space on the broker, or move some of its replicas away.",
                dirs.draft.name(row),
                dirs.broker,
            )
            continue
        dirs.move(item, target)
        dirs.loads[target] += dirs.weights[item]


def _solve(dirs: _Dirs, band: Band) -> bool:
    """Take the best of all choices, if they are few; say whether that was done."""
    items = np.flatnonzero(dirs.free()).tolist()
    bins = len(dirs.dirs)
    if len(items) > 32 or not few_enough([int(dirs.open.sum())] * len(items), bins):
        return False
    options = [[dirs.source[item], *np.flatnonzero(dirs.may_take(item)).tolist()] for item in items]
    choices = [_choices(dirs, item, places) for item, places in zip(items, options, strict=True)]
    rest = dirs.loads - sum((each.loads[0] for each in choices), np.zeros(bins))
    best = best_of_all(
        choices, rest, dirs.room, lambda states: band.outside(states).sum(axis=1), float("inf")
    )
    for item, places, choice in zip(items, options, best, strict=True):
        if choice:
            dirs.move(item, places[choice])
            dirs.loads[dirs.source[item]] -= dirs.weights[item]
            dirs.loads[places[choice]] += dirs.weights[item]
    return True


def _choices(dirs: _Dirs, item: int, places: Sequence[int]) -> Choices:
    loads = np.zeros((len(places), len(dirs.dirs)))
    loads[np.arange(len(places)), places] = dirs.weights[item]
    added = loads.copy()
    added[0] = 0.0
    return Choices(loads, added.sum(axis=1), added)


def _uneven(dirs: _Dirs, band: Band) -> Iterator[PlanNote]:
    far = band.outside(dirs.loads)
    for place in np.flatnonzero(far > 1e-6 * max(float(dirs.loads.max(initial=0.0)), 1.0)):
        yield PlanNote(
            f"{dirs.dirs[place].path} gets {bytes_text(float(dirs.loads[place]))}, but its share "
            f"is {bytes_text(float(band.goal[place]))}; no other replica may move and brings it "
            "nearer.",
            "Allow a larger tolerance, or free some space.",
            broker=dirs.broker,
        )
