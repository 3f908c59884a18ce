"""What is wrong, the most urgent first: one list for the head, the home screen and for `!`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from backend.domain.lifecycle import OperationState
from tui.text import plural
from tui.views import BROKERS, OPERATIONS, PARTITIONS, THROTTLES, number_key

if TYPE_CHECKING:
    from backend.domain.operation import Operation
    from backend.domain.steering import ShownDrift, Standing
    from tui.store import Store
    from tui.tables.base import RowKey

OUT_OF_SYNC: Final = "-insync -adding"
"""A filter: replicas that should be in sync and are not."""
_BROKER: Final = re.compile(r"\b[Bb]roker (\d+)\b")
_THROTTLES, _OPERATIONS = number_key(THROTTLES), number_key(OPERATIONS)


@dataclass(frozen=True, slots=True)
class Target:
    """Where something is to be seen, and mended."""

    view: str
    key: RowKey | None = None
    """The row that the cursor goes to; None for wherever it was."""
    filter_text: str | None = None
    """The filter that is set; None leaves the filter as it is, where it shows the row."""
    press: str = ""
    """The key that mends it there, or empty."""

    @property
    def keys(self) -> str:
        """What leads there, and on: `4 d`."""
        return f"{number_key(self.view)} {self.press}".rstrip()


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that an operator should look at."""

    text: str
    """A sentence."""
    tone: str = "warn"
    target: Target | None = None
    """None where no view shows more of it."""
    id: str = ""
    """What stays the same about it through refreshes; empty where that is its text."""

    def __str__(self) -> str:
        return self.text

    @property
    def key(self) -> str:
        """What identifies it."""
        return self.id or self.text


def attention(store: Store) -> tuple[Item, ...]:
    """One sentence for each thing that an operator should look at."""
    found = [_drift(one) for one in sorted(store.drift, key=lambda one: one.id)]
    found += _paused(store.operations)
    found += _offline(store)
    if store.summary is not None:
        found += [_problem(text, store) for text in store.summary.problems]
        if store.summary.stuck:
            from tui.tables.causes import stuck_sentence

            target = Target(PARTITIONS, filter_text="stuck")
            found.append(Item(stuck_sentence(store.summary.stuck), "bad", target, "stuck"))
    if store.standing is not None:
        found += _standing(store.standing)
    found += _orphans(store)
    found += [
        Item(f"{about[:1].upper()}{about[1:]} could not be read: {why}", id=f"unanswered {about}")
        for about, why in store.unanswered.items()
    ]
    found += [Item(store.recording, id="recording")] if store.recording else []
    return tuple(found)


def watchful(store: Store) -> tuple[Item, ...]:
    """What the home screen points out besides: not wrong while moves run, but to be known."""
    found = list(attention(store))
    summary, home = store.summary, store.home
    if summary is not None and summary.eta_never > summary.stuck_replicas:
        never = plural(summary.eta_never - summary.stuck_replicas, "replica")
        target = Target(PARTITIONS, filter_text="eta:never")
        found.append(Item(f"{never} will not arrive at this rate.", "bad", target, "never"))
    if home is not None and home.health.under_replicated:
        target = Target(PARTITIONS, filter_text=OUT_OF_SYNC)
        text = f"{home.health.under_replicated_words}."
        found.append(Item(text, "warn", target, "under-replicated"))
    if store.foreign:
        moves = plural(store.foreign, "move")
        text = f"{moves} of others: throttles stay on when they end."
        found.append(Item(text, "warn", Target(THROTTLES, press="t"), "foreign"))
    if summary is not None and not summary.moving_partitions and summary.misled_partitions:
        led = plural(summary.misled_partitions, "partition")
        target = Target(PARTITIONS, filter_text="misled", press="l")
        found.append(Item(f"{led} not led by the preferred replica.", "", target, "misled"))
    return tuple(found)


def _drift(one: ShownDrift) -> Item:
    from tui.tables.mending import drift_words, owner_words
    from tui.tables.throttles import ListKey, RateKey

    key = RateKey(one.broker) if one.broker is not None else ListKey(one.topic or "")
    text = f"Drift: {drift_words(one)} ({owner_words(one.operations)})."
    return Item(text, "warn", Target(THROTTLES, key, press="d"), f"drift {one.setting} {key}")


def _paused(operations: Sequence[Operation]) -> list[Item]:
    """Said before what stands still because of it."""
    return [
        Item(
            f"Operation {one.id} is paused, its copies are held: {_OPERATIONS}, then p, "
            "resumes it.",
            "warn",
            Target(OPERATIONS, one.id, press="p"),
            f"paused {one.id}",
        )
        for one in operations
        if one.state is OperationState.PAUSED
    ]


def _offline(store: Store) -> list[Item]:
    """Partitions that nobody can write to."""
    found = []
    if store.summary is not None and store.summary.leaderless_partitions:
        count = plural(store.summary.leaderless_partitions, "partition")
        target = Target(PARTITIONS, filter_text="offline")
        found.append(Item(f"{count} without a leader: offline.", "bad", target, "leaderless"))
    if store.home is not None and store.home.health.under_min_isr:
        count = plural(store.home.health.under_min_isr, "partition")
        target = Target(PARTITIONS, filter_text=OUT_OF_SYNC)
        text = f"{count} under min-ISR: producers with acks=all are refused."
        found.append(Item(text, "bad", target, "min-ISR"))
    return found


def _problem(text: str, store: Store) -> Item:
    """What could not be read; of a broker, where it names one."""
    text = text[:1].upper() + text[1:]
    named = _BROKER.search(text)
    known = store.snapshot is not None and named and int(named[1]) in store.snapshot.brokers
    return Item(text, "bad" if known else "warn", Target(BROKERS, int(named[1])) if named else None)


def _orphans(store: Store) -> list[Item]:
    """While moves run, lists name what has arrived already until somebody verifies."""
    if not store.orphans or (store.summary is not None and store.summary.moving_partitions):
        return []
    count = plural(len(store.orphans), "orphan throttle")
    text = f"{count}: {_THROTTLES} shows them, x removes."
    return [Item(text, "warn", Target(THROTTLES, press="x"), "orphans")]


def _standing(standing: Standing) -> list[Item]:
    target = Target(OPERATIONS)
    return [
        *(Item(text[:1].upper() + text[1:], "warn", target) for text in standing.remarks),
        *(
            Item(f"Journal entry not acted upon: {entry}", "warn", target)
            for entry in standing.unreadable
        ),
    ]
