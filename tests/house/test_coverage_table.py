"""The table of `make coverage`: files are summed by package, and what is low is named."""

from __future__ import annotations

from tests.support.runs.coverage_table import Reached, by_package, table


def test_files_are_summed_by_package() -> None:
    files = {
        "tui/app.py": Reached(5, 5, 0, 0),
        "backend/api/server/app.py": Reached(10, 9, 4, 4),
        "backend/api/routes/all.py": Reached(30, 27, 6, 1),
        "backend/files.py": Reached(7, 7, 2, 2),
    }
    assert by_package(files) == {
        "backend": Reached(7, 7, 2, 2),
        "backend.api": Reached(40, 36, 10, 5),
        "tui": Reached(5, 5, 0, 0),
    }


def test_what_is_low_is_named() -> None:
    packages = {"backend.api": Reached(100, 85, 100, 84), "tui": Reached(900, 700, 0, 0)}
    _, api, tui, whole = table(packages)
    words = {" ".join(line.split()) for line in (api, tui)}
    assert words == {
        "backend.api 100 85.0% 100 84.0% below 85%: branches",
        "tui 900 77.8% 0 - below 85%: lines",
    }
    assert whole.split()[:5] == ["all", "1,000", "78.5%", "100", "84.0%"]
    assert whole.endswith("below 85%: lines, branches")
