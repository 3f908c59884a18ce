"""Taking partitions from a topic, as JSON: the check before it, and KIP-694's own way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from kshunt.backend.api.schema.base import Json
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.shrink.check import (
    DoomedPartition,
    Finding,
    GroupLag,
    KeyUse,
    Severity,
    ShrinkCheck,
)
from kshunt.backend.domain.shrink.delete_partitions import (
    DeletedPartition,
    DeletePartitions,
    ShrinkAnswer,
)
from kshunt.backend.domain.topics.groups import ActiveProducer, GroupMember


def check_json(check: ShrinkCheck) -> Json:
    """The opposite of `read_check`."""
    return {
        "topic": check.topic,
        "current": check.current,
        "wanted": check.wanted,
        "checked_ms": check.checked_ms,
        "native": check.native,
        "allowed": not check.refusals(),
        "findings": [_finding_json(one) for one in check.findings],
        "partitions": [asdict(one) for one in check.partitions],
        "groups": [_group_json(one) for one in check.groups],
        "total_bytes": check.total_bytes,
        "total_records": check.total_records,
        "copy_bytes": check.copy_bytes,
        "copy_ms": check.copy_ms,
        "retention_ms": check.retention_ms,
        "keys": str(check.keys),
        "sampled": check.sampled,
        "watched_ms": check.watched_ms,
        "unread": [{"what": what, "why": why} for what, why in check.unread.items()],
    }


def read_check(document: Mapping[str, Any]) -> ShrinkCheck:
    """From the answer of `GET /v1/topics/TOPIC/shrink`."""
    plain = {
        name: document[name]
        for name in (
            "topic",
            "current",
            "wanted",
            "checked_ms",
            "native",
            "total_bytes",
            "total_records",
            "copy_bytes",
            "copy_ms",
            "retention_ms",
            "sampled",
            "watched_ms",
        )
    }
    return ShrinkCheck(
        **plain,
        partitions=tuple(map(_read_partition, document["partitions"])),
        groups=tuple(map(_read_group, document["groups"])),
        keys=KeyUse(document["keys"]),
        findings=tuple(map(_read_finding, document["findings"])),
        unread={one["what"]: one["why"] for one in document["unread"]},
    )


def _finding_json(finding: Finding) -> Json:
    return {**asdict(finding), "severity": str(finding.severity)}


def _read_finding(document: Mapping[str, Any]) -> Finding:
    return Finding(**{**document, "severity": Severity(document["severity"])})


def _read_partition(document: Mapping[str, Any]) -> DoomedPartition:
    producers = document["producers"]
    if producers is not None:
        producers = tuple(ActiveProducer(**one) for one in producers)
    return DoomedPartition(**{**document, "producers": producers})


def _group_json(group: GroupLag) -> Json:
    return {
        "name": group.name,
        "state": group.state,
        "kind": group.kind,
        "members": [asdict(one) for one in group.members],
        "committed": [
            {"partition": number, "offset": offset}
            for number, offset in sorted(group.committed.items())
        ],
        "unread_doomed": group.unread_doomed,
        "unread_all": group.unread_all,
        "no_position": list(group.no_position),
    }


def _read_group(document: Mapping[str, Any]) -> GroupLag:
    return GroupLag(
        name=document["name"],
        state=document["state"],
        kind=document["kind"],
        members=tuple(
            GroupMember(**{**one, "partitions": tuple(one["partitions"])})
            for one in document["members"]
        ),
        committed={one["partition"]: one["offset"] for one in document["committed"]},
        unread_doomed=document["unread_doomed"],
        unread_all=document["unread_all"],
        no_position=tuple(document["no_position"]),
    )


def shrink_json(topics: Mapping[str, DeletePartitions]) -> list[Json]:
    """Topics of a request to delete partitions."""
    return [
        {"topic": name, "total_count": wanted.total_count, "delay_ms": wanted.delay_ms}
        for name, wanted in topics.items()
    ]


def deleted_json(answer: ShrinkAnswer) -> Json:
    """The opposite of `read_deleted`."""
    return {
        "validate_only": answer.validate_only,
        "operation_id": answer.operation_id,
        "partitions": [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "mode": int(one.mode),
                "mode_name": str(one.mode),
                "error_code": one.error_code,
                "error_name": one.error_name,
                "message": one.message,
            }
            for partition, one in answer.partitions
        ],
        "notes": list(answer.notes),
    }


def read_deleted(document: Mapping[str, Any]) -> ShrinkAnswer:
    """From the answer of `POST /v1/topics/delete-partitions`."""
    return ShrinkAnswer(
        document["validate_only"],
        document["operation_id"],
        tuple(
            (
                TopicPartition(one["topic"], one["partition"]),
                DeletedPartition(
                    PartitionMode(one["mode"]),
                    one["error_code"],
                    one["error_name"],
                    one["message"],
                ),
            )
            for one in document["partitions"]
        ),
        tuple(document["notes"]),
    )
