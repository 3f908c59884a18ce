"""The list of the seeds' statements and the table of differences are whole, true and up to date."""

from __future__ import annotations

import importlib
import re
from functools import cache

import pytest

from kshunt.backend.embedded.metadata.config_keys import KEYS
from kshunt.backend.error_codes import NAMES
from kshunt.backend.tools import election
from kshunt.backend.tools.reassign import options
from kshunt.backend.tools.topics import options as topic_options
from tests.conformance import document
from tests.conformance.marks import marked_tests
from tests.conformance.statements import SEEDS, Difference, Status, differences, statements
from tests.support.paths import ROOT

STATEMENTS = {one.id: one for one in statements()}
DIFFERENCES = {one.id: one for one in differences()}
API = ROOT / "backend" / "api"
FLAGS = {
    "kafka-reassign-partitions": options.FLAGS,
    "kafka-preferred-replica-election": election.FLAGS,
    "kafka-topics": topic_options.FLAGS,
}


@cache
def marked() -> dict[str, tuple[str, ...]]:
    """The marks of all tests; read when a test asks, for every worker imports this file."""
    return marked_tests()


def test_every_statement_and_every_difference_has_a_name_of_its_own() -> None:
    assert len(STATEMENTS) == len(statements())
    assert len(DIFFERENCES) == len(differences())
    assert {one.seed for one in STATEMENTS.values()} == set(SEEDS)
    assert {one.seed for one in DIFFERENCES.values()} <= set(SEEDS)


def test_a_mark_names_a_statement() -> None:
    assert {name: tests for name, tests in marked().items() if name not in STATEMENTS} == {}


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_has_a_test_or_a_reason(name: str) -> None:
    one = STATEMENTS[name]
    assert one.says.strip()
    assert one.section.strip()
    for place in one.where:
        _import(place)
    match one.status:
        case Status.DONE:
            assert one.where, "it does not say where it is done"
            assert marked().get(name), "no test is marked with it"
        case Status.DIFFERS:
            assert one.difference in DIFFERENCES, "the table does not have this difference"
        case Status.OUT_OF_SCOPE | Status.IN_PROGRESS:
            assert one.why, "it does not say why"
    assert bool(one.difference) == (one.status is Status.DIFFERS)


def test_every_difference_is_one_of_a_statement() -> None:
    assert {one.difference for one in STATEMENTS.values()} - {""} == set(DIFFERENCES)


@pytest.mark.parametrize("one", DIFFERENCES.values(), ids=list(DIFFERENCES))
def test_what_a_difference_names_exists(one: Difference) -> None:
    assert all(text.strip() for text in (one.section, one.says, one.does, one.why))
    assert one.names
    for name in one.names:
        kind, _, thing = name.partition(" ")
        _CHECKS[kind](thing)


@pytest.mark.parametrize(
    "name", ["code kshunt.backend.admin.port.cluster_admin:Nothing", "route GET /v1/nothing"]
)
def test_what_does_not_exist_is_noticed(name: str) -> None:
    kind, _, thing = name.partition(" ")
    with pytest.raises((AssertionError, AttributeError)):
        _CHECKS[kind](thing)


def test_the_documents_are_up_to_date() -> None:
    advice = f"run `{document.COMMAND}`"
    written = document.CONFORMANCE.read_text("utf-8")
    assert written == document.conformance(tuple(STATEMENTS.values()), marked()), advice
    written = document.DIFFERENCES.read_text("utf-8")
    assert written == document.table(tuple(DIFFERENCES.values())), advice


def _import(place: str) -> None:
    module, _, name = place.partition(":")
    found = importlib.import_module(module)
    for part in filter(None, name.split(".")):
        found = getattr(found, part)


def _route(thing: str) -> None:
    verb, path = thing.split()
    source = "".join(file.read_text("utf-8") for file in API.rglob("*.py"))
    declared = rf'\.{verb.lower()}\(\s*"{re.escape(path)}"'
    assert re.search(declared, source), f"no route {thing}"


def _flag(thing: str) -> None:
    tool, flag = thing.split()
    assert flag.removeprefix("--") in {one.name for one in FLAGS[tool]}, f"no flag {thing}"


def _error(thing: str) -> None:
    assert thing in NAMES.values(), f"no error {thing}"


def _config(thing: str) -> None:
    assert any(thing in of_kind for of_kind in KEYS.values()), f"no configuration {thing}"


_CHECKS = {"code": _import, "route": _route, "flag": _flag, "error": _error, "config": _config}
