"""What became of elections, as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kshunt.backend.api.schema.base import (
    Json,
    change_json,
    partition_json,
    read_change,
    read_partition,
)
from kshunt.backend.domain.operations.election import (
    ElectionAnswer,
    LeaderCount,
    UncleanAnswer,
    UncleanLoss,
)


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
