"""Spark's Kafka connector: where its jars come from, and the settings of its client.

PySpark does not bring the connector. A folder of jars that is named is taken; else Spark fetches
them from Maven's repository when it starts, which needs the network once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kshunt.backend.errors import ConfigError
from kshunt.backend.pipeline.spark.jars import check_jars
from kshunt.backend.secret_files import refuse_writable

ENVIRONMENT_JARS: Final = "KSHUNT_KAFKA_JARS"
_CONNECTOR: Final = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_PRESENT: Final = (
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.lz4:lz4-java",
    "org.xerial.snappy:snappy-java",
    "org.slf4j:slf4j-api",
    "com.google.code.findbugs:jsr305",
    "org.scala-lang.modules:scala-parallel-collections_2.13",
)
"""What the connector asks for and PySpark has: 55 MB that need not be fetched."""
_LINE: Final = re.compile(r"\s*([^#!\s=:][^\s=:]*)\s*[=:\s]\s*(.*?)\s*")


def chosen_connector(named: Path | None) -> dict[str, str]:
    """Settings of a session that reads topics, with the jars that a flag or the environment names.

    Raises:
        ConfigError: the folder has no connector.
    """
    import pyspark

    jars = named or os.environ.get(ENVIRONMENT_JARS)
    return connector_settings(Path(jars) if jars else None, pyspark.__version__)


def connector_settings(jars: Path | None, spark_version: str) -> dict[str, str]:
    """Settings of a session that reads topics.

    Raises:
        ConfigError: the folder has no connector, or a jar that is not what it has to be.
    """
    if jars is None:
        return {
            "spark.jars.packages": f"{_CONNECTOR}:{spark_version}",
            "spark.jars.excludes": ",".join(_PRESENT),
        }
    found = sorted(str(path) for path in jars.glob("*.jar"))
    if not any("spark-sql-kafka" in Path(path).name for path in found):
        raise ConfigError(
            f"There is no spark-sql-kafka-0-10 among the jars in {jars}.",
            advice="Put it there with kafka-clients, commons-pool2 and spark-token-provider-kafka.",
        )
    check_jars(jars)
    return {"spark.jars": ",".join(found)}


def client_settings(path: Path | None) -> Mapping[str, str]:
    """The settings of a Java client's properties file, which Spark's connector takes as they are.

    Raises:
        ConfigError: it cannot be read, or others can write it.
    """
    if path is None:
        return {}
    refuse_writable(path, "The file")
    try:
        text = path.read_text()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from None
    lines = text.replace("\\\n", "").splitlines()
    return {m[1]: m[2] for line in lines if (m := _LINE.fullmatch(line)) is not None}
