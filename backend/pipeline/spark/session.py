"""The Spark session of a run: in this process, on a cluster, or on a Spark Connect server."""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from kshunt.backend.addresses import without_secrets
from kshunt.backend.child_processes import environment
from kshunt.backend.errors import ConfigError, KshuntError, NotSupported
from kshunt.backend.pipeline.spark.java import find_java
from kshunt.backend.pipeline.spark.kernel_archive import ship_kernels

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECT_PORT: Final = 15002
"""Where a Spark Connect server listens unless it is told otherwise."""
ANSWER_S: Final = 10.0
"""How long it may take to answer."""
ENVIRONMENT_REMOTE: Final = "SPARK_REMOTE"
STOP_S: Final = 1.0
"""How long this process waits for its own signal after Spark is gone.

A signal to all processes may end Spark before it comes here."""
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""Set where spark-submit has started this process, and its Java with it."""
_LOG_SETTINGS: Final = Path(__file__).with_name("log4j2.properties")


class SparkMissing(NotSupported):
    """PySpark is not installed."""

    title = "No Spark"


class SparkFailed(KshuntError):
    """Spark did not start, or ended before its work was done."""

    title = "Spark failed"


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """Where Spark runs and what it may take."""

    master: str = ""
    """`local[*]`, `spark://host:7077`, `yarn`, `k8s://…`; empty: as spark-submit says, else
    `local[*]`."""
    remote: str = ""
    """Address of a Spark Connect server, `sc://host:15002`; empty: `SPARK_REMOTE`, if it is set."""
    memory: str = "2g"
    """Heap of the Java that is started here."""
    shuffle_partitions: int | None = None
    """Into how many parts rows are grouped; None: 8 where Spark runs here, else Spark's own."""
    java_options: str = ""
    """More options of the Java that is started here."""
    others: Mapping[str, str] = field(default_factory=dict)
    """More of Spark's own settings."""


def start_session(settings: PipelineSettings) -> SparkSession:
    """The session; a former one of this process must be stopped.

    Raises:
        SparkMissing: PySpark is not installed.
        JavaMissing: a Java is needed here, and there is none.
        ConfigError: settings that contradict each other.
        SparkFailed: it does not start, or the server does not answer.
    """
    require_spark()
    remote = settings.remote or ("" if settings.master else os.environ.get(ENVIRONMENT_REMOTE, ""))
    if settings.master and settings.remote:
        raise ConfigError("A master and a Spark Connect server cannot both be used.")
    # Workers take this Python, not whichever comes first on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # They look for modules where this process has found its own, and not in a working directory.
    os.environ.update(environment())
    if remote and not remote.startswith("local"):
        _check_server(remote)
    elif _SUBMITTED not in os.environ:
        java = find_java(os.environ, _cache())
        os.environ["JAVA_HOME"] = str(java.home)
    try:
        return _started(settings, remote)
    except KshuntError:
        raise
    except Exception as error:
        # Those of its gateway and of gRPC have no base in common.
        raise SparkFailed(
            f"Spark did not start: {first_line(error)}. Nothing was read or written.",
            advice="See the lines above, and check --master or --remote.",
        ) from error


