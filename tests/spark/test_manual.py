"""Commands of the page about the pipeline that no other test runs as they are printed.

`tests/house/test_blocks.py` says which test runs which block.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kshunt.backend.pipeline.backtest.residuals import FEWEST
from tests.support.brokers.connector import connector_jars, missing_connector
from tests.support.brokers.launcher import RealKafka
from tests.support.documents.printed import printed
from tests.support.pipeline.simulated_operations import record
from tests.support.pipeline.spark import INTERPRETED, QUICK_JAVA, missing_java
from tests.support.topics import create_topic, produce
from tests.support.waiting import require

DEADLINE_S = 600.0
PAGE = "docs/operating/pipeline.md"
SEED, LONGEST_S = 900, 120.0
RECORDS, RECORD_BYTES = 200, 100


def run(words: list[str], folder: Path) -> str:
    """Run `kshunt` with these words and little memory; what it says."""
    done = subprocess.run(
        [sys.executable, "-m", "kshunt", *words, "--master", "local[2]", "--memory", "1g"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
        env={**os.environ, "JDK_JAVA_OPTIONS": f"{QUICK_JAVA} {INTERPRETED}"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.spark
def test_forecasts_of_a_recording_are_tested_and_calibrated(tmp_path: Path) -> None:
    require(missing_java())
    samples = tmp_path / "samples"
    samples.mkdir()
    record(samples, range(SEED, SEED + FEWEST + 10), LONGEST_S)
    names = {"/data/kshunt/prod": samples}
    said = run(
        printed(PAGE, "kshunt pipeline backtest --samples /data/kshunt/prod", names), tmp_path
    )
    assert "half-way" in said
    said = run(
        printed(PAGE, "kshunt pipeline backtest --samples /data/kshunt/prod --calibrate", names),
        tmp_path,
    )
    assert "A calibration from " in said
    assert json.loads((tmp_path / "calibration.json").read_text())["bins"]


@pytest.mark.kafka
@pytest.mark.spark
def test_a_topic_is_copied_into_fewer_partitions_and_verified(
    kafka: RealKafka, tmp_path: Path
) -> None:
    require(missing_java())
    require(missing_connector())
    servers = kafka.bootstrap_servers
    create_topic(servers, "orders", [[1], [2], [3], [1], [2], [3], [1], [2]])
    create_topic(servers, "orders-6", [[1], [2], [3], [1], [2], [3]], {"retention.ms": "-1"})
    produce(servers, "orders", RECORDS, RECORD_BYTES)
    beginning = "kshunt pipeline repartition --bootstrap-server broker1:9092 --source orders"
    copying = f"{beginning} --target orders-6 --operation 1"
    run(printed(PAGE, copying, {"broker1:9092": servers}), tmp_path)
    (tmp_path / "verify").mkdir()
    names = {
        "broker1:9092": servers,
        "/data/kshunt/verify": tmp_path / "verify",
        "/opt/spark-kafka": connector_jars(),
    }
    run(printed(PAGE, f"{copying} --verify", names), tmp_path)
    assert list((tmp_path / "verify" / "offset-map").rglob("*.parquet"))
