"""Who writes batches to a folder of results, where it begins, and what it says of each.

One job at a time writes there: `kshunt pipeline run`, or the thread of `kshunt serve`. Either
continues from the state that the other has left.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kshunt.backend.errors import KshuntError
from kshunt.backend.files import locked, make_folder
from kshunt.backend.pipeline.results.result_runs import ResultsBusy
from kshunt.backend.pipeline.results.stream_state import (
    LOCK,
    VERSIONS_READ,
    Meta,
    StreamState,
    begin,
    checkpoint,
    newest,
    sweep,
)
from kshunt.backend.pipeline.samples.file_sieve import FileAside

CHECKPOINT_BYTES: Final = 32 * 1024 * 1024
"""Spark notes every file that it ever saw, and reads all of it each hundredth batch. What was
seen of a recording is in the state: a larger checkpoint is begun anew."""


@dataclass(frozen=True, slots=True)
class CountedBatch:
    """A batch that counts."""

    number: int
    newest_ms: int | None
    """Newest sample that was seen so far."""
    seconds: float
    rows: Mapping[str, int]
    """That were written of each table, but for what is open."""
    late: int
    """Samples of it that came too late."""
    lacking: int
    """Samples that its topic had no more when they were read."""
    aside: tuple[FileAside, ...] = ()
    """Files of samples that were set aside."""


@contextmanager
def held(results: Path) -> Iterator[None]:
    """The folder of results, for one stream alone.

    Raises:
        ResultsBusy: another stream runs there.
        KshuntError: it cannot be written.
    """
    try:
        make_folder(results)
        lock = locked(results / LOCK)
    except OSError as error:
        raise KshuntError(
            f"Results cannot be written to {results}: {error.strerror}. Nothing was changed.",
            advice="Name another folder by --results.",
        ) from None
    if lock is None:
        raise ResultsBusy(
            f"Another stream makes results in {results}. Nothing was changed.",
            advice="Stop it first, or name another folder by --results. If it is kshunt serve, "
            "start that with --pipeline or with --record-only.",
        )
    with lock:
        yield


def begun(results: Path) -> Meta:
    """What the last stream left, once what it left half done is removed.

    Raises:
        StreamState: it cannot be understood.
    """
    meta = newest(results)
    if meta is None:
        # A checkpoint without a state is of a stream that was forgotten.
        shutil.rmtree(checkpoint(results), ignore_errors=True)
        meta = begin(results)
    if meta.version not in VERSIONS_READ:
        raise StreamState(
            f"The state of the stream in {results} has version {meta.version}, and this kshunt "
            f"reads {VERSIONS_READ[-1]}.",
            advice="Remove its folder .stream: results stay, and rates begin again.",
        )
    sweep(results, meta)
    if _bytes(checkpoint(results) / "sources") > CHECKPOINT_BYTES:
        shutil.rmtree(checkpoint(results))
    return meta


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
