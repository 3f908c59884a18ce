"""What can be asked of the planners: what a goal needs, and what it has no use for."""

from __future__ import annotations

from typing import Any

import pytest

from kshunt.backend.domain.planning.goals import Goal, parse_size
from kshunt.backend.domain.planning.requests import PlanRequest
from kshunt.backend.domain.reassignment.move_caps import MoveCaps
from kshunt.backend.errors import BadInput

FITTING: dict[Goal, dict[str, Any]] = {
    Goal.DRAIN: {"brokers": (1,)},
    Goal.EXPAND: {"brokers": (1, 2, 3)},
    Goal.REPLICATION_FACTOR: {"factors": {"*": 3}},
    Goal.REBALANCE: {"max_moved_bytes": 10},
    Goal.LEADERS: {},
    Goal.RACK_REPAIR: {},
    Goal.REPLACE: {"brokers": (1, 2)},
    Goal.MOVE_LOG_DIRS: {"brokers": (1,), "directories": ("/a",)},
}


@pytest.mark.parametrize("goal", list(Goal))
def test_a_goal_takes_what_fits_it(goal: Goal) -> None:
    assert PlanRequest(goal, **FITTING[goal]).goal is goal


@pytest.mark.parametrize(
    ("goal", "changes", "words"),
    [
        (
            Goal.DRAIN,
            {"brokers": ()},
            "The goal drain needs at least one broker, which loses its replicas.",
        ),
        (
            Goal.EXPAND,
            {"brokers": ()},
            "The goal expand needs at least one broker, which gets its share.",
        ),
        (
            Goal.REPLACE,
            {"brokers": (1,)},
            "The goal replace needs two brokers, the old one and the new one.",
        ),
        (
            Goal.REPLACE,
            {"brokers": (1, 2, 3)},
            "The goal replace needs two brokers, the old one and the new one.",
        ),
        (Goal.MOVE_LOG_DIRS, {"brokers": ()}, "The goal move-log-dirs needs one broker."),
        (Goal.MOVE_LOG_DIRS, {"brokers": (1, 2)}, "The goal move-log-dirs needs one broker."),
        (Goal.LEADERS, {"brokers": (1,)}, "The goal leaders needs no broker."),
        (Goal.REBALANCE, {"brokers": (1,)}, "The goal rebalance needs no broker."),
        (Goal.LEADERS, {"topics": ()}, "No topic may be changed."),
        (Goal.LEADERS, {"caps": MoveCaps(0, 1)}, "At least one move at a time is needed."),
        (Goal.LEADERS, {"caps": MoveCaps(1, 0)}, "At least one move at a time is needed."),
        (Goal.REPLICATION_FACTOR, {"factors": {}}, "needs a topic and its factor."),
        (Goal.LEADERS, {"factors": {"*": 2}}, "does not use a factor."),
        (Goal.LEADERS, {"directories": ("/a",)}, "does not use a log directory."),
        (Goal.LEADERS, {"max_moved_bytes": 1}, "does not use a limit of bytes."),
        (Goal.LEADERS, {"max_moved_bytes": 0}, "does not use a limit of bytes."),
    ],
)
def test_what_cannot_be_meant_is_refused(goal: Goal, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput) as refused:
        PlanRequest(goal, **{**FITTING[goal], **changes})
    assert refused.value.message.endswith(words)
    assert refused.value.advice == "Nothing was planned."


def test_one_move_at_a_time_is_enough() -> None:
    assert PlanRequest(Goal.LEADERS, caps=MoveCaps(1, 1)).caps == MoveCaps(1, 1)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1000", 1_000), ("0", 0), ("10k", 10_000), ("10 kB", 10_000), ("1.5 gb", 1_500_000_000),
        ("500GB", 500 * 10**9), ("2TiB", 2 * 2**40), ("1Mi", 2**20), ("1p", 10**15), ("7b", 7),
        (" 3KiB ", 3_072),
    ],
)  # fmt: skip
def test_sizes_are_read_as_si_and_iec_say(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GB", "1e3", "-1", "1.2.3", "5 XB", "1,000", "9" * 16])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="is not a size"):
        parse_size(text)
