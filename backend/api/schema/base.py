"""JSON that several resources share, both ways; the one place that knows how a value is written.

Shared by the service and by its client, so no schema imports a web framework. Only frames and plans
import numpy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.reassignment.answers import ChangeAnswer, Result
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan

Json = dict[str, Any]


def partition_json(partition: TopicPartition) -> Json:
    """`{"topic", "partition"}`."""
    return {"topic": partition.topic, "partition": partition.partition}


def read_partition(document: Mapping[str, Any]) -> TopicPartition:
    """The opposite of `partition_json`."""
    return TopicPartition(document["topic"], document["partition"])


def plan_json(plan: ReassignmentPlan) -> Json:
    """A plan as Kafka writes it, `log_dirs` only where the plan names one."""
    entries = []
    for partition, target in plan.replicas.items():
        entry: Json = {**partition_json(partition), "replicas": list(target)}
        dirs = [plan.log_dirs.get((partition, broker), "any") for broker in target]
        if any(directory != "any" for directory in dirs):
            entry["log_dirs"] = dirs
        entries.append(entry)
    document: Json = {"version": 1, "partitions": entries}
    return document if plan.cluster_id is None else document | {"cluster_id": plan.cluster_id}


def read_plan(document: Mapping[str, Any]) -> ReassignmentPlan:
    """A plan that the backend wrote, read without the checks that an operator's file needs."""
    replicas: dict[TopicPartition, tuple[int, ...]] = {}
    log_dirs: dict[tuple[TopicPartition, int], str] = {}
    for entry in document["partitions"]:
        partition = read_partition(entry)
        replicas[partition] = tuple(entry["replicas"])
        for broker, directory in zip(entry["replicas"], entry.get("log_dirs") or (), strict=False):
            if directory != "any":
                log_dirs[partition, broker] = directory
    return ReassignmentPlan(replicas, log_dirs)


def change_json(answer: ChangeAnswer) -> Json:
    """The opposite of `read_change`."""
    return {
        "validate_only": answer.validate_only,
        "operation_id": answer.operation_id,
        "results": [
            {
                "item": result.item,
                "error_code": result.error_code,
                "error_name": result.error_name,
                "message": result.message,
            }
            for result in answer.results
        ],
        "notes": list(answer.notes),
        "rollback_plan": answer.rollback_plan,
    }


def read_change(document: Mapping[str, Any]) -> ChangeAnswer:
    """Read the answer of a POST that changes something."""
    return ChangeAnswer(
        validate_only=document["validate_only"],
        operation_id=document["operation_id"],
        results=tuple(_read_results(document["results"])),
        notes=tuple(document["notes"]),
        rollback_plan=document.get("rollback_plan"),
    )


def _read_results(entries: Iterable[Mapping[str, Any]]) -> Iterable[Result]:
    for entry in entries:
        yield Result(entry["item"], entry["error_code"], entry["error_name"], entry["message"])
