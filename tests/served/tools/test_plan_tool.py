"""`kshunt plan` as it is run: on a cluster, on a saved picture of one, and wrongly."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.commandline.help_text import help_of
from kshunt.backend.domain.cluster.metadata import LogDir, OngoingReassignment, TopicPartition
from kshunt.backend.domain.planning.goals import Goal
from kshunt.backend.domain.reassignment.plan import parse_plan
from kshunt.backend.placement.plans.situation import BrokerFacts, PartitionSituation, Situation
from kshunt.backend.rehearsal.picture import Picture
from kshunt.backend.rehearsal.picture_files import load_picture, save_picture
from kshunt.backend.tools.plan import command
from kshunt.backend.tools.plan.options import COMMAND, FLAGS, PlanAction
from tests.support.tools import Tool, run_with, write
from tests.support.topics import create_topic

GB = 10**9


@pytest.fixture
def tool(capsys: pytest.CaptureFixture[str]) -> Tool:
    return run_with(command.main, capsys)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A picture of five brokers in three racks; twelve partitions of 1 to 12 GB on the first four,
    each written to with 1 MB/s."""
    partitions = [
        PartitionSituation(
            TopicPartition("orders" if number < 8 else "logs", number),
            (number % 4, (number + 1) % 4),
            number % 4,
            (number % 4, (number + 1) % 4),
            (number + 1) * GB,
            1e6,
            min_isr=1,
        )
        for number in range(12)
    ]
    brokers = [
        BrokerFacts(id, f"r{id % 3}", log_dirs=(LogDir(id, "/d", 1_000 * GB, 900 * GB),))
        for id in range(5)
    ]
    path = tmp_path_factory.mktemp("picture") / "cluster.json.gz"
    save_picture(Picture(Situation.of(partitions, brokers), cluster_id="saved-one"), path)
    return str(path)


@pytest.fixture(scope="module")
def bootstrap(bootstrap: str) -> str:
    create_topic(bootstrap, "orders", [[1, 2], [2, 3], [3, 1]])
    return bootstrap


# What is made, and saved


def test_a_drain_is_written_with_the_way_back(tool: Tool, saved: str, tmp_path: Path) -> None:
    out = tmp_path / "command.json"
    code, text, err = tool("drain", "--broker", "3", "--picture", saved, "--out", str(out))
    assert (code, err) == (0, "")
    assert text.startswith("To drain broker 3: ")
    assert "Bytes left on the drained brokers: 45.0 GB, then 0 B." in text
    assert text.endswith(f" --reassignment-json-file {out} --throttle BYTES --execute\n")
    there, back = (
        parse_plan(out.read_text()),
        parse_plan((tmp_path / "command.rollback.json").read_text()),
    )
    assert there.cluster_id == back.cluster_id == "saved-one"
    assert there.replicas.keys() == back.replicas.keys()
    assert all(3 in replicas for replicas in back.replicas.values())
    assert not any(3 in replicas for replicas in there.replicas.values())


def test_the_command_that_starts_it_has_what_it_needs(
    tool: Tool, saved: str, tmp_path: Path
) -> None:
    drain = ["drain", "--broker", "3", "--picture", saved, "--quick"]
    _, text, _ = tool(*drain, "--throttle", "50MB", "--out", str(tmp_path / "one.json"))
    assert text.endswith("one.json --throttle 50000000 --execute\n")
    _, text, _ = tool(*drain, "--throttle", "50MB,9MB", "--out", str(tmp_path / "two.json"))
    assert text.endswith("two.json --throttle BYTES --execute\n")
    picture = load_picture(Path(saved))
    # Another partition moves.
    moving = OngoingReassignment(TopicPartition("logs", 11), (0, 3), (0,), (3,))
    situation = replace(picture.situation, moving={moving.partition: moving})
    busy = tmp_path / "busy.json.gz"
    save_picture(replace(picture, situation=situation), busy)
    words = ["drain", "--broker", "2", "--picture", str(busy), "--out", str(tmp_path / "more.json")]
    _, text, _ = tool(*words)
    assert text.endswith("more.json --throttle BYTES --execute --additional\n")


def test_nothing_that_is_there_is_replaced(tool: Tool, saved: str, tmp_path: Path) -> None:
    for name in ("command.json", "command.rollback.json"):
        write(tmp_path, name, "mine")
        out = str(tmp_path / "command.json")
        code, _, err = tool("drain", "--broker", "3", "--picture", saved, "--out", out)
        assert code == 1
        assert "it already exists" in err
        assert [each.read_text() for each in tmp_path.iterdir()] == ["mine"]
        (tmp_path / name).unlink()


def test_where_nothing_has_to_change_no_file_is_written(
    tool: Tool, saved: str, tmp_path: Path
) -> None:
    out = tmp_path / "command.json"
    code, text, _ = tool("drain", "--broker", "4", "--picture", saved, "--out", str(out))
    assert code == 0
    assert "nothing changes" in text
    assert "was not written" in text
    assert not list(tmp_path.iterdir())


