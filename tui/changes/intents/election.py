"""An election of preferred leaders (KIP-183): its wizard and its intent.

Pure, as `kshunt.tui.changes.intents.reassignment`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.text.formatting import many
from kshunt.tui.changes.intents.leader_skew import leader_skew, skew_lines
from kshunt.tui.changes.wizard.command_line import CommandLine
from kshunt.tui.changes.wizard.intent import Intent, TargetCluster, counted, partition_lines
from kshunt.tui.changes.wizard.pages import Wizard, goal_page

if TYPE_CHECKING:
    from kshunt.backend.api.client.backend_client import BackendClient
    from kshunt.tui.facts.snapshot_facts import Facts


def election_wizard(
    facts: Facts, target: TargetCluster, partitions: Sequence[TopicPartition] | None
) -> Wizard:
    """Elect preferred leaders: there is nothing to choose."""
    count = len(facts.starts) if partitions is None else len(partitions)
    return Wizard(
        f"Elect the preferred {'leader' if count == 1 else 'leaders'} of"
        f" {many(count, 'partition')}",
        lambda: election_intent(facts, target, partitions),
        goal_page(target),
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
        touches = (*partition_lines(partitions), ("New leaders", counted(leaders)))
    return Intent(
        title=f"Elect the preferred {'leader' if count == 1 else 'leaders'} of"
        f" {many(count, 'partition')}",
        button="Elect",
        target=target,
        touches=touches,
        send=send,
        command=_command(partitions),
        preview=lambda client: client.previews.elect(partitions),
        effect="Clients of a partition whose leader changes reconnect to the new one.",
        lines=tuple(skew_lines(leader_skew(facts, partitions))),
        outcome=lambda answer: skew_lines(leader_skew(facts, _elected(facts, answer))),
    )


def _command(partitions: Sequence[TopicPartition] | None) -> CommandLine:
    words = ("kafka-preferred-replica-election",)
    if partitions is None:
        return CommandLine(words)
    entries = [{"topic": one.topic, "partition": one.partition} for one in partitions]
    document = json.dumps({"partitions": entries}, separators=(",", ":"))
    return CommandLine(words, document, "path-to-json-file")


def _elected(facts: Facts, answer: ChangeAnswer) -> tuple[TopicPartition, ...]:
    """The partitions that got their preferred leader."""
    done = {result.item for result in answer.results if result.ok}
    every = (facts.snapshot.partition_of(int(row)) for row in facts.starts)
    return tuple(partition for partition in every if str(partition) in done)
