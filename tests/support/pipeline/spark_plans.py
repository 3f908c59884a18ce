"""The physical plan of each table of a backfill, as a list of steps that a page can name.

    python -m tests.support.pipeline.spark_plans

prints them. Spark's names of columns have numbers, which are left out, and steps that only choose
columns are no steps.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kshunt.backend.domain.pipeline.result_columns import BROKER_LOAD, GAP_S, RATES
from kshunt.backend.domain.pipeline.sample_columns import BROKER_SAMPLES, HOUR_MS
from kshunt.backend.pipeline.jobs.backfill import of_brokers, of_rates, written_rates
from kshunt.backend.pipeline.kernels.arrow_columns import SAMPLES_SCHEMA
from kshunt.backend.pipeline.kernels.quality import Checks
from kshunt.backend.pipeline.spark.column_types import struct_of, with_hour
from kshunt.backend.pipeline.spark.row_packing import of_files
from kshunt.backend.pipeline.spark.session import start_session
from kshunt.backend.pipeline.tables.rates import counted, unlooked
from kshunt.backend.pipeline.tables.rates import rows_of as rates_of
from tests.support.pipeline.recorded import START_MS, simulated, write
from tests.support.pipeline.spark import quick_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LINE: Final = re.compile(r"^(?P<indent>[ :|+*()\d-]*?)(?P<step>[A-Za-z]\w*)(?P<rest>.*)$")
_NUMBER: Final = re.compile(r"#\d+L?")
_CHOOSING: Final = ("AdaptiveSparkPlan", "Project")


def plans(session: SparkSession, folder: Path) -> Mapping[str, list[str]]:
    """The steps of each table, the first first; `folder` is empty.

    A step that joins two inputs follows the steps of both.
    """
    return {name: steps(rows) for name, rows in _tables(session, folder)}


def _tables(session: SparkSession, folder: Path) -> Iterator[tuple[str, DataFrame]]:
    # Two files, so that there are two tasks, as for more samples than one task takes.
    for number in (1, 2):
        write(folder, simulated(seed=number, replicas=4, seconds=200), number=number)
    files = sorted(folder.glob("replicas/*/*/*.parquet"))
    checks = Checks(0, 1 << 60, 0, 0, GAP_S * 1000)
    parcels = of_files(session, files, SAMPLES_SCHEMA)
    made = rates_of(counted(unlooked(parcels, checks)).step)
    yield RATES.name, made
    written, samples = folder / "written-rates", folder / "written-samples"
    with_hour(made.repartition(2), RATES).write.partitionBy("date", "hour").parquet(str(written))
    for table, plan in of_rates(session, written, START_MS, START_MS + HOUR_MS).items():
        yield table.name, plan()
    schema = struct_of(BROKER_SAMPLES)
    session.createDataFrame([], schema).write.parquet(str(samples))
    brokers = session.read.schema(schema).parquet(str(samples))
    yield BROKER_LOAD.name, of_brokers(brokers, written_rates(session, written), START_MS)


def steps(rows: DataFrame) -> list[str]:
    """The steps of a plan, inputs before what takes them."""
    printed = StringIO()
    with redirect_stdout(printed):
        rows.explain()
    waiting: list[tuple[int, str]] = []
    found: list[str] = []
    for line in printed.getvalue().splitlines():
        match = _LINE.match(line)
        if match is None or line.startswith("=="):
            continue
        depth = len(match["indent"])
        while waiting and waiting[-1][0] >= depth:
            found.append(waiting.pop()[1])
        waiting.append((depth, _step(match["step"], _NUMBER.sub("", match["rest"]))))
    found += [step for _, step in reversed(waiting)]
    return [step for step in found if step not in _CHOOSING]


def _step(name: str, rest: str) -> str:
    """A step, with what tells it from others of its kind."""
    match name:
        case "Exchange":
            way = re.match(r" (\w+)(?:\((.*?)\))?, [A-Z]", rest)
            assert way is not None, rest
            columns = [part for part in (way[2] or "").split(", ") if not part.isdigit()]
            # Spark's own name for one that it has worked out ahead of this step.
            named = ["_point" if part == "_groupingexpression" else part for part in columns]
            return f"Exchange {way[1]} {', '.join(named)}".strip()
        case "FileScan":
            # Spark cuts a long list of them off.
            pushed = ", pushed filters" if re.search(r"PushedFilters: \[[^\]]", rest) else ""
            count = rest.partition("[")[2].partition("]")[0].count(",") + 1
            return f"FileScan parquet, {count} columns{pushed}"
        case "MapInArrow" | "FlatMapGroupsInArrow":
            function = re.match(r" (?:\[.*?\], )?(\w+)\(", rest)
            assert function is not None, rest
            return f"{name} {function[1]}"
        case "Scan":
            return f"Scan{rest.partition('[')[0]}"
        case "HashAggregate" | "ObjectHashAggregate":
            return f"{name}, partial" if "partial_" in rest else name
        case _:
            return name


def main() -> None:
    """Print the steps."""
    session = start_session(quick_settings())
    with tempfile.TemporaryDirectory() as name:
        for table, found in plans(session, Path(name)).items():
            print(f"\n{table}")
            for number, step in enumerate(found, 1):
                print(f"| {number} | `{step}` | |")
    session.stop()


if __name__ == "__main__":
    main()
