"""What an operator asks for, before anybody agreed to it: words for the dialogue, and a call.

Pure: nothing is sent from here. Each intent names the cluster that was on the screen, and its call
passes that id on, so that the backend refuses if another cluster answers by then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.reassignment.move_caps import MoveCaps
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.text.formatting import limit_text, many, moment_text
from kshunt.backend.domain.throttles.configs import ReplicaSet, ThrottledRate, ThrottledReplicas
from kshunt.tui.changes.intents.leader_skew import leader_skew, skew_lines
from kshunt.tui.changes.wizard.intent import Intent, TargetCluster, counted, short_name
from kshunt.tui.text.glyphs import Glyphs

if TYPE_CHECKING:
    from kshunt.backend.api.client.backend_client import BackendClient
    from kshunt.tui.facts.snapshot_facts import Facts


@dataclass(frozen=True, slots=True)
class Start:
    """What the form of a new reassignment was filled in with."""

    plan: ReassignmentPlan
    throttle_bytes_per_s: int | None
    caps: MoveCaps | None
    """None: everything at once."""
    reason: str = ""
    deadline_ms: int | None = None
    """The moment by which it is to be done, milliseconds since the epoch; None: there is none."""


def reassign_intent(facts: Facts, target: TargetCluster, start: Start, glyphs: Glyphs) -> Intent:
    """Start moving partitions as a plan says."""
    plan, throttle = start.plan, start.throttle_bytes_per_s
    moving = facts.summary.moving_partitions
    present = {partition: facts.replicas_of(partition) for partition in plan.replicas}
    brokers = set(plan.brokers).union(*present.values())
    changes = {
        str(partition): f"{_ids(present[partition])} {glyphs.arrow} {_ids(wanted)}"
        for partition, wanted in plan.replicas.items()
    }
    for (partition, broker), path in plan.log_dirs.items():
        if present.get(partition) == plan.replicas.get(partition):
            changes[str(partition)] = f"on {broker} {glyphs.arrow} {path}"

    def send(client: BackendClient, change: Change) -> ChangeAnswer:
        return client.reassignments.start(
            plan,
            change,
            throttle_bytes_per_s=throttle,
            caps=start.caps,
            additional=moving > 0,
            all_or_nothing=True,
            deadline_ms=start.deadline_ms,
        )

    by = [] if start.deadline_ms is None else [("Done by", moment_text(start.deadline_ms))]
    lifted = "" if throttle is None else ", removed when the move ends"
    return Intent(
        title=f"Start moving {many(len(plan), 'partition')}",
        button="Start the move",
        target=target,
        touches=(
            *_partition_lines(plan.replicas),
            ("Brokers", counted(sorted(brokers))),
            ("Throttle", limit_text(throttle) + lifted),
            ("Parallel", caps_words(start.caps)),
            *by,
            *([("Also", f"{many(moving, 'partition')} that already move")] if moving else []),
        ),
        send=send,
        preview=lambda client: client.previews.start(plan, throttle),
        changes=changes,
        reason=start.reason,
    )


def cancel_intent(
    facts: Facts,
    target: TargetCluster,
    partitions: Sequence[TopicPartition],
    *,
    every: bool = False,
) -> Intent:
    """Return moving partitions to their original replicas; `every` one has to be meant."""
    brokers = {broker for partition in partitions for broker in facts.replicas_of(partition)}

    def send(client: BackendClient, change: Change) -> ChangeAnswer:
        return client.reassignments.cancel(partitions, change)

    return Intent(
        title=f"Cancel the move of {many(len(partitions), 'partition')}",
        button="Cancel the move",
        target=target,
        touches=(*_partition_lines(partitions), ("Brokers", counted(sorted(brokers)))),
        send=send,
        preview=lambda client: client.previews.cancel(partitions),
        effect="The copied data is dropped; the original replicas stay.",
        typed=(short_name(target.cluster_id),) if every else (),
    )


def election_intent(
    facts: Facts, target: TargetCluster, partitions: Sequence[TopicPartition] | None
) -> Intent:
    """Give the lead to the preferred replicas; of every partition if None."""

    def send(client: BackendClient, change: Change) -> ChangeAnswer:
        return client.elections.elect_preferred_leaders(partitions, change)

    if partitions is None:
        count = len(facts.starts)
        touches: tuple[tuple[str, str], ...] = (
            ("Partitions", f"every partition of the cluster ({count:,})"),
            ("To change", many(facts.summary.misled_partitions, "leader")),
        )
    else:
        count = len(partitions)
        preferred = {facts.replicas_of(partition)[:1] for partition in partitions}
        leaders = sorted({broker for first in preferred for broker in first})
        touches = (*_partition_lines(partitions), ("New leaders", counted(leaders)))
    return Intent(
        title=f"Elect the preferred {'leader' if count == 1 else 'leaders'} of"
        f" {many(count, 'partition')}",
        button="Elect",
        target=target,
        touches=touches,
        send=send,
        preview=lambda client: client.previews.elect(partitions),
        effect="Clients of a partition whose leader changes reconnect to the new one.",
        lines=tuple(skew_lines(leader_skew(facts, partitions))),
        outcome=lambda answer: skew_lines(leader_skew(facts, _elected(facts, answer))),
    )


def _elected(facts: Facts, answer: ChangeAnswer) -> tuple[TopicPartition, ...]:
    """The partitions that got their preferred leader."""
    done = {result.item for result in answer.results if result.ok}
    every = (facts.snapshot.partition_of(int(row)) for row in facts.starts)
    return tuple(partition for partition in every if str(partition) in done)


def rates_intent(
    facts: Facts, target: TargetCluster, rates: Mapping[int, ThrottledRate], glyphs: Glyphs
) -> Intent:
    """Set brokers' throttled rates."""
    from kshunt.backend.domain.forecast.what_if import what_if
    from kshunt.tui.facts.pending_rates import Foresight, needs_of, what_if_text

    def send(client: BackendClient, change: Change) -> ChangeAnswer:
        return client.throttles.alter_rates(rates, change)

    present = facts.snapshot.throttles.rates
    changes = {
        str(broker): _rate_change(present[broker].rate if broker in present else None, rate, glyphs)
        for broker, rate in rates.items()
    }
    wanted = set(rates.values())
    seen = Foresight(
        tuple(rates.items()),
        facts.snapshot.throttles,
        what_if(facts.snapshot, {}),
        what_if(facts.snapshot, rates),
        facts.snapshot.taken_ms,
        needs_of(facts.snapshot),
    )
    return Intent(
        title=f"Set the throttle of {_some_brokers(rates)}",
        button="Set the throttle",
        target=target,
        touches=(
            ("Brokers", counted(sorted(rates))),
            ("Leader rate", _alike(rate.leader_bytes_per_s for rate in wanted)),
            ("Follower rate", _alike(rate.follower_bytes_per_s for rate in wanted)),
        ),
        send=send,
        preview=lambda client: client.previews.throttle(rates=rates),
        changes=changes,
        effect=_rates_effect(facts, wanted),
        lines=(f"{what_if_text(seen)}.",),
    )


