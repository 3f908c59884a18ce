"""What the client makes of a problem document."""

from __future__ import annotations

import json

import pytest

from kshunt.backend.api.client.problems import raise_for_problem
from kshunt.backend.errors import BackendError


@pytest.mark.parametrize(
    ("said", "retriable"),
    [
        ({"retriable": True}, True),
        ({"retriable": False}, False),
        ({}, False),
        ({"retriable": "yes"}, False),
        ({"retriable": 1}, False),
    ],
)
def test_it_knows_whether_to_repeat_the_call(said: dict[str, object], retriable: bool) -> None:
    document = {"detail": "Another backend may still be active.", "advice": "", **said}
    with pytest.raises(BackendError, match="still be active") as refused:
        raise_for_problem(409, json.dumps(document).encode())
    assert (refused.value.status, refused.value.retriable) == (409, retriable)


def test_it_keeps_the_title_of_the_refusal() -> None:
    document = {"title": "Not authorized", "detail": "vic has the role viewer."}
    with pytest.raises(BackendError) as refused:
        raise_for_problem(403, json.dumps(document).encode())
    assert refused.value.title == "Not authorized"
    with pytest.raises(BackendError) as refused:
        raise_for_problem(403, json.dumps({"detail": "No."}).encode())
    assert refused.value.title == BackendError.title


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b'{"retriable": true}'])
def test_an_answer_that_is_no_problem_document_is_not_repeated(content: bytes) -> None:
    with pytest.raises(BackendError, match="The backend answered 500") as refused:
        raise_for_problem(500, content)
    assert not refused.value.retriable
