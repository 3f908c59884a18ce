"""Arrow loads pandas with its first array, unless it was told to forgo it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ARRAY = (
    "import pyarrow as pa; pa.array(['a'], pa.utf8()); import sys; print('pandas' in sys.modules)"
)
FORGONE = "from kshunt.backend.arrow_without_pandas import forgo_pandas; forgo_pandas(); "
VERSION = "; import pandas; print(pandas.__version__)"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """It has a package of that name, however this Python was installed."""
    package = tmp_path / "pandas"
    package.mkdir()
    (package / "__init__.py").write_text("__version__ = '0.1'\n")
    return tmp_path


def said(code: str, folder: Path) -> list[str]:
    """What a new Python prints, which finds packages of this folder first."""
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); {code}"
    command = [sys.executable, "-W", "ignore", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_arrow_loads_pandas_with_its_first_array(folder: Path) -> None:
    assert said(ARRAY, folder) == ["True"]


def test_arrow_that_forgoes_pandas_does_not_load_it(folder: Path) -> None:
    assert said(FORGONE + ARRAY, folder) == ["False"]


def test_others_can_load_pandas_all_the_same(folder: Path) -> None:
    assert said(FORGONE + ARRAY + VERSION, folder) == ["False", "0.1"]
