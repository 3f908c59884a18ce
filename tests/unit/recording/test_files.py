"""Recordings as files: what is written, what is refused, and what goes wrong on a disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kshunt.backend.domain.pipeline.sample_columns import (
    CLUSTER_KEY,
    HOUR_MS,
    REPLICA_SAMPLES,
    SAMPLES_VERSION,
    VERSION_KEY,
)
from kshunt.backend.domain.replicas.snapshot import UNKNOWN
from kshunt.backend.errors import Conflict, WrongCluster
from kshunt.backend.telemetry.recording import layout
from kshunt.backend.telemetry.recording.folder_sink import FolderSink
from kshunt.backend.telemetry.recording.gaps import (
    GAPS,
    STATE,
    Gap,
    GapLog,
    GapReason,
    RecordingState,
    read_state,
    write_state,
)
from kshunt.backend.telemetry.recording.kafka_sink import KEYS
from kshunt.backend.telemetry.recording.layout import (
    CLUSTER,
    SampleTable,
    counted,
    file_name,
    written,
)
from kshunt.backend.telemetry.recording.sample_rows import broker_rows, forecast_rows
from kshunt.backend.telemetry.recording.schema import (
    SCHEMAS,
    TABLE_KEY,
    UnreadableSamples,
    conform,
    read,
    read_file,
    read_recording,
)
from kshunt.backend.telemetry.recording.write_buffer import WriteBuffer
from tests.support.forecast.kept import kept_forecast
from tests.support.recording.files import older, one_file, opened
from tests.support.recording.gaps import read_gaps
from tests.support.recording.samples import START_MS, keys_in, later, many, queried, table_of


def test_a_file_is_one_row_group_below_its_hour_and_says_what_it_is(tmp_path: Path) -> None:
    path = one_file(tmp_path)
    expected = "replicas/date=2026-11-22/hour=05/20261122T052320000Z-0000000001.parquet"
    assert str(path.relative_to(tmp_path)) == expected
    with pq.ParquetFile(path) as file:
        assert file.metadata.num_row_groups == 1
        assert file.metadata.row_group(0).column(0).compression == "ZSTD"
        about = file.metadata.metadata
        assert about[VERSION_KEY.encode()] == b"%d" % SAMPLES_VERSION
        assert about[CLUSTER_KEY.encode()] == b"cluster"
        lag = file.schema_arrow.field("lag_bytes").metadata
    assert lag[b"unit"] == b"B"
    assert read_file(path, SampleTable.REPLICAS).equals(table_of(many(3)))


def test_pyarrow_and_duckdb_read_the_same(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    for seconds in range(4):
        one = later(many(40), seconds)
        sink.write(SampleTable.REPLICAS, table_of(one))
        sink.write(SampleTable.BROKERS, broker_rows(one))
        ended = {f"op{seconds}": (kept_forecast(actual_s=850.0),)}
        sink.write(SampleTable.FORECASTS, forecast_rows(ended, one.taken_ms))
    sink.close()
    for table in SampleTable:
        ours = read_recording(tmp_path, table)
        names = ", ".join(f'"{name}"' for name in ours.column_names)
        theirs = queried(
            f"select {names} from '{tmp_path}/{table}/*/*/*.parquet' order by filename, \"at\", "
            + KEYS[table]
        )
        rows = ours.sort_by([("at", "ascending"), (KEYS[table], "ascending")]).to_pylist()
        assert [tuple(row.values()) for row in rows] == theirs


def test_rows_of_two_hours_become_two_files(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    rows = pa.concat_tables([table_of(later(many(3), s)) for s in (0, 3_600, 1, 7_200)])
    pieces = sink.pieces(SampleTable.REPLICAS, rows)
    assert sorted(len(piece) for piece in pieces) == [6, 6, 12]
    for piece in pieces:
        sink.write(SampleTable.REPLICAS, piece)
    sink.close()
    hours = counted(tmp_path, SampleTable.REPLICAS)
    assert [hour % HOUR_MS for hour in hours] == [0, 0, 0]
    assert len(keys_in(tmp_path)) == 24
    one_hour = read_recording(tmp_path, SampleTable.REPLICAS, START_MS, START_MS + 1)
    assert len(one_hour) == 6


def test_numbers_grow_whatever_the_clock_does(tmp_path: Path) -> None:
    for step in (0, -500, 100):
        sink = opened(tmp_path)
        sink.write(SampleTable.REPLICAS, table_of(later(many(1), step)))
        sink.close()
    parts = written(tmp_path, SampleTable.REPLICAS)
    assert sorted(part.number for part in parts) == [1, 2, 3]
    assert len(keys_in(tmp_path)) == 6


# Versions


def test_a_file_of_an_older_version_has_null_where_it_lacks_a_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = one_file(tmp_path)
    older(path, "cause", SAMPLES_VERSION)
    from_later = tuple(
        replace(column, since=SAMPLES_VERSION + 1) if column.name == "cause" else column
        for column in REPLICA_SAMPLES
    )
    monkeypatch.setattr(
        "kshunt.backend.telemetry.recording.schema.COLUMNS", {SampleTable.REPLICAS: from_later}
    )
    rows = read([path, path], SampleTable.REPLICAS)
    assert rows.schema == SCHEMAS[SampleTable.REPLICAS]
    assert rows["cause"].null_count == len(rows) == 12


def test_strings_as_dictionaries_are_strings(tmp_path: Path) -> None:
    rows = table_of(many(2))
    coded = rows.set_column(2, "topic", rows["topic"].dictionary_encode())
    assert conform(coded, SampleTable.REPLICAS).equals(rows)


# What is no recording


def foreign(path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), path)


def with_metadata(**about: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        keys = {"version": VERSION_KEY, "cluster": CLUSTER_KEY, "table": TABLE_KEY}
        fresh = {keys[name]: value for name, value in about.items()}
        pq.write_table(pq.read_table(path).replace_schema_metadata(fresh), path)

    return write


def of_another_type(path: Path) -> None:
    rows = pq.read_table(path)
    place = rows.schema.get_field_index("lag_bytes")
    words = rows["lag_bytes"].cast(pa.string())
    pq.write_table(rows.set_column(place, "lag_bytes", words), path)


def cut(part: float) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        content = path.read_bytes()
        path.write_bytes(content[: round(len(content) * part)])

    return write


def damaged(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4:600] = bytes(596)
    path.write_bytes(bytes(content))


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda path: path.write_bytes(b""), "cannot be read as Parquet"),
    "one byte": (lambda path: path.write_bytes(b"P"), "cannot be read as Parquet"),
    "text": (lambda path: path.write_text("at,rid\n1,2\n"), "cannot be read as Parquet"),
    "zeros": (lambda path: path.write_bytes(bytes(4_096)), "cannot be read as Parquet"),
    "cut in half": (cut(0.5), "cannot be read as Parquet"),
    "without its last bytes": (cut(0.99), "cannot be read as Parquet"),
    "pages damaged": (damaged, "cannot be read as Parquet"),
    "a folder": (a_folder, "cannot be read as Parquet"),
    "foreign": (foreign, "not a recording of kshunt's samples"),
    "no version": (with_metadata(cluster="c", table="replicas"), "not a recording of kshunt"),
    "version in words": (with_metadata(version="one", table="replicas"), "not a recording of"),
    "version below zero": (with_metadata(version="-1", table="replicas"), "not a recording of"),
    "a newer version": (with_metadata(version="99", table="replicas"), "of version 99; this"),
    "not a table": (with_metadata(version="1"), "holds the table '?'"),
    "another table": (with_metadata(version="1", table="brokers"), "holds the table 'brokers'"),
    "lacks a column": (lambda path: older(path, "rid", 1), "lacks the column rid"),
    "another type": (of_another_type, "has string in the column lag_bytes"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_no_recording_is_refused_by_name(tmp_path: Path, what: str) -> None:
    path = one_file(tmp_path)
    spoil, words = BAD[what]
    spoil(path)
    with pytest.raises(UnreadableSamples) as refused:
        read([path], SampleTable.REPLICAS)
    assert words in refused.value.message
    assert str(path) in refused.value.message
    assert refused.value.advice


def test_a_file_that_is_gone_is_gone(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read([tmp_path / "none.parquet"], SampleTable.REPLICAS)


@pytest.mark.parametrize(
    "name",
    [
        "date=2026-13-45/hour=03", "date=2026-11-22/hour=99", "date=2026-11-22/hour=x",
        "date=now/hour=03", "date=2026-11-22/.gone-hour=03", "_temporary/hour=03",
    ],
)  # fmt: skip
def test_folders_and_names_that_are_not_ours_are_passed_over(tmp_path: Path, name: str) -> None:
    path = one_file(tmp_path)
    folder = tmp_path / "replicas" / name
    folder.mkdir(parents=True)
    (folder / path.name).write_bytes(b"what")
    for other in ("part-0001.parquet", ".x.parquet", f".{path.name}.tmp", "readme", "_SUCCESS"):
        (path.parent / other).write_bytes(b"what")
    (tmp_path / "replicas" / "file=1").write_bytes(b"")
    assert [part.path for part in written(tmp_path, SampleTable.REPLICAS)] == [path]
    assert len(keys_in(tmp_path)) == 6


# Folders that cannot be used


def test_a_second_recorder_is_kept_out_until_the_first_one_ends(tmp_path: Path) -> None:
    first = opened(tmp_path)
    with pytest.raises(Conflict, match="Another backend records"):
        opened(tmp_path)
    first.close()
    opened(tmp_path).close()


def test_a_recording_is_of_one_cluster(tmp_path: Path) -> None:
    opened(tmp_path, "one").close()
    with pytest.raises(WrongCluster, match="is from cluster one, but this is two"):
        opened(tmp_path, "two")
    opened(tmp_path, "one").close()


@pytest.mark.parametrize("content", [b"", b"[]", b'"x"', b"{}", b"\xff"])
def test_a_folder_of_an_unknown_cluster_is_left_alone(tmp_path: Path, content: bytes) -> None:
    (tmp_path / CLUSTER).write_bytes(content)
    with pytest.raises(WrongCluster):
        opened(tmp_path)
    assert (tmp_path / CLUSTER).read_bytes() == content


def test_a_folder_that_is_a_file_or_below_one_is_no_folder(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"")
    for folder in (file, file / "below"):
        with pytest.raises(OSError, match="A file is where"):
            opened(folder)
    assert file.read_bytes() == b""


def test_a_folder_that_nobody_may_write_to_is_refused_by_the_system() -> None:
    with pytest.raises(OSError, match="/proc/self"):
        opened(Path("/proc/self/recording"))


def test_a_folder_that_vanishes_is_noticed_and_can_be_made_anew(tmp_path: Path) -> None:
    folder = tmp_path / "recording"
    sink = opened(folder)
    sink.write(SampleTable.REPLICAS, table_of(many(1)))
    folder.rename(tmp_path / "elsewhere")
    with pytest.raises(FileNotFoundError, match="not exist any more, or was replaced"):
        sink.write(SampleTable.REPLICAS, table_of(later(many(1), 1)))
    assert sink.open("cluster", START_MS) == []
    sink.write(SampleTable.REPLICAS, table_of(later(many(1), 1)))
    sink.close()
    assert [part.number for part in written(folder, SampleTable.REPLICAS)] == [2]


def test_a_full_disk_leaves_no_part_of_a_file(tmp_path: Path) -> None:
    """A process that may write no file over 4 KiB meets what a full disk is to us."""
    code = f"""
