"""What a broker's Java has loaded, kept in a file, so that the next one need not load it again.

Java's own class-data sharing: a broker that starts with the archive takes half the processor time
of one without, and tests start hundreds. Java ignores an archive of another Java.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.support.brokers import java
from tests.support.brokers.java import CLASSES
from tests.support.brokers.launcher import KafkaLaunchError, RealKafka
from tests.support.topics import create_topic, produce


def make_archive(target: Path) -> None:
    """Run one broker with a topic, and have it leave its archive when it ends.

    Raises:
        KafkaLaunchError: it does not start, or left none.
    """
    arriving = target.with_suffix(".new")
    # Java's own variable; the tool that formats writes the file first, and the broker over it.
    os.environ["JDK_JAVA_OPTIONS"] = f"-XX:ArchiveClassesAtExit={arriving}"
    try:
        with RealKafka(brokers=1) as cluster:
            create_topic(cluster.bootstrap_servers, "orders", [[1]])
            produce(cluster.bootstrap_servers, "orders", 10, 1_000)
            cluster.stop_broker(1)
    finally:
        del os.environ["JDK_JAVA_OPTIONS"]
    if not arriving.is_file():
        raise KafkaLaunchError("the broker left no archive of its classes")
    arriving.rename(target)


def main() -> int:
    """`python -m tests.support.brokers.class_archive`: the jars, then the archive where absent."""
    failed = java.main()
    if failed or CLASSES.is_file():
        return failed
    try:
        make_archive(CLASSES)
    except (KafkaLaunchError, OSError) as error:
        print(f"going on without an archive of Kafka's classes: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
