"""Dead code: what the allow list of vulture names is there, and the list stays short."""

from __future__ import annotations

import re
import tomllib

from tests.support.paths import ROOT

NAMES: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["vulture"][
    "ignore_names"
]
NAMES_MAX = 120
"""Half of them are what Textual and other frameworks call by name."""


def words_of_code() -> frozenset[str]:
    files = (path for top in ("backend", "tui") for path in (ROOT / top).rglob("*.py"))
    return frozenset(word for path in files for word in re.findall(r"\w+", path.read_text()))


def test_each_name_that_vulture_passes_over_is_there() -> None:
    words = words_of_code()
    patterns = {name for name in NAMES if "*" in name}
    assert [name for name in NAMES if name not in patterns and name not in words] == []
    for pattern in patterns:
        expression = re.compile(pattern.replace("*", ".+"))
        assert any(expression.fullmatch(word) for word in words), pattern


def test_the_list_stays_short() -> None:
    assert len(NAMES) == len(set(NAMES)) <= NAMES_MAX
