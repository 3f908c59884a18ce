"""Why replicas are stuck, as JSON: in rows, in the header of a frame, in `--progress`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kshunt.backend.api.schema.base import Json
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.replicas.stuck_causes import Cause, RateNeed, Replica, Stuck


def why_json(stuck: Stuck | None) -> Json:
    """What a row says of itself; null where the replica advances."""
    if stuck is None:
        return {"stuck": False, "cause": None, "reason": None, "action": None, "rates": []}
    return {
        "stuck": stuck.cause.is_stuck,
        "cause": stuck.cause.key,
        "reason": stuck.reason,
        "action": stuck.action,
        "rates": [_rate_json(rate) for rate in stuck.rates],
    }


def read_why(document: Mapping[str, Any], partition: TopicPartition, broker: int) -> Stuck | None:
    """The opposite of `why_json`."""
    if document["cause"] is None:
        return None
    return Stuck(
        partition,
        broker,
        Cause[document["cause"].upper()],
        document["reason"],
        document["action"],
        tuple(RateNeed(**rate) for rate in document["rates"]),
    )


def _rate_json(rate: RateNeed) -> Json:
    return {
        "broker": rate.broker,
        "key": rate.key,
        "has_bytes_per_s": rate.has_bytes_per_s,
        "written_bytes_per_s": rate.written_bytes_per_s,
        "needs_bytes_per_s": rate.needs_bytes_per_s,
    }


def explained_json(explained: Iterable[Stuck]) -> list[Json]:
    """Replicas that share their words, with the words once: hundreds share one throttle."""
    shared: dict[tuple[object, ...], Json] = {}
    for one in explained:
        words = (one.cause, one.reason, one.action, one.rates)
        entry = shared.setdefault(words, {**why_json(one), "replicas": []})
        entry["replicas"].append([one.partition.topic, one.partition.partition, one.broker])
    return list(shared.values())


def read_explained(entries: Iterable[Mapping[str, Any]]) -> dict[Replica, Stuck]:
    """The opposite of `explained_json`, by replica."""
    found = {}
    for entry in entries:
        for topic, number, broker in entry["replicas"]:
            partition = TopicPartition(topic, number)
            stuck = read_why(entry, partition, broker)
            if stuck is not None:
                found[partition, broker] = stuck
    return found
