"""Notes in Markdown: for the next operator, and of what happened. Pure functions."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.forecast.end_words import (
    apart_text,
    dated_text,
    moment_ms,
    never_text,
)
from kshunt.backend.domain.operations.lifecycle import OperationState
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.replicas.expected_end_values import ExpectedEnd
from kshunt.backend.domain.replicas.history import gaps
from kshunt.backend.domain.replicas.snapshot import HistoryPoint, Snapshot
from kshunt.backend.domain.replicas.stuck_sentences import stuck_text
from kshunt.backend.domain.text.axes import CHANGE_MARKS, Tick, Unit, moment_ticks
from kshunt.backend.domain.text.formatting import (
    bytes_text,
    duration_text,
    limit_text,
    many,
    moment_text,
    rate_text,
)
from kshunt.backend.domain.text.plots import Series, plot_lines
from kshunt.backend.domain.throttles.configs import ReplicaSet
from kshunt.tui.data.store import Store
from kshunt.tui.facts.cockpit.marks import INCIDENT
from kshunt.tui.facts.stuck_words import WORDING
from kshunt.tui.feed.messages import ActionTaken
from kshunt.tui.feed.polled_facts import DRIFT, OWNED
from kshunt.tui.feed.scene import Scene
from kshunt.tui.recorder.event_markers import action_words
from kshunt.tui.recorder.reader import Stop
from kshunt.tui.text.fitting import printable
from kshunt.tui.views.attention import attention

if TYPE_CHECKING:
    from kshunt.tui.facts.snapshot_facts import Summary

HOURS: Final = 6
"""How far back the notes report."""
THROTTLES_MOST: Final = 40
PLOT_WIDTH: Final = 78
PLOT_HEIGHT: Final = 12
_SPECIAL: Final = re.compile(r"([\\`*_\[\]<>|#])")


@dataclass(frozen=True, slots=True)
class RecordedFacts:
    """What a note is made of."""

    scene: Scene
    """At the moment of the note, which for a timeline is its end."""
    at_ms: int
    """That moment by the clock on the wall."""
    stops: tuple[Stop, ...]
    actions: tuple[tuple[int, ActionTaken], ...]
    points: tuple[HistoryPoint, ...]
    began_ms: int
    """When the recording began, by the clock on the wall."""
    trouble: tuple[str, ...] = ()
    """What of the recording could not be read."""


def handover(facts: RecordedFacts) -> str:
    """What runs, how far, what is wrong, what was done, what to watch."""
    scene, snapshot = facts.scene, facts.scene.snapshot
    lines = [f"# Hand-over of {_cluster(scene)}", "", f"As of {moment_text(facts.at_ms)}.", ""]
    if snapshot is None:
        return "\n".join([*lines, "Nothing was known about the cluster at that time.", ""])
    store = _store(facts)
    assert store.summary is not None
    lines += [_progress(store.summary, facts.at_ms), ""]
    lines += ["## What is running", "", *_running(scene.operations, snapshot, facts.at_ms), ""]
    lines += ["## Problems", ""]
    lines += [f"- {_md(str(item))}" for item in attention(store) if item.tone != "dim"] or [
        "No problem is known."
    ]
    lines += ["", "## Throttles", "", *_throttles(scene, snapshot), ""]
    lines += [f"## Done in the last {HOURS} hours", "", *_done(facts), ""]
    lines += ["## What to watch, and next steps", "", *_next_steps(store, facts.at_ms), ""]
    return "\n".join([*lines, *_source(facts)])


def timeline(facts: RecordedFacts) -> str:
    """Every change, incident and action with its time, and how the moves went."""
    incidents = [stop for stop in facts.stops if stop.mark.kind == INCIDENT]
    took = duration_text((facts.at_ms - facts.began_ms) / 1000)
    lines = [
        f"# Timeline of {_cluster(facts.scene)}",
        "",
        f"From {moment_text(facts.began_ms)} to {moment_text(facts.at_ms)}, {took}: "
        f"{many(len(incidents), 'incident')}, "
        f"{many(len(facts.stops) - len(incidents), 'change')}.",
        "",
        "## Operations",
        "",
        *_operations(facts.scene.operations, facts.at_ms),
        "",
        *_plots(facts.points),
        "## Events",
        "",
        "| UTC | After | What | |",
        "|---|---|---|---|",
        *_happened(facts),
        "",
    ]
    return "\n".join([*lines, *_source(facts)])


def _store(facts: RecordedFacts) -> Store:
    """The scene as the screens would have it: their words are used."""
    from kshunt.tui.facts.snapshot_facts import Facts

    scene = facts.scene
    assert scene.snapshot is not None
    seen = Facts(scene.snapshot)
    return Store(lambda: scene.received_s, scene, facts=seen, summary=seen.summary)


def _cluster(scene: Scene) -> str:
    if scene.snapshot is None:
        return "an unknown cluster"
    where = f" at {scene.info.bootstrap_servers}" if scene.info is not None else ""
    return _md(f"cluster {scene.snapshot.cluster_id}{where}")


def _progress(summary: Summary, at_ms: int) -> str:
    if not summary.moving_partitions:
        return "Nothing moves."
    return (
        f"{many(summary.moving_partitions, 'partition')} move "
        f"({many(summary.moving_replicas, 'replica')}), "
        f"{bytes_text(summary.remaining_bytes)} left at {rate_text(summary.rate_bytes_per_s)}. "
        f"{_end(summary.end, at_ms)}"
    )


def _end(end: ExpectedEnd | None, at_ms: int) -> str:
    """When it is done, in UTC: the reader's time zone is unknown."""
    when = None if end is None else dated_text(end, at_ms)
    if end is None or when is None:
        why = "" if end is None else never_text(end)
        return f"When it will be done is unknown{f': {_md(why)}' if why else ''}."
    apart = apart_text(end)
    return f"Done about {when}{f'; {apart}' if apart else ''}."


