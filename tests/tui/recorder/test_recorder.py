"""The recording: exact, append-only, bounded, and readable as far as it is sound."""

import errno
import json
import os
import re
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from textual.message import Message

from kshunt.backend.domain.audit.shown_line import AuditLine
from kshunt.backend.domain.backend.backend_status import BackendStatus
from kshunt.backend.domain.operations.approval import Person, ProposalState, ShownProposal
from kshunt.backend.domain.operations.operation import OperationState
from kshunt.backend.domain.operations.team import Note
from kshunt.backend.domain.planning.proposal import PlanNote
from kshunt.backend.domain.replicas.snapshot import (
    COLUMNS,
    DTYPES,
    HistoryPoint,
    Replicas,
    Snapshot,
)
from kshunt.backend.domain.throttles.configs import ThrottledRate
from kshunt.backend.domain.throttles.owners import DriftKind, SettingValue, ShownDrift
from kshunt.backend.domain.untrusted.json_codec import to_document
from kshunt.tui.feed.messages import (
    ActionTaken,
    AlertArrived,
    AnswerArrived,
    AnswerFailed,
    AuditArrived,
    Disconnected,
    OperationsArrived,
    SnapshotArrived,
)
from kshunt.tui.feed.scene import Scene
from kshunt.tui.recorder import recorder as recorder_module
from kshunt.tui.recorder import recording_file
from kshunt.tui.recorder.json_values import (
    EARLIER_NAMES,
    UnreadableRecordedValue,
    decode,
    encode,
    values_by_name,
)
from kshunt.tui.recorder.reader import RecordingReader
from kshunt.tui.recorder.recorder import Recorder
from kshunt.tui.recorder.recording_file import RecordingError
from kshunt.tui.recorder.retention import (
    RetentionBounds,
    clean,
    create,
    recording_name,
    recordings_folder,
    surplus,
)
from kshunt.tui.recorder.snapshot_columns import Canvas, encode_change, encode_whole
from tests.support.operations.written_bodies import RATES, WAITING
from tests.support.runs.examples import many
from tests.support.tui.cluster import ScriptedCluster, incident, running_move
from tests.support.tui.replay import record
from tests.support.tui.shrinks import waiting
from tests.support.waiting import wait_until

DRIFT = ShownDrift(
    *("d-1", "follower.replication.throttled.rate", 3, None, DriftKind.CHANGED),
    SettingValue(1),
    SettingValue(2),
)


def same(found: Snapshot | None, wanted: Snapshot | None) -> bool:
    """Whether two snapshots are equal, bit by bit."""
    if found is None or wanted is None:
        return found is wanted
    columns = ((getattr(found.replicas, n), getattr(wanted.replicas, n)) for n in COLUMNS)
    facts = (f.name for f in fields(Snapshot) if f.name not in ("replicas", "history"))
    return (
        all(getattr(found, name) == getattr(wanted, name) for name in facts)
        # NaN is not equal to itself, but is written alike.
        and repr(found.history) == repr(wanted.history)
        and all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in columns)
    )


def same_scene(found: Scene, wanted: Scene) -> bool:
    """Whether two scenes are equal, as far as clocks agree."""
    blank = {"snapshot": None, "received_s": 0.0}
    return same(found.snapshot, wanted.snapshot) and replace(found, **blank) == replace(  # type: ignore[arg-type]
        wanted,
        **blank,  # type: ignore[arg-type]
    )


def incident_messages(cluster: ScriptedCluster, steps: int) -> list[Message]:
    """An incident, told step by step."""
    messages: list[Message] = []
    for step in range(steps):
        cluster.down = {3: "refused"} if step % 5 == 3 else {}
        messages.append(SnapshotArrived(cluster.step(5.0)))
        messages.append(OperationsArrived(tuple(cluster.operations.values())))
    return messages


# Exact


