"""JSON of the API, both ways: the one place that knows how a value is written.

Shared by the service and by its client, so it imports neither a web framework nor numpy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from backend.api.schema.team import claim_json, note_json, read_claim, read_note
from backend.domain.cluster.metadata import Broker, LogDir, OngoingReassignment, TopicPartition
from backend.domain.operations.election import (
    ElectionAnswer,
    LeaderCount,
    UncleanAnswer,
    UncleanLoss,
)
from backend.domain.operations.operation import Operation, OperationKind, OperationState
from backend.domain.reassignment.answers import (
    ChangeAnswer,
    GeneratedPlan,
    LogDirRow,
    ProgressRow,
    Result,
    VerifyAnswer,
    VerifyRow,
    VerifyState,
)
from backend.domain.reassignment.plan import ReassignmentPlan
from backend.domain.throttles.configs import (
    BrokerThrottle,
    ReplicaSet,
    ThrottledRate,
    ThrottledReplicas,
    Throttles,
)

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


def reassignment_json(ongoing: OngoingReassignment) -> Json:
    """A partition that moves."""
    return {
        **partition_json(ongoing.partition),
        "replicas": list(ongoing.replicas),
        "adding": list(ongoing.adding),
        "removing": list(ongoing.removing),
    }


def read_reassignment(document: Mapping[str, Any]) -> OngoingReassignment:
    """The opposite of `reassignment_json`."""
    return OngoingReassignment(
        partition=read_partition(document),
        replicas=tuple(document["replicas"]),
        adding=tuple(document["adding"]),
        removing=tuple(document["removing"]),
    )


def broker_json(broker: Broker) -> Json:
    """Where a broker listens, and its rack."""
    return {"id": broker.id, "host": broker.host, "port": broker.port, "rack": broker.rack}


def read_broker(document: Mapping[str, Any]) -> Broker:
    """The opposite of `broker_json`."""
    return Broker(document["id"], document["host"], document["port"], document["rack"])


def log_dir_json(log_dir: LogDir) -> Json:
    """A log directory."""
    return {
        "broker": log_dir.broker,
        "path": log_dir.path,
        "total_bytes": log_dir.total_bytes,
        "usable_bytes": log_dir.usable_bytes,
        "error": log_dir.error,
    }


def read_log_dir(document: Mapping[str, Any]) -> LogDir:
    """The opposite of `log_dir_json`."""
    return LogDir(
        document["broker"],
        document["path"],
        document["total_bytes"],
        document["usable_bytes"],
        document["error"],
    )


def throttles_json(throttles: Throttles) -> Json:
    """Rates by broker and replica lists by topic."""
    return {
        "rates": [
            {
                "broker": rate.broker,
                "leader_bytes_per_s": rate.rate.leader_bytes_per_s,
                "follower_bytes_per_s": rate.rate.follower_bytes_per_s,
                "log_dir_bytes_per_s": rate.log_dir_bytes_per_s,
                "source": rate.leader_source,
                "follower_source": rate.follower_source,
                "log_dir_source": rate.log_dir_source,
            }
            for rate in throttles.rates.values()
        ],
        "replicas": [
            {"topic": topic, "leaders": str(lists.leaders), "followers": str(lists.followers)}
            for topic, lists in throttles.replicas.items()
        ],
        "unknown_brokers": list(throttles.unknown_brokers),
    }


def read_throttles(document: Mapping[str, Any]) -> Throttles:
    """The opposite of `throttles_json`."""
    return Throttles(
        rates={
            rate["broker"]: BrokerThrottle(
                broker=rate["broker"],
                rate=ThrottledRate(rate["leader_bytes_per_s"], rate["follower_bytes_per_s"]),
                log_dir_bytes_per_s=rate["log_dir_bytes_per_s"],
                leader_source=rate["source"],
                follower_source=rate["follower_source"],
                log_dir_source=rate["log_dir_source"],
            )
            for rate in document["rates"]
        },
        replicas={
            entry["topic"]: ThrottledReplicas(
                ReplicaSet.parse(entry["leaders"]), ReplicaSet.parse(entry["followers"])
            )
            for entry in document["replicas"]
        },
        unknown_brokers=tuple(document["unknown_brokers"]),
    )


def operation_json(operation: Operation) -> Json:
    """An operation, whole."""
    return {
        "id": operation.id,
        "kind": operation.kind.value,
        "state": operation.state.value,
        "started_ms": operation.started_ms,
        "ended_ms": operation.ended_ms,
        "summary": operation.summary,
        "partitions": [partition_json(partition) for partition in operation.partitions],
        "throttle_bytes_per_s": operation.throttle_bytes_per_s,
        "auto_remove_throttle": operation.auto_remove_throttle,
        "outcome": operation.outcome,
        "details": dict(operation.details),
        "who": operation.who,
        "reason": operation.reason,
        "actions": list(operation.actions),
        "waiting": operation.waiting,
        "claim": claim_json(operation.claim),
        "notes": list(map(note_json, operation.notes)),
    }


def read_operation(document: Mapping[str, Any]) -> Operation:
    """The opposite of `operation_json`."""
    return Operation(
        id=document["id"],
        kind=OperationKind(document["kind"]),
        state=OperationState(document["state"]),
        started_ms=document["started_ms"],
        ended_ms=document["ended_ms"],
        summary=document["summary"],
        partitions=tuple(read_partition(entry) for entry in document["partitions"]),
        throttle_bytes_per_s=document["throttle_bytes_per_s"],
        auto_remove_throttle=document["auto_remove_throttle"],
        outcome=document["outcome"],
        details=document["details"],
        who=document["who"],
        reason=document["reason"],
        actions=tuple(document["actions"]),
        waiting=document["waiting"],
        # What was recorded by a dashboard of an earlier version has neither.
        claim=read_claim(document.get("claim")),
        notes=tuple(map(read_note, document.get("notes", ()))),
    )


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


def election_json(answer: ElectionAnswer) -> Json:
    """What became of an election of preferred leaders, or would."""
    return {
        **change_json(answer),
        "leaders": [
            {
                "broker": count.broker,
                "leaders_before": count.leaders_before,
                "leaders_after": count.leaders_after,
                "leaders_preferred": count.leaders_preferred,
                "skew_before": count.skew_before,
                "skew_after": count.skew_after,
            }
            for count in answer.leaders
        ],
    }


def read_election(document: Mapping[str, Any]) -> ElectionAnswer:
    """The opposite of `election_json`; a backend that counts no leaders may leave them out."""
    change = read_change(document)
    return ElectionAnswer(
        change.validate_only,
        change.operation_id,
        change.results,
        change.notes,
        leaders=tuple(LeaderCount(**count) for count in document.get("leaders", ())),
    )


def unclean_json(answer: UncleanAnswer) -> Json:
    """What became of an unclean election, or would."""
    return {
        **change_json(answer),
        "losses": [
            {
                **partition_json(loss.partition),
                "candidate": loss.candidate,
                "candidate_end": loss.candidate_end,
                "known_end": loss.known_end,
                "known_ms": loss.known_ms,
                "lost_messages": loss.lost_messages,
                "lost_messages_min": loss.lost_messages_min,
            }
            for loss in answer.losses
        ],
    }


def read_unclean(document: Mapping[str, Any]) -> UncleanAnswer:
    """The opposite of `unclean_json`."""
    change = read_change(document)
    return UncleanAnswer(
        change.validate_only,
        change.operation_id,
        change.results,
        change.notes,
        losses=tuple(
            UncleanLoss(
                read_partition(loss),
                loss["candidate"],
                loss["candidate_end"],
                loss["known_end"],
                loss["known_ms"],
                loss["lost_messages"],
                loss["lost_messages_min"],
            )
            for loss in document["losses"]
        ),
    )


def progress_json(rows: Iterable[ProgressRow]) -> list[Json]:
    """The rows of `--progress`."""
    return [
        {
            **partition_json(row.partition),
            "broker": row.broker,
            "status": row.status,
            "lag_messages": row.lag_messages,
            "in_sync": row.in_sync,
            "cause": row.cause or None,
            "reason": row.reason,
            "action": row.action,
        }
        for row in rows
    ]


def read_progress(entries: Iterable[Mapping[str, Any]]) -> tuple[ProgressRow, ...]:
    """The opposite of `progress_json`."""
    return tuple(
        ProgressRow(
            read_partition(entry),
            entry["broker"],
            entry["status"],
            entry["lag_messages"],
            entry["in_sync"],
            entry["cause"] or "",
            entry["reason"],
            entry["action"],
        )
        for entry in entries
    )


def verify_json(answer: VerifyAnswer) -> Json:
    """What `--verify` found and did."""
    return {
        "rows": [
            {
                **partition_json(row.partition),
                "state": row.state.value,
                "replicas": list(row.replicas),
                "target": list(row.target),
            }
            for row in answer.rows
        ],
        "log_dirs": [
            {
                **partition_json(row.partition),
                "broker": row.broker,
                "text": row.text,
                "done": row.done,
            }
            for row in answer.log_dirs
        ],
        "active_elsewhere": answer.active_elsewhere,
        "cleared_brokers": list(answer.cleared_brokers),
        "cleared_topics": list(answer.cleared_topics),
        "notes": list(answer.notes),
    }


def read_verify(document: Mapping[str, Any]) -> VerifyAnswer:
    """The opposite of `verify_json`."""
    return VerifyAnswer(
        rows=tuple(
            VerifyRow(
                read_partition(row),
                VerifyState(row["state"]),
                tuple(row["replicas"]),
                tuple(row["target"]),
            )
            for row in document["rows"]
        ),
        log_dirs=tuple(
            LogDirRow(read_partition(row), row["broker"], row["text"], row["done"])
            for row in document["log_dirs"]
        ),
        active_elsewhere=document["active_elsewhere"],
        cleared_brokers=tuple(document["cleared_brokers"]),
        cleared_topics=tuple(document["cleared_topics"]),
        notes=tuple(document["notes"]),
    )


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


def generated_json(generated: GeneratedPlan) -> Json:
    """Both plans of `--generate`."""
    return {
        "current": plan_json(generated.current),
        "proposed": plan_json(generated.proposed),
        "notes": list(generated.notes),
    }


def read_generated(document: Mapping[str, Any]) -> GeneratedPlan:
    """The opposite of `generated_json`."""
    current, proposed = (read_plan(document[name]) for name in ("current", "proposed"))
    return GeneratedPlan(current, proposed, tuple(document.get("notes", ())))
