"""`kshunt pipeline run` on the topic of samples of a real cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_END
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from kshunt.backend.admin.kafka.sample_producer import PARTITIONS, SampleProducer
from kshunt.backend.admin.security.client_properties import load_client_config
from kshunt.backend.domain.pipeline.result_columns import RATES
from kshunt.backend.errors import ConfigError
from kshunt.backend.pipeline.spark.kafka_connector import client_settings, connector_settings
from kshunt.backend.telemetry.recording.kafka_sink import TopicSink
from kshunt.backend.telemetry.recording.layout import SampleTable
from tests.support.brokers.connector import connector_jars, missing_connector
from tests.support.brokers.launcher import RealKafka
from tests.support.documents.printed import printed
from tests.support.pipeline.rates_reference import reference_rates
from tests.support.pipeline.recorded import SCHEMA, Row, simulated, table
from tests.support.pipeline.spark import QUICK_JAVA, missing_java, same
from tests.support.pipeline.streamed import rows_in
from tests.support.waiting import require

DEADLINE_S = 900.0
KEEP_DAYS = 36_500
"""Samples are of a fixed day: the brokers' retention, which goes by it, must not take them."""


def sent(servers: str, topic: str, rows: Sequence[Row]) -> None:
    """Samples as a backend sends them."""
    sink = TopicSink(topic, SampleProducer(servers, load_client_config(None)), KEEP_DAYS)
    sink.open("c1", 0)
    ordered = table(sorted(rows, key=lambda row: row["at"])).cast(SCHEMA)
    for piece in sink.pieces(SampleTable.REPLICAS, ordered):
        sink.write(SampleTable.REPLICAS, piece)
    sink.note_written([], 0)
    assert sink.lost() == ()
    sink.close()


def run(servers: str, topic: str, results: Path) -> subprocess.Popen[str]:
    names = {
        "kshunt-samples": topic,
        "broker1:9092": servers,
        "/data/kshunt/results": results,
        "/opt/spark-kafka": connector_jars(),
    }
    words = printed("docs/operating/pipeline.md", "kshunt pipeline run --samples-topic", names)
    command = [sys.executable, "-m", "kshunt", *words, "--once", "--memory", "1g"]
    command += ["--master", "local[2]"]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "JDK_JAVA_OPTIONS": QUICK_JAVA},
    )


def read_all(servers: str, topic: str, results: Path) -> str:
    """Let a job read what there is; what it said."""
    with run(servers, topic, results) as job:
        out, error = job.communicate(timeout=DEADLINE_S)
    assert job.returncode == 0, out + error
    return out + error


def quality_of(results: Path) -> dict[str, tuple[int, int]]:
    """Of each expectation how many rows broke it, and of how many."""
    found = rows_in(results, "quality")
    return {row["expectation"]: (row["violations"], row["rows"]) for row in found}


def take_away(servers: str, topic: str) -> None:
    """What retention does: all records of a topic go, and their offsets stay."""
    admin = AdminClient({"bootstrap.servers": servers})
    places = [Place(f"{topic}-replicas", number, OFFSET_END) for number in range(PARTITIONS)]
    for future in admin.delete_records(places).values():
        future.result(DEADLINE_S)


@pytest.mark.kafka
@pytest.mark.spark
def test_a_topic_makes_the_rates_of_its_samples(kafka: RealKafka, tmp_path: Path) -> None:
    require(missing_java())
    require(missing_connector())
    servers, topic = kafka.bootstrap_servers, "streamed"
    rows = sorted(simulated(seed=31, replicas=6, seconds=400), key=lambda row: row["at"])
    half = len(rows) // 2
    sent(servers, topic, rows[:half])
    said = read_all(servers, topic, tmp_path)
    assert quality_of(tmp_path)["there"] == (0, half), said
    assert "deleted from the topic" not in said

    # What is gone before it was read is counted, and hides nothing of what came after it.
    sent(servers, topic, rows[-7:])
    take_away(servers, topic)
    sent(servers, topic, rows[half:])
    # The same records once more: they are late, or doubled, and count once.
    sent(servers, topic, rows[-5:])
    said = read_all(servers, topic, tmp_path)
    assert "7 samples were deleted from the topic before they were read" in said
    found = quality_of(tmp_path)
    assert found["there"] == (7, len(rows) + 5), said
    assert found["unique"][0] + found["in_time"][0] == 5
    expected = sorted(reference_rates(rows), key=lambda r: (str(r["rid"]), str(r["tick"])))
    expected = [{name: row[name] for name in RATES.names} for row in expected]
    same(rows_in(tmp_path, "rates"), expected)


def test_jars_are_those_of_a_folder_or_are_fetched(tmp_path: Path) -> None:
    fetched = connector_settings(None, "4.2.1")
    assert fetched["spark.jars.packages"].endswith("spark-sql-kafka-0-10_2.13:4.2.1")
    with pytest.raises(ConfigError, match="no spark-sql-kafka"):
        connector_settings(tmp_path, "4.2.1")
    jar = tmp_path / "spark-sql-kafka-0-10_2.13-4.2.0.jar"
    jar.touch()
    with pytest.raises(ConfigError, match="does not have the expected digest"):
        connector_settings(tmp_path, "4.2.1")


def test_settings_of_a_client_are_taken_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("# ours\nsecurity.protocol=SSL\nssl.key.password : a=b\\\nc\n\nodd\n")
    assert client_settings(path) == {"security.protocol": "SSL", "ssl.key.password": "a=bc"}
    with pytest.raises(ConfigError, match="cannot be read"):
        client_settings(tmp_path / "none")
