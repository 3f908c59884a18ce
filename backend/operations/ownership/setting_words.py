"""Throttle settings in words: before a change, after it, and as they were read back.

Goals
    A reader of the audit sees, broker by broker and topic by topic, what is set, and never a value
    that was only intended.
Constraints
    Pure. What could not be read is said to be so.
Algorithm
    `restored_by` lists what removing a throttle leaves at each setting, before it is written; it is
    kept with the operation. `unlike` compares that with what was read afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from kshunt.backend.domain.operations.operation import RestoredRow
from kshunt.backend.domain.text.formatting import exact_rate_text
from kshunt.backend.domain.throttles.configs import ReplicaSet
from kshunt.backend.operations.ownership.cells import FoundRate, ListKey, RateKey
from kshunt.backend.operations.ownership.ownership import (
    FoundSettings,
    ListCellId,
    Ownership,
    OwnershipStep,
    RateCellId,
)

Value: TypeAlias = int | str | None
"""A rate in bytes a second, None for none of the broker's own; or a list in Kafka's notation."""


@dataclass(frozen=True, slots=True)
class Restored:
    """What an operation leaves at one setting."""

    name: int | str
    """A broker or a topic."""
    key: RateKey | ListKey
    value: Value
    foreign: bool = False
    """Somebody else set it while the operation ran, so it stays."""

    @staticmethod
    def rows(restored: Iterable[Restored]) -> tuple[RestoredRow, ...]:
        """For an operation's details; the first that is said of a setting counts."""
        found: dict[tuple[int | str, str], RestoredRow] = {}
        for one in restored:
            place = (one.name, one.key.value)
            found.setdefault(place, (*place, one.value, one.foreign))
        return tuple(found.values())

    @classmethod
    def read(cls, rows: Iterable[RestoredRow] | None) -> tuple[Restored, ...]:
        """The opposite of `rows`; nothing where an older kshunt wrote them."""
        try:
            return tuple(
                cls(name, RateKey(key) if isinstance(name, int) else ListKey(key), value, foreign)
                for name, key, value, foreign in rows or ()
            )
        except ValueError:
            return ()

    @property
    def place(self) -> str:
        """`broker 3 leader rate`."""
        return setting_name(self.name, self.key)


def setting_name(name: int | str, key: RateKey | ListKey) -> str:
    """`broker 3 leader rate`, `topic orders follower list`."""
    return f"{'broker' if isinstance(name, int) else 'topic'} {name} {key.words}"


def own_words(found: FoundRate | None) -> str:
    """A broker's rate: its own, or the default that holds where it has none."""
    if found is None:
        return "not read"
    if found.own_bytes_per_s is None and found.value_bytes_per_s is not None:
        return f"no rate of its own, by default {exact_rate_text(found.value_bytes_per_s)}"
    return exact_rate_text(found.own_bytes_per_s)


def list_words(found: ReplicaSet | None) -> str:
    """A list of throttled replicas in Kafka's notation."""
    return "not read" if found is None else str(found) or "no replicas"


def read_words(
    rates: Iterable[RateCellId], lists: Iterable[ListCellId], present: FoundSettings
) -> tuple[str, ...]:
    """What was read at these settings, in words."""
    return (
        *(f"{setting_name(*i)}: {own_words(present.rates.get(i))}" for i in sorted(rates)),
        *(f"{setting_name(*j)}: {list_words(present.lists.get(j))}" for j in sorted(lists)),
    )


def restored_by(
    operation_id: str, before: Ownership, step: OwnershipStep, present: FoundSettings
) -> tuple[Restored, ...]:
    """What a lift leaves at each setting in which the operation has a share."""
    restored = []
    for i, cell in sorted(before.rates.items()):
        if not cell.holds(operation_id):
            continue
        found = present.rates.get(i)
        foreign = found is not None and cell.prior is not None and cell.is_foreign(found)
        restored.append(Restored(*i, _rate_after(i, before, step, found), foreign))
    for j, list_cell in sorted(before.lists.items()):
        if list_cell.holds(operation_id):
            listed = present.lists.get(j)
            extra = listed is not None and bool(list_cell.extra(listed))
            after = step.writes.lists.get(j, listed if listed is not None else ReplicaSet())
            restored.append(Restored(*j, str(after), extra))
    return tuple(restored)