@st.composite
def snapshots(draw: st.DrawFn) -> list[Snapshot]:
    """Snapshots that follow each other: rows change, come and go, topics too."""
    seed = draw(st.integers(0, 2**32 - 1))
    random = np.random.default_rng(seed)
    found = []
    topics: tuple[str, ...] = ("a", "b")
    every = [(t, p, q) for t in range(2) for p in range(3) for q in range(2)]
    slots = every
    rows = _rows(random, slots)
    history: tuple[HistoryPoint, ...] = ()
    for version in range(draw(st.integers(1, 6))):
        match draw(st.sampled_from(["same", "cells", "rows", "topics", "empty", "unsorted"])):
            case "cells":
                name = draw(st.sampled_from(COLUMNS[3:]))
                fresh = _rows(random, slots)
                rows = replace(rows, **{name: getattr(fresh, name)})
            case "rows":
                slots = sorted(draw(st.sets(st.sampled_from(every))))
                rows = _rows(random, slots)
            case "topics":
                topics = (*topics, f"more-{version}")
            case "empty":
                rows, slots = _rows(random, []), []
            case "unsorted":
                rows = Replicas(**{name: getattr(rows, name)[::-1].copy() for name in COLUMNS})
            case _:
                pass
        history = (*history, HistoryPoint(version * 10, version, 1))[-draw(st.integers(1, 4)) :]
        base = incident().snapshot()
        found.append(replace(base, topics=topics, replicas=rows, version=version, history=history))
    return found


def _rows(random: np.random.Generator, slots: Sequence[tuple[int, int, int]]) -> Replicas:
    columns = {}
    for name in COLUMNS:
        raw = random.integers(0, 256, len(slots) * DTYPES[name].itemsize, np.uint8)
        columns[name] = raw.view(DTYPES[name]) if DTYPES[name].kind != "b" else raw % 2 == 0
    for place, name in enumerate(("topic_index", "partition", "position")):
        columns[name] = np.array([slot[place] for slot in slots], DTYPES[name])
    return Replicas(**columns)


@given(snapshots())
@settings(max_examples=many(60))
def test_any_course_of_snapshots_is_read_as_it_was_written(found: list[Snapshot]) -> None:
    canvas, before = Canvas(), None
    for snapshot in found:
        payload = encode_change(before, snapshot) if before is not None else None
        canvas.take(payload if payload is not None else b"".join(encode_whole(snapshot)))
        assert same(canvas.snapshot(), snapshot)
        before = snapshot


messages = st.one_of(
    st.builds(Disconnected, st.text(max_size=20)),
    st.builds(AlertArrived, st.text(max_size=20)),
    st.builds(
        AnswerArrived,
        st.just("who acts"),
        st.just(BackendStatus("a", "act", remarks=("x",))),
    ),
    st.builds(AnswerArrived, st.just("drift"), st.sampled_from([(), (DRIFT,)])),
    st.builds(AnswerFailed, st.sampled_from(["drift", "who acts"]), st.text(max_size=9)),
    st.builds(
        AuditArrived,
        st.text(max_size=3),
        st.lists(st.builds(AuditLine, st.none() | st.integers(), st.text()), max_size=2).map(tuple),
    ),
    st.builds(ActionTaken, st.just("sent"), st.text(max_size=9), st.text(max_size=5)),
    st.integers(0, 3),
)


@given(st.lists(messages, max_size=12))
@settings(max_examples=many(30))
def test_any_sequence_of_messages_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[Message | int]
) -> None:
    cluster = incident()
    operation = running_move(cluster)
    told: list[Message] = [SnapshotArrived(cluster.step())]
    for one in drawn:
        if isinstance(one, Message):
            told.append(one)
        elif one == 0:
            told.append(SnapshotArrived(cluster.step()))
        else:
            changed = replace(operation, outcome=f"outcome {one}")
            other = replace(changed, id="op-2")
            told.append(OperationsArrived((changed, other, operation)[one - 1 : one + 1]))
    folder = tmp_path_factory.mktemp("any")
    paths, scenes = record(folder, told)
    with closing(RecordingReader(paths)) as reel:
        for second in reversed(range(len(told))):
            assert same_scene(reel.scene_at(reel.first_ms + second * 1000), scenes[second])
        assert reel.trouble == ()


def test_values_of_every_kind_come_back_equal() -> None:
    snapshot = incident().step()
    for value in (
        snapshot.throttles,
        snapshot.brokers,
        snapshot.log_dirs,
        OperationState.RUNNING,
        {"a": [1, (2, 3.5)], "b": None, "c": float("inf"), (1, 2): frozenset({3})},
    ):
        assert decode(encode(value)) == value


