"""Moves and plans as JSON: what moves, how far it is, and whether it is done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kshunt.backend.api.schema.base import (
    Json,
    partition_json,
    plan_json,
    read_partition,
    read_plan,
)
from kshunt.backend.domain.cluster.metadata import OngoingReassignment
from kshunt.backend.domain.reassignment.answers import (
    GeneratedPlan,
    LogDirRow,
    ProgressRow,
    VerifyAnswer,
    VerifyRow,
    VerifyState,
)


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
