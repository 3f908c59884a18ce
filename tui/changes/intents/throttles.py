"""What an operator changes about throttles: rates, lists, drift, orphans and adoption.

Pure, as `kshunt.tui.changes.intents.reassignment`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.text.formatting import limit_text, many
from kshunt.backend.domain.throttles.configs import ReplicaSet, ThrottledRate, ThrottledReplicas
from kshunt.backend.domain.throttles.owners import ShownDrift, ShownOrphan
from kshunt.tui.changes.wizard.command_line import CommandLine
from kshunt.tui.changes.wizard.intent import NAMES_MOST, Intent, TargetCluster, counted, short_name
from kshunt.tui.changes.wizard.pages import Page, Wizard, goal_page
from kshunt.tui.changes.wizard.parsing import LIST_HINT, RATE_HINT, a_rate, throttled_replicas
from kshunt.tui.dialogs.form import FormField
from kshunt.tui.facts.drift_words import (
    ORIGINS,
    change_words,
    owner_words,
    setting_words,
    value_words,
)
from kshunt.tui.facts.pending_rates import typed_rate
from kshunt.tui.text.glyphs import Glyphs

if TYPE_CHECKING:
    from kshunt.backend.api.client.backend_client import BackendClient
    from kshunt.tui.facts.snapshot_facts import Facts


def rates_wizard(
    facts: Facts, target: TargetCluster, glyphs: Glyphs, brokers: Sequence[int]
) -> Wizard:
    """Set the rates of these brokers."""
    present = facts.snapshot.throttles.rates
    rates = {present[id].rate if id in present else None for id in brokers}
    rate = rates.pop() if len(rates) == 1 else None
    leader = "" if rate is None else typed_rate(rate.leader_bytes_per_s)
    follower = "" if rate is None else typed_rate(rate.follower_bytes_per_s)
    who = f"broker {brokers[0]}" if len(brokers) == 1 else f"all {len(brokers)} brokers"

    def build(*values: Any) -> Intent:
        wanted = dict.fromkeys(brokers, ThrottledRate(*values))
        return rates_intent(facts, target, wanted, glyphs)

    fields = (
        FormField("Leader rate (what it sends)", leader, RATE_HINT, a_rate),
        FormField("Follower rate (what it fetches)", follower, RATE_HINT, a_rate),
    )
    return Wizard(f"Throttle of {who}", build, goal_page(target), Page(fields=fields))


def lists_wizard(facts: Facts, target: TargetCluster, topic: str) -> Wizard:
    """Set a topic's throttled replicas."""
    present = facts.snapshot.throttles.replicas.get(topic, ThrottledReplicas())

    def build(*values: Any) -> Intent:
        return lists_intent(facts, target, topic, ThrottledReplicas(*values))

    def field(label: str, replicas: ReplicaSet) -> FormField:
        def parse(text: str) -> ReplicaSet:
            count, brokers = facts.partitions_in(topic), facts.snapshot.brokers
            return throttled_replicas(text, topic, count, brokers, replicas)

        return FormField(label, str(replicas) or "none", LIST_HINT, parse)

    fields = (field("Leader side", present.leaders), field("Follower side", present.followers))
    return Wizard(f"Throttled replicas of {topic}", build, goal_page(target), Page(fields=fields))


def rates_intent(
    facts: Facts, target: TargetCluster, rates: Mapping[int, ThrottledRate], glyphs: Glyphs
) -> Intent:
    """Set brokers' throttled rates."""
    from kshunt.backend.domain.forecast.what_if import what_if
    from kshunt.tui.facts.pending_rates import Foresight, needs_of, what_if_text

    present = facts.snapshot.throttles.rates
    changes = {
        str(broker): _rate_change(present[broker].rate if broker in present else None, rate, glyphs)
        for broker, rate in rates.items()
    }
    seen = Foresight(
        tuple(rates.items()),
        facts.snapshot.throttles,
        what_if(facts.snapshot, {}),
        what_if(facts.snapshot, rates),
        facts.snapshot.taken_ms,
        needs_of(facts.snapshot),
    )
    return replace(
        step_intent(target, rates),
        preview=lambda client: client.previews.throttle(rates=rates),
        changes=changes,
        effect=_rates_effect(facts, rates.values()),
        lines=(f"{what_if_text(seen)}.",),
        restores={id: present[id].rate for id in rates if id in present},
        rates=dict(rates),
    )


