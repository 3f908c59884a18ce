"""A Spark cluster of processes of this machine: a master, and workers of one core each."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pyspark

from kshunt.backend.pipeline.spark.java import find_java
from tests.support.ports import HOST, free_ports
from tests.support.waiting import wait_until

_SPARK: Final = Path(pyspark.__file__).parent
_DEPLOY: Final = "org.apache.spark.deploy"
_READY_S: Final = 60.0
_END_S: Final = 30.0


@contextmanager
def standalone_cluster(
    workers: int,
    folder: Path,
    *,
    memory: str = "1g",
    java_options: str = "",
    pinned: bool = False,
) -> Iterator[str]:
    """The URL of its master, once all workers are there. The folder keeps what they log.

    `pinned`: the processes of a worker have one processor, and each worker has another one.
    """
    (port,) = free_ports(1)
    url = f"spark://{HOST}:{port}"
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java(os.environ, folder).home),
        "JDK_JAVA_OPTIONS": java_options,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_HOME": str(_SPARK),
    }
    with ExitStack() as stack:
        log = folder / "master.log"
        master = ("master.Master", "--host", HOST, "--port", str(port), "--webui-port", "0")
        stack.enter_context(_process(environment, log, *master))
        wait_until(lambda: "I have been elected leader" in log.read_text(), _READY_S, "a master")
        for number in range(workers):
            options = ("--host", HOST, "--webui-port", "0", "--cores", "1", "--memory", memory)
            place = ("--work-dir", str(folder / f"work-{number}"))
            worker = ("worker.Worker", *options, *place, url)
            place_of = ("taskset", "--cpu-list", str(number)) if pinned else ()
            log_of = folder / f"worker-{number}.log"
            stack.enter_context(_process(environment, log_of, *worker, before=place_of))
        registered = re.compile("Registering worker")
        wait_until(
            lambda: len(registered.findall(log.read_text())) == workers, _READY_S, "the workers"
        )
        yield url


@contextmanager
def _process(
    environment: Mapping[str, str],
    log: Path,
    role: str,
    *options: str,
    before: tuple[str, ...] = (),
) -> Iterator[None]:
    """One of its processes, and what it has started, until they are not needed."""
    command = [*before, str(_SPARK / "bin" / "spark-class"), f"{_DEPLOY}.{role}", *options]
    with (
        log.open("wb") as file,
        subprocess.Popen(
            command, stdout=file, stderr=file, env=environment, start_new_session=True
        ) as process,
    ):
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
