"""What `kafka-topics` says: Kafka's words, or the same facts as JSON.

A line of --describe is Kafka's to the letter, tabs included, because scripts take it apart. Kafka
has no word for the mode of a partition that is on its way out. A line ends with that mode, where
there is any. Configurations are sorted by name, where Kafka's tool has the order of a hash map.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from kshunt.backend.api.schema.topics import Topics, TopicsAnswer
from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.domain.cluster.metadata import NO_BROKER
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.shrink.delete_partitions import (
    PartitionDeletion,
    ShrinkAnswer,
)
from kshunt.backend.domain.topics.descriptions import (
    DescribedPartition,
    TopicDescription,
    TopicsDescribed,
    TopicSummary,
)
from kshunt.backend.domain.untrusted.json_codec import to_document
from kshunt.backend.tools.shared.output import ToolReport
from kshunt.backend.tools.topics.options import TopicOptions

UNKNOWN_ELR = "N/A"
"""Kafka's word for eligible leader replicas that nobody told."""


def list_report(topics: Sequence[TopicSummary]) -> ToolReport:
    """`--list`."""
    document = to_document(Topics(tuple(topics)))
    return ToolReport("\n".join(one.topic for one in topics), document)


def describe_report(options: TopicOptions, described: TopicsDescribed) -> ToolReport:
    """`--describe`, as far as the options want it."""
    shown = TopicsDescribed(tuple(_shown(options, described)), described.live)
    lines: list[str] = []
    for topic in shown.topics:
        if not options.reports:
            lines.append(topic_line(topic))
        if not options.with_overrides:
            lines += [partition_line(topic.name, one) for one in topic.partitions]
    return ToolReport("\n".join(lines), to_document(TopicsAnswer.of(shown)))


def _shown(options: TopicOptions, described: TopicsDescribed) -> Iterator[TopicDescription]:
    for topic in described.topics:
        if options.with_overrides and not topic.configs:
            continue
        if not options.reports:
            yield topic
            continue
        wanted = [p for p in topic.partitions if _in_trouble(options, topic, p, described)]
        if wanted:
            yield replace(topic, partitions=tuple(wanted))


def _in_trouble(
    options: TopicOptions,
    topic: TopicDescription,
    partition: DescribedPartition,
    described: TopicsDescribed,
) -> bool:
    """Whether any of the reports that are asked for has this partition, as Kafka's tool sees it."""
    if partition.mode is PartitionMode.NONE:
        # It is being deleted: it has no leader, and gets none.
        return False
    in_sync, least = len(partition.isr), topic.min_isr
    return (
        (options.under_replicated and partition.under_replicated)
        or (options.unavailable and partition.unavailable(described.live))
        or (
            options.under_min_isr
            and (partition.leader == NO_BROKER or (least is not None and in_sync < least))
        )
        or (options.at_min_isr and in_sync == least)
    )


def topic_line(topic: TopicDescription) -> str:
    """The first line of a topic."""
    configs = ",".join(f"{name}={_value(value)}" for name, value in topic.configs.items())
    fields = [f"Topic: {topic.name}"]
    if topic.topic_id:
        fields.append(f"TopicId: {topic.topic_id}")
    fields += [
        f"PartitionCount: {len(topic.partitions)}",
        f"ReplicationFactor: {topic.replication_factor}",
        f"Configs: {configs}",
    ]
    return "\t".join(fields)


def partition_line(topic: str, partition: DescribedPartition) -> str:
    """The line of one partition."""
    leader = "none" if partition.leader == NO_BROKER else partition.leader
    fields = [
        f"\tTopic: {topic}",
        f"Partition: {partition.number}",
        f"Leader: {leader}",
        f"Replicas: {_ids(partition.replicas)}",
        f"Isr: {_ids(partition.isr)}",
    ]
    if partition.adding or partition.removing:
        fields.append(f"Adding Replicas: {_ids(partition.adding)}")
        fields.append(f"Removing Replicas: {_ids(partition.removing)}")
    fields += [f"Elr: {_known(partition.elr)}", f"LastKnownElr: {_known(partition.last_known_elr)}"]
    if partition.mode is not PartitionMode.READ_WRITE:
        fields.append(f"Mode: {partition.mode}")
    return "\t".join(fields)


def added_report(options: TopicOptions, answer: ChangeAnswer) -> ToolReport:
    """`--alter` with more partitions."""
    failed = answer.failures
    document = to_document(answer)
    if failed:
        return ToolReport(
            "Nothing was changed.",
            document,
            ExitCode.FAILED,
            tuple(f"Error: {one.item}: {one.message or one.error_name}" for one in failed),
        )
    if answer.validate_only:
        text = f"Topic {options.topic} would have {options.partitions} partitions."
        return ToolReport(f"{text} Nothing was changed.", document)
    return ToolReport("\n".join(["Adding partitions succeeded!", *answer.notes]), document)


def deleted_report(options: TopicOptions, answer: ShrinkAnswer) -> ToolReport:
    """`--alter` with fewer partitions."""
    lines = [_deleted_line(options, one) for one in answer.partitions if one.ok]
    if answer.validate_only or not lines:
        lines.append("Nothing was changed.")
    return ToolReport(
        "\n".join(lines),
        to_document(answer),
        ExitCode.FAILED if answer.failures else ExitCode.DONE,
        tuple(f"Error: {_failure(one)}" for one in answer.failures),
    )


def copied_report(options: TopicOptions, answer: ChangeAnswer) -> ToolReport:
    """`--alter` with fewer partitions, where the topic is copied for it."""
    lines = [f"{one.item}: {one.message}" for one in answer.results if one.ok]
    lines += [f"  {note}" for note in (*answer.notes, *answer.warnings)]
    if answer.validate_only:
        lines.append("Nothing was changed.")
    else:
        server = f"--backend {options.backend}"
        if not options.backend:
            server = f"--bootstrap-server {options.bootstrap_servers}"
        lines.append(
            f"Operation {answer.operation_id} has started. Watch it among the operations of: "
            f"kshunt {server}. Type the topic's name there when it asks for it"
        )
    return ToolReport("\n".join(lines), to_document(answer))


def _deleted_line(options: TopicOptions, one: PartitionDeletion) -> str:
    """`t-5: ReadOnly; it will be deleted after 60000 ms`."""
    would = options.validate_only
    match one.mode:
        case PartitionMode.READ_ONLY:
            what = "would be deleted" if would else "will be deleted"
            when = "when the delay that was set before is over"
            if options.delay_ms is not None:
                when = f"after {options.delay_ms} ms"
            return f"{one.name}: {one.mode}; it {what} {when}"
        case PartitionMode.NONE:
            what = "would be deleted" if would else "is being deleted"
            return f"{one.name}: {one.mode}; it {what}"
        case _:
            what = "would be" if would else "is"
            return f"{one.name}: {one.mode}; its deletion {what} cancelled"


def _failure(one: PartitionDeletion) -> str:
    return f"{one.name}: {one.error_name}" + (f": {one.message}" if one.message else "")


def _known(brokers: tuple[int, ...] | None) -> str:
    return UNKNOWN_ELR if brokers is None else _ids(brokers)


def _value(value: str | None) -> str:
    return "null" if value is None else value


def _ids(ids: Iterable[int]) -> str:
    return ",".join(map(str, ids))
