"""A cluster's data folder: what survives the process.

Goals: after `kill -9` at any moment the cluster comes back with every record, batch, committed
offset and transaction that it has acknowledged to a client. Its moves continue about where they
were.

Constraints: the folder belongs to one process at a time. A scenario's counters are not written one
by one; where they stood is saved every second, so that up to that much of a copy is done again.

Algorithm: `records.log` and `coordinator.log` are logs of commits (`metadata.record_log`). Each
partition that a client wrote to has a file of its batches as they lie in the log; a torn end is
cut, as Kafka's own recovery does. `replicas.npz` holds the columns of replication, written aside
and renamed. `restore` replays the logs, puts the columns in their places by topic id,
partition and broker, and then the batches. Members of an ISR hold what the batches say, since only
those batches can have been acknowledged.
"""

from __future__ import annotations

import io
import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.embedded.core.cluster_core import Core
from kshunt.backend.embedded.data.data_plane import DataPlane, moves_between_dirs
from kshunt.backend.embedded.data.hosted_partition import HostedPartition
from kshunt.backend.embedded.logs import batch as log_batch
from kshunt.backend.embedded.logs.errors import LogError
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.metadata.record_log import RecordLog, RecordLogError
from kshunt.backend.embedded.metadata.records import Record
from kshunt.backend.embedded.metadata.snapshot import image_records
from kshunt.backend.embedded.replication.columns import NOWHERE

FORMAT: Final = 1
CHECKPOINT_S: Final = 1.0
"""How often the columns are saved."""
SHORTEN_BYTES: Final = 4 * 1024 * 1024
"""A log of records that is longer, and has `SHORTEN_COMMITS`, is shortened when it is opened."""
SHORTEN_COMMITS: Final = 100
_CHECKPOINT_SHARE: Final = 20
"""It rests this many times as long as it wrote."""
_BATCH_OVERHEAD: Final = 12
"""A batch's base offset and its length, which the length does not count."""

_log = logging.getLogger(__name__)


class ClusterStore:
    """See the module. It keeps what the core, the data plane and the coordinators hand over."""

    def __init__(self, folder: Path) -> None:
        """Use a folder, and make it if there is none.

        Raises:
            OSError: it cannot be made.
        """
        self.folder = folder
        self._batches = folder / "batches"
        self._batches.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._records: RecordLog | None = None
        self._coordinator: RecordLog | None = None
        self._next_checkpoint_s = 0.0

    # --- writing

    def commit(self, records: Sequence[Record]) -> int:
        """Make the controller's records durable; see `RecordLog.commit`."""
        return _opened(self._records).commit(records)

    def persist(self, records: Sequence[Record]) -> None:
        """Make the coordinators' records durable; see `RecordLog.commit`."""
        if records:
            _opened(self._coordinator).commit(records)

    def appended(self, held: HostedPartition, batch: bytes) -> None:
        """A batch is at its place in the log."""
        with self._file(held).open("ab") as file:
            file.write(batch)

    def shortened(self, held: HostedPartition) -> None:
        """A log was cut back, or lost its front."""
        if held.log is not None:
            _replace(self._file(held), b"".join(held.log.stored_batches()))
        self._next_checkpoint_s = 0.0

    def dropped(self, held: HostedPartition) -> None:
        """A partition is gone."""
        self._file(held).unlink(missing_ok=True)

    def checkpoint(self, core: Core) -> None:
        """Save the columns, if it is time to."""
        now_s = time.monotonic()
        if now_s < self._next_checkpoint_s:
            return
        self.save(core)
        cost_s = time.monotonic() - now_s
        self._next_checkpoint_s = now_s + max(CHECKPOINT_S, _CHECKPOINT_SHARE * cost_s)

    def save(self, core: Core) -> None:
        """Save the columns of replication."""
        out = io.BytesIO()
        np.savez(out, allow_pickle=False, **_columns(core.plane))
        _replace(self.folder / "replicas.npz", out.getvalue())

    def close(self, core: Core) -> None:
        """Save what is to be kept, and let go of the folder."""
        self.save(core)
        self.let_go()

    def let_go(self) -> None:
        """Close the files as they are: another process may use the folder."""
        for log in (self._records, self._coordinator):
            if log is not None:
                log.close()

    def _file(self, held: HostedPartition) -> Path:
        return self._batches / f"{held.topic_id}-{held.number}.log"

    # --- reading

    def restore(self, core: Core, cluster_id: str, coordinators: Callable[[Record], None]) -> str:
        """Bring back what the folder holds; returns the cluster's id, `cluster_id` in a new one.

        Raises:
            Conflict: another process uses the folder.
            RecordLogError: a file is damaged, or of another version.
            RecordError: a record is of a kind that is not known here.
            OSError: a file cannot be read or written.
        """
        with ExitStack() as on_failure:
            on_failure.callback(self.let_go)
            records, coordinator = self.folder / "records.log", self.folder / "coordinator.log"
            self._records = RecordLog(records, core.image.replay)
            self._coordinator = RecordLog(coordinator, coordinators, fsync=False)
            core.plane.rebuild()
            self._restore_columns(core.plane)
            for held in list(core.plane.all_held()):
                path = self._file(held)
                if path.exists():
                    self._restore_batches(core.plane, held, path)
            identity = self._identity(cluster_id)
            self._shorten(core.image)
            on_failure.pop_all()
        return identity

    def _shorten(self, image: ClusterImage) -> None:
        """Begin a long log anew with a snapshot."""
        log = _opened(self._records)
        if log.size_bytes > SHORTEN_BYTES and log.sequence > SHORTEN_COMMITS:
            log.rewrite(image_records(image))

    def _identity(self, cluster_id: str) -> str:
        path = self.folder / "cluster.json"
        if not path.exists():
            _replace(path, json.dumps({"format": FORMAT, "cluster_id": cluster_id}).encode())
            return cluster_id
        try:
            said = json.loads(path.read_bytes())
            known, found = said["format"], str(said["cluster_id"])
        except (ValueError, KeyError, TypeError) as error:
            raise RecordLogError(f"{path} cannot be read: {error}.") from error
        if known != FORMAT:
            raise RecordLogError(f"{path} has format {known}, which is unknown.")
        return found

    def _restore_columns(self, plane: DataPlane) -> None:
        path = self.folder / "replicas.npz"
        if not path.exists():
            return
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as saved:
                _put_columns(plane, {name: saved[name] for name in saved.files})
        except (ValueError, KeyError, OSError) as error:
            raise RecordLogError(
                f"{path} cannot be read: {error}.",
                advice="Without this file the cluster starts, and copies running moves from the "
                "beginning.",
            ) from error

    def _restore_batches(self, plane: DataPlane, held: HostedPartition, path: Path) -> None:
        data = path.read_bytes()
        log = plane.empty_log(held)
        end = 0
        for batch in _whole_batches(data):
            try:
                base = log_batch.check_stored(batch).base_offset
                plane.count_up_to(held, log, base)
                log.append_stored(batch)
            except LogError as error:
                _log.warning("%s: cut at byte %d: %s", path, end, error)
                break
            end += len(batch)
        if end < len(data):
            os.truncate(path, end)
        plane.adopt(held, log)


