"""Plans: what is read back is what was written, and a mistake is named with its place."""

import json
import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.reassignment.plan import (
    ReassignmentPlan,
    check_plan,
    format_plan,
    parse_partitions,
    parse_plan,
    parse_topics_to_move,
)
from kshunt.backend.errors import PlanError
from kshunt.backend.limits import LIMITS
from kshunt.backend.tools.reassign.command import main

INT32 = st.integers(0, 2**31 - 1)
PARTITIONS = st.builds(TopicPartition, st.text(min_size=1), INT32)
REPLICAS = st.lists(INT32, min_size=1, max_size=5, unique=True).map(tuple)
DIRECTORIES = st.text(max_size=8).map(lambda rest: f"/{rest}") | st.just("any")


@st.composite
def plans(draw: st.DrawFn) -> ReassignmentPlan:
    """Any plan that Kafka's JSON can hold."""
    replicas = draw(st.dictionaries(PARTITIONS, REPLICAS, min_size=1, max_size=8))
    named = {
        (partition, broker): draw(DIRECTORIES)
        for partition, target in replicas.items()
        for broker in target
    }
    return ReassignmentPlan(
        replicas, {replica: path for replica, path in named.items() if path != "any"}
    )


@given(plans())
def test_a_plan_survives_being_written_and_read(plan: ReassignmentPlan) -> None:
    again = parse_plan(format_plan(plan.replicas, plan.log_dirs))
    assert again == plan
    assert list(again.replicas) == sorted(plan.replicas)


@given(plans())
def test_a_parsed_document_is_the_same_plan(plan: ReassignmentPlan) -> None:
    assert check_plan(json.loads(format_plan(plan.replicas, plan.log_dirs))) == plan


@given(st.text())
def test_any_text_is_a_plan_or_a_plan_error(text: str) -> None:
    with suppress(PlanError):
        assert len(parse_plan(text)) > 0


KEYS = st.sampled_from(["version", "partitions", "topic", "partition", "replicas", "log_dirs"])
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
)


@given(DOCUMENTS)
def test_any_document_is_a_plan_or_a_plan_error(document: object) -> None:
    with suppress(PlanError):
        assert len(check_plan(document)) > 0


@given(DOCUMENTS)
def test_a_mistake_in_any_document_has_a_place_in_its_text(document: object) -> None:
    text = json.dumps({"partitions": document}, indent=1)
    # Such a word is refused by the parser, which does not say where it stands.
    assume(not re.search("NaN|Infinity", text))
    try:
        parse_plan(text)
    except PlanError as error:
        line, column = error.line or 0, error.column or 0
        begins = text.splitlines()[line - 1][column - 1]
    else:
        begins = "{"
    assert begins == "{"


def test_a_plan_of_kafkas_tool_reads_as_it_is_meant() -> None:
    plan = parse_plan(
        '{"version":1,"partitions":[{"topic":"b","partition":1,"replicas":[3,1],'
        '"log_dirs":["/d/x","any"]},{"topic":"a","partition":0,"replicas":[2]}]}'
    )
    assert list(plan.replicas.items()) == [
        (TopicPartition("b", 1), (3, 1)),
        (TopicPartition("a", 0), (2,)),
    ]
    assert plan.log_dirs == {(TopicPartition("b", 1), 3): "/d/x"}
    assert plan.topics == ("a", "b")
    assert plan.brokers == (1, 2, 3)


def test_a_plan_is_written_in_the_order_and_with_the_keys_of_kafkas_tool() -> None:
    text = format_plan({TopicPartition("b", 0): [2], TopicPartition("a", 10): [1, 2]})
    assert text == (
        '{"version":1,"partitions":[{"topic":"a","partition":10,"replicas":[1,2],'
        '"log_dirs":["any","any"]},{"topic":"b","partition":0,"replicas":[2],"log_dirs":["any"]}]}'
    )


ENTRY = '{"topic": "t", "partition": 0, "replicas": [1, 2]}'

BAD_PLANS = {
    '{"version": 1,\n "partitions": [': (2, 17, "not JSON"),
    '{"version": 1,\n\n  partitions: []}': (3, 3, "not JSON"),
    "": (1, 1, "not JSON"),
    "[]": (1, 1, "a plan must be an object"),
    '{"version": 2, "partitions": []}': (1, 1, "plan version 2 is not supported"),
    '{"version": true, "partitions": []}': (1, 1, "plan version True is not supported"),
    '{"version": 1}': (1, 1, '"partitions" must be a list'),
    '{"version": 1, "partitions": []}': (1, 1, "empty"),
    f'{{"partitions": [\n  {ENTRY},\n  7]}}': (1, 1, "each entry must be an object"),
    f'{{"partitions": [\n  {ENTRY},\n  {ENTRY}]}}': (3, 3, "partition t-0 is in the plan twice"),
    '{"partitions": [\n{"partition": 0, "replicas": [1]}]}': (2, 1, 'needs a "topic"'),
    '{"partitions": [\n {"topic": "t", "partition": "0", "replicas": [1]}]}': (
        2,
        2,
        '"partition" must be a whole number',
    ),
    '{"partitions": [\n {"topic": "t", "partition": -1, "replicas": [1]}]}': (2, 2, "0 or more"),
    '{"partitions": [{"topic": "t", "partition": 0, "replicas": []}]}': (1, 17, "list is empty"),
    '{"partitions": [{"topic": "t", "partition": 0, "replicas": [1.5]}]}': (1, 17, "broker ids"),
    '{"partitions": [{"topic": "t", "partition": 0, "replicas": [2147483648]}]}': (
        1,
        17,
        "broker ids",
    ),
    '{"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 1]}]}': (
        1,
        17,
        "partition t-0: broker 1 is named twice",
    ),
    '{"partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": []}]}': (
        1,
        17,
        "0 log_dirs for 1 replicas",
    ),
    '{"partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": ["d"]}]}': (
        1,
        17,
        "an absolute path or 'any'",
    ),
}