def test_a_recording_of_an_earlier_version_names_modules() -> None:
    rates = {"leader_bytes_per_s": 5, "follower_bytes_per_s": None}
    earlier = {"o": "domain.throttle:ThrottledRate", "v": rates}
    assert decode(earlier) == ThrottledRate(5, None)
    assert set(EARLIER_NAMES.values()) <= values_by_name().keys()
    note = {"who": "ann", "at_ms": 5, "text": "seen"}
    assert decode({"o": "domain.team:Note", "v": note}) == Note("ann", 5, "seen")
    plan_note = {"why": "w", "remedy": "", "partition": None, "broker": 3}
    assert decode({"o": "domain.proposal:Note", "v": plan_note}) == PlanNote("w", "", broker=3)
    about = {"id": "d", "setting": "s", "broker": 1, "topic": None}
    drift = {**about, "kind": "changed", "wanted": "1 B/s", "found": "2 B/s", "text": "t"}
    seen = decode({"o": "domain.throttle_owners:ShownDrift", "v": drift})
    assert seen == ShownDrift("d", "s", 1, None, DriftKind.CHANGED)


def test_a_text_of_an_earlier_version_becomes_the_enumeration() -> None:
    shown = ShownProposal.of(WAITING, Person("bob", "b"), WAITING.proposed_ms)
    earlier = encode(shown)
    earlier["v"]["state"] = "waiting"
    assert decode(earlier) == shown
    assert isinstance(decode(earlier).state, ProposalState)
    earlier["v"]["state"] = "flying"
    with pytest.raises(UnreadableRecordedValue):
        decode(earlier)


def test_details_of_an_earlier_version_were_a_dict() -> None:
    plan = {"version": 1, "partitions": [{"topic": "a", "partition": 0, "replicas": [1]}]}
    earlier = encode(RATES)
    earlier["v"]["details"] = encode(
        {"rollback_plan": plan, "proposal": "pp12", "1": "10 MB/s", "2": "no rate", "more": [1]}
    )
    details = structs.replace(RATES.details, rollback_plan=plan)
    assert decode(earlier) == replace(RATES, details=details)
    running = waiting()
    progress = to_document(running.details.shrink)
    earlier = encode(running)
    earlier["v"]["details"] = encode(json.loads(json.dumps({"shrink": progress})))
    assert decode(earlier) == running
    assert decode(encode(running)) == running


@pytest.mark.parametrize(
    "document",
    [
        {"o": "domain.snapshot:np", "v": {}},
        {"o": "errors:BadInput", "v": {}},
        {"o": "api.client:BackendClient", "v": {"address": "x"}},
        {"e": "domain.lifecycle:OperationState", "v": "flying"},
        {"x": 1},
        {},
    ],
)
def test_a_recording_names_plain_values_only(document: object) -> None:
    with pytest.raises(UnreadableRecordedValue):
        decode(document)


# Damage


