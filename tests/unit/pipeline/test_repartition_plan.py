"""In which batches a topic is copied, and command lines that cannot be meant."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.commandline.reading import UsageError
from kshunt.backend.errors import BadInput, ConfigError, KshuntError
from kshunt.backend.pipeline.command import main
from kshunt.backend.pipeline.repartition.copy_batches import copy_cuts, left_of, next_batch
from kshunt.backend.pipeline.repartition.repartition_command import read_offsets

offsets = st.dictionaries(st.integers(0, 3), st.integers(0, 1_000), min_size=4, max_size=4)


@given(offsets, offsets, st.lists(offsets, max_size=4), st.integers(1, 500))
def test_batches_pass_every_cut_and_end_at_the_end(
    start: dict[int, int], lengths: dict[int, int], steps: list[dict[int, int]], records: int
) -> None:
    ends = {p: first + lengths[p] for p, first in start.items()}
    cuts: list[dict[int, int]] = []
    for step in steps:
        former = cuts[-1] if cuts else start
        cuts.append({p: min(former[p] + step[p], ends[p]) for p in start})
    way = copy_cuts(start, {}, ends, cuts)
    at, batches, passed = dict(start), 0, [start]
    while batch := next_batch(at, way, records):
        goal = (*way.cuts, way.until)[batch.cut]
        for part in batch.ranges:
            assert at[part.partition] == part.start < part.end <= goal[part.partition]
            at[part.partition] = part.end
        passed.append(dict(at))
        batches += 1
    assert at == ends
    assert left_of(at, way) == 0
    # No batch begins beyond a cut before all partitions have come to it.
    for cut in cuts:
        assert cut in passed or cut == start
    total = sum(lengths.values())
    assert batches <= 2 * total / records + len(cuts) + 2 + 4 * (total > 0)


def test_a_batch_takes_of_each_partition_its_share() -> None:
    way = copy_cuts({0: 0, 1: 10}, {}, {0: 900, 1: 110}, [])
    batch = next_batch(way.start, way, 250)
    assert batch is not None
    assert [(r.partition, r.start, r.end) for r in batch.ranges] == [(0, 0, 225), (1, 10, 35)]


def test_cuts_before_the_first_record_and_after_the_end_are_where_those_are() -> None:
    way = copy_cuts({0: 10, 1: 0}, {0: 40}, {0: 50, 1: 5}, [{0: 3}, {0: 60, 1: 2}])
    assert way.until == {0: 40, 1: 5}
    assert way.cuts == [{0: 10, 1: 0}, {0: 40, 1: 2}]


@pytest.mark.parametrize(
    ("until", "cuts", "reason"),
    [
        ({0: 51}, [], "up to offset 50"),
        ({7: 1}, [], "no partition 7"),
        ({}, [{0: 20}, {0: 19}], "not in order"),
        ({}, [{4: 20}], "no partition 4"),
    ],
)
def test_ends_and_cuts_that_cannot_be_are_refused(
    until: dict[int, int], cuts: list[dict[int, int]], reason: str
) -> None:
    with pytest.raises(BadInput, match=reason):
        copy_cuts({0: 10, 1: 0}, until, {0: 50, 1: 5}, cuts)


def repartition(*words: str) -> int:
    begin = ["repartition", "--bootstrap-servers", "127.0.0.1:1", "--source", "t"]
    return main([*begin, *words])


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--target", "t", "--operation", "o"], BadInput),
        (["--target", "u", "--operation", "o/p"], BadInput),
        (["--target", "u", "--operation", "o", "--verify"], BadInput),
        (["--target", "u", "--operation", "o", "--folder", "d"], BadInput),
        (["--target", "u", "--operation", "o", "--command-config", "/none"], ConfigError),
    ],
)
def test_what_cannot_be_meant_is_told_before_anything_is_asked(
    words: Sequence[str], error: type[KshuntError], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(error):
        repartition(*words, "--json")
    assert '"event": "failed"' in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--batch-records", "0"], ["--keyless", "odd"], []])
def test_a_wrong_command_line_is_wrong_usage(words: Sequence[str]) -> None:
    with pytest.raises(UsageError):
        repartition("--operation", "o", *words)


@pytest.mark.parametrize("text", ["{", "[1]", '{"a": 1}', '{"0": -1}', '{"0": null}'])
def test_a_file_that_has_no_offsets_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "until.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="until"):
        read_offsets(path)
    with pytest.raises(ConfigError, match="none"):
        read_offsets(tmp_path / "none")