def _running(operations: Iterable[Operation], snapshot: Snapshot, at_ms: int) -> list[str]:
    lines = []
    for one in operations:
        if one.state.ended:
            continue
        since = duration_text(max(at_ms - one.started_ms, 0) / 1000)
        by = f" by {one.who}" if one.who else ""
        why = f" Why: {one.reason}." if one.reason else ""
        held = _throttled(one.throttle_bytes_per_s, _rates_now(one, snapshot))
        lines.append(
            f"- **{_md(one.id)}**, {one.state.words}, since {since}{_md(by)}: "
            f"{_md(one.summary)}.{held}{_md(why)}"
        )
    return lines or ["No operation runs."]


def _rates_now(operation: Operation, snapshot: Snapshot) -> set[int | None]:
    """The rates that brokers have now and under which they copy for it; None is no throttle."""
    mine, replicas = set(operation.partitions), snapshot.replicas
    found: set[int | None] = set()
    for row in np.flatnonzero(replicas.adding).tolist():
        topic = snapshot.topics[int(replicas.topic_index[row])]
        if TopicPartition(topic, int(replicas.partition[row])) not in mine:
            continue
        receives = snapshot.throttles.rates.get(int(replicas.broker[row]))
        sends = snapshot.throttles.rates.get(int(replicas.leader[row]))
        if receives is not None:
            found.add(receives.rate.follower_bytes_per_s)
        if sends is not None:
            found.add(sends.rate.leader_bytes_per_s)
    return found


def _throttled(asked_bytes_per_s: int | None, now: set[int | None]) -> str:
    """How fast it may copy, and how fast it might when it began, if that differs."""
    rates = sorted(rate for rate in now if rate is not None)
    if not now and asked_bytes_per_s is not None:
        return f" It began with a throttle of {rate_text(asked_bytes_per_s)}."
    if not rates:
        return (
            ""
            if asked_bytes_per_s is None
            else (f" Not throttled now; it began with {rate_text(asked_bytes_per_s)}.")
        )
    limits = " to ".join(rate_text(rate) for rate in dict.fromkeys((rates[0], rates[-1])))
    if now == {asked_bytes_per_s}:
        return f" Throttled to {limits}."
    some = " on some brokers" if None in now else ""
    return f" Throttled to {limits} now{some}; it began with {limit_text(asked_bytes_per_s)}."


def _throttles(scene: Scene, snapshot: Snapshot) -> list[str]:
    owners = _owners(scene)
    lines = []
    for id, one in sorted(snapshot.throttles.rates.items()):
        rate = one.rate
        if rate.leader_bytes_per_s is None and rate.follower_bytes_per_s is None:
            continue
        lines.append(
            f"- Broker {id}: sends {limit_text(rate.leader_bytes_per_s)}, "
            f"fetches {limit_text(rate.follower_bytes_per_s)}"
            f"{_md(owners.get(('broker', str(id)), ''))}"
        )
    for topic, lists in sorted(snapshot.throttles.replicas.items()):
        sides = f"{_entries(lists.leaders)} sending, {_entries(lists.followers)} fetching"
        owner = owners.get(("topic", topic), "")
        lines.append(f"- Topic {_md(topic)}: {sides}{_md(owner)}")
    more = [f"- and {len(lines) - THROTTLES_MOST} more"] if len(lines) > THROTTLES_MOST else []
    return [*lines[:THROTTLES_MOST], *more] or ["No known throttle."]


def _entries(replicas: ReplicaSet) -> str:
    return "all replicas" if replicas.everything else many(len(replicas.pairs), "replica")


def _owners(scene: Scene) -> dict[tuple[str, str], str]:
    """By broker or topic: whose its throttles are, where the backend has said."""
    named: dict[tuple[str, str], dict[str, None]] = {}
    for one in scene.answer(OWNED) or ():
        key = ("topic", str(one.topic)) if one.broker is None else ("broker", str(one.broker))
        shares = {f"{share.operation} of {share.who or '?'}": None for share in one.shares}
        named[key] = {**named.get(key, {}), **shares}
    return {key: f" (operation {', '.join(who)})" for key, who in named.items() if who}


