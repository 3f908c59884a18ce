"""Reassignment plans in Kafka's JSON, version 1, as every Kafka tool reads and writes it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from json.decoder import JSONDecoder, JSONObject  # type: ignore[attr-defined]
from json.scanner import py_make_scanner  # type: ignore[attr-defined]
from pathlib import Path
from typing import Any, Final

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.untrusted.strict_json import UnreadableJson, read_json
from kshunt.backend.errors import PlanError

ANY_LOG_DIR: Final = "any"
"""The plan's word for "the broker may choose the directory"."""
INT32_MAX: Final = 2**31 - 1

PLAN_BYTES_MAX: Final = 64 * 1024 * 1024
"""A plan of 200,000 partitions is about 12 MB."""


@dataclass(frozen=True, slots=True)
class ReassignmentPlan:
    """Where a plan puts partitions."""

    replicas: Mapping[TopicPartition, tuple[int, ...]]
    """Target replicas in the plan's order; the first one is preferred as leader."""
    log_dirs: Mapping[tuple[TopicPartition, int], str] = field(default_factory=dict)
    """Target directory of a replica, where the plan names one."""
    cluster_id: str | None = None
    """The cluster that the plan is for, where its file says so; a backend of another cluster
    refuses the plan. Kafka's own tools ignore `"cluster_id"`."""

    def __len__(self) -> int:
        return len(self.replicas)

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics of the plan, sorted, each once."""
        return tuple(sorted({partition.topic for partition in self.replicas}))

    @property
    def brokers(self) -> tuple[int, ...]:
        """Brokers that the plan names, sorted, each once."""
        return tuple(sorted({broker for target in self.replicas.values() for broker in target}))


@dataclass(frozen=True, slots=True)
class _Mistake(Exception):
    """A mistake, and the path of list indexes and keys that leads to it."""

    path: tuple[str | int, ...]
    message: str


def parse_plan(text: str) -> ReassignmentPlan:
    """Read a plan.

    Raises:
        PlanError: the text is no JSON, no plan, or it names a partition twice; with the line and
            the column of the mistake.
    """
    document = _load(text)
    try:
        return _plan(document)
    except _Mistake as mistake:
        line, column = _locate(text, mistake.path)
        raise PlanError(
            mistake.message,
            advice="The cluster is unchanged; correct the file and try again.",
            line=line,
            column=column,
        ) from None


def check_plan(document: Any) -> ReassignmentPlan:
    """A plan from JSON that was parsed already.

    Raises:
        PlanError: it is no plan, or it names a partition twice; without a line.
    """
    try:
        return _plan(document)
    except _Mistake as mistake:
        raise PlanError(mistake.message, advice="Nothing was changed.") from None


def parse_topics_to_move(text: str) -> tuple[str, ...]:
    """Read the topics file of `--generate`: `{"topics": [{"topic": "a"}], "version": 1}`.

    Raises:
        PlanError: the text is no JSON or no such file.
    """
    document = _load(text)
    try:
        _version(document)
        entries = _list(document, "topics", ())
        names = [_topic(entry, ("topics", index)) for index, entry in enumerate(entries)]
        _no_duplicates(names, "topic", "topics")
    except _Mistake as mistake:
        line, column = _locate(text, mistake.path)
        raise PlanError(mistake.message, line=line, column=column) from None
    return tuple(names)


def parse_partitions(text: str) -> tuple[TopicPartition, ...]:
    """Read an election file of Kafka: `{"partitions": [{"topic": "a", "partition": 0}]}`.

    Duplicates are no error (KIP-183) and are dropped.

    Raises:
        PlanError: the text is no JSON or no such file.
    """
    document = _load(text)
    try:
        entries = _list(document, "partitions", ())
        found = [_partition(entry, ("partitions", i)) for i, entry in enumerate(entries)]
    except _Mistake as mistake:
        line, column = _locate(text, mistake.path)
        raise PlanError(mistake.message, line=line, column=column) from None
    return tuple(dict.fromkeys(found))


def format_plan(
    replicas: Mapping[TopicPartition, Iterable[int]],
    log_dirs: Mapping[tuple[TopicPartition, int], str] | None = None,
    *,
    cluster_id: str = "",
) -> str:
    """A plan in Kafka's JSON, on one line and in the key order of Kafka's own tool.

    With `cluster_id` no backend of another cluster starts it; Kafka's own tools ignore it.
    """
    named = log_dirs or {}
    entries = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": list(target),
            "log_dirs": [named.get((partition, broker), ANY_LOG_DIR) for broker in target],
        }
        for partition, target in sorted(
            (partition, tuple(target)) for partition, target in replicas.items()
        )
    ]
    document: dict[str, Any] = {"version": 1, "partitions": entries}
    if cluster_id:
        document["cluster_id"] = cluster_id
    return json.dumps(document, separators=(",", ":"))


def rollback_path(path: Path) -> Path:
    """Where the plan that leads back is kept: `plan.rollback.json` next to `plan.json`."""
    return path.with_name(f"{path.stem}.rollback{path.suffix}")


def _load(text: str) -> Any:
    try:
        return read_json(text, bytes_max=PLAN_BYTES_MAX)
    except UnreadableJson as error:
        raise PlanError(
            f"{error}.",
            advice="The cluster is unchanged; correct the file and try again.",
            line=error.line,
            column=error.column,
        ) from None


def _plan(document: Any) -> ReassignmentPlan:
    _version(document)
    replicas: dict[TopicPartition, tuple[int, ...]] = {}
    log_dirs: dict[tuple[TopicPartition, int], str] = {}
    for index, entry in enumerate(_list(document, "partitions", ())):
        path = ("partitions", index)
        partition = _partition(entry, path)
        if partition in replicas:
            raise _Mistake(path, f"partition {partition} is in the plan twice.")
        replicas[partition] = _replicas(entry, partition, path)
        log_dirs.update(_log_dirs(entry, partition, replicas[partition], path))
    if not replicas:
        raise _Mistake((), "the plan's list of partitions is empty; there is nothing to do.")
    return ReassignmentPlan(replicas, log_dirs, _cluster_id(document))


def _cluster_id(document: Mapping[str, Any]) -> str | None:
    cluster_id = document.get("cluster_id")
    if cluster_id is not None and not isinstance(cluster_id, str):
        raise _Mistake((), '"cluster_id" must be text.')
    return cluster_id


def _version(document: Any) -> None:
    if not isinstance(document, dict):
        raise _Mistake((), 'a plan must be an object: {"version": 1, "partitions": [...]}.')
    version = document.get("version", 1)
    if version != 1 or isinstance(version, bool):
        raise _Mistake(("version",), f"plan version {version!r} is not supported; Kafka's is 1.")


def _list(document: Any, key: str, path: tuple[str | int, ...]) -> list[Any]:
    if not isinstance(document, dict):
        raise _Mistake(path, f'expected an object with "{key}".')
    found = document.get(key)
    if not isinstance(found, list):
        raise _Mistake((*path, key), f'"{key}" must be a list.')
    return found


def _topic(entry: Any, path: tuple[str | int, ...]) -> str:
    if not isinstance(entry, dict):
        raise _Mistake(path, "each entry must be an object.")
    topic = entry.get("topic")
    if not isinstance(topic, str) or not topic:
        raise _Mistake(path, 'an entry needs a "topic" with a name.')
    return topic


def _partition(entry: Any, path: tuple[str | int, ...]) -> TopicPartition:
    topic = _topic(entry, path)
    number = entry.get("partition")
    if not _is_int32(number):
        raise _Mistake(path, f'topic {topic}: "partition" must be a whole number of 0 or more.')
    return TopicPartition(topic, number)


def _replicas(
    entry: Mapping[str, Any], partition: TopicPartition, path: tuple[str | int, ...]
) -> tuple[int, ...]:
    brokers = _list(entry, "replicas", path)
    if not brokers:
        raise _Mistake(path, f"partition {partition}: the replica list is empty.")
    if not all(_is_int32(broker) for broker in brokers):
        raise _Mistake(path, f"partition {partition}: replicas must be broker ids of 0 or more.")
    _no_duplicates(brokers, f"partition {partition}: broker", *path)
    return tuple(brokers)


def _log_dirs(
    entry: Mapping[str, Any],
    partition: TopicPartition,
    brokers: tuple[int, ...],
    path: tuple[str | int, ...],
) -> Iterator[tuple[tuple[TopicPartition, int], str]]:
    if "log_dirs" not in entry:
        return
    paths = _list(entry, "log_dirs", path)
    if len(paths) != len(brokers):
        raise _Mistake(
            path,
            f"partition {partition}: {len(paths)} log_dirs for {len(brokers)} replicas; "
            "give one for each, or leave them out.",
        )
    for broker, directory in zip(brokers, paths, strict=True):
        if not isinstance(directory, str) or not (
            directory == ANY_LOG_DIR or directory.startswith("/")
        ):
            raise _Mistake(
                path, f"partition {partition}: a log dir must be an absolute path or 'any'."
            )
        if directory != ANY_LOG_DIR:
            yield (partition, broker), directory


def _no_duplicates(values: list[Any], what: str, *path: str | int) -> None:
    seen: set[Any] = set()
    for value in values:
        if value in seen:
            raise _Mistake(path, f"{what} {value} is named twice.")
        seen.add(value)


def _is_int32(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= INT32_MAX


class _LocatingDecoder(JSONDecoder):
    """Remembers where each object began; slow, and so used for the message of a mistake only."""

    def __init__(self) -> None:
        super().__init__()
        self.starts: dict[int, int] = {}
        self.objects: list[Any] = []
        self.parse_object = self._parse_object
        self.scan_once = py_make_scanner(self)

    def _parse_object(self, text_and_end: tuple[str, int], *args: Any) -> tuple[Any, int]:
        value, end = JSONObject(text_and_end, *args)
        # Kept alive so that no two objects can share an id.
        self.objects.append(value)
        self.starts[id(value)] = text_and_end[1] - 1
        return value, end


def _locate(text: str, path: tuple[str | int, ...]) -> tuple[int, int]:
    """Line and column (from 1) of the innermost object on the path."""
    decoder = _LocatingDecoder()
    value = decoder.decode(text)
    offset = decoder.starts.get(id(value), 0)
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            break
        offset = decoder.starts.get(id(value), offset)
    return text.count("\n", 0, offset) + 1, offset - (text.rfind("\n", 0, offset) + 1) + 1
