"""Who leads how many partitions before and after an election, in lines."""

from __future__ import annotations

import pytest

from kshunt.tui.changes.intents.leader_skew import SHOWN_MOST, Skew, skew_lines


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        (
            {1: 10, 2: 0, 3: 5},
            {1: 5, 2: 5, 3: 5},
            [
                "Leaders per broker: 0 to 10 before, 5 after; spread 10 -> 0.",
                "broker 1    10 ########## ->  5 #####.....",
                "broker 2     0 .......... ->  5 #####.....",
            ],
        ),
        (
            {1: 3, 2: 3},
            {1: 3, 2: 3},
            [
                "Leaders per broker: 3 before, 3 after; spread 0 -> 0.",
                "Every broker leads the same number as before.",
            ],
        ),
        (
            {},
            {},
            [
                "Leaders per broker: 0 before, 0 after; spread 0 -> 0.",
                "Every broker leads the same number as before.",
            ],
        ),
        (
            {1: 0, 2: 2_000},
            {1: 1, 2: 1_999},
            [
                "Leaders per broker: 0 to 2,000 before, 1 to 1,999 after; spread 2000 -> 1998.",
                "broker 1       0 .......... ->    1 ..........",
                "broker 2    2000 ########## -> 1999 ##########",
            ],
        ),
    ],
)
def test_the_spread_and_who_changes(
    before: dict[int, int], after: dict[int, int], lines: list[str]
) -> None:
    assert skew_lines(Skew(before, after)) == lines


def test_those_that_change_most_come_first_and_the_rest_is_counted() -> None:
    for more, last in ((0, None), (1, "and 1 other broker"), (2, "and 2 other brokers")):
        before = dict.fromkeys(range(1, SHOWN_MOST + more + 1), 50)
        after = {id: 50 + id for id in before}
        lines = skew_lines(Skew(before, after))
        first = max(before)
        assert lines[1].startswith(f"broker {first} ")
        assert (lines[-1] if more else None) == last
        assert len(lines) == 1 + SHOWN_MOST + bool(more)