import resource, signal, sys
from pathlib import Path
from tests.support.recording.files import opened
from tests.support.recording.samples import many, table_of
from kshunt.backend.telemetry.recording.layout import SampleTable
sink = opened(Path({str(tmp_path)!r}))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
try:
    sink.write(SampleTable.REPLICAS, table_of(many(100)))
except OSError as error:
    sys.exit(error.errno)
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=60)
    assert done.returncode == 27, "EFBIG"
    assert written(tmp_path, SampleTable.REPLICAS) == []
    assert not list(tmp_path.rglob("*.tmp"))


WRITES_ON = """
import sys
from pathlib import Path
from kshunt.backend.telemetry.recording.layout import SampleTable
from tests.support.recording.samples import START_MS, later, many, table_of
from tests.support.recording.files import opened
sink, last = opened(Path(sys.argv[1])), many(500)
while True:
    last = later(last, 1)
    for piece in sink.pieces(SampleTable.REPLICAS, table_of(last)):
        sink.write(SampleTable.REPLICAS, piece)
    sink.note_written([], last.taken_ms)
    print(last.version, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("moments", [1, 4, 9])
def test_killed_in_the_middle_of_a_write_what_was_settled_is_whole(
    tmp_path: Path, moments: int
) -> None:
    command = [sys.executable, "-c", WRITES_ON, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(moments):
            settled = int(process.stdout.readline()) - 1
        process.kill()
    sink = FolderSink(tmp_path)
    (gap,) = sink.open("cluster", START_MS + 3_600_000)
    keys = keys_in(tmp_path)
    times = {at for at, _ in keys}
    assert times >= {START_MS + (second + 1) * 1_000 for second in range(settled)}
    assert len(keys) == len(set(keys)) == 1_000 * len(times), "a moment is there or is not"
    assert gap.from_ms in (START_MS + settled * 1_000, max(times), max(times) - 1_000)
    assert not list(tmp_path.rglob("*.tmp"))
    sink.close()


# Gaps and states


def test_a_run_that_did_not_end_is_found_out_and_one_that_did_is_not(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.note_written([], START_MS + 5_000)
    first.close()
    second = FolderSink(tmp_path)
    (gap,) = second.open("cluster", START_MS + 60_000)
    assert (gap.from_ms, gap.to_ms, gap.why) == (
        START_MS + 5_000,
        START_MS + 60_000,
        GapReason.CRASH,
    )
    assert "2026-11-22 05:23:25 UTC" in gap.text
    assert read_gaps(tmp_path) == (gap,)
    assert second.open("cluster", START_MS + 61_000) == [], "its own state is no crash"
    second.end()
    second.close()
    third = opened(tmp_path)
    assert third.lost() == ()
    assert len(read_gaps(tmp_path)) == 1
    third.close()


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"null", b'{"run": "x"}', b"\xff\xfe"])
def test_a_state_that_cannot_be_read_is_a_crash_of_an_unknown_time(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / STATE).write_bytes(content)
    assert read_state(tmp_path) == RecordingState("", UNKNOWN, UNKNOWN)
    sink = FolderSink(tmp_path)
    (gap,) = sink.open("cluster", START_MS)
    assert gap.from_ms == gap.to_ms == START_MS
    assert "is unknown" in gap.text
    sink.close()


def test_a_clock_that_went_back_makes_no_gap_that_ends_before_it_begins(tmp_path: Path) -> None:
    opened(tmp_path, now_ms=START_MS).close()
    sink = FolderSink(tmp_path)
    (gap,) = sink.open("cluster", START_MS - 9_000)
    assert gap.from_ms == gap.to_ms == START_MS
    sink.close()


def gap_at(at_ms: int) -> Gap:
    return Gap(at_ms, at_ms + 1, GapReason.DROPPED, "rows: 日本", rows=3)


def test_lines_that_were_cut_off_are_passed_over_and_no_other(tmp_path: Path) -> None:
    log = GapLog(tmp_path)
    log.append([gap_at(1), gap_at(2)])
    whole = (tmp_path / GAPS).read_bytes()
    for size in range(len(whole)):
        (tmp_path / GAPS).write_bytes(whole[:size])
        before = read_gaps(tmp_path)
        log.append([gap_at(3)])
        assert read_gaps(tmp_path) == (*before, gap_at(3))
    (tmp_path / GAPS).write_bytes(b'[]\n7\n{"from_ms": "x"}\n{"why": 1}\n\xff\n' + whole)
    assert read_gaps(tmp_path) == (gap_at(1), gap_at(2))


def test_gaps_of_what_is_not_kept_are_forgotten(tmp_path: Path) -> None:
    log = GapLog(tmp_path)
    log.forget(5)
    log.append([gap_at(1), gap_at(8)])
    log.forget(5)
    assert read_gaps(tmp_path) == (gap_at(8),)
    log.append([])
    assert json.loads((tmp_path / GAPS).read_bytes())["from_ms"] == 8


def test_a_state_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    state = RecordingState("run", 1, 2)
    write_state(tmp_path, state)
    (tmp_path / f".{STATE}.tmp").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_state(tmp_path, RecordingState("run", 1, 3))
    assert read_state(tmp_path) == state


# What waits


def test_what_waits_comes_out_in_order_and_the_oldest_is_let_go_of() -> None:
    pending = WriteBuffer(30)
    for second in range(8):
        pending.add(SampleTable.REPLICAS, table_of(later(many(3), second)))
    assert pending.rows == 30
    assert pending.rows_dropped == 18
    dropped = pending.take_dropped()
    assert dropped is not None
    assert (dropped.rows, dropped.from_ms, dropped.to_ms) == (18, START_MS, START_MS + 2_000)
    assert pending.take_dropped() is None
    ((table, rows),) = pending.take()
    times = rows["at"].cast(pa.int64()).to_numpy()
    assert table is SampleTable.REPLICAS
    assert list(np.unique(times)) == [START_MS + second * 1_000 for second in range(3, 8)]
    assert (np.diff(times) >= 0).all()
    assert pending.take() == []


def test_what_is_put_back_comes_before_what_came_since() -> None:
    pending = WriteBuffer(1_000_000)
    first, second = table_of(many(20_000)), table_of(later(many(3), 1))
    pending.add(SampleTable.REPLICAS, first)
    taken = pending.take()
    pending.add(SampleTable.REPLICAS, second)
    pending.put_back(taken)
    assert pending.rows == len(first) + len(second)
    ((_, rows),) = pending.take()
    assert rows.equals(pa.concat_tables([first, second]))


def test_one_table_that_is_too_large_by_itself_waits_all_the_same() -> None:
    pending = WriteBuffer(5)
    pending.add(SampleTable.REPLICAS, table_of(many(3)))
    assert pending.rows == 6
    pending.add(SampleTable.REPLICAS, table_of(many(1)))
    assert (pending.rows, pending.rows_dropped) == (2, 6)
    pending.add(SampleTable.REPLICAS, table_of(many(0)))
    assert pending.rows == 2


def test_names_sort_by_their_time() -> None:
    names = [file_name(START_MS + step, 7) for step in (0, 1, 999, 1_000, HOUR_MS)]
    assert names == sorted(names)
    assert os.path.splitext(names[0])[1] == layout.SUFFIX
