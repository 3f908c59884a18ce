"""`kshunt pipeline repartition`: its command line, what it says, and its end."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kshunt.backend.admin.security.client_properties import load_client_config
from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.commandline.reading import UsageError
from kshunt.backend.errors import BadInput, ConfigError, KshuntError
from kshunt.backend.pipeline.process.ending import (
    end_anyway,
    ended_by_signals,
    ended_with_its_parent,
)
from kshunt.backend.pipeline.spark.kafka_connector import chosen_connector, client_settings
from kshunt.backend.pipeline.spark.session import (
    PipelineSettings,
    kill_java,
    session_until,
    start_session,
)

if TYPE_CHECKING:
    from kshunt.backend.pipeline.kernels.copying import Copying
    from kshunt.backend.pipeline.repartition.copy_batches import CopiedBatch, CopyCuts
    from kshunt.backend.pipeline.repartition.topics_and_positions import Positions, TopicQuestions

_OPERATION: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")


def run(options: Namespace) -> int:
    """Copy, or verify.

    Raises:
        KshuntError: whatever was wrong with the topics, the brokers, Java or Spark.
    """
    say = _OutputLines(as_json=options.json)
    try:
        _check(options)
        clients = {
            **load_client_config(options.command_config).librdkafka,
            "bootstrap.servers": options.bootstrap_server,
        }
        return _verify(options, clients, say) if options.verify else _copy(options, clients, say)
    except KshuntError as error:
        say.failed(error)
        raise


def _check(options: Namespace) -> None:
    if options.source == options.target:
        raise UsageError("A topic cannot be copied into itself.")
    if not _OPERATION.fullmatch(options.operation):
        raise UsageError("--operation may have only letters, digits, dots, dashes and underscores.")
    if options.verify != (options.folder is not None):
        raise UsageError("--verify needs a --folder for the offset map; nothing else uses one.")


def _copy(options: Namespace, clients: Mapping[str, Any], say: _OutputLines) -> int:
    from kshunt.backend.pipeline.repartition.copy_batches import (
        QUICK_JAVA,
        SETTINGS,
        begun,
        copy,
        copy_cuts,
        left_of,
    )
    from kshunt.backend.pipeline.repartition.topics_and_positions import TopicQuestions

    topics = TopicQuestions(clients)
    plan = _plan(options, clients, topics)
    until = {} if options.until is None else read_offsets(options.until)
    way = copy_cuts(
        topics.starts(plan.source), until, topics.ends(plan.source), _cuts(options.cuts)
    )
    positions = begun(topics, plan, way)
    stopping = threading.Event()
    say.started(way, positions, left_of(positions, way))
    left = left_of(positions, way)
    parent = ended_with_its_parent(options.until_end_of_input, partial(_orphaned, stopping))
    with parent, ended_by_signals(partial(_stop, stopping)):
        if left:
            settings = _settings(options, SETTINGS, QUICK_JAVA)
            with session_until(settings, stopping) as session:
                size, seconds = options.batch_records, options.batch_seconds
                for done in copy(session, plan, way, positions, size, stopping, seconds):
                    say.batch(done)
                    positions, left = dict(done.positions), done.left
    say.ended(positions, left)
    return ExitCode.DONE


def _plan(options: Namespace, clients: Mapping[str, Any], topics: TopicQuestions) -> Copying:
    from kshunt.backend.pipeline.kernels.copying import Copying

    partitions, former = topics.partitions(options.target), topics.partitions(options.source)
    if options.strip_header and partitions != former:
        raise BadInput(
            f"To copy back, both topics need the same number of partitions: {options.source} has "
            f"{former}, {options.target} has {partitions}. Nothing was copied."
        )
    return Copying(
        clients=clients,
        source=options.source,
        target=options.target,
        operation=options.operation,
        partitions=partitions,
        limit_bytes=topics.limit_bytes(options.target),
        strip_header=options.strip_header,
        keyless=options.keyless,
        partitioner=options.partitioner,
        compression=options.compression,
    )


def _verify(options: Namespace, clients: Mapping[str, Any], say: _OutputLines) -> int:
    from kshunt.backend.pipeline.repartition.topics_and_positions import TopicQuestions
    from kshunt.backend.pipeline.repartition.verification import Side, verify
    from kshunt.backend.pipeline.spark.job_progress import spark_progress

    topics = TopicQuestions(clients)
    plan = _plan(options, clients, topics)
    start = topics.starts(plan.source)
    copied = topics.committed(plan.group, plan.source, len(start), stable=True)
    if len(copied) < len(start):
        raise BadInput(
            f"Operation {plan.operation} has not copied {plan.source}: the group {plan.group} "
            "has no positions. Nothing was compared."
        )
    source = Side(plan.source, start, copied)
    target = Side(plan.target, topics.starts(plan.target), topics.stable_ends(plan.target))
    connector = chosen_connector(options.kafka_jars)
    began_s = time.monotonic()
    with ended_with_its_parent(options.until_end_of_input, partial(os._exit, 1)):
        session = start_session(_settings(options, connector))
        try:
            security = client_settings(options.command_config)
            # A backend that started this reads standard error for what went wrong.
            with (
                nullcontext()
                if options.until_end_of_input
                else spark_progress(session, f"Comparing {plan.source} with {plan.target}")
            ):
                found = verify(session, plan, security, source, target, options.folder)
        finally:
            session.stop()
    about = {
        "positions": copied,
        "target_ends": dict(target.end),
        "seconds": round(time.monotonic() - began_s, 3),
    }
    say.verified({**found.as_json(), **about})
    return ExitCode.DONE if found.equal else ExitCode.FAILED


def _settings(
    options: Namespace, others: Mapping[str, str], java_options: str = ""
) -> PipelineSettings:
    return PipelineSettings(
        master=options.master or ("" if options.remote else "local[*]"),
        remote=options.remote,
        memory=options.memory,
        java_options=java_options,
        others=others,
    )


def _cuts(path: Path | None) -> Sequence[Positions]:
    if path is None:
        return []
    found = _read(path)
    if not isinstance(found, list):
        raise ConfigError(f"{path} is not a list of offsets by partition.")
    return [_offsets(path, cut) for cut in found]


def read_offsets(path: Path) -> dict[int, int]:
    """The offsets by partition of a file.

    Raises:
        ConfigError: it cannot be read, or has none.
    """
    return _offsets(path, _read(path))


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise ConfigError(f"{path} is not valid JSON: {error}.") from None


def _offsets(path: Path, found: Any) -> dict[int, int]:
    try:
        offsets = {int(partition): int(offset) for partition, offset in found.items()}
    except (AttributeError, TypeError, ValueError):
        raise ConfigError(f'{path} has no offsets by partition, as {{"0": 1042}}.') from None
    if any(offset < 0 for offset in offsets.values()):
        raise ConfigError(f"{path} has an offset below 0.")
    return offsets


class _OutputLines:
    """Lines on standard output."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._began_s = time.monotonic()
        self._records = 0

    def started(self, way: CopyCuts, positions: Positions, left: int) -> None:
        values = {
            "positions": dict(positions),
            "until": dict(way.until),
            "cuts": len(way.cuts),
            "left": left,
        }
        self._say("started", values, f"{left:,} offsets to copy, over {len(way.cuts)} cuts.")

    def batch(self, done: CopiedBatch) -> None:
        values = {
            "batch": done.number,
            "cut": done.cut,
            "positions": dict(done.positions),
            "left": done.left,
            "records": done.records,
            "bytes": done.bytes,
            "seconds": round(done.seconds, 3),
        }
        self._records += done.records
        rate = done.records / max(done.seconds, 0.001)
        self._say("batch", values, f"{done.records:,} records, {rate:,.0f}/s; {done.left:,} left")

    def ended(self, positions: Positions, left: int) -> None:
        values = {
            "complete": left == 0,
            "positions": dict(positions),
            "left": left,
            "records": self._records,
            "seconds": round(time.monotonic() - self._began_s, 3),
        }
        text = "everything is copied" if left == 0 else f"stopped on request; {left:,} offsets left"
        self._say("ended", values, f"{self._records:,} records; {text}.")

    def verified(self, values: Mapping[str, Any]) -> None:
        if values["equal"]:
            text = f"Equal: {values['source_records']:,} records, each once and in order."
        else:
            buckets = ", ".join(str(bucket["bucket"]) for bucket in values["differing"])
            text = (
                f"NOT equal: {values['source_records']:,} records in the source, "
                f"{values['target_records']:,} in the target; buckets {buckets or 'none'}; "
                f"{values['misordered']:,} out of order, {values['foreign']:,} from elsewhere."
            )
        self._say("verified", values, text)

    def failed(self, error: KshuntError) -> None:
        """For a program that reads JSON lines; standard error tells other readers."""
        if self._as_json:
            at = {n: getattr(error, n, None) for n in ("topic", "partition", "offset")}
            about = {
                "kind": type(error).__name__,
                "title": error.title,
                "message": error.message,
                "advice": error.advice,
            }
            self._say("failed", {**about, "retriable": error.retriable, **at}, "")

    def _say(self, event: str, values: Mapping[str, Any], text: str) -> None:
        line = json.dumps({"event": event, **values}) if self._as_json else text
        # The reader may be gone; the batch that the line reports is copied nevertheless.
        with suppress(BrokenPipeError):
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()


def _orphaned(stopping: threading.Event) -> None:
    """Make way for the job of the process that takes over."""
    stopping.set()
    end_anyway(kill_java)


def _stop(stopping: threading.Event) -> None:
    """End after the batch that is under way; immediately if told twice, which loses nothing."""
    if stopping.is_set():
        os._exit(1)
    stopping.set()
