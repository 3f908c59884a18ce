"""The mode of a partition (KIP-694): its words, and descriptions that hold it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kshunt.backend.domain.cluster.assignment import Assignment, merge
from kshunt.backend.domain.cluster.partition_modes import MODES_BY_KEY, PartitionMode, mode_words

RW, RO, NONE = PartitionMode.READ_WRITE, PartitionMode.READ_ONLY, PartitionMode.NONE
MINUTE_MS = 60_000


@pytest.mark.parametrize(
    ("mode", "left_ms", "words"),
    [
        (RW, 0, ""),
        (NONE, 0, "being deleted"),
        (RO, 3 * MINUTE_MS, "leaving in 3m00s"),
        (RO, 40_000, "leaving in 40s"),
        (RO, -1_000, "leaving now"),
    ],
)
def test_a_mode_in_words(mode: PartitionMode, left_ms: int, words: str) -> None:
    now_ms = 1_700_000_000_000
    assert mode_words(mode, now_ms + left_ms, now_ms) == words
    assert mode_words(RO) == "read-only"


def test_a_code_that_is_not_known_is_taken_for_read_only() -> None:
    assert [PartitionMode.of(code) for code in (0, 1, -1, 7)] == [RW, RO, NONE, RO]
    assert MODES_BY_KEY == {"readwrite": RW, "readonly": RO, "none": NONE}


def test_parts_of_a_description_keep_their_modes() -> None:
    columns = ([0, 1], [0, 0], [1, 1], [0, 0], [1, 1], [True, True], [False, False])
    kinds = (np.int32, np.int32, np.int32, np.int16, np.int32, np.bool_, np.bool_)
    arrays: list[Any] = [np.array(c, kind) for c, kind in zip(columns, kinds, strict=True)]
    whole = Assignment(("a", "b"), *[*arrays, np.array([1, 0], np.int8)])
    assert whole.deletes_ms.tolist() == [-1, -1]
    part = Assignment(("b",), *[*(one[:1] for one in arrays), np.array([-1], np.int8)])
    assert merge(whole, part, frozenset({"b"})).mode.tolist() == [1, -1]
