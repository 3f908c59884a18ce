"""Why replicas are stuck, as JSON in the header of a frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kshunt.backend.api.schema.base import Json
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.replicas.stuck_causes import (
    Cause,
    RateNeed,
    Replica,
    Stuck,
    StuckEvidence,
)
from kshunt.backend.domain.replicas.stuck_sentences import stuck_text
from kshunt.backend.domain.untrusted.json_codec import from_document, to_document


def explained_json(explained: Iterable[Stuck]) -> list[Json]:
    """Replicas of which the same is said, with that once: hundreds share one throttle.

    `reason` and `action` say in words what `rates` and `evidence` hold.
    """
    shared: dict[tuple[object, ...], Json] = {}
    for one in explained:
        text = stuck_text(one)
        key = (one.cause, text.reason, text.action, one.rates, one.evidence)
        entry = shared.setdefault(
            key,
            {
                "stuck": one.cause.is_stuck,
                "cause": one.cause.key,
                "reason": text.reason,
                "action": text.action,
                "rates": [to_document(rate) for rate in one.rates],
                "evidence": None if one.evidence is None else to_document(one.evidence),
                "replicas": [],
            },
        )
        entry["replicas"].append([one.partition.topic, one.partition.partition, one.broker])
    return list(shared.values())


def read_explained(entries: Iterable[Mapping[str, Any]]) -> dict[Replica, Stuck]:
    """The opposite of `explained_json`, by replica."""
    found = {}
    for entry in entries:
        cause = Cause[entry["cause"].upper()]
        rates = from_document(tuple[RateNeed, ...], entry["rates"])
        told = entry.get("evidence")
        evidence = None if told is None else from_document(StuckEvidence, told)
        for topic, number, broker in entry["replicas"]:
            partition = TopicPartition(topic, number)
            found[partition, broker] = Stuck(partition, broker, cause, rates, evidence)
    return found