def lists_intent(
    facts: Facts, target: TargetCluster, topic: str, lists: ThrottledReplicas
) -> Intent:
    """Set a topic's throttled replicas."""

    def send(client: BackendClient, change: Change) -> ChangeAnswer:
        return client.throttles.alter_replicas({topic: lists}, change)

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
        preview=lambda client: client.previews.throttle(replicas={topic: lists}),
        effect="Listed replicas are limited to their broker's rate.",
    )


def caps_words(caps: MoveCaps | None) -> str:
    """How many moves are in flight at once."""
    if caps is None:
        return "all of them"
    first = "smallest" if caps.smallest_first else "largest"
    most = f"at most {caps.per_broker:,} a broker and {caps.in_cluster:,} in the cluster"
    return f"{most}, {first} first"


def _alike(rates: Iterable[int | None]) -> str:
    """The rate, where all brokers get one; else each broker's stands below."""
    texts = {limit_text(rate) for rate in rates}
    return texts.pop() if len(texts) == 1 else "differs, see below"


def _rates_effect(facts: Facts, wanted: Collection[ThrottledRate]) -> str:
    lifted = ThrottledRate(None, None) in wanted
    if lifted and facts.summary.moving_partitions:
        return "Moves continue without a throttle: they use the whole network."
    return ""


def _rate_change(before: ThrottledRate | None, after: ThrottledRate, glyphs: Glyphs) -> str:
    if before is None:
        return f"? {glyphs.arrow} {_rate_pair(after)}"
    if before == after:
        return f"{_rate_pair(after)} (as it is)"
    return f"{_rate_pair(before)} {glyphs.arrow} {_rate_pair(after)}"


def _rate_pair(rate: ThrottledRate) -> str:
    """`25 MB/s`, or `25 / 50 MB/s` where the sides differ."""
    leader, follower = limit_text(rate.leader_bytes_per_s), limit_text(rate.follower_bytes_per_s)
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
    return ("Topics", counted(topics)), ("Partitions", counted(sorted(named)))


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers)) or "?"
