"""The scripted backend's answers about what a data pipeline delivered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import parse_qsl

from kshunt.backend.domain.pipeline.delivered import (
    Rows,
    TableStatus,
    TransferAnswer,
    TransferHistory,
)


def answer_of(delivered: Mapping[str, Any], path: str) -> dict[str, Any]:
    """What is asked for by a path below `/v1/pipeline/`; nothing of what was not delivered."""
    where, _, query = path.partition("?")
    name = where.rpartition("/")[2]
    nothing: Any = Rows(TableStatus(name))
    if name == "course":
        nothing = TransferAnswer(TableStatus("rates"), TransferHistory())
    answer = asdict(delivered.get(name, nothing))
    asked = dict(parse_qsl(query))
    for field in ("topic", "partition", "broker"):
        if field in asked:
            answer["rows"] = [r for r in answer["rows"] if str(r[field]) == asked[field]]
    return answer
