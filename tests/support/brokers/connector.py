"""The jars of Spark's Kafka connector, from Maven once; see `connector-pom.xml`."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from kshunt.backend.pipeline.spark.kafka_connector import ENVIRONMENT_JARS
from tests.support.brokers.java import MAVEN_DEADLINE_S, KafkaLaunchError

HERE = Path(__file__).parent
POM = HERE / "connector-pom.xml"
# Below the brokers' jars, which are no part of the sources either.
JARS = HERE / "libs" / "connector"


def missing_connector() -> str | None:
    """Why there are no such jars here, and cannot be; None where there are, or can be."""
    if os.environ.get(ENVIRONMENT_JARS) or JARS.is_dir() or shutil.which("mvn"):
        return None
    return "Spark's Kafka connector is not here, and there is no `mvn` on PATH"


def connector_jars() -> Path:
    """The folder of jars, with Maven's help where they are absent.

    A repository of its own: Spark's Ivy trips over what Maven leaves in the common one.
    """
    named = os.environ.get(ENVIRONMENT_JARS)
    if named:
        return Path(named)
    if not JARS.is_dir():
        with tempfile.TemporaryDirectory() as folder:
            arriving = Path(folder) / "jars"
            command = ["mvn", "-q", "-B", "-f", str(POM), f"-Dmaven.repo.local={folder}/repo"]
            command += ["dependency:copy-dependencies", f"-DoutputDirectory={arriving}"]
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=MAVEN_DEADLINE_S, check=False
            )
            if done.returncode or not arriving.is_dir():
                raise KafkaLaunchError(f"Maven could not fetch the connector:\n{done.stdout}")
            JARS.parent.mkdir(exist_ok=True)
            shutil.move(arriving, JARS)
    return JARS
