"""Large bodies are refused early, or read a piece at a time and off the event loop."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Annotated, Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BeforeValidator, Field, create_model

from kshunt.backend.api.http.request_bodies import (
    LARGE_BYTES,
    PIECE,
    BodyRoute,
    read_body,
    validated,
    values_of,
)
from kshunt.backend.api.request_models.base import PlanModel, Strict
from kshunt.backend.api.request_models.reassignments import ReassignRequestModel
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.limits import LIMITS
from kshunt.backend.offload import OFFLOAD_MIN, offload
from tests.support.embedded.background import running
from tests.support.runs.examples import many
from tests.support.serving import serving
from tests.support.topics import create_topic

DEADLINE_S = 60.0


def plan(count: int, **more: Any) -> dict[str, Any]:
    entries = [{"topic": "orders", "partition": n, "replicas": [1, 2]} for n in range(count)]
    return {"plan": {"version": 1, "partitions": entries}, **more}


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with running(ClusterSpec(brokers=plain_brokers(3))) as cluster:
        create_topic(cluster.bootstrap_servers, "orders", [[1, 2], [2, 3]])
        with serving(cluster.bootstrap_servers, tmp_path_factory.mktemp("bodies")) as address:
            transport = httpx.HTTPTransport(uds=address.removeprefix("unix:"))
            with httpx.Client(
                base_url="http://kshunt", transport=transport, timeout=DEADLINE_S
            ) as client:
                yield client


@pytest.mark.parametrize("count", [1, PIECE, PIECE + 1, 3 * PIECE + 7])
def test_what_is_read_in_pieces_is_what_is_read_at_once(count: int) -> None:
    document = plan(count, throttle_bytes_per_s=1_000_000.0, reason="why")
    body = json.dumps(document).encode()
    assert read_body(ReassignRequestModel, body) == ReassignRequestModel.model_validate(document)


@given(at=st.integers(0, 3 * PIECE), bad=st.sampled_from([{}, 3, {"topic": "a", "partition": -1}]))
@settings(max_examples=many(30), deadline=None)
def test_a_fault_is_named_where_it_is(at: int, bad: Any) -> None:
    document = plan(3 * PIECE + 1)
    document["plan"]["partitions"][at] = bad
    with pytest.raises(RequestValidationError) as refused:
        validated(ReassignRequestModel, document)
    where = refused.value.errors()[0]["loc"]
    assert where[:4] == ("body", "plan", "partitions", at)


def test_a_long_list_is_refused_before_its_entries_are_looked_at() -> None:
    document = {"version": 1, "partitions": [None] * (LIMITS.partitions_per_request + 1)}
    with pytest.raises(RequestValidationError) as refused:
        validated(PlanModel, document)
    assert refused.value.errors()[0]["type"] == "too_long"


class Held(Strict):
    """A model with a list that may be missing, and one of words."""

    inner: PlanModel | None = None
    words: list[str] | None = Field(default=None, max_length=10_000)


def test_other_shapes_are_read_alike() -> None:
    large: list[Any] = [{}, {"words": None}, {"words": ["a"] * 600, "inner": plan(300)["plan"]}]
    for document in large:
        assert validated(Held, document) == Held.model_validate(document)
    wrong: list[Any] = [[], 3, {"words": ["a"] * 599 + [3]}, {"other": 1}]
    for document in wrong:
        with pytest.raises(RequestValidationError):
            validated(Held, document)


def test_the_largest_plan_is_within_the_limits() -> None:
    entry = {"topic": "t" * 249, "partition": 9, "replicas": [1, 2, 3], "log_dirs": ["any"] * 3}
    body = json.dumps({"plan": {"partitions": [entry] * LIMITS.partitions_per_request}}).encode()
    assert len(body) <= LIMITS.request_body_bytes
    assert values_of(body) <= LIMITS.body_values


def test_a_large_body_is_read(http: httpx.Client) -> None:
    document = plan(LIMITS.partitions_per_request)
    assert len(json.dumps(document)) > LARGE_BYTES
    answer = http.post("/v1/reassignments/progress", json=document)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"[" * 3_000_000, 413, "values"),
        (b'{"plan":"' + b"x" * 100_000, 400, "JSON decode error"),
        (b'{"plan":"' + b"x" * 100_000 + b'"}', 400, "plan"),
        (json.dumps(plan(10_001)).encode(), 400, "10000 items"),
        (json.dumps(plan(5_000) | {"more": 1}).encode(), 400, "more"),
    ],
)
def test_a_large_body_that_is_no_request_is_refused(
    http: httpx.Client, body: bytes, status: int, words: str
) -> None:
    headers = {"content-type": "application/json"}
    answer = http.post("/v1/reassignments/progress", content=body, headers=headers)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["detail"]


@pytest.mark.parametrize("announced", [True, False])
def test_a_viewers_question_is_small(http: httpx.Client, announced: bool) -> None:
    body = b" " * (LIMITS.question_body_bytes + 1)
    content = body if announced else iter([body])
    answer = http.post("/v1/plans", content=content)
    assert answer.status_code == 413
    assert str(LIMITS.question_body_bytes) in answer.json()["detail"]
    assert http.get("/healthz").status_code == 200


def test_each_route_that_reads_a_body_says_how_large(http: httpx.Client) -> None:
    for path, methods in http.get("/openapi.json").json()["paths"].items():
        for operation in methods.values():
            if "requestBody" in operation:
                most = operation["x-kshunt-body-bytes"]
                assert 0 < most <= LIMITS.request_body_bytes, path


async def test_a_large_body_is_read_on_another_thread() -> None:
    read_on: set[int] = set()

    def noted(value: Any) -> Any:
        read_on.add(threading.get_ident())
        return value

    model = create_model(
        "Noted", __base__=Strict, words=(list[Annotated[str, BeforeValidator(noted)]], ...)
    )
    app = FastAPI()
    app.router.route_class = BodyRoute

    async def words(body: Any) -> int:
        return len(body.words)

    words.__annotations__ = {"body": model, "return": int}
    app.post("/words")(words)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://kshunt") as client:
        answer = await client.post("/words", json={"words": ["a" * 80] * 2_000})
    assert answer.json() == 2_000
    assert read_on
    assert threading.get_ident() not in read_on


@pytest.mark.parametrize(("entries", "here"), [(OFFLOAD_MIN - 1, True), (OFFLOAD_MIN, False)])
async def test_what_goes_over_many_entries_runs_on_another_thread(entries: int, here: bool) -> None:
    found = await offload(entries, threading.get_ident)
    assert (found == threading.get_ident()) is here