@pytest.mark.parametrize("text", BAD_PLANS)
def test_a_mistake_is_named_with_its_line_and_column(text: str) -> None:
    line, column, words = BAD_PLANS[text]
    with pytest.raises(PlanError) as caught:
        parse_plan(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert words in caught.value.message
    assert caught.value.message.startswith(f"line {line}, column {column}: ")
    assert "unchanged" in caught.value.advice


@given(st.lists(st.integers(0, 9), min_size=2, max_size=30), st.integers(0, 4))
def test_the_place_of_a_duplicate_is_where_its_object_begins(
    numbers: list[int], indent: int
) -> None:
    entries = [
        " " * indent + json.dumps({"topic": "t", "partition": number, "replicas": [1]})
        for number in numbers
    ]
    text = '{"partitions": [\n' + ",\n".join(entries) + "]}"
    repeats = [index for index, number in enumerate(numbers) if number in numbers[:index]]
    if not repeats:
        assert len(parse_plan(text)) == len(numbers)
        return
    with pytest.raises(PlanError) as caught:
        parse_plan(text)
    assert (caught.value.line, caught.value.column) == (repeats[0] + 2, indent + 1)


def test_json_that_is_nested_too_deeply_is_a_plan_error() -> None:
    with pytest.raises(PlanError, match="nested too deeply"):
        parse_plan("[" * 100_000)


def test_a_mistake_in_a_parsed_document_has_no_line() -> None:
    with pytest.raises(PlanError, match="is in the plan twice") as caught:
        check_plan({"partitions": [json.loads(ENTRY)] * 2})
    assert caught.value.line is None


def test_topics_to_move_are_read_in_order() -> None:
    assert parse_topics_to_move('{"version":1,"topics":[{"topic":"b"},{"topic":"a"}]}') == (
        "b",
        "a",
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"topics": {}}', '"topics" must be a list'),
        ('{"topics": [{"topic": "a"}, {"topic": "a"}]}', "topic a is named twice"),
        ('{"topics": [{"name": "a"}]}', 'needs a "topic"'),
        ('{"version": 3, "topics": []}', "version 3"),
        ("{", "not JSON"),
    ],
)
def test_a_bad_topics_file_is_a_plan_error(text: str, words: str) -> None:
    with pytest.raises(PlanError, match="line 1") as caught:
        parse_topics_to_move(text)
    assert words in caught.value.message


def test_an_election_file_may_name_a_partition_twice() -> None:
    entry = '{"topic": "a", "partition": 1}'
    text = f'{{"partitions": [{entry}, {entry}, {{"topic": "a", "partition": 0}}]}}'
    assert parse_partitions(text) == (TopicPartition("a", 1), TopicPartition("a", 0))


def test_a_bad_election_file_is_a_plan_error() -> None:
    with pytest.raises(PlanError, match="line 1, column 17"):
        parse_partitions('{"partitions": [{"topic": "a"}]}')


# Plan files, as the tool reads them


@pytest.mark.parametrize("action", ["--execute", "--verify", "--progress", "--cancel"])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"version":1,\n"partitions":[', "line 2, column 15: not JSON"),
        (b'{"partitions":[\n{"topic":"t","partition":0,"replicas":[1,1]}]}', "line 2, column 1: "),
        (b"\xff\xfe", "is not UTF-8 text: byte 0 is not valid"),
        (b" " * (LIMITS.request_body_bytes + 1), "is larger than"),
    ],
)
def test_a_bad_file_is_named_before_a_cluster_is_looked_for(
    action: str, content: bytes, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    argv = (action, "--backend", "unix:/nowhere", "--reassignment-json-file", str(path))
    assert main(argv) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Error: ")
    assert words in err
    assert str(path) in err


def test_a_bad_topics_file_is_named_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.json"
    path.write_text('{"topics": [7]}')
    argv = ["--generate", "--backend", "unix:/nowhere", "--broker-list", "1"]
    assert main([*argv, "--topics-to-move-json-file", str(path)]) == 1
    assert f"Error: {path}: line 1, column 1: each entry must be an object" in (
        capsys.readouterr().err
    )


def test_a_mistake_has_its_line_and_column_in_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.json"
    path.write_text("{\n 1}")
    argv = ["--verify", "--json", "--backend", "unix:/nowhere", "--reassignment-json-file"]
    assert main([*argv, str(path)]) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["title"], error["line"], error["column"]) == ("Unusable plan", 2, 2)


def test_a_byte_order_mark_is_no_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "marked.json"
    path.write_text(f'{{"partitions": [{ENTRY}]}}', "utf-8-sig")
    argv = ["--verify", "--backend", "unix:/nowhere", "--reassignment-json-file", str(path)]
    assert main(argv) == 1
    assert "No backend answers at unix:/nowhere" in capsys.readouterr().err
