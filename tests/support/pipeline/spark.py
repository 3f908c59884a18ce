"""The one Spark session that tests share, and small frames for it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kshunt.backend.pipeline.spark.java import JavaMissing, find_java
from kshunt.backend.pipeline.spark.session import PipelineSettings, start_session
from tests.support.brokers.java import LIBS
from tests.support.waiting import require

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CLASSES = LIBS / f"spark-{version('pyspark')}.jsa"
"""See `tests.support.pipeline.class_archive`; one of another Java is of no use, and no news."""
# Tests are over before a better compiler would have paid.
# Spark's classes are not verified, and make room for themselves once: a quarter of a start else.
QUICK_JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData -XX:MetaspaceSize=256m "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    + (f' -XX:SharedArchiveFile="{CLASSES}" -Xlog:disable' if CLASSES.is_file() else "")
)
# Nor does a plan that is used once pay for being compiled; Spark reads such properties as settings.
INTERPRETED = "-Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN"


def missing_java() -> str | None:
    """Why no test can run on Spark here; None where it can."""
    try:
        find_java(os.environ, Path(tempfile.gettempdir()))
    except JavaMissing as missing:
        return str(missing)
    return None


def quick_settings(**others: Any) -> PipelineSettings:
    """Of a session that starts soon and takes little."""
    return PipelineSettings(
        **{
            "master": "local[2]",
            "memory": "1g",
            "shuffle_partitions": 2,
            "java_options": f"{QUICK_JAVA} {INTERPRETED}",
            **others,
        }
    )


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A classic session, ended with its Java."""
    require(missing_java())
    session = start_session(quick_settings())
    gateway = session.sparkContext._gateway
    assert gateway is not None
    yield session
    session.stop()
    # Spark leaves its Java to the end of the process, which the other tests keep from coming.
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(30)


def rows_of(frame: DataFrame, *order: str) -> list[dict[str, Any]]:
    """The rows as dicts, in an order that does not depend on Spark's."""
    rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return sorted(rows, key=lambda row: tuple(row[name] for name in order))


def carried(session: SparkSession, frame: DataFrame) -> DataFrame:
    """The same rows, without what they were computed from."""
    return session.createDataFrame(frame.toArrow(), schema=frame.schema)


def same(found: Sequence[dict[str, Any]], expected: Sequence[dict[str, Any]]) -> None:
    """Fail at the first row that differs; numbers may differ by rounding."""
    for ours, theirs in zip(found, expected, strict=False):
        assert ours.keys() == theirs.keys()
        for name, value in ours.items():
            wanted = theirs[name]
            near = pytest.approx(wanted, rel=1e-9) if isinstance(wanted, float) else wanted
            assert value == near, f"{name} of {ours}, expected {theirs}"
    assert len(found) == len(expected)