@pytest.fixture(scope="module")
def whole_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of a few moments."""
    cluster = incident()
    running_move(cluster)
    (path,), _ = record(tmp_path_factory.mktemp("whole"), incident_messages(cluster, 5))
    return path


def last_entries(path: Path) -> list[recording_file.RecordHead]:
    """The index of a file."""
    found = recording_file.RecordingFile(path)
    found.scan()
    found.close()
    return found.entries


def test_cut_at_every_byte_of_its_last_record_it_loses_that_alone(
    whole_file: Path, tmp_path: Path
) -> None:
    data = whole_file.read_bytes()
    entries = last_entries(whole_file)
    begin = entries[-1].place - recording_file.HEADER_BYTES
    path = tmp_path / "cut.kshunt"
    for end in range(begin, len(data)):
        path.write_bytes(data[:end])
        cut = recording_file.RecordingFile(path)
        assert cut.scan() == len(entries) - 1
        assert cut.cut_bytes == end - begin
        assert bool(cut.trouble()) == (end > begin)
        cut.close()
    path.write_bytes(data[:-1])
    with closing(RecordingReader([path])) as reel:
        assert "record is incomplete; all earlier ones are complete" in reel.trouble[0]
        assert reel.scene_at(reel.last_ms).snapshot is not None


@pytest.mark.parametrize("within", ["header", "payload"])
def test_a_damaged_record_is_named_and_what_is_before_it_still_plays(
    whole_file: Path, tmp_path: Path, within: str
) -> None:
    entries = last_entries(whole_file)
    place = [e for e in entries if e.kind == recording_file.CHANGE][1].place
    data = bytearray(whole_file.read_bytes())
    at = place + 3 if within == "payload" else place - 20
    data[at] ^= 0xFF
    path = tmp_path / "damaged.kshunt"
    path.write_bytes(data)
    with (
        closing(RecordingReader([whole_file])) as sound,
        closing(RecordingReader([path])) as damaged,
    ):
        before = [
            e
            for e in entries
            if e.place < place and e.kind in (recording_file.WHOLE, recording_file.CHANGE)
        ]
        for entry in before:
            found, wanted = damaged.scene_at(entry.time_ms), sound.scene_at(entry.time_ms)
            assert same_scene(found, wanted)
        after = damaged.scene_at(damaged.last_ms).snapshot
        assert after is not None
        said = " ".join(text for text in damaged.trouble if "damaged" in text)
        # The record begins some bytes before its payload.
        named = map(int, re.findall(r"byte (\d+)", said))
        assert any(0 <= place - at < 100 for at in named)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is not a recording of kshunt"),
        (b"PAR1" * 100, "is not a recording of kshunt"),
        (recording_file.MAGIC, "ends in its heading"),
        (
            recording_file.MAGIC + b"\x02\x00" + recording_file.heading({})[14:],
            "was written by a newer kshunt",
        ),
        (recording_file.heading({"a": 1})[:-1] + b"?", "is damaged in its heading, at byte"),
    ],
)
def test_what_is_no_recording_is_said_to_be_none(tmp_path: Path, data: bytes, why: str) -> None:
    path = tmp_path / "x.kshunt"
    path.write_bytes(data)
    with pytest.raises(RecordingError, match=why):
        RecordingReader([path])


def test_a_file_that_is_not_there_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"none\.kshunt: No such file"):
        RecordingReader([tmp_path / "none.kshunt"])


def test_kinds_of_a_later_version_are_passed_over(whole_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "later.kshunt"
    extra = recording_file.record(99, b"?" * 300, time_ms=2 * 10**12, wall_ms=1)
    path.write_bytes(whole_file.read_bytes() + extra)
    with closing(RecordingReader([path])) as reel:
        assert reel.scene_at(reel.last_ms).snapshot is not None
        assert reel.trouble == ()


# Limits


def test_a_recording_goes_on_in_a_following_file(tmp_path: Path) -> None:
    told = incident_messages(incident(), 12)
    paths, scenes = record(tmp_path, told, RetentionBounds(file_bytes=9_000))
    assert len(paths) > 2
    with closing(RecordingReader(paths[::-1])) as reel:
        assert reel.paths == paths, "files are put into the order of time"
        for second in range(len(told)):
            assert same_scene(reel.scene_at(reel.first_ms + second * 1000), scenes[second])
    with closing(RecordingReader(paths[1:2])) as middle:
        assert middle.scene_at(middle.first_ms).snapshot is not None, (
            "each file begins with all of it"
        )
        assert middle.about["follows"] == paths[0].name


def test_old_recordings_go_first_and_those_being_written_stay(tmp_path: Path) -> None:
    now_s, bounds = 2_000_000.0, RetentionBounds(folder_bytes=250, days=14)
    paths = []
    for age_days in range(5):
        path = tmp_path / f"c-{age_days}.kshunt"
        path.write_bytes(b"x" * 100)
        os.utime(path, (now_s - age_days * 86_400, now_s - age_days * 86_400))
        paths.append(path)
    (tmp_path / "notes.txt").write_bytes(b"x" * 1000)
    written = create(tmp_path / "present.kshunt", another=False)[1]
    os.utime(tmp_path / "present.kshunt", (0, 0))
    assert clean(tmp_path, now_s, bounds) == (paths[4], paths[3], paths[2])
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "c-0.kshunt",
        "c-1.kshunt",
        "notes.txt",
        "present.kshunt",
    ]
    os.close(written)
    assert surplus([(now_s - 15 * 86_400, 1, paths[0])], now_s, bounds) == (paths[0],)


def test_a_recording_is_the_operators_alone_and_named_after_its_cluster(tmp_path: Path) -> None:
    cluster = incident()
    cluster.cluster_id = "../évil/x"
    (path,), _ = record(tmp_path / "made", [SnapshotArrived(cluster.step())])
    assert path.name == "____vil_x-20251009T085326Z.kshunt"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert recording_name("", 0.0) == "unknown-19700101T000000Z.kshunt"
    assert recordings_folder({"XDG_STATE_HOME": "/s"}) == Path("/s/kshunt/recordings")
    assert recordings_folder({"XDG_STATE_HOME": "relative"}).is_absolute()


# What cannot be written


def failing(tmp_path: Path, **options: object) -> tuple[Recorder, list[str]]:
    """A recorder, and what it says when it has to stop."""
    said: list[str] = []
    recorder = Recorder(tmp_path / "r", **options)  # type: ignore[arg-type]
    recorder.failed = said.append
    recorder.start()
    return recorder, said


def test_a_full_disk_ends_the_recording_and_keeps_what_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = incident()
    recorder, said = failing(tmp_path)
    recorder.take(SnapshotArrived(cluster.step()))
    assert recorder.flush(10)
    kept = recorder.paths[0].stat().st_size
    monkeypatch.setattr(recorder_module, "_write_all", full_disk(recorder_module._write_all))
    recorder.take(SnapshotArrived(cluster.step()))
    wait_until(lambda: bool(said), 10, "it is said")
    recorder.stop()
    assert said == [
        f"Recording has stopped: No space left on device ({recorder.paths[0]}). The dashboard "
        "continues."
    ]
    assert recorder.paths[0].stat().st_size == kept
    recorder.take(SnapshotArrived(cluster.step()))


def full_disk(write: Callable[[int, bytes], None]) -> Callable[[int, bytes], None]:
    """A disk that takes half a record."""

    def half(descriptor: int, data: bytes) -> None:
        write(descriptor, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return half


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "r").write_text("a file")
    recorder, said = failing(tmp_path)
    recorder.take(SnapshotArrived(incident().step()))
    wait_until(lambda: bool(said), 10, "it is said")
    recorder.stop()
    assert "File exists" in said[0]
    assert recorder.paths == ()


def test_a_named_file_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "mine.kshunt"
    path.write_text("precious")
    recorder, said = failing(tmp_path, path=path)
    recorder.take(SnapshotArrived(incident().step()))
    wait_until(lambda: bool(said), 10, "it is said")
    recorder.stop()
    assert path.read_text() == "precious"


def test_a_slow_disk_leaves_out_snapshots_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released, write = threading.Event(), recorder_module._write_all

    def slow(descriptor: int, data: bytes) -> None:
        assert released.wait(10)
        write(descriptor, data)

    monkeypatch.setattr(recorder_module, "_write_all", slow)
    cluster = incident()
    recorder, said = failing(tmp_path)
    alerts = [AlertArrived(f"alert {number}") for number in range(20)]
    for alert in alerts:
        recorder.take(alert)
        for _ in range(3):
            recorder.take(SnapshotArrived(cluster.step()))
    assert len(recorder._waiting) < 60
    released.set()
    assert recorder.flush(10)
    recorder.stop()
    with closing(RecordingReader(recorder.paths)) as reel:
        assert [stop.mark.text for stop in reel.stops() if "alert" in stop.mark.text] == [
            alert.text for alert in alerts
        ]
        newest = reel.scene_at(reel.last_ms).snapshot
        assert newest is not None
        assert newest.version == cluster.version
        assert said == []


def test_no_thread_stays(tmp_path: Path) -> None:
    recorder, _ = failing(tmp_path)
    recorder.stop()
    assert "kshunt-record" not in {thread.name for thread in threading.enumerate()}
    assert recorder.paths == (), "without a snapshot there is no file"
