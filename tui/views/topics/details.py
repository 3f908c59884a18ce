"""A topic in full: what it lacks, its moves, its brokers one by one, its configurations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from kshunt.backend.domain.cluster.config_names import MIN_ISR, ConfigSource
from kshunt.backend.domain.replicas.snapshot import UNKNOWN
from kshunt.backend.domain.text.formatting import (
    bytes_text,
    duration_text,
    many,
    rate_text,
)
from kshunt.backend.domain.throttles.configs import FOLLOWER_REPLICAS, LEADER_REPLICAS
from kshunt.tui.facts.cockpit.traffic import written_rows
from kshunt.tui.facts.replica_groups import GroupKey
from kshunt.tui.facts.snapshot_facts import Facts, known_sum, rate_sum
from kshunt.tui.tables.lines import PaneLine
from kshunt.tui.views.partitions.topic_configs import TopicSettings, setting_text
from kshunt.tui.views.topics.columns import UNEVEN, copied_text, skew_text
from kshunt.tui.views.topics.table import TopicTable
from kshunt.tui.views.topics.topic_sums import TopicSums

if TYPE_CHECKING:
    from kshunt.backend.domain.operations.operation import Operation
    from kshunt.backend.domain.topics.configs import TopicConfig

_RETENTION: Final = ("cleanup.policy", "retention.ms", "retention.bytes")
_HEAD: Final = ("Broker", "Leads", "Replicas", "Size", "Written")
_WIDTHS: Final = (6, 5, 8, 9, 10)


def about(
    table: TopicTable,
    key: GroupKey,
    settings: TopicSettings,
    operations: Iterable[Operation],
    brokers_most: int | None = None,
) -> list[PaneLine]:
    """Everything about a topic, what is urgent first.

    `brokers_most` lines are for brokers, those that hold the most; None for all of them.
    """
    place = table.facts.topic_places.get(key.name)
    if place is None or not table.sums.replicas[place]:
        return [PaneLine("", "This topic no longer exists.", "warn")]
    sums = table.sums
    return [
        *_lacks(sums, place),
        *_moves(sums, place, key.name, operations),
        PaneLine("Throttled", _listed(sums, place)),
        PaneLine("Min ISR", _min_isr(table.facts, sums, place, settings)),
        *_configs(settings),
        PaneLine("Skew", *_skew(sums, place)),
        *_brokers(table.facts, place, brokers_most),
    ]


def _lacks(sums: TopicSums, place: int) -> Iterable[PaneLine]:
    """Only what is wrong; one line that nothing is, else."""
    found = (
        (int(sums.under_min_isr[place]), "under min ISR: they refuse writes with acks=all", "bad"),
        (int(sums.stuck[place]), "stuck", "bad"),
        (
            int(sums.at_min_isr[place]),
            "at min ISR: one replica less, and they refuse writes",
            "warn",
        ),
        (int(sums.under_replicated[place]), "under-replicated", "warn"),
    )
    label = "Lacks"
    for count, words, tone in found:
        if count:
            noun = "replica" if words == "stuck" else "partition"
            yield PaneLine(label, f"{many(count, noun)} {words}", tone)
            label = ""
    if label:
        words = "nothing: every partition is fully replicated"
        if sums.min_isr_unknown[place]:
            words += "; min.insync.replicas is not known yet"
        yield PaneLine(label, words, "dim")


def _moves(
    sums: TopicSums, place: int, topic: str, operations: Iterable[Operation]
) -> Iterable[PaneLine]:
    """How many move, how far they are, and whose moves they are."""
    moving = int(sums.moving_partitions[place])
    if not moving:
        yield PaneLine("Moves", "none", "dim")
        return
    parts = [f"{moving:,} of {many(int(sums.partitions[place]), 'partition')}"]
    if copied := copied_text(sums, place):
        parts.append(f"{'an unknown share' if copied == '?' else copied} is copied")
    if int(sums.lag_bytes[place]) >= 0:
        least = ">" if sums.lag_unknown[place] else ""
        parts.append(f"{least}{bytes_text(int(sums.lag_bytes[place]))} left")
    if not math.isnan(last := float(sums.eta_s[place])):
        parts.append(f"{duration_text(last)} until the last of those that arrive")
    if unknown := int(sums.eta_unknown[place]):
        parts.append(f"not known for {many(unknown, 'replica')}")
    if never := int(sums.eta_never[place]):
        parts.append(f"{many(never, 'replica')} never at this rate")
    by = [
        one.id
        for one in operations
        if not one.state.ended and any(moved.topic == topic for moved in one.partitions)
    ]
    parts.append(f"operation {', '.join(by)}" if by else "no operation of kshunt")
    yield PaneLine("Moves", "; ".join(parts), "strong", 2)


def _listed(sums: TopicSums, place: int) -> str:
    leader, follower = int(sums.leader_listed[place]), int(sums.follower_listed[place])
    if not leader and not follower:
        return "none of its replicas is in a throttle list"
    return f"{leader:,} in the leader list, {follower:,} in the follower list"


def _min_isr(facts: Facts, sums: TopicSums, place: int, settings: TopicSettings) -> str:
    known = facts.snapshot.min_isr
    least, most = int(sums.factor_least[place]), int(sums.factor_most[place])
    factor = f"{most}" if least == most else f"{least} to {most}"
    config = next((one for one in settings.configs or () if one.name == MIN_ISR), None)
    where = "" if config is None else f", {_origin(config)}"
    value = known[place] if len(known) == len(facts.snapshot.topics) else UNKNOWN
    if value != UNKNOWN:
        return f"{value} of replication factor {factor}{where}"
    said = config.value if config is not None and config.value else "?"
    return f"{said} of replication factor {factor}{where}"


def _origin(config: TopicConfig) -> str:
    if config.source == ConfigSource.DYNAMIC_TOPIC:
        return "set on the topic"
    return "Kafka's default" if config.is_default else "set on the brokers"


def _configs(settings: TopicSettings) -> Iterable[PaneLine]:
    """How long records are kept, and what the topic does not take from its brokers."""
    if settings.configs is None:
        yield PaneLine("Configs", settings.words, lines=2)
    else:
        yield PaneLine("Retention", _retention(settings.configs), lines=2)
        yield PaneLine("Set here", _set_here(settings.configs), lines=2)


def _retention(configs: Sequence[TopicConfig]) -> str:
    found = {one.name: one for one in configs if one.name in _RETENTION}
    said = [_kept(found[name]) for name in _RETENTION if name in found]
    return ", ".join(said) or "unknown"


def _kept(config: TopicConfig) -> str:
    """`retention.ms=604800000 (7d00h, Kafka's default)`: how long or how much, for people."""
    value = config.value or ""
    said = [] if config.source == ConfigSource.DYNAMIC_TOPIC else [_origin(config)]
    if value.lstrip("-").isdigit():
        said.insert(0, _amount(config.name, int(value)))
    more = f" ({', '.join(said)})" if said else ""
    return f"{config.name}={'(hidden)' if config.value is None else value}{more}"


def _amount(name: str, value: int) -> str:
    if value < 0:
        return "no limit"
    return duration_text(value / 1000) if name.endswith(".ms") else bytes_text(value)


def _set_here(configs: Sequence[TopicConfig]) -> str:
    """Throttle lists are not repeated: they have a line of their own."""
    mine = [one for one in configs if one.source == ConfigSource.DYNAMIC_TOPIC]
    here = [one for one in mine if one.name not in (LEADER_REPLICAS, FOLLOWER_REPLICAS)]
    said = [setting_text(one) for one in sorted(here, key=lambda one: one.name)]
    return ", ".join(said) or "nothing: the brokers' values are in force"


def _brokers(facts: Facts, place: int, most: int | None) -> Iterable[PaneLine]:
    """What each broker leads and holds of it, and is written to; the most bytes first."""
    rows = facts.rows
    # Of 200,000 rows only those of the topic are looked at: a pane is made between two keys.
    first, last = np.searchsorted(rows.topic_index, [place, place + 1])
    leads, rate = written_rows(facts)
    mine = (leads >= first) & (leads < last)
    leaders, rate = rows.broker[leads[mine]], rate[mine]
    brokers, sizes = rows.broker[first:last], rows.size_bytes[first:last]
    said = []
    for broker in np.unique(brokers).tolist():
        here, led = brokers == broker, leaders == broker
        size, unknown = known_sum(sizes[here])
        more = ">" if unknown and size >= 0 else ""
        written = rate_text(rate_sum(rate[led])) if led.any() else "-"
        parts = (broker, int(led.sum()), int(here.sum()), more + bytes_text(size), written)
        said.append((size, _aligned([str(part) for part in parts])))
    said.sort(key=lambda one: -one[0])
    yield PaneLine("Brokers", _aligned(_HEAD), "dim")
    shown = said if most is None or len(said) <= most else said[: most - 1]
    yield from (PaneLine("", text) for _, text in shown)
    if more_brokers := len(said) - len(shown):
        yield PaneLine("", f"and {many(more_brokers, 'more broker')}", "dim")


def _skew(sums: TopicSums, place: int) -> tuple[str, str]:
    """What the broker with the most has, in times an even share, and the tone of that."""
    leaders, data = float(sums.leader_skew[place]), float(sums.size_skew[place])
    said = [f"{name} {_times(one)}" for name, one in (("leaders", leaders), ("data", data))]
    tone = "warn" if leaders > UNEVEN or data > UNEVEN else ""
    return f"{', '.join(said)} (the most on one broker, against an even share)", tone


def _times(skew: float) -> str:
    return "unknown" if math.isnan(skew) else skew_text(skew)


def _aligned(parts: Sequence[str]) -> str:
    return " ".join(text.rjust(width) for text, width in zip(parts, _WIDTHS, strict=True))
