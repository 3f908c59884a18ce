"""A large answer that is written in pieces is the answer that one call writes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.responses import Response
from hypothesis import given, settings
from hypothesis import strategies as st

from kshunt.backend.access.roles import Role
from kshunt.backend.api.http.answers import LARGE, PIECE, answered, entries_of, pieces_of
from kshunt.backend.api.http.route_roles import Routes
from kshunt.backend.api.schema.operations import Operations
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.operation import (
    Operation,
    OperationDetails,
    OperationKind,
    OperationState,
)
from kshunt.backend.domain.reassignment.answers import ChangeAnswer, Result
from kshunt.backend.domain.untrusted.json_codec import from_document, to_document, to_json
from tests.support.runs.examples import many


def plan(count: int) -> dict[str, Any]:
    entries = [{"topic": "a", "partition": n, "replicas": (1, 2)} for n in range(count)]
    return {"version": 1, "partitions": entries}


def operation(count: int) -> Operation:
    return Operation(
        *("a", OperationKind.REASSIGN, OperationState.RUNNING, 1, "move"),
        partitions=tuple(TopicPartition("a", n) for n in range(count)),
        details=OperationDetails(rollback_plan=plan(count), waiting_plan={}, pause_s=0.0),
        actions=("cancel",),
    )


def change(count: int, rollback: int | None) -> ChangeAnswer:
    results = tuple(Result(f"orders-{n}", n % 2, "é", "\u2028") for n in range(count))
    plan_back = None if rollback is None else plan(rollback)
    return ChangeAnswer(False, None, results, rollback_plan=plan_back)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Values that have no fixed names."""

    by_broker: dict[int, int]
    nested: tuple[tuple[int, ...], ...] = ()


VALUES = [
    change(3 * PIECE + 1, None),
    change(0, 2 * PIECE),
    change(PIECE + 1, PIECE + 1),
    change(2, 2),
    Operations((operation(2 * PIECE), operation(2), operation(251))),
    Operations((operation(1),) * 2 * PIECE),
    Sizes({n: n for n in range(PIECE + 1)}, (tuple(range(PIECE + 1)), (), (1,))),
]


@pytest.mark.parametrize("value", VALUES)
def test_pieces_are_the_whole(value: Any) -> None:
    assert b"".join(pieces_of(value)) == to_json(value)
    assert from_document(type(value), to_document(value)) == value


@given(count=st.integers(0, 3 * PIECE), rollback=st.none() | st.integers(0, 2 * PIECE))
@settings(max_examples=many(25), deadline=None)
def test_pieces_are_the_whole_at_each_length(count: int, rollback: int | None) -> None:
    value = change(count, rollback)
    assert b"".join(pieces_of(value)) == to_json(value)


@pytest.mark.parametrize("count", [1, LARGE, 3 * PIECE])
async def test_a_route_answers_alike_whether_large_or_small(count: int) -> None:
    app = FastAPI()

    @Routes(app, Role.VIEWER).get("/long", ChangeAnswer)
    async def long(twice: bool = False) -> Any:
        """An answer."""
        return change(count * (1 + twice), None)

    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://kshunt") as client:
        answer = await client.get("/long?twice=true")
    assert answer.headers["content-type"] == "application/json"
    assert answer.content == to_json(change(2 * count, None))


async def test_a_response_passes_as_it_is_and_another_value_is_a_defect() -> None:
    made: list[Any] = [Response(b"{}", 404), {"results": []}]

    async def next_answer() -> Any:
        return made.pop(0)

    assert (await answered(next_answer, ChangeAnswer)()).status_code == 404
    with pytest.raises(TypeError, match="ChangeAnswer is promised, but dict was returned"):
        await answered(next_answer, ChangeAnswer)()


def test_entries_are_counted_in_depth() -> None:
    assert entries_of(change(3, 2)) == 3 + 2 + 2 + 2 * (3 + 2)
    assert entries_of({"a": [1, 2], "b": {"c": [3]}}) == 6
    assert entries_of("text") == 0


def test_the_json_is_that_of_other_writers() -> None:
    value = change(2, 1)
    assert json.loads(to_json(value)) == json.loads(json.dumps(to_document(value)))