def _opened(log: RecordLog | None) -> RecordLog:
    if log is None:
        raise RecordLogError("The data folder was not opened.")
    return log


def _replace(path: Path, data: bytes) -> None:
    """Write a file so that there is always either the old one or the new one."""
    aside = path.with_suffix(".new")
    aside.write_bytes(data)
    aside.replace(path)


def _whole_batches(data: bytes) -> Iterator[bytes]:
    at = 0
    while at + _BATCH_OVERHEAD <= len(data):
        size = int.from_bytes(data[at + 8 : at + _BATCH_OVERHEAD], "big", signed=True)
        end = at + _BATCH_OVERHEAD + size
        if size <= 0 or end > len(data):
            return
        yield data[at:end]
        at = end


_PARTITION_COLUMNS: Final = ("start_offset", "start_position")
_REPLICA_COLUMNS: Final = ("leo", "position", "moved")


def _columns(plane: DataPlane) -> dict[str, NDArray[Any]]:
    held = list(plane.all_held())
    table, parts = plane.replication.replicas, plane.replication.partitions
    rows = np.array([one.row for one in held], np.int64)
    replicas = [(at, b, row) for at, one in enumerate(held) for b, row in one.replicas.items()]
    at, brokers, places = np.array(replicas, np.int64).reshape(-1, 3).T
    targets = {
        row: plane.dir_path(int(table.target_dir[row])) for _, row in moves_between_dirs(plane)
    }
    columns: dict[str, NDArray[Any]] = {
        "topic_id": np.array([one.topic_id for one in held], "U32"),
        "number": np.array([one.number for one in held], np.int32),
        "record_bytes": np.array([one.record_bytes for one in held], np.int64),
        "replica_of": at,
        "broker": brokers,
        "target": np.array([targets.get(row, "") for row in places.tolist()], np.str_),
    }
    columns |= {name: getattr(parts, name)[rows] for name in _PARTITION_COLUMNS}
    return columns | {name: getattr(table, name)[places] for name in _REPLICA_COLUMNS}


def _put_columns(plane: DataPlane, saved: dict[str, NDArray[Any]]) -> None:
    """Put saved values in the rows of the partitions and replicas that are still there."""
    keys = zip(saved["topic_id"].tolist(), saved["number"].tolist(), strict=True)
    held = [plane.held(key) for key in keys]
    parts, table = plane.replication.partitions, plane.replication.replicas
    there = [at for at, one in enumerate(held) if one is not None]
    rows = [one.row for one in held if one is not None]
    for name in _PARTITION_COLUMNS:
        getattr(parts, name)[rows] = saved[name][there]
    for one, size in zip(held, saved["record_bytes"].tolist(), strict=True):
        if one is not None:
            one.record_bytes = size
    wanted: list[tuple[int, int]] = []
    for place, (of, broker) in enumerate(
        zip(saved["replica_of"].tolist(), saved["broker"].tolist(), strict=True)
    ):
        one = held[of]
        row = one.replicas.get(broker, NOWHERE) if one is not None else NOWHERE
        if row != NOWHERE:
            wanted.append((place, row))
            _put_target(plane, broker, row, str(saved["target"][place]))
    places = [place for place, _ in wanted]
    for name in _REPLICA_COLUMNS:
        getattr(table, name)[[row for _, row in wanted]] = saved[name][places]
    plane.replication.invalidate()


def _put_target(plane: DataPlane, broker: int, row: int, path: str) -> None:
    number = plane.dir_number(broker, path) if path else NOWHERE
    if number != NOWHERE:
        plane.replication.replicas.target_dir[row] = number
