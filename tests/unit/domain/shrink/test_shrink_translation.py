"""Laws of translating groups, on copies that are made up."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.domain.shrink.offset_maps import (
    OffsetMap,
    Offsets,
    cuts_of,
    translated,
    translated_of,
)

Record = tuple[int, int]
"""Partition and offset in the source."""


def copied(
    seed: int, lengths: Sequence[int], partitions: int, cuts: Sequence[Offsets]
) -> tuple[OffsetMap, dict[int, int]]:
    """A copy in any order that keeps that of each source partition and passes the cuts."""
    dice = random.Random(seed)
    ends = dict.fromkeys(range(partitions), 0)
    rows: list[tuple[int, int, int, int]] = []
    at = [0] * len(lengths)
    for goal in (*cuts, dict(enumerate(lengths))):
        for p in _shuffled(dice, at, goal):
            target = dice.randrange(partitions)
            # Marks of transactions leave gaps.
            ends[target] += dice.randrange(2)
            rows.append((p, at[p], target, ends[target]))
            ends[target] += 1
            at[p] += 1
    dice.shuffle(rows)
    columns = np.array(rows, np.int64).reshape(-1, 4).T
    where = OffsetMap(
        columns[0].astype(np.int32), columns[1], columns[2].astype(np.int32), columns[3]
    )
    return where, ends


def _shuffled(dice: random.Random, at: Sequence[int], goal: Offsets) -> Sequence[int]:
    turns = [p for p in range(len(at)) for _ in range(max(0, goal.get(p, 0) - at[p]))]
    dice.shuffle(turns)
    return turns


def reads(where: OffsetMap, positions: Mapping[int, int]) -> Iterator[Record]:
    """What a group at these positions of the target still reads."""
    for p, offset, target, at in zip(
        where.source_partition.tolist(),
        where.source_offset.tolist(),
        where.target_partition.tolist(),
        where.target_offset.tolist(),
        strict=True,
    ):
        if at >= positions[target]:
            yield p, offset


def unread(lengths: Sequence[int], committed: Offsets) -> set[Record]:
    return {(p, n) for p, end in enumerate(lengths) for n in range(committed.get(p, 0), end)}


lengths_of = st.lists(st.integers(0, 12), min_size=1, max_size=4)


@given(lengths_of, st.integers(1, 4), st.integers(0, 10**6), st.data())
def test_no_group_loses_a_record(
    lengths: list[int], partitions: int, seed: int, data: st.DataObject
) -> None:
    position = st.fixed_dictionaries({p: st.integers(0, end) for p, end in enumerate(lengths)})
    groups = data.draw(st.lists(position, max_size=4))
    where, ends = copied(seed, lengths, partitions, cuts_of(groups))
    for group in groups:
        found = translated(where, group, ends)
        still = list(reads(where, found.positions))
        assert set(still) >= unread(lengths, group)
        assert len(still) - len(unread(lengths, group)) == found.read_twice
        assert found.positions.keys() == ends.keys()


@given(lengths_of, st.integers(1, 4), st.integers(0, 10**6), st.data())
def test_groups_behind_one_another_read_nothing_twice(
    lengths: list[int], partitions: int, seed: int, data: st.DataObject
) -> None:
    groups, former = [], [0] * len(lengths)
    for _ in range(data.draw(st.integers(0, 4))):
        former = [data.draw(st.integers(at, end)) for at, end in zip(former, lengths, strict=True)]
        groups.append(dict(enumerate(former)))
    random.Random(seed).shuffle(groups)
    where, ends = copied(seed, lengths, partitions, cuts_of(groups))
    for group in groups:
        found = translated(where, group, ends)
        assert found.read_twice == 0
        assert set(reads(where, found.positions)) == unread(lengths, group)


@given(st.lists(st.dictionaries(st.integers(0, 3), st.integers(0, 9)), max_size=5))
def test_cuts_are_a_chain_and_beyond_no_group_that_is_not_passed(
    groups: list[dict[int, int]],
) -> None:
    cuts = cuts_of(groups)
    for former, later in pairwise(cuts):
        assert all(later[p] >= offset for p, offset in former.items())
        assert later != former
    for cut in cuts:
        assert any(all(group.get(p, 0) >= at for p, at in cut.items()) for group in groups)


def test_a_group_that_has_read_all_goes_on_at_the_end() -> None:
    where, ends = copied(1, [5, 3], 2, [])
    assert translated(where, {0: 5, 1: 3}, ends).positions == ends
    nothing = translated(where, {}, ends)
    assert (nothing.read_twice, set(reads(where, nothing.positions))) == (0, unread([5, 3], {}))


def test_a_partition_without_records_and_a_map_without_any() -> None:
    where, _ = copied(1, [0], 1, [])
    assert len(where) == 0
    assert translated(where, {0: 7}, {0: 0, 1: 4}).positions == {0: 0, 1: 4}
    assert cuts_of([]) == []
    assert cuts_of([{}]) == []


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_a_map_in_parts_says_the_same(parts: int) -> None:
    where, ends = copied(3, [20, 9, 14], 3, [])
    slices = np.array_split(np.arange(len(where)), parts)
    pieces = [
        OffsetMap(
            where.source_partition[rows],
            where.source_offset[rows],
            where.target_partition[rows],
            where.target_offset[rows],
        )
        for rows in slices
    ]
    group = {0: 7, 1: 9, 2: 1}
    assert translated_of(pieces, group, ends) == translated(where, group, ends)
