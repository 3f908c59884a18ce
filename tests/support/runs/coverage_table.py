"""What a run under coverage reached, as a table by package.

`python -m tests.support.runs.coverage_table` reads what `coverage combine` leaves. A package is
what lies in one folder of `backend` or of `tui`, with the folders in it; modules next to those
folders count as `backend` or `tui`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

from coverage import Coverage

from tests.support.paths import ROOT

ENOUGH: float = 0.85
"""The share of lines, and of branches, below which a package is named."""


@dataclass(frozen=True, slots=True)
class Reached:
    """How many lines and branches there are, and how many of them a test reached."""

    lines: int = 0
    lines_reached: int = 0
    branches: int = 0
    branches_reached: int = 0

    def __add__(self, other: Reached) -> Reached:
        return Reached(
            self.lines + other.lines,
            self.lines_reached + other.lines_reached,
            self.branches + other.branches,
            self.branches_reached + other.branches_reached,
        )

    @property
    def below(self) -> list[str]:
        """Of what too little was reached: `lines`, `branches`, both or nothing."""
        parts = {
            "lines": (self.lines_reached, self.lines),
            "branches": (self.branches_reached, self.branches),
        }
        return [name for name, (reached, of) in parts.items() if reached < ENOUGH * of]


def by_package(files: Mapping[str, Reached]) -> dict[str, Reached]:
    """The sums of the files of each package, in the order of their names."""
    found: dict[str, Reached] = {}
    for path, reached in files.items():
        package = ".".join(PurePath(path).parent.parts[:2])
        found[package] = found.get(package, Reached()) + reached
    return dict(sorted(found.items()))


def table(packages: Mapping[str, Reached]) -> Iterable[str]:
    """The lines of the table, the sum of all last."""
    yield f"{'package':<20} {'lines':>7} {'reached':>8} {'branches':>9} {'reached':>8}"
    whole = sum(packages.values(), Reached())
    for name, one in [*packages.items(), ("all", whole)]:
        lines = _share(one.lines_reached, one.lines)
        branches = _share(one.branches_reached, one.branches)
        below = f"  below {ENOUGH:.0%}: {', '.join(one.below)}" if one.below else ""
        yield f"{name:<20} {one.lines:>7,} {lines:>8} {one.branches:>9,} {branches:>8}{below}"


def _share(reached: int, of: int) -> str:
    return f"{reached / of:.1%}" if of else "-"


def _files() -> dict[str, Reached]:
    coverage = Coverage()
    coverage.load()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "coverage.json")
        # Tests run copies too: of clones that they install, and what Spark gives to its workers.
        coverage.json_report(outfile=str(path), include=[f"{ROOT}/*"], ignore_errors=True)
        files = json.loads(path.read_text())["files"]
    counts = ("num_statements", "covered_lines", "num_branches", "covered_branches")
    return {
        path: Reached(*(file["summary"][name] for name in counts)) for path, file in files.items()
    }


def main() -> int:
    """Print the table."""
    print("\n".join(table(by_package(_files()))))
    print("`coverage report -m` names the lines that no test reached; `coverage html` shows them.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