def _done(facts: RecordedFacts) -> list[str]:
    since = facts.at_ms - HOURS * 3_600_000
    lines = [
        f"- {moment_text(at_ms)} {_md(action_words(action))}"
        for at_ms, action in facts.actions
        if since <= at_ms <= facts.at_ms and action.stage in ("answered", "refused")
    ]
    ended = [one for one in facts.scene.operations if (one.ended_ms or 0) >= since]
    for one in reversed(ended):
        how = f": {one.outcome}" if one.outcome else ""
        by = f" (asked by {one.who})" if one.who else ""
        lines.append(
            f"- {moment_text(one.ended_ms or 0)} Operation {_md(one.id + by)} ended, "
            f"{one.state.words}{_md(how)}"
        )
    return lines or ["There was no request."]


def _next_steps(store: Store, at_ms: int) -> list[str]:
    summary, scene, snapshot = store.summary, store.scene, store.scene.snapshot
    assert summary is not None
    assert snapshot is not None
    steps = []
    end = summary.end
    if end is not None and end.p10_s is not None and end.p90_s is not None:
        first, last = (moment_ms(end, seconds) for seconds in (end.p10_s, end.p90_s))
        steps.append(
            f"- The moves should be done between {moment_text(first)} and {moment_text(last)}."
        )
    for stuck in list(snapshot.explained.values())[:5]:
        text = stuck_text(stuck, WORDING)
        words = f"{stuck.partition} on broker {stuck.broker}: {text.reason} {text.action}"
        steps.append(f"- {_md(words)}")
    for one in scene.operations:
        if one.state is OperationState.PAUSED:
            steps.append(f"- Operation {_md(one.id)} is paused: resume or cancel it.")
    if drift := scene.answer(DRIFT):
        steps.append(f"- Decide about {many(len(drift), 'throttle')} that somebody else changed.")
    if scene.running:
        steps.append("- Check that kshunt removes the throttles when the operations end.")
    return steps or ["- Nothing has to be done."]


def _operations(operations: Sequence[Operation], at_ms: int) -> list[str]:
    if not operations:
        return ["None was seen."]
    lines = ["| Operation | Who | What | Began | Took | State |", "|---|---|---|---|---|---|"]
    for one in reversed(operations):
        took = duration_text(max((one.ended_ms or at_ms) - one.started_ms, 0) / 1000)
        how = f"{one.state.words}{f': {one.outcome}' if one.outcome else ''}"
        cells = (one.id, one.who or "?", one.summary)
        row = " | ".join(map(_md, cells))
        lines.append(f"| {row} | {moment_text(one.started_ms)} | {took} | {_md(how)} |")
    return lines


def _plots(points: Sequence[HistoryPoint]) -> list[str]:
    times = [point.at_ms for point in points]
    if len(times) < 2:
        return []
    ticks = moment_ticks(times[0], times[-1], 6)
    left = [float(p.remaining_bytes) if p.remaining_bytes >= 0 else math.nan for p in points]
    rates = [point.rate_bytes_per_s for point in points]
    permitted = [point.permitted_bytes_per_s for point in points]
    limits = [math.nan if limit is None else float(limit) for limit in permitted]
    changes = [float(point.at_ms) for point in points if point.rates_changed]
    said = f"; `{CHANGE_MARKS[False]}`: throttles changed" if changes else ""
    both = [Series(limits, "-", is_limit=True), Series(rates)]
    return [
        *(f"## Bytes that remain{f' ({said[2:]})' if said else ''}", ""),
        *_plot(times, [Series(left)], Unit.BYTES, ticks, changes),
        *(f"## Throughput (`-` is what the throttles allow{said})", ""),
        *_plot(times, both, Unit.BYTES_PER_S, ticks, changes),
    ]


def _plot(
    times: Sequence[int],
    series: Sequence[Series],
    unit: Unit,
    ticks: Sequence[Tick],
    changes: Sequence[float],
) -> list[str]:
    lines = plot_lines(
        times, series, unit, ticks, PLOT_WIDTH, PLOT_HEIGHT, breaks=gaps(times), marks=changes
    )
    return ["```text", *(lines or ["(unknown)"]), "UTC", "```", ""]


def _happened(facts: RecordedFacts) -> list[str]:
    return [
        f"| {moment_text(stop.wall_ms)} "
        f"| {duration_text(max(stop.wall_ms - facts.began_ms, 0) / 1000)} "
        f"| {_md(stop.mark.text)} | {'**incident**' if stop.mark.kind == INCIDENT else ''} |"
        for stop in facts.stops
    ]


def _source(facts: RecordedFacts) -> list[str]:
    lines = [f"Written by kshunt from what one dashboard saw since {moment_text(facts.began_ms)}."]
    lines += [f"Some facts could not be read: {_md(text)}" for text in facts.trouble]
    return [*lines, ""]


def _md(text: str) -> str:
    """The text on one line, with nothing in it that Markdown or a terminal would act on."""
    return _SPECIAL.sub(r"\\\1", printable(text))
