"""Brokers and their log directories as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kshunt.backend.api.schema.base import Json
from kshunt.backend.domain.cluster.metadata import Broker, LogDir
from kshunt.backend.domain.service.backend_status import BackendStatus


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


def read_backend_status(document: Mapping[str, Any]) -> BackendStatus:
    """From the answer of `/v1/backend`."""
    active = document["acting"] or {}
    return BackendStatus(
        backend=document["backend"],
        duty=document["duty"],
        acting=active.get("backend", ""),
        host=active.get("host", ""),
        remarks=tuple(document["remarks"]),
        unreadable=tuple(
            f"{one['key']} ({one['why']}): {one['detail']}" for one in document["unreadable"]
        ),
        not_offered=tuple((one["what"], one["why"]) for one in document.get("not_offered", ())),
    )
