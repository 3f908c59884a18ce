"""A partition in full: its replicas one by one, how a lag went, what keeps it, who moves it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.replicas.snapshot import UNKNOWN
from kshunt.backend.domain.text.formatting import (
    bytes_text,
    count_text,
    duration_text,
    eta_text,
    many,
    moment_text,
    rate_text,
)
from kshunt.tui.facts.forecast import age_text
from kshunt.tui.facts.lag_history import LagSample
from kshunt.tui.facts.leaving_partitions import asked_words
from kshunt.tui.facts.snapshot_facts import Facts
from kshunt.tui.facts.stuck_words import why_lines
from kshunt.tui.tables.lines import PaneLine
from kshunt.tui.text.bars import sparkline
from kshunt.tui.text.glyphs import Glyphs
from kshunt.tui.views.history.pipeline_results import cause_text, source_text
from kshunt.tui.views.partitions.replica_columns import mode_text, role_cell, status_cell
from kshunt.tui.views.partitions.topic_configs import TopicSettings

if TYPE_CHECKING:
    from kshunt.backend.domain.operations.operation import Operation
    from kshunt.backend.domain.pipeline.delivered import Rows, StallRow
    from kshunt.tui.facts.row_keys import ReplicaKey

SPARK_WIDTH: Final = 28
_HEAD: Final = ("Brk", "Role", "Status", "Lag", "Rate", "ETA", "Size")
_WIDTHS: Final = (5, 8, 11, 7, 7, 6, 7)
"""Cells of each column; the first and the last four stand at the right."""


def title_of(key: ReplicaKey) -> str:
    """What the pane is about."""
    return str(key)


def about(
    facts: Facts,
    key: ReplicaKey,
    samples: Sequence[LagSample],
    settings: TopicSettings,
    operations: Iterable[Operation],
    glyphs: Glyphs,
    stalls: Rows[StallRow] | None = None,
    now_ms: int = 0,
) -> list[PaneLine]:
    """Everything about the partition of a replica, what is urgent first.

    `stalls` are those of the replica that the data pipeline has; None where nobody has said.
    """
    places = facts.rows_of(key.topic, key.partition)
    mine = next((p for p in places if facts.rows.broker[p] == key.broker), None)
    if mine is None:
        return [PaneLine("", "This replica no longer exists.", "warn")]
    return [
        *_mode(facts, mine, operations),
        *_why(facts, mine),
        *_replicas(facts, places, key.broker),
        *_lag_history(facts, mine, samples, glyphs),
        *_stalls(stalls, now_ms),
        *_directories(facts, places),
        *_operations(facts, key, operations),
        PaneLine("Configs", settings.words, lines=3),
        PaneLine("Offsets", _offsets(facts, mine)),
    ]


def _why(facts: Facts, place: int) -> Iterable[PaneLine]:
    """Why it does not advance, and what to press."""
    snapshot = facts.snapshot
    for number, (label, text) in enumerate(why_lines(snapshot.why(place), snapshot)):
        yield PaneLine(label, text, "bad" if number == 0 and facts.stuck[place] else "", 3)


def _mode(facts: Facts, place: int, operations: Iterable[Operation]) -> Iterable[PaneLine]:
    """That it leaves, when, and who asked for that."""
    snapshot = facts.snapshot
    mode, partition = snapshot.mode_of(place), snapshot.partition_of(place)
    if mode is PartitionMode.READ_WRITE:
        return
    at_ms = snapshot.deletes_ms.get(partition)
    when = f" (at {moment_text(at_ms)})" if at_ms is not None else ""
    by = asked_words(partition.topic, operations)
    tone = "warn" if mode is PartitionMode.READ_ONLY else ""
    yield PaneLine("Mode", f"{mode}: {mode_text(snapshot, place)}{when}{by}", tone, 3)


def _replicas(facts: Facts, places: range, broker: int) -> Iterable[PaneLine]:
    yield PaneLine("Replicas", _aligned(_HEAD), "dim")
    for place in places:
        words, tone = _replica(facts, place)
        here = facts.rows.broker[place] == broker
        yield PaneLine("     here" if here else "", words, tone)


def _replica(facts: Facts, place: int) -> tuple[str, str]:
    rows = facts.rows
    broker = f"{rows.broker[place]}{'*' if rows.position[place] == 0 else ' '}"
    status = status_cell(facts, place, _WIDTHS[2])
    leads, behind = rows.leader[place] == rows.broker[place], bool(facts.behind[place])
    lag = "-" if leads else bytes_text(int(rows.lag_bytes[place]), tight=True)
    rate = rate_text(float(rows.catch_up_bytes_per_s[place]), tight=True)
    eta = eta_text(float(rows.eta_s[place]), _WIDTHS[5])
    parts = (
        broker,
        role_cell(facts, place, _WIDTHS[1]).text,
        status.text,
        lag,
        rate if behind and not leads else "",
        eta if behind and not leads else "",
        bytes_text(int(rows.size_bytes[place]), tight=True),
    )
    return _aligned(parts), status.tone if status.tone != "good" else ""


def _aligned(parts: Sequence[str]) -> str:
    cells = [
        text.ljust(width) if place in (1, 2) else text.rjust(width)
        for place, (text, width) in enumerate(zip(parts, _WIDTHS, strict=True))
    ]
    return " ".join(cells).rstrip()


def _lag_history(
    facts: Facts, place: int, samples: Sequence[LagSample], glyphs: Glyphs
) -> Iterable[PaneLine]:
    """How the lag of the replica under the cursor went, as far as this dashboard has seen it."""
    rows = facts.rows
    if rows.leader[place] == rows.broker[place]:
        return
    known = [sample for sample in samples if sample.lag_bytes >= 0]
    if len(samples) < 2 or not known:
        if facts.behind[place]:
            yield PaneLine("Lag", "its progress is shown after a moment", "dim")
        return
    values = [math.nan if s.lag_bytes < 0 else float(s.lag_bytes) for s in samples]
    cells = -(-len(values) // 2) if glyphs.spark else len(values)
    spark = sparkline(values, min(SPARK_WIDTH, cells), glyphs)
    span = duration_text((samples[-1].at_ms - known[0].at_ms) / 1000)
    now = bytes_text(int(rows.lag_bytes[place]))
    yield PaneLine("Lag", f"{spark} {now}, {bytes_text(known[0].lag_bytes)} {span} ago")


def _stalls(stalls: Rows[StallRow] | None, now_ms: int) -> Iterable[PaneLine]:
    """How often it stood still in the past day, for how long, and why."""
    if stalls is None or stalls.of.newest_ms is None:
        return
    source = source_text(stalls.of, now_ms)
    if not stalls.rows:
        yield PaneLine("Stalls", f"none of 10 s or more in a day {source}", "dim")
        return
    last = max(stalls.rows, key=lambda one: one.end_ms)
    took = duration_text(sum(one.seconds for one in stalls.rows))
    length = duration_text(last.seconds)
    ended = "continues" if last.open else f"ended {age_text(now_ms - last.end_ms)} ago"
    many = f"{len(stalls.rows) + stalls.more:,} in a day, {took} in all; the last of {length}"
    words = many if len(stalls.rows) > 1 else f"1 in a day, of {length},"
    words += f" {ended}: {cause_text(last.cause)}"
    yield PaneLine("Stalls", f"{words} {source}", "warn" if last.open else "", 2)


def _directories(facts: Facts, places: range) -> Iterable[PaneLine]:
    """`2, 3, 5: /var/lib/kafka`."""
    paths = facts.snapshot.log_dir_paths
    found: dict[str, list[str]] = {}
    for place in places:
        number = int(facts.rows.log_dir[place])
        path = paths[number] if 0 <= number < len(paths) else "?"
        found.setdefault(path, []).append(str(facts.rows.broker[place]))
    said = [f"{', '.join(brokers)}: {path}" for path, brokers in found.items()]
    yield PaneLine("Log dirs", "; ".join(said), lines=2)


def _operations(
    facts: Facts, key: ReplicaKey, operations: Iterable[Operation]
) -> Iterable[PaneLine]:
    """Who moves it, or moved it last."""
    partition = TopicPartition(key.topic, key.partition)
    touching = [one for one in operations if partition in one.partitions]
    touching.sort(key=lambda one: one.state.ended)
    for number, one in enumerate(touching[:2]):
        by = f" by {one.who}" if one.who else ""
        why = f": {one.reason}" if one.reason else ""
        more = f" (and {many(len(touching) - 2, 'other')})" if number and touching[2:] else ""
        words = f"{one.id} {one.kind.value} {one.state.words}{by}{why}{more}"
        yield PaneLine("" if number else "Operation", words, "dim" if one.state.ended else "")
    if not touching:
        place = facts.rows_of(key.topic, key.partition).start
        moves = bool(facts.moving[place])
        words = "somebody else's: kshunt does not own the move" if moves else "none touches it"
        yield PaneLine("Operation", words, "warn" if moves else "dim")


def _offsets(facts: Facts, place: int) -> str:
    rows = facts.rows
    end, lag = int(rows.log_end_offset[place]), int(rows.lag_messages[place])
    behind = "" if lag == UNKNOWN or not lag else f", {count_text(lag)} messages behind the leader"
    sides = (rows.leader_throttled[place], "leader"), (rows.follower_throttled[place], "follower")
    throttled = " and ".join(name for listed, name in sides if listed)
    listed = f"; in the {throttled} throttle list" if throttled else "; not in a throttle list"
    return f"log end {count_text(end)}{behind}{listed}"
