"""Recordings and pictures that somebody made to do harm: one clear error, and bounded memory."""

from __future__ import annotations

import gzip
import json
import random
import struct
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kshunt.backend.domain.reassignment.plan import parse_plan
from kshunt.backend.domain.untrusted.strict_json import UnreadableJson, read_json
from kshunt.backend.errors import BadInput, KshuntError, PlanError
from kshunt.backend.rehearsal.picture_files import load_picture, picture_json
from kshunt.tui.feed.messages import AlertArrived, OperationsArrived, SnapshotArrived
from kshunt.tui.recorder import recording_file
from kshunt.tui.recorder.json_values import UnreadableRecordedValue, decode
from kshunt.tui.recorder.reader import RecordingReader
from kshunt.tui.recorder.snapshot_columns import Canvas, encode_whole
from tests.support.rehearsals import picture as example
from tests.support.tui.cluster import incident, running_move
from tests.support.tui.replay import record

SEED = 20
MEMORY_BYTES_MAX = 700 << 20


@contextmanager
def bounded_memory() -> Iterator[None]:
    """What is done here takes no more than `MEMORY_BYTES_MAX` at any moment."""
    tracemalloc.start(1)
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MEMORY_BYTES_MAX
    finally:
        tracemalloc.stop()


def look(path: Path) -> tuple[str, ...]:
    """Read all of a recording as a replay does; what was said of it."""
    try:
        reel = RecordingReader([path])
    except KshuntError as error:
        return (str(error),)
    with closing(reel):
        for time_ms in sorted(set(reel._times))[-5:]:
            reel.scene_at(time_ms)
        reel.stops()
        tuple(reel.actions())
        reel.history()
        return reel.trouble


def recorded(folder: Path) -> bytes:
    """A recording with every kind of record."""
    cluster = incident()
    running_move(cluster)
    told: list[Any] = [
        SnapshotArrived(cluster.step()),
        OperationsArrived(tuple(cluster.operations.values())),
    ]
    told += [SnapshotArrived(cluster.step()), AlertArrived("x"), SnapshotArrived(cluster.step())]
    paths, _ = record(folder, told)
    return paths[0].read_bytes()


def sealed(kind: int, payload: bytes, *, packed: bool = False) -> bytes:
    """A record whose checksums are right, whatever it holds."""
    stored = zlib.compress(payload, 9) if packed else payload
    flags = recording_file.PACKED if packed else 0
    head = recording_file._HEADER.pack(
        recording_file.MARKER, kind, flags, len(stored), 1_000, 1_000, 0, zlib.crc32(stored)
    )
    return head + recording_file._CRC.pack(zlib.crc32(head)) + stored


def headed(header: Any, rest: bytes = b"") -> bytes:
    """A payload of a snapshot."""
    text = json.dumps(header).encode()
    return struct.pack("<I", len(text)) + text + rest