def test_a_goal_that_is_not_reached_has_a_code_of_its_own(tool: Tool, saved: str) -> None:
    code, text, _ = tool(
        "replication-factor", "--factor", "*=5", "--disk-limit", "10.5", "--picture", saved
    )
    assert code == ExitCode.UNFINISHED
    assert "Notes:" in text


def test_every_goal_has_a_way_here(tool: Tool, saved: str) -> None:
    for words in (
        ["expand", "--broker", "4"],
        ["expand", "--broker", "4", "--by", "load"],
        ["rebalance", "--by", "replicas", "--tolerance", "5", "--max-bytes", "30GB"],
        ["leaders"],
        ["rack-repair", "--exclude", "logs"],
        ["replace", "--broker", "3", "--with", "4", "--moves-per-broker", "1"],
        ["move-log-dirs", "--broker", "1"],
        ["replication-factor", "--factor", "orders=3,log*=2"],
    ):
        code, text, err = tool(*words, "--picture", saved)
        assert code in (0, ExitCode.UNFINISHED), words
        assert err == "", words
        assert text.startswith("To "), words


def test_phases_are_shown_where_only_so_many_move_at_once(tool: Tool, saved: str) -> None:
    at = ["replace", "--broker", "3", "--with", "4", "--picture", saved]
    _, text, _ = tool(*at, "--moves-per-broker", "2")
    assert "3 phases: 2, 2, 2 partitions." in text
    _, text, _ = tool(*at)
    assert "phases" not in text


# Rehearsals


def test_throttles_are_compared_and_a_deadline_is_met(tool: Tool, saved: str) -> None:
    at = ["drain", "--broker", "3", "--picture", saved, "--json"]
    code, text, _ = tool(*at, "--throttle", "50MB,100MB,none", "--deadline", "1h")
    found = json.loads(text)["rehearsed"][0]
    assert code == 0
    ends = [each["finish_s"] for each in found["rehearsals"]]
    assert sorted(ends[:3], reverse=True) == ends[:3]
    deadline = found["deadline"]
    assert deadline["certainty"] == 0.9
    assert deadline["throttle_bytes_per_s"] < 50_000_000
    last = found["forecasts"][-1]
    assert last["throttle_bytes_per_s"] == deadline["throttle_bytes_per_s"]
    assert last["end"]["at_ms"] + 1000 * last["end"]["p90_s"] <= deadline["at_ms"]
    assert ends[-1] <= 3_600
    _, text, _ = tool(*at[:-1], "--throttle", "50MB,none")
    assert "At 50.0 MB/s:" in text
    assert "Without a throttle:" in text


def test_a_quick_forecast_runs_no_twin(tool: Tool, saved: str) -> None:
    at = ["drain", "--broker", "3", "--picture", saved, "--quick"]
    code, text, _ = tool(*at, "--throttle", "50MB,none", "--deadline", "1h")
    assert code == 0
    heads = next(line for line in text.splitlines() if line.startswith("Throttle"))
    assert heads.split() == ["Throttle", "takes", "done", "at"]
    assert "with 90% certainty, it needs a throttle of" in text
    assert "of networks and disks is unknown" in text
    code, text, _ = tool(*at, "--throttle", "50MB", "--json")
    found = json.loads(text)["rehearsed"][0]
    assert found["rehearsals"] == []
    assert [each["throttle_bytes_per_s"] for each in found["forecasts"]] == [50_000_000]


def test_a_deadline_that_cannot_be_kept_says_what_can(tool: Tool, saved: str) -> None:
    at = ["drain", "--broker", "3", "--picture", saved, "--network", "100MB"]
    code, text, _ = tool(*at, "--deadline", "10s")
    assert code == 0
    assert "Not possible by" in text
    assert "with 90% certainty the earliest is" in text


def test_plans_are_rehearsed_side_by_side(tool: Tool, saved: str, tmp_path: Path) -> None:
    names = []
    for broker in (2, 3):
        names.append(str(tmp_path / f"drain-{broker}.json"))
        assert (
            tool("drain", "--broker", str(broker), "--picture", saved, "--out", names[-1])[0] == 0
        )
    code, text, _ = tool("rehearse", *names, "--picture", saved, "--throttle", "100MB")
    assert code == 0
    assert [line.split()[0] for line in text.splitlines()[1:3]] == ["drain-2.json", "drain-3.json"]
    code, text, _ = tool("show", names[0], "--picture", saved)
    assert code == 0
    assert "its effect on the cluster as it is" in text


def test_a_plan_of_another_tool_is_shown(tool: Tool, saved: str, tmp_path: Path) -> None:
    theirs = write(
        tmp_path,
        "theirs.json",
        '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[4,1]}]}',
    )
    code, text, _ = tool("show", theirs, "--picture", saved)
    assert code == 0
    assert "1 partition change: 1 replica copied (1.00 GB)" in text


