"""The page of Spark's steps names those of Spark's plans."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.paths import ROOT
from tests.support.pipeline.spark_plans import plans

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PAGE = ROOT / "docs/architecture/spark-plans.md"
ROW = re.compile(r"\| (\d+) \| `(.*?)` \| \S")


def named() -> dict[str, list[str]]:
    """The steps that the page names, by table."""
    sections = re.split(r"^### `(\w+)`$", PAGE.read_text("utf-8"), flags=re.MULTILINE)[1:]
    found = {}
    for table, text in zip(sections[::2], sections[1::2], strict=True):
        rows = ROW.findall(text)
        assert [int(number) for number, _ in rows] == [*range(1, len(rows) + 1)]
        found[table] = [step for _, step in rows]
    return found


def test_the_page_names_the_steps(spark: SparkSession, tmp_path: Path) -> None:
    assert plans(spark, tmp_path) == named()
