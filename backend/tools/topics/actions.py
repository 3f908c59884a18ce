"""What each action of `kafka-topics` asks for, and what it has to say."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from kshunt.backend.commandline.values import ANSWER_MARGIN_S
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.shrink.delete_partitions import (
    KEYED,
    NOT_COPIED,
    DeletePartitions,
    ShrinkSupport,
    shrink_warnings,
)
from kshunt.backend.domain.shrink.phases import ShrinkRequest
from kshunt.backend.domain.topics.alteration import AlteredTopic
from kshunt.backend.domain.topics.descriptions import (
    TopicDescription,
    TopicsDescribed,
    TopicSummary,
)
from kshunt.backend.errors import BadInput, NotSupported
from kshunt.backend.local_sockets import running_backend
from kshunt.backend.tools.shared.console import (
    show,
)
from kshunt.backend.tools.shared.output import ToolReport
from kshunt.backend.tools.topics import reports
from kshunt.backend.tools.topics.options import (
    TopicOptions,
    TopicsAction,
)

if TYPE_CHECKING:
    from kshunt.backend.api.client.shrinks import ShrinksClient
    from kshunt.backend.api.client.topics import TopicsClient
    from kshunt.backend.tools.local.topics import LocalShrinks, LocalTopics

INCREASED: Final = KEYED.replace("decreased", "increased")
"""Kafka's own warning, from when its tool spoke to ZooKeeper."""
NAMED_MAX: Final = 10_000
"""The most topics that one request names; for more, the tool asks for all topics."""


TopicsAnswerer: TypeAlias = "TopicsClient | LocalTopics"
"""Who answers the tool: a backend, or this process."""

ShrinksAnswerer: TypeAlias = "ShrinksClient | LocalShrinks"
"""Likewise."""


class Cluster(NamedTuple):
    """Where the tool asks."""

    topics: TopicsAnswerer
    shrinks: ShrinksAnswerer


def report_of(options: TopicOptions) -> ToolReport:
    """Do what is asked for."""
    with _open(options) as cluster:
        return _ACTIONS[options.action](options, cluster)


def _list(options: TopicOptions, cluster: Cluster) -> ToolReport:
    return reports.list_report(_named(options, cluster))


def _describe(options: TopicOptions, cluster: Cluster) -> ToolReport:
    names = [topic.topic for topic in _named(options, cluster)]
    if options.topic and not names:
        return _missing(options)
    whole = not (options.topic or options.exclude_internal) or len(names) > NAMED_MAX
    found = cluster.topics.describe(
        None if whole else names,
        configs=not options.reports,
        min_isr=options.under_min_isr or options.at_min_isr,
    )
    shown = set(names)
    wanted = tuple(topic for topic in found.topics if topic.name in shown)
    return reports.describe_report(options, TopicsDescribed(wanted, found.live))


def _alter(options: TopicOptions, cluster: Cluster) -> ToolReport:
    found = cluster.topics.describe([options.topic], configs=False).topics
    if not found:
        return _missing(options)
    topic, wanted = found[0], options.partitions
    if wanted > topic.open_count:
        return _added(options, topic, cluster)
    if options.assignment is not None:
        raise BadInput(_goes_with("replica-assignment", "more", topic, wanted))
    if wanted == topic.open_count:
        if not _leaving(topic):
            raise BadInput(
                f"Topic {topic.name} already has {wanted} partition(s). Nothing was changed."
            )
        if options.delay_ms is not None:
            raise BadInput(_goes_with("delete-partitions-delay", "fewer", topic, wanted))
    return _deleted(options, topic, cluster)


_ACTIONS: Final[Mapping[TopicsAction, Callable[[TopicOptions, Cluster], ToolReport]]] = {
    TopicsAction.LIST: _list,
    TopicsAction.DESCRIBE: _describe,
    TopicsAction.ALTER: _alter,
}


def _named(options: TopicOptions, cluster: Cluster) -> list[TopicSummary]:
    """The topics that the options select."""
    pattern = re.compile(options.topic)
    return [
        topic
        for topic in cluster.topics.list()
        if not (options.exclude_internal and topic.internal)
        and (not options.topic or pattern.fullmatch(topic.topic))
    ]


def _missing(options: TopicOptions) -> ToolReport:
    """What the tool says where the options select no topic.

    Raises:
        BadInput: it should be there.
    """
    if options.if_exists:
        return ToolReport("", {"topics": []})
    raise BadInput(f"Topic '{options.topic}' does not exist as expected")


def _leaving(topic: TopicDescription) -> bool:
    """True where partitions are on their way out whose data is still there."""
    return any(one.mode for one in topic.partitions[: topic.open_count])


def _goes_with(flag: str, what: str, topic: TopicDescription, wanted: int) -> str:
    return (
        f"--{flag} needs {what} partitions: topic {topic.name} has {topic.open_count}, and you "
        f"asked for {wanted}. Nothing was changed."
    )


