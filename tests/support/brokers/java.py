"""Apache Kafka's jars and the commands that run them.

The jars come from Maven once and stay in `libs` next to this file. Maven copies them into a folder
next to `libs`, and this module renames it. So a `libs` that exists is complete, even if Maven was
stopped.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

HERE = Path(__file__).parent
POM = HERE / "pom.xml"
LIBS = HERE / "libs"
CLASSES = LIBS / "classes.jsa"
"""See `tests.support.brokers.class_archive`; it goes when the jars change."""
MAVEN_DEADLINE_S = 600.0

LogLevel = Literal["error", "warn", "info", "debug"]


class KafkaLaunchError(RuntimeError):
    """Real brokers could not be had; the message says why and shows the logs there are."""


def jars_present() -> bool:
    """Whether `libs` holds every jar that the pom names itself."""
    return all((LIBS / name).is_file() for name in _named_jars(POM.read_text()))


def _named_jars(pom: str) -> list[str]:
    properties = dict(re.findall(r"<([\w.]+\.version)>([^<$]+)</", pom))
    named = re.findall(r"<artifactId>([^<]+)</artifactId>\s*<version>([^<]+)</version>", pom)
    jars = []
    for artifact, version in named[1:]:  # the first pair is the pom's own
        jars.append(f"{artifact}-{properties.get(version.strip('${}'), version)}.jar")
    return jars


def missing_reason(*, ssl: bool = False) -> str | None:
    """Why no cluster can be started here, or None where one can."""
    if shutil.which("java") is None:
        return "real Kafka needs Java 17 or later: no `java` on PATH"
    if not jars_present() and shutil.which("mvn") is None:
        return f"real Kafka needs its jars: {LIBS} is empty and there is no `mvn` on PATH"
    if ssl and shutil.which("openssl") is None:
        return "TLS listeners need certificates: no `openssl` on PATH"
    return None


def ensure_jars() -> Path:
    """Give the folder of jars, with Maven's help where they are absent."""
    if jars_present():
        return LIBS
    reason = missing_reason()
    if reason is not None:
        raise KafkaLaunchError(reason)
    with tempfile.TemporaryDirectory(prefix=".libs-", dir=HERE) as folder:
        arriving = Path(folder) / "libs"
        copy_dependencies(POM, arriving)
        shutil.rmtree(LIBS, ignore_errors=True)
        arriving.rename(LIBS)
    return LIBS


def copy_dependencies(pom: Path, target: Path) -> None:
    """Have Maven put the jars that a pom names into a new folder.

    Raises:
        KafkaLaunchError: it could not.
    """
    command = ["mvn", "-q", "-B", "-f", str(pom)]
    command += ["dependency:copy-dependencies", f"-DoutputDirectory={target}"]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=MAVEN_DEADLINE_S
    )
    if done.returncode != 0 or not target.is_dir():
        raise KafkaLaunchError(f"Maven could not fetch Kafka's jars:\n{done.stdout}{done.stderr}")


def java_command(
    main_class: str,
    args: Sequence[str],
    *,
    heap_mb: int,
    log_level: LogLevel,
    libs: Path = LIBS,
) -> list[str]:
    """The command line of one of Kafka's Java programs.

    Only the first compiler tier and the serial collector: these processes live for seconds and
    share few cores with others, where a warm JVM never pays back its warming.
    """
    archive = CLASSES if libs == LIBS and CLASSES.is_file() else None
    return [
        "java",
        # An archive of another Java is of no use; its warnings are no news.
        *([f"-XX:SharedArchiveFile={archive}", "-Xlog:disable"] if archive else []),
        f"-Xmx{heap_mb}m",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-Djava.awt.headless=true",
        f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}",
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
        "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
        "-cp",
        f"{libs}/*",
        main_class,
        *args,
    ]


def java_tool_command(main_class: str, args: Sequence[str]) -> list[str]:
    """The command line of a tool that runs to its end and prints its answer."""
    return java_command(main_class, args, heap_mb=256, log_level="error")


def main() -> int:
    """`python -m tests.support.brokers.java`: fetch the jars, or say in one line why not."""
    reason = missing_reason()
    if reason is None and not jars_present():
        print("fetching Kafka's jars with Maven; this happens once", flush=True)
        try:
            ensure_jars()
        except (KafkaLaunchError, OSError, subprocess.TimeoutExpired) as error:
            reason = str(error)
    if reason is not None:
        print(f"going on without Kafka's jars: {reason}", file=sys.stderr)
    return 0 if reason is None else 1


if __name__ == "__main__":
    sys.exit(main())