ZEROS = bytes(100 << 20)
ARRAYS = {"rows": 10**12, "topics": [], "facts": {}, "history": [], "arrays": []}
BOMBS: dict[str, Callable[[], bytes]] = {
    "unpacks to a gigabyte": lambda: sealed(recording_file.WHOLE, bytes(1 << 30), packed=True),
    "a million million rows": lambda: sealed(recording_file.WHOLE, headed(ARRAYS)),
    "rows of one narrow column": lambda: sealed(
        recording_file.WHOLE,
        headed({**ARRAYS, "rows": 100 << 20, "arrays": [["broker", "|i1", 100 << 20]]}, ZEROS),
        packed=True,
    ),
    "a JSON of empty lists": lambda: sealed(
        recording_file.FACT, b"[" + b"[]," * (30 << 20) + b"[]]", packed=True
    ),
    "a deep JSON": lambda: sealed(recording_file.SCENE, b"[" * 1_000_000, packed=True),
    "a long number": lambda: sealed(recording_file.FACT, b'{"kind":' + b"9" * 5_000 + b"}"),
    "a header of a list": lambda: sealed(recording_file.WHOLE, headed([])),
    "half a character": lambda: sealed(recording_file.FACT, b'{"kind":"alert","text":"\\ud800"}'),
    "not packed at all": lambda: (
        sealed(recording_file.FACT, b"{}")[:5]
        + bytes([recording_file.PACKED])
        + sealed(recording_file.FACT, b"{}")[6:]
    ),
    "a scene of numbers": lambda: sealed(
        recording_file.SCENE,
        json.dumps(
            {"connection": ["live", 1], "info": 1, "operations": [1], "answers": 1}
            | {"unanswered": [], "audits": []}
        ).encode(),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("bomb", list(BOMBS))
def test_a_recording_that_would_explode_is_told(tmp_path: Path, bomb: str) -> None:
    path = tmp_path / "bomb.kshunt"
    path.write_bytes(
        recording_file.heading({}) + BOMBS[bomb]() + sealed(recording_file.FACT, b"{}")
    )
    assert path.stat().st_size < 3 << 20
    with bounded_memory():
        said = look(path)
    assert said
    assert all(str(path.name) in text for text in said)


@pytest.mark.parametrize(
    "about", [b"[1]", b"{", b"9" * 5_000, b"[" * 100_000, b'"\\ud800"'], ids=range(5)
)
def test_a_heading_that_is_none(tmp_path: Path, about: bytes) -> None:
    path = tmp_path / "bad.kshunt"
    head = recording_file._HEADING.pack(recording_file.FORMAT, len(about), zlib.crc32(about))
    path.write_bytes(recording_file.MAGIC + head + about)
    with pytest.raises(recording_file.RecordingError, match="damaged in its heading"):
        RecordingReader([path])


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Cut, flipped, doubled or overwritten somewhere."""
    changed = bytearray(data)
    match chance.randrange(4):
        case 0:
            del changed[chance.randrange(len(changed)) :]
        case 1:
            for _ in range(chance.randrange(1, 20)):
                changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        case 2:
            at = chance.randrange(len(changed))
            changed[at:at] = changed[at : at + chance.randrange(400)]
        case _:
            at = chance.randrange(len(changed))
            changed[at : at + 8] = chance.choice([b"\xff" * 8, bytes(8), b"\x7f" * 8])
    return bytes(changed)


def resealed(data: bytes, chance: random.Random) -> bytes:
    """Records whose payloads were changed, and whose checksums are right all the same."""
    at = data.index(recording_file.MARKER)
    parts = [data[:at]]
    while at < len(data):
        _, kind, flags, length, *times, _ = recording_file._HEADER.unpack_from(data, at)
        start = at + recording_file.HEADER_BYTES
        payload = data[start : start + length]
        if flags & recording_file.PACKED:
            payload = zlib.decompress(payload)
        if chance.random() < 0.5 and payload:
            payload = mutated(payload, chance)
        parts.append(recording_file.record(kind, payload, time_ms=times[0], wall_ms=times[1]))
        at = start + length
    return b"".join(parts)


@pytest.mark.slow
@pytest.mark.parametrize("change", [mutated, resealed])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_a_recording_that_was_changed_anywhere_ends_in_no_traceback(
    tmp_path: Path, change: Callable[[bytes, random.Random], bytes]
) -> None:
    whole = recorded(tmp_path / "whole")
    path = tmp_path / "changed.kshunt"
    for number in range(300):
        path.write_bytes(change(whole, random.Random(f"{SEED}-{number}")))
        try:
            look(path)
        except Exception as error:
            raise AssertionError(f"seed {SEED}-{number}: {error!r}") from error


def test_values_of_other_types_are_refused() -> None:
    point = {"o": "domain.snapshot:HistoryPoint", "v": {"at_ms": "soon"}}
    with pytest.raises(UnreadableRecordedValue):
        decode(point)
    lists = {"o": "domain.throttle:ThrottledRate", "v": {"leader_bytes_per_s": "all"}}
    with pytest.raises(UnreadableRecordedValue):
        decode(lists)


def test_rows_of_a_topic_that_is_not_there() -> None:
    snapshot = incident().step()
    payload = b"".join(encode_whole(snapshot))
    (length,) = struct.unpack_from("<I", payload)
    header = json.loads(payload[4 : 4 + length])
    canvas = Canvas()
    canvas.take(headed({**header, "topics": header["topics"][:1]}, payload[4 + length :]))
    with pytest.raises(UnreadableRecordedValue, match="without a name"):
        canvas.snapshot()


# Pictures


def saved(path: Path, text: bytes) -> Path:
    """A packed picture."""
    path.write_bytes(gzip.compress(text, 9))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        lambda: bytes(1 << 30),
        lambda: b"[" + b"[]," * (80 << 20) + b"[]]",
        lambda: b"[" * 1_000_000,
        lambda: b"9" * 5_000,
        lambda: b'{"kind": "kshunt cluster picture", "version": 1, "version": 1}',
        lambda: b'{"kind": "\\ud800"}',
        lambda: b"\xff\xfe",
        lambda: b'{"kind": "kshunt cluster picture", "version": NaN}',
    ],
    ids=["zeros", "lists", "deep", "digits", "twice", "surrogate", "bytes", "nan"],
)
def test_a_picture_that_would_explode_is_told(tmp_path: Path, text: Callable[[], bytes]) -> None:
    path = saved(tmp_path / "picture.json.gz", text())
    assert path.stat().st_size < 3 << 20
    with bounded_memory(), pytest.raises(BadInput, match=r"picture\.json\.gz"):
        load_picture(path)


def test_a_picture_that_was_changed_anywhere_ends_in_no_traceback(tmp_path: Path) -> None:
    document = json.dumps(picture_json(example()))
    path = tmp_path / "picture.json"
    odd = ["-1", "null", '"x"', "1e999", "1e308", "9" * 30, "[]", "{}", "true", "2147483648", '""']
    for number in range(400):
        chance = random.Random(f"{SEED}-{number}")
        if number % 2:
            path.write_bytes(mutated(document.encode(), chance))
        else:
            places = [at for at, sign in enumerate(document) if sign in ":,["]
            at = chance.choice(places) + 1
            end = min(
                (found for sign in ",]}" if (found := document.find(sign, at)) >= 0), default=at
            )
            path.write_text(document[:at] + chance.choice(odd) + document[end:])
        try:
            load_picture(path)
        except BadInput:
            continue
        except Exception as error:
            raise AssertionError(f"seed {SEED}-{number}: {error!r}") from error


# Plans


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"partitions": [], "version": ' + "9" * 5_000 + "}", "number of 5,000 digits"),
        ("[" * 200_000, "nested too deeply"),
        ('{"version": 1, "partitions": ' + "[" * 150 + "]" * 150 + "}", "nested too deeply"),
        ('{"version": 1, "version": 1, "partitions": []}', "'version' twice"),
        ('{"version": 1, "partitions": [{"topic": "\\ud800"}]}', "half a character"),
        ('{"version": NaN, "partitions": []}', "NaN is not a JSON number"),
        ('{"version": 1, "partitions": []', "not JSON"),
    ],
    ids=range(7),
)
def test_a_plan_that_nobody_should_read(text: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        parse_plan(text)


def test_json_that_is_fine_is_read() -> None:
    text = '{"a": [1, -2.5e3, "\\ud83d\\ude00", null, true], "b": {}}'
    assert read_json(text, bytes_max=100) == json.loads(text)
    assert read_json(text.encode(), bytes_max=100) == json.loads(text)
    with pytest.raises(UnreadableJson, match="longer than 10 bytes"):
        read_json(text, bytes_max=10)
    with pytest.raises(UnreadableJson, match="more than 3 values"):
        read_json(text, bytes_max=100, values_max=3)
    assert np.isinf(read_json("1e999", bytes_max=10))