def _rate_after(
    i: RateCellId, before: Ownership, step: OwnershipStep, found: FoundRate | None
) -> Value:
    if i in step.writes.rates:
        return step.writes.rates[i]
    if found is not None:
        return found.own_bytes_per_s
    cell = step.after.rates.get(i, before.rates[i])
    return cell.wanted_bytes_per_s


def lifting_words(
    operation_id: str, before: Ownership, step: OwnershipStep, present: FoundSettings
) -> tuple[str, ...]:
    """What a lift is about to write, setting by setting, and what it leaves to somebody else."""
    words = []
    for one in restored_by(operation_id, before, step, present):
        if isinstance(one.key, RateKey) and isinstance(one.name, int):
            i: RateCellId = (one.name, one.key)
            was = own_words(present.rates.get(i))
            if one.foreign:
                words.append(f"{one.place}: {was} stays, because somebody else set it")
            elif i in step.writes.rates:
                words.append(f"{one.place}: {was} → {_rate_aim(i, before, step)}")
        elif isinstance(one.key, ListKey) and isinstance(one.name, str):
            j: ListCellId = (one.name, one.key)
            if j in step.writes.lists:
                aim = list_words(step.writes.lists[j])
                words.append(f"{one.place}: {list_words(present.lists.get(j))} → {aim}")
    return tuple(words)


def _rate_aim(i: RateCellId, before: Ownership, step: OwnershipStep) -> str:
    """What will hold: also the default, where the broker gets no rate of its own."""
    value, prior = step.writes.rates[i], before.rates[i].prior
    inherited = value is None and prior is not None and prior.own_bytes_per_s is None
    return own_words(prior) if inherited else exact_rate_text(value)


def found_words(restored: Iterable[Restored], present: FoundSettings) -> tuple[str, ...]:
    """What was read at each setting, in words."""
    return tuple(f"{one.place}: {_found(one, present)}" for one in restored)


def _found(one: Restored, present: FoundSettings) -> str:
    if isinstance(one.key, RateKey) and isinstance(one.name, int):
        return own_words(present.rates.get((one.name, one.key)))
    if isinstance(one.key, ListKey) and isinstance(one.name, str):
        return list_words(present.lists.get((one.name, one.key)))
    return "not read"


def unlike(
    restored: Iterable[Restored], present: FoundSettings, ownership: Ownership
) -> tuple[str, ...]:
    """Each setting that is not as the operation would leave it, with both values.

    What another operation has put there is as it should be.
    """
    return tuple(
        words for one in restored if (words := _difference(one, present, ownership)) is not None
    )


def _difference(one: Restored, present: FoundSettings, ownership: Ownership) -> str | None:
    if isinstance(one.key, RateKey) and isinstance(one.name, int):
        found = present.rates.get((one.name, one.key))
        cell = ownership.rates.get((one.name, one.key))
        if found is None:
            return f"{one.place} could not be read"
        own = found.own_bytes_per_s
        if one.foreign and own == one.value:
            return f"{one.place} is {own_words(found)}, set by somebody else"
        others = cell is not None and cell.live and own == cell.wanted_bytes_per_s
        if own == one.value or others:
            return None
        wanted = exact_rate_text(one.value) if not isinstance(one.value, str) else one.value
        return f"{one.place} is {own_words(found)} instead of {wanted}"
    if isinstance(one.key, ListKey) and isinstance(one.name, str):
        listed = present.lists.get((one.name, one.key))
        if listed is None or str(listed) == one.value:
            return None
        list_cell = ownership.lists.get((one.name, one.key))
        if list_cell is not None and list_cell.live:
            return None
        return f"{one.place} is {list_words(listed)} instead of {one.value or 'no replicas'}"
    return None