def _added(options: TopicOptions, topic: TopicDescription, cluster: Cluster) -> ToolReport:
    present = topic.open_count
    if options.delay_ms is not None:
        message = _goes_with("delete-partitions-delay", "fewer", topic, options.partitions)
        raise BadInput(message)
    if any(one.mode for one in topic.partitions):
        raise BadInput(
            f"Topic {topic.name} is losing partitions now; it cannot grow before they are "
            "deleted. Nothing was changed.",
            advice=f"--partitions {present} keeps the partitions that can still be read."
            if _leaving(topic)
            else "",
        )
    # As in Kafka's tool, the assignment begins with the partitions that are there.
    given = enumerate((options.assignment or ())[present:], present)
    if options.assignment is not None and len(options.assignment) <= present:
        raise BadInput(
            f"--replica-assignment names {len(options.assignment)} partition(s), but topic "
            f"{topic.name} already has {present}. Nothing was changed.",
            advice="Name the brokers of all partitions, including the existing ones.",
        )
    _warn(options, (INCREASED,))
    answer = cluster.topics.alter(
        {topic.name: AlteredTopic(options.partitions, assignments=dict(given))},
        _change(options),
        timeout_ms=options.timeout_ms,
    )
    return reports.added_report(options, answer)


def _deleted(options: TopicOptions, topic: TopicDescription, cluster: Cluster) -> ToolReport:
    support = cluster.shrinks.support()
    if options.partitions < topic.open_count:
        _warn(options, shrink_warnings(support, changing=topic.changing))
    if support is ShrinkSupport.UNSUPPORTED:
        return _copied(options, topic, cluster)
    _check_support(support)
    if options.partitioner is not None:
        _warn(options, (NOT_COPIED,))
    wanted = DeletePartitions(options.partitions, options.delay_ms)
    answer = cluster.shrinks.delete_partitions(
        {topic.name: wanted},
        _change(options),
        timeout_ms=options.timeout_ms,
    )
    return reports.deleted_report(options, answer)


def _copied(options: TopicOptions, topic: TopicDescription, cluster: Cluster) -> ToolReport:
    """Begin to copy a topic into one with fewer partitions; a backend continues the copy."""
    answer = cluster.shrinks.start(
        ShrinkRequest(
            topic.name,
            options.partitions,
            options.delay_ms or 0,
            partitioner=options.partitioner,
        ),
        _change(options),
    )
    return reports.copied_report(options, answer)


def _change(options: TopicOptions) -> Change:
    return Change(options.validate_only, who=options.who, reason=options.reason)


def _check_support(support: ShrinkSupport) -> None:
    """Stop where the cluster could delete partitions and is told not to.

    Raises:
        NotSupported: so it is.
    """
    if support is ShrinkSupport.DISABLED:
        raise NotSupported(
            "This cluster does not delete partitions: delete.topic.partition.enable is false. "
            "Nothing was changed.",
            advice="Set it to true for the cluster's brokers.",
        )


def _warn(options: TopicOptions, warnings: Sequence[str] | Iterator[str]) -> None:
    """Say it before it is done; a program that reads JSON finds it in the answer's notes."""
    if not options.json:
        for warning in warnings:
            show(warning, sys.stderr)


# The way to a cluster


@contextmanager
def _open(options: TopicOptions) -> Iterator[Cluster]:
    """The backend that the options name, the private one, or this process where it only reads.

    A change goes into the audit, which a backend keeps: one is started where none runs.

    Raises:
        BackendUnreachable: the backend that the options name does not answer.
        ClusterUnreachable: no backend runs, and no broker answers this process.
    """
    if address := _address(options):
        from kshunt.backend.api.client.shrinks import ShrinksClient
        from kshunt.backend.api.client.topics import TopicsClient
        from kshunt.backend.tools.shared.senders import quick_sender

        patience_s = options.timeout_ms / 1000 + ANSWER_MARGIN_S
        with quick_sender(address, timeout_s=patience_s) as sender:
            yield Cluster(TopicsClient(sender), ShrinksClient(sender))
        return
    from kshunt.backend.settings import PlacerSettings, Settings
    from kshunt.backend.tools.local.cluster import LocalCluster
    from kshunt.backend.tools.local.topics import LocalShrinks, LocalTopics

    placer = PlacerSettings.of(os.environ)
    settings = Settings(options.bootstrap_servers, options.command_config, placer=placer)
    with closing(LocalCluster(settings)) as cluster:
        yield Cluster(LocalTopics(cluster), LocalShrinks(cluster))


def _address(options: TopicOptions) -> str:
    """Of the backend, or empty where this process does it."""
    if not options.backend and options.action is TopicsAction.ALTER and not options.validate_only:
        from kshunt.backend.tools.shared.private_backend import private_backend

        return private_backend(options.bootstrap_servers, options.command_config)
    return running_backend(options.backend, options.bootstrap_servers, options.command_config)
