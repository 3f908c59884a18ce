"""What an operator asks for, before anybody agreed to it: words for the dialogue, and a call.

Pure: nothing is sent from here. Each intent names the cluster that was on the screen, and its call
passes that id on, so that the backend refuses if another cluster answers by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from backend.domain.answers import ChangeAnswer
from backend.domain.cluster import TopicPartition
from backend.domain.plan import ReassignmentPlan
from backend.domain.throttle import ReplicaSet, ThrottledRate, ThrottledReplicas
from tui.text import Glyphs, names_text, plural, rate_text

if TYPE_CHECKING:
    from backend.api.client import BackendClient
    from tui.tables.facts import Facts

NAMES_MOST = 8
"""Names that are listed one by one; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Target:
    """The cluster that was on the screen when the operator asked."""

    cluster_id: str
    bootstrap_servers: str


@dataclass(frozen=True)
class Intent:
    """One change, ready to be rehearsed, agreed to, and sent."""

    title: str
    """What will be done, as a heading."""
    button: str
    """What the button says that does it."""
    target: Target
    touches: tuple[tuple[str, str], ...]
    """Label and names: what it touches."""
    send: Callable[[BackendClient, bool], ChangeAnswer]
    """Called with `validate_only`."""
    changes: Mapping[str, str] = field(default_factory=dict)
    """By item: before and after."""
    effect: str = ""
    """What an operator should know before agreeing."""


def reassign_intent(
    facts: Facts, target: Target, plan: ReassignmentPlan, throttle: int | None, glyphs: Glyphs
) -> Intent:
    """Start moving partitions as a plan says."""
    present = {partition: facts.replicas_of(partition) for partition in plan.replicas}
    brokers = set(plan.brokers).union(*present.values())
    changes = {
        str(partition): f"{_ids(present[partition])} {glyphs.arrow} {_ids(wanted)}"
        for partition, wanted in plan.replicas.items()
    }

    def send(client: BackendClient, validate_only: bool) -> ChangeAnswer:
        return client.reassign(
            plan,
            throttle_bytes_per_s=throttle,
            validate_only=validate_only,
            cluster_id=target.cluster_id,
        )

    lifted = "" if throttle is None else ", lifted by itself when the move is over"
    return Intent(
        title=f"Start moving {plural(len(plan), 'partition')}",
        button="Start the move",
        target=target,
        touches=(
            *_partition_lines(plan.replicas),
            ("Brokers", _counted(sorted(brokers))),
            ("Throttle", rate_text(throttle) + lifted),
        ),
        send=send,
        changes=changes,
    )


def cancel_intent(facts: Facts, target: Target, partitions: Sequence[TopicPartition]) -> Intent:
    """Return moving partitions to their original replicas."""
    brokers = {broker for partition in partitions for broker in facts.replicas_of(partition)}

    def send(client: BackendClient, validate_only: bool) -> ChangeAnswer:
        return client.cancel(partitions, validate_only=validate_only, cluster_id=target.cluster_id)

    return Intent(
        title=f"Cancel the move of {plural(len(partitions), 'partition')}",
        button="Cancel the move",
        target=target,
        touches=(*_partition_lines(partitions), ("Brokers", _counted(sorted(brokers)))),
        send=send,
        effect="What was copied so far is dropped; the original replicas stay.",
    )


def election_intent(
    facts: Facts, target: Target, partitions: Sequence[TopicPartition] | None
) -> Intent:
    """Give the lead to the preferred replicas; of every partition if None."""

    def send(client: BackendClient, validate_only: bool) -> ChangeAnswer:
        return client.elect_preferred_leaders(
            partitions, validate_only=validate_only, cluster_id=target.cluster_id
        )

    if partitions is None:
        count = len(facts.starts)
        touches: tuple[tuple[str, str], ...] = (
            ("Partitions", f"every partition of the cluster ({count:,})"),
            ("To change", plural(facts.summary.misled_partitions, "leader")),
        )
    else:
        count = len(partitions)
        preferred = {facts.replicas_of(partition)[:1] for partition in partitions}
        leaders = sorted({broker for first in preferred for broker in first})
        touches = (*_partition_lines(partitions), ("New leaders", _counted(leaders)))
    return Intent(
        title=f"Elect the preferred {'leader' if count == 1 else 'leaders'} of"
        f" {plural(count, 'partition')}",
        button="Elect",
        target=target,
        touches=touches,
        send=send,
        effect="Clients of a partition whose leader changes reconnect to the new one.",
    )


