"""Workers share what takes long when it is read for the first time."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.paths import ROOT
from tests.support.runs import tiers
from tests.support.runs.shares import modules_of, share

SIZES = st.lists(st.integers(0, 40_000), max_size=60).map(
    lambda sizes: {Path(f"test_{place}.py"): size for place, size in enumerate(sizes)}
)


@given(SIZES, st.integers(1, 9))
def test_each_module_is_of_one_share(sizes: dict[Path, int], workers: int) -> None:
    shares = [share(sizes, place, workers) for place in range(workers)]
    assert list(chain(*shares)) == list(sizes)


@given(SIZES, st.integers(1, 9))
def test_no_share_is_larger_than_a_fair_one_and_a_module(
    sizes: dict[Path, int], workers: int
) -> None:
    fair, largest = sum(sizes.values()) / workers, max(sizes.values(), default=0)
    for place in range(workers):
        assert sum(sizes[path] for path in share(sizes, place, workers)) <= fair + largest


def test_the_modules_of_a_tier_are_those_that_it_collects() -> None:
    quick = set(modules_of(tiers.QUICK))
    assert set(modules_of(tiers.HOUSE)) == set(Path(__file__).parent.glob("test_*.py"))
    assert all(path.name.startswith("test_") for path in quick)
    folders = {path.relative_to(ROOT / "tests").parts[0] for path in quick}
    assert {"story", "tui", "unit"} <= folders
    assert not folders & {*tiers.SLOW_FOLDERS, tiers.HOUSE_FOLDER}


def test_the_slow_tier_reads_modules_that_name_a_slow_test() -> None:
    slow, every = set(modules_of(tiers.SLOW)), set(modules_of(tiers.ALL))
    tests = ROOT / "tests"
    assert tests / "tui/terminal/test_input.py" in slow
    assert {path for path in every if path.is_relative_to(tests / "served")} <= slow
    assert tests / "unit/wire/test_runs.py" not in slow


def test_a_slow_test_that_its_module_does_not_name_is_found() -> None:
    quick = ROOT / "tests/unit/wire/test_runs.py"
    item: Any = SimpleNamespace(path=quick, name="test_it[160x50]", iter_markers=lambda: iter(()))
    assert tiers.is_lost(item)
    item.name = "test_it"
    assert not tiers.is_lost(item)
