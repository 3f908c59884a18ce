"""A large answer that is written in pieces is the answer that FastAPI would write."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from kshunt.backend.access.roles import Role
from kshunt.backend.api.http.json_writer import LARGE, PIECE, entries_of, json_of, written
from kshunt.backend.api.http.route_roles import Routes
from kshunt.backend.api.models.base import ChangeModel
from kshunt.backend.api.models.operations import OperationsModel
from kshunt.backend.api.models.reassignments import GeneratedModel, ProgressModel
from tests.support.runs.examples import many


def results(count: int) -> list[dict[str, Any]]:
    return [
        {"item": f"orders-{n}", "error_code": n % 2, "error_name": "é", "message": "\u2028"}
        for n in range(count)
    ]


def plan(count: int) -> dict[str, Any]:
    entries = [{"topic": "a", "partition": n, "replicas": (1, 2)} for n in range(count)]
    return {"version": 1, "partitions": entries}


def operation(count: int) -> dict[str, Any]:
    return {
        **{"id": "a", "kind": "reassign", "state": "running", "started_ms": 1, "ended_ms": None},
        "summary": "move",
        "partitions": [{"topic": "a", "partition": n} for n in range(count)],
        **{"throttle_bytes_per_s": None, "auto_remove_throttle": True, "outcome": ""},
        "details": {"rollback_plan": plan(count), "empty": {}, "few": [1], "none": None},
        **{"who": "", "reason": "", "actions": ["cancel"], "waiting": 0, "notes": []},
        "claim": None,
    }


def change(count: int, rollback: int | None) -> dict[str, Any]:
    return {
        "validate_only": False,
        "operation_id": None,
        "results": results(count),
        "notes": [],
        "rollback_plan": None if rollback is None else plan(rollback),
    }


DOCUMENTS: list[tuple[type[BaseModel], dict[str, Any]]] = [
    (ChangeModel, change(3 * PIECE + 1, None)),
    (ChangeModel, change(0, 2 * PIECE)),
    (ChangeModel, change(PIECE + 1, PIECE + 1)),
    (ChangeModel, change(2, 2)),
    (GeneratedModel, {"current": plan(1_001), "proposed": plan(3), "notes": ["x"]}),
    (ProgressModel, {"rows": []}),
    (OperationsModel, {"operations": [operation(600), operation(2), operation(251)]}),
    (OperationsModel, {"operations": [operation(1)] * 700}),
]


@pytest.mark.parametrize(("model", "document"), DOCUMENTS)
def test_pieces_are_the_whole(model: type[BaseModel], document: dict[str, Any]) -> None:
    whole = model.model_validate(document).model_dump(mode="json")
    assert json.loads(b"".join(json_of(model, document))) == whole


@given(count=st.integers(0, 4 * PIECE), rollback=st.none() | st.integers(0, 3 * PIECE))
@settings(max_examples=many(25), deadline=None)
def test_pieces_are_the_whole_at_each_length(count: int, rollback: int | None) -> None:
    document = change(count, rollback)
    whole = ChangeModel.model_validate(document).model_dump(mode="json")
    assert json.loads(b"".join(json_of(ChangeModel, document))) == whole


@pytest.mark.parametrize("count", [1, LARGE, 3 * LARGE])
async def test_a_route_answers_alike_whether_large_or_small(count: int) -> None:
    app = FastAPI()

    @Routes(app, Role.VIEWER).get("/long", response_model=ChangeModel)
    async def long(twice: bool = False) -> Any:
        """An answer."""
        return change(count * (1 + twice), None)

    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://kshunt") as client:
        answer = await client.get("/long?twice=true")
    assert answer.headers["content-type"] == "application/json"
    assert len(answer.json()["results"]) == 2 * count
    assert answer.json() == ChangeModel.model_validate(change(2 * count, None)).model_dump()


async def test_other_answers_pass_as_they_are() -> None:
    async def nothing() -> Any:
        return {"rows": []}

    assert await written(nothing, ProgressModel)() == {"rows": []}


def test_entries_are_counted_in_depth() -> None:
    assert entries_of({"a": [1, 2], "b": {"c": [3]}}) == 3
    assert entries_of({"operations": [{"partitions": [1] * 5}] * 2}) == 12
    assert entries_of("text") == 0