def rates_intent(
    facts: Facts, target: Target, rates: Mapping[int, ThrottledRate], glyphs: Glyphs
) -> Intent:
    """Set brokers' throttled rates."""

    def send(client: BackendClient, validate_only: bool) -> ChangeAnswer:
        return client.alter_throttled_rates(
            rates, validate_only=validate_only, cluster_id=target.cluster_id
        )

    present = facts.snapshot.throttles.rates
    changes = {
        str(broker): _rate_change(present[broker].rate if broker in present else None, rate, glyphs)
        for broker, rate in rates.items()
    }
    wanted = next(iter(rates.values()))
    return Intent(
        title=f"Set the throttle of {_some_brokers(rates)}",
        button="Set the throttle",
        target=target,
        touches=(
            ("Brokers", _counted(sorted(rates))),
            ("Leader rate", rate_text(wanted.leader_bytes_per_s)),
            ("Follower rate", rate_text(wanted.follower_bytes_per_s)),
        ),
        send=send,
        changes=changes,
        effect=_rates_effect(facts, wanted),
    )


def lists_intent(facts: Facts, target: Target, topic: str, lists: ThrottledReplicas) -> Intent:
    """Set a topic's throttled replicas."""

    def send(client: BackendClient, validate_only: bool) -> ChangeAnswer:
        return client.alter_throttled_replicas(
            {topic: lists}, validate_only=validate_only, cluster_id=target.cluster_id
        )

    before = facts.snapshot.throttles.replicas.get(topic, ThrottledReplicas())
    return Intent(
        title=f"Set the throttled replicas of {topic}",
        button="Set the lists",
        target=target,
        touches=(
            ("Topic", topic),
            ("Leader side", _list_change(before.leaders, lists.leaders)),
            ("Follower side", _list_change(before.followers, lists.followers)),
        ),
        send=send,
        effect="Replicas that are listed are held to their broker's rate.",
    )


def _rates_effect(facts: Facts, wanted: ThrottledRate) -> str:
    lifted = wanted.leader_bytes_per_s is None and wanted.follower_bytes_per_s is None
    if lifted and facts.summary.moving_partitions:
        return "Moves go on without a throttle: they take what the network gives."
    return ""


def _rate_change(before: ThrottledRate | None, after: ThrottledRate, glyphs: Glyphs) -> str:
    if before is None:
        return f"? {glyphs.arrow} {_rate_pair(after)}"
    if before == after:
        return f"{_rate_pair(after)} (as it is)"
    return f"{_rate_pair(before)} {glyphs.arrow} {_rate_pair(after)}"


def _rate_pair(rate: ThrottledRate) -> str:
    """`25 MB/s`, or `25 / 50 MB/s` where the sides differ."""
    leader, follower = rate_text(rate.leader_bytes_per_s), rate_text(rate.follower_bytes_per_s)
    return leader if leader == follower else f"{leader} / {follower}"


def _list_change(before: ReplicaSet, after: ReplicaSet) -> str:
    words = str(after) or "none"
    return f"{words} (as it is)" if before == after else f"{words}, was {str(before) or 'none'}"


def _some_brokers(brokers: Iterable[int]) -> str:
    ids = list(brokers)
    return f"broker {ids[0]}" if len(ids) == 1 else f"{len(ids)} brokers"


def _partition_lines(
    partitions: Iterable[TopicPartition],
) -> tuple[tuple[str, str], tuple[str, str]]:
    named = list(partitions)
    topics = sorted({partition.topic for partition in named})
    return ("Topics", _counted(topics)), ("Partitions", _counted(sorted(named)))


def _counted(names: Sequence[object]) -> str:
    """`a, b, c (3)`: both the names and how many there are."""
    text = names_text(names, NAMES_MOST)
    return text if len(names) == 1 else f"{text} ({len(names):,})"


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers)) or "?"