def step_intent(target: TargetCluster, rates: Mapping[int, ThrottledRate]) -> Intent:
    """Set brokers' throttled rates within a band: without a preview."""

    def send(client: BackendClient, change: Change) -> ChangeAnswer:
        return client.throttles.alter_rates(rates, change)

    return Intent(
        title=f"Set the throttle of {_some_brokers(rates)}",
        button="Set the throttle",
        target=target,
        touches=(
            ("Brokers", counted(sorted(rates))),
            ("Leader rate", _alike([rate.leader_bytes_per_s for rate in rates.values()])),
            ("Follower rate", _alike([rate.follower_bytes_per_s for rate in rates.values()])),
        ),
        send=send,
        command=_rates_command(rates),
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
        command=CommandLine(
            (
                *("throttles", "set-replicas", "--topic", topic),
                *("--leaders", str(lists.leaders) or "none"),
                *("--followers", str(lists.followers) or "none"),
            )
        ),
    )


def drift_intent(
    target: TargetCluster, drift: Sequence[ShownDrift], glyphs: Glyphs, *, ours: bool
) -> Intent:
    """Put our throttle back where it drifted (`ours`), or keep what somebody else set."""
    ids = [one.id for one in drift]

    def send(client: BackendClient, change: Change) -> ChangeAnswer:
        return client.throttles.reapply_or_accept_drift(ids, change, ours=ours)

    whose = sorted({id for one in drift for id in one.operations})
    what = f"{many(len(drift), 'throttle')} that somebody else changed"
    return Intent(
        title=f"Restore {what}" if ours else f"Keep {what}",
        button="Restore ours" if ours else "Keep theirs",
        target=target,
        touches=(
            ("Needed by", owner_words(whose) or "-"),
            *((setting_words(one), change_words(one, glyphs)) for one in drift),
        ),
        send=send,
        effect="Their values are overwritten, and kshunt removes ours when the operation ends."
        if ours
        else "Nothing is written; their values stay when the operation ends.",
    )


def orphans_intent(
    target: TargetCluster, orphans: Sequence[ShownOrphan], *, every: bool = False
) -> Intent:
    """Remove throttles that no move justifies.

    `every`: these are all of them, so the operator has to type the cluster's short name.
    """
    ids = [one.id for one in orphans]

    def send(client: BackendClient, change: Change) -> ChangeAnswer:
        return client.throttles.remove_orphans(ids, change)

    return Intent(
        title=f"Remove {many(len(orphans), 'orphan throttle')}",
        button="Remove",
        target=target,
        touches=_orphan_lines(orphans),
        send=send,
        effect="A rate is deleted from the broker's own configuration; replicas are removed from "
        "the topic's list. kshunt keeps what a move needs at that time.",
        typed=(short_name(target.cluster_id),) if every else (),
    )


def adopt_intent(target: TargetCluster, moves: int) -> Intent:
    """Take over the throttle of moves that somebody else started."""

    def send(client: BackendClient, change: Change) -> ChangeAnswer:
        return client.throttles.adopt(None, change)

    return Intent(
        title=f"Take over the throttle of {many(moves, 'move')}",
        button="Take over",
        target=target,
        touches=(("Moves", f"{moves:,} that no operation of kshunt owns"),),
        send=send,
        effect="Nothing is moved or cancelled. kshunt removes their throttle when they end; the "
        "changes are below. Nobody needs to run --verify for them.",
    )


def _rates_command(rates: Mapping[int, ThrottledRate]) -> CommandLine:
    """Brokers with the same rates are named together."""
    words = ["throttles", "set-rates"]
    for rate in dict.fromkeys(rates.values()):
        brokers = ",".join(str(id) for id in sorted(rates) if rates[id] == rate)
        leader = f"{brokers}={typed_rate(rate.leader_bytes_per_s)}"
        follower = f"{brokers}={typed_rate(rate.follower_bytes_per_s)}"
        both = ["--rate", leader]
        apart = ["--leader-rate", leader, "--follower-rate", follower]
        words += both if leader == follower else apart
    return CommandLine(tuple(words))


def _orphan_lines(orphans: Sequence[ShownOrphan]) -> tuple[tuple[str, str], ...]:
    """What each is; those beyond the first ones are in the items below."""
    lines = [
        (setting_words(one), f"{value_words(one.present_value)}, {ORIGINS[one.origin]}")
        for one in orphans[:NAMES_MOST]
    ]
    more = len(orphans) - len(lines)
    return (*lines, *([("and", f"{more:,} more")] if more else ()))


def _alike(rates: Collection[int | None]) -> str:
    """The rate if all brokers get the same, else the lowest and the highest one."""
    if len(set(rates)) == 1:
        return limit_text(next(iter(rates)))
    limits = sorted(rate for rate in rates if rate is not None)
    highest = None if None in rates else limits[-1]
    return f"{limit_text(limits[0])} to {limit_text(highest)}, by broker"


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
