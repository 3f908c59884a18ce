"""Which tests run one after another in one process, and which of these groups begin first.

A group is what shares something dear: real brokers or a Spark of the process, else the fixtures of
a file. The longest groups begin first, for a run is never shorter than one of them. So at the end
no process waits for another one that has just begun something long.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.support.paths import ROOT

SHARED: Final = ("zookeeper", "kafka", "spark")
"""Marks of tests that share what is started once a process; such a group is of one folder."""
LONGEST: Final = (
    "spark: tests/spark",
    "kafka: tests/spark",
    "kafka: tests/kafka",
    "kafka: tests/served",
    "tests/served/docs/test_pages.py",
    "zookeeper: tests/zookeeper",
    "tests/served/operations/test_kill.py",
    "tests/served/api/test_openapi.py",
    "tests/tui/test_monkey.py",
    "tests/kafka/test_stuck_failures.py",
    "kafka: tests/contract",
    "tests/served/docs/test_install.py",
    "tests/spark/test_shrink_killed.py",
    "tests/served/tui/test_copied_commands.py",
    "tests/kafka/test_stuck_causes.py",
    "tests/unit/pipeline/test_maintenance.py",
    "tests/kafka/test_faults.py",
    "tests/served/tui/test_tasks.py",
    "tests/unit/operations/shrink/test_operation.py",
    "tests/served/operations/test_forecast_scores.py",
    "tests/served/telemetry/test_reports_live.py",
    "tests/kafka/test_truth_rounds.py",
    "spark: tests/served",
)
"""Groups that take a minute or more, the longest first."""


def group_of(item: pytest.Item) -> str:
    """The name of a test's group."""
    path = _path_of(item.path)
    marks = {mark.name for mark in item.iter_markers()}
    if "own_brokers" not in marks:
        shared = (name for name in SHARED if name in marks)
        if (name := next(shared, None)) is not None:
            return f"{name}: {'/'.join(path.parts[:2])}"
    return str(path)


@cache
def _path_of(path: Path) -> Path:
    """A module's path below the root, asked for each of its tests."""
    return path.relative_to(ROOT)


def rank_of(item: pytest.Item) -> tuple[int, bool]:
    """What to sort tests by, so that groups that take long begin first."""
    group = group_of(item)
    named = LONGEST.index(group) if group in LONGEST else len(LONGEST)
    return named, not any(item.get_closest_marker(name) for name in ("kafka", "spark", "slow"))