@contextmanager
def session_until(settings: PipelineSettings, stopping: threading.Event) -> Iterator[SparkSession]:
    """A session for as long as this process is not told to end; it is ended with what it started.

    A signal to the process group comes to its Java as well, and a service manager sends one to
    every process. Java ignores it: this process ends it. If Java ends all the same, that is no
    error of a process that has to end.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    gone = (SparkFailed, PySparkException, Py4JError, OSError)
    _SIGNALS.java_ignores = True
    try:
        session = start_session(settings)
    finally:
        _SIGNALS.java_ignores = False
    try:
        try:
            yield session
        finally:
            if stopping.is_set():
                # The gateway logs each call that gets no answer.
                logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
            session.stop()
    except gone:
        if not stopping.wait(STOP_S):
            raise


def kill_java() -> None:
    """Kill the Java that was started here: it would complain of a process that is gone."""
    from pyspark import SparkContext

    started = getattr(SparkContext._gateway, "proc", None)
    if started is not None:
        started.kill()


@dataclass(slots=True)
class _Signals:
    """What is done about signals in a process that is forked."""

    java_ignores: bool = False
    """Java is started, and is not to end by a signal to the process group."""

    def after_fork(self) -> None:
        """In the new process: a signal that is ignored stays so in the program that it becomes."""
        if self.java_ignores:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)


_SIGNALS: Final = _Signals()
# PySpark lets nobody have a say in how it starts Java, but for what a fork always does.
os.register_at_fork(after_in_child=_SIGNALS.after_fork)


def require_spark() -> None:
    """See that PySpark can be loaded.

    Raises:
        SparkMissing: it is not installed.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise SparkMissing(
            "kshunt pipeline needs PySpark, which is not installed.",
            advice="Install it: pip install 'kshunt[pipeline]'.",
        )


def first_line(error: Exception) -> str:
    """What an error of Spark's says, without the stack trace of its Java."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    # The gateway's first line names its own call, and the next the exception of Java.
    java = next((line[2:] for line in lines[1:2] if line.startswith(": ")), lines[0])
    return java.rstrip(" .")[:300]


def _check_server(remote: str) -> None:
    """See that somebody listens there: Spark's own client tries for ten minutes.

    Raises:
        SparkFailed: nobody does.
    """
    at = urlsplit(remote)
    try:
        socket.create_connection((at.hostname or "", at.port or CONNECT_PORT), ANSWER_S).close()
    except (OSError, ValueError) as error:
        raise SparkFailed(
            f"No Spark Connect server answers at {without_secrets(remote)}: {error}. "
            "Nothing was read or written.",
            advice="Start one (start-connect-server.sh comes with Spark), or check --remote.",
        ) from None


def _started(settings: PipelineSettings, remote: str) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("kshunt pipeline")
    here = remote.startswith("local") or not remote
    own = _own(settings) if here else {}
    for name, value in {**_sql(settings, here=here), **own, **settings.others}.items():
        builder = builder.config(name, value)
    if remote:
        builder = builder.remote(remote)
    elif _SUBMITTED not in os.environ:
        builder = builder.master(settings.master or "local[*]")
    with warnings.catch_warnings():
        # A local Connect server takes the settings of its Java, then is asked to change them too.
        warnings.filterwarnings("ignore", message="Failed to set spark", category=UserWarning)
        session = builder.getOrCreate()
    # Workers in this machine's own Spark find kshunt where this process has found it.
    if remote or not str(session.conf.get("spark.master")).startswith("local"):
        ship_kernels(session, _cache())
    return session


def _sql(settings: PipelineSettings, *, here: bool) -> dict[str, str]:
    """What every session can set."""
    partitions = settings.shuffle_partitions or (8 if here else None)
    values = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Spark's default is a type that Parquet has given up, without statistics.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.parquet.compression.codec": "zstd",
        # Java never compiles a method of more bytes: Spark is to part such a step instead of
        # putting it into one.
        "spark.sql.codegen.hugeMethodLimit": "8000",
        # A replica's day is one group of a window; Spark writes groups above 4,096 rows to disk.
        "spark.sql.windowExec.buffer.in.memory.threshold": "100000",
    }
    if partitions is not None:
        values["spark.sql.shuffle.partitions"] = str(partitions)
    return values


def _own(settings: PipelineSettings) -> dict[str, str]:
    """What only the process that starts the Java can set."""
    logging = f"-Dlog4j2.configurationFile=file:{_LOG_SETTINGS}"
    return {
        "spark.ui.enabled": "false",
        # To note the line of Python behind each column takes as long as all else of a plan.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.executorEnv.PYTHONSAFEPATH": "1",
        "spark.driver.memory": settings.memory,
        "spark.driver.extraJavaOptions": f"{logging} {settings.java_options}".strip(),
        # A Connect server that is started here is for this process; Spark's default is any address.
        "spark.connect.grpc.binding.address": "127.0.0.1",
    }


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "kshunt"