# A cluster


def test_a_cluster_is_planned_through_its_backend(tool: Tool, address: str, tmp_path: Path) -> None:
    out = tmp_path / "command.json"
    code, text, err = tool(
        *("drain", "--broker", "1", "--topic", "orders", "--backend", address),
        *("--throttle", "10MB", "--out", str(out)),
    )
    assert code == 0, err
    assert sorted(parse_plan(out.read_text()).replicas) == [
        TopicPartition("orders", 0),
        TopicPartition("orders", 2),
    ]
    assert "At 10.0 MB/s:" in text


def test_a_picture_of_a_cluster_is_saved(tool: Tool, address: str, tmp_path: Path) -> None:
    out = tmp_path / "picture.json"
    assert tool("picture", "--backend", address, "--out", str(out))[0] == 0
    picture = load_picture(out)
    assert sorted(picture.situation.brokers) == [1, 2, 3, 4]
    assert tool("drain", "--broker", "1", "--picture", str(out))[0] == 0
    code, _, err = tool("picture", "--backend", address, "--out", str(out))
    assert code == 1
    assert "already exists" in err or "it already exists" in err


# What cannot be meant


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "kshunt plan needs an action: drain, expand"),
        (["empty"], "'empty' is not an action of kshunt plan"),
        (["drain"], "drain needs --broker"),
        (["drain", "--broker", "x"], "'x' is not a broker id"),
        (["drain", "--broker", "1,,2"], "has an empty part"),
        (["drain", "--broker", "1", "--with", "2"], "--with cannot be used with kshunt plan drain"),
        (["drain", "7"], "unexpected word '7'"),
        (["replace", "--broker", "1,2", "--with", "3"], "two brokers"),
        (["replication-factor", "--factor", "orders"], "must look like orders*=3"),
        (["replication-factor", "--factor", "a=2,a=3"], "is given twice"),
        (["rebalance", "--by", "colour"], "must be one of bytes, replicas, load"),
        (["rebalance", "--tolerance", "ten"], "must be a percentage"),
        (["rebalance", "--max-bytes", "lots"], "is not a size"),
        (["drain", "--broker", "1", "--disk-limit", "0"], "disk fraction"),
        (["drain", "--broker", "1", "--throttle", "12"], "less than 1 KB/s"),
        (["drain", "--broker", "1", "--throttle", ",".join(["1MB"] * 9)], "the maximum is 8"),
        (["drain", "--broker", "1", "--deadline", "soon"], "is not a deadline"),
        (["rehearse"], "kshunt plan rehearse needs FILE"),
        (["rehearse", "a.json"], "rehearse needs --throttle or --deadline"),
        (["show", "a.json", "--quick"], "--quick needs --throttle or --deadline"),
        (["show", "a.json", "b.json"], "unexpected word 'b.json'"),
        (["picture", "--out", "x"], "picture reads a cluster"),
        (["leaders", "--backend", "unix:/x"], "Give one of"),
        (["leaders", "--nonsense"], "unknown option --nonsense"),
    ],
)
def test_wrong_usage_is_said(tool: Tool, saved: str, words: list[str], said: str) -> None:
    code, out, err = tool(*words, "--picture", saved)
    assert (code, out) in ((2, ""), (1, ""))
    assert said in err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "not JSON"),
        ('{"version":1,"partitions":[]}', "list of partitions is empty"),
        (
            '{"version":1,"partitions":[{"topic":"gone","partition":0,"replicas":[1]}]}',
            "There is no partition gone-0",
        ),
        (
            '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[99]}]}',
            "broker 99",
        ),
        (
            '{"version":1,"cluster_id":"other","partitions":'
            '[{"topic":"orders","partition":0,"replicas":[1]}]}',
            "is for cluster other",
        ),
    ],
)
def test_a_plan_that_cannot_be_meant_is_refused(
    tool: Tool, saved: str, tmp_path: Path, content: str, said: str
) -> None:
    name = write(tmp_path, "command.json", content)
    for words in (["show", name], ["rehearse", name, "--throttle", "10MB"]):
        code, _, err = tool(*words, "--picture", saved)
        assert code == 1
        assert said in err


def test_a_picture_that_cannot_be_read_is_named(tool: Tool, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gz"
    broken.write_bytes(gzip.compress(b'{"kind": "something else"}'))
    for path in (broken, tmp_path / "none.json", tmp_path):
        code, _, err = tool("leaders", "--picture", str(path))
        assert code == 1
        assert str(path) in err


def test_the_help_names_every_goal_and_flag() -> None:
    text = help_of(COMMAND)
    for flag in FLAGS:
        assert f"--{flag.name}" in text
    for goal in (*Goal, *PlanAction):
        assert goal in text
