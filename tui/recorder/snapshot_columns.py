"""Snapshots on tape: a whole one every so often, and between them the cells that changed.

Goals
    At 200,000 rows and one snapshot a second a recording costs next to nothing, and any moment of
    it is found again without building every snapshot before it.
Constraints
    Exact: what is read equals what was written, unknown values and `sampled_ms` included. No
    Arrow: each of its frames would carry a schema and the names of all topics. A difference of
    its tables goes by keys, which sorts 200,000 rows for each snapshot.
Algorithm
    Two snapshots mostly have the same rows in the same places. Then the columns are compared as
    they lie, bit by bit, and of the rows that differ the differences are written. Where rows came
    or went, they are matched by their slot (topic, partition, position), in which both are sorted.
    Those that came are written next to the differences. Where even that fails the snapshot is
    written whole. `Canvas` takes all of them and changes its own columns in place, so that many
    changes cost what they hold and not what a snapshot holds.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.replicas.history import thinned
from kshunt.backend.domain.replicas.snapshot import (
    COLUMNS,
    DTYPES,
    HistoryPoint,
    Replicas,
    Snapshot,
)
from kshunt.backend.domain.untrusted.strict_json import read_json
from kshunt.tui.recorder.json_values import (
    JSON_BYTES_MAX,
    UnreadableRecordedValue,
    check_fields,
    decode,
    encode,
)

_FACTS: Final = tuple(
    field.name for field in fields(Snapshot) if field.name not in ("replicas", "topics", "history")
)
_SLOT: Final = ("topic_index", "partition", "position")
_LENGTH: Final = struct.Struct("<I")
ROWS_MAX: Final = 2_000_000
"""Of a recorded snapshot; a row takes some 150 bytes."""
_MISSING: Final[Mapping[str, Any]] = {"f": np.nan, "i": -1, "u": 0, "b": False}
"""The value of every row in a column that the recording does not have, by kind of dtype."""
_ASSUMED: Final[Mapping[str, int]] = {"mode": PartitionMode.READ_WRITE}
"""Columns of which that would say too much."""

Arrays = dict[str, NDArray[Any]]


def encode_whole(snapshot: Snapshot) -> Iterator[bytes]:
    """Everything of a snapshot, part by part: at 200,000 rows all of it is 17 MB."""
    header = {
        "rows": len(snapshot.replicas),
        "topics": list(snapshot.topics),
        "facts": {name: encode(getattr(snapshot, name)) for name in _FACTS},
        "history": encode(snapshot.history),
    }
    return _packed(header, {name: getattr(snapshot.replicas, name) for name in COLUMNS})


def encode_change(before: Snapshot, after: Snapshot) -> bytes | None:
    """What turns `before` into `after`; None where only a whole snapshot does."""
    if before.topics is not after.topics and before.topics != after.topics:
        return None
    changed = _same_rows(before.replicas, after.replicas)
    header: dict[str, Any] = {} if changed is not None else {"moved": True}
    if changed is None:
        changed = _other_rows(before.replicas, after.replicas)
    if changed is None:
        return None
    header["facts"] = {
        name: encode(getattr(after, name))
        for name in _FACTS
        if getattr(before, name) != getattr(after, name)
    }
    header |= _history(before.history, after.history)
    return b"".join(_packed(header, changed))


def _history(before: Sequence[HistoryPoint], after: Sequence[HistoryPoint]) -> dict[str, Any]:
    """Points that are new, or all where that is not enough."""
    since_ms = before[-1].at_ms if before else -1
    fresh = tuple(point for point in after if point.at_ms > since_ms)
    if tuple(after) == thinned((*before, *fresh)):
        return {"fresh": encode(fresh)}
    return {"history": encode(tuple(after))}


def _bits(column: NDArray[Any]) -> NDArray[Any]:
    """The column as integers, so that NaN equals NaN."""
    return column.view(f"u{column.itemsize}") if column.dtype.kind == "f" else column


def _differs(old: NDArray[Any], new: NDArray[Any]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = _bits(old) != _bits(new)
    return found


def _same_rows(old: Replicas, new: Replicas) -> Arrays | None:
    """Indexes and values of changed rows; None where the rows are not the same ones."""
    if len(old) != len(new):
        return None
    if any(not np.array_equal(getattr(old, name), getattr(new, name)) for name in _SLOT):
        return None
    touched = np.zeros(len(new), np.bool_)
    columns = []
    for name in COLUMNS:
        before, after = getattr(old, name), getattr(new, name)
        if before is after:
            continue
        differs = _differs(before, after)
        if differs.any():
            columns.append(name)
            touched |= differs
    rows = np.flatnonzero(touched).astype(np.int32)
    return {"#rows": rows} | {
        name: _less(getattr(new, name)[rows], getattr(old, name)[rows]) for name in columns
    }


def _less(new: NDArray[Any], old: NDArray[Any]) -> NDArray[Any]:
    """The difference of two columns' bits: small where values grew a little, and so packs well."""
    if new.dtype.kind == "b":
        flipped: NDArray[Any] = new ^ old
        return flipped
    bits = f"u{new.itemsize}"
    less: NDArray[Any] = (new.view(bits) - old.view(bits)).view(new.dtype)
    return less


def _plus(old: NDArray[Any], less: NDArray[Any]) -> NDArray[Any]:
    """The opposite of `_less`."""
    if old.dtype.kind == "b":
        flipped: NDArray[Any] = old ^ less
        return flipped
    bits = f"u{old.itemsize}"
    new: NDArray[Any] = (old.view(bits) + less.view(bits)).view(old.dtype)
    return new


def _other_rows(old: Replicas, new: Replicas) -> Arrays | None:
    """Rows that went, rows that came, and differences; None if either is unsorted."""
    was, now = slots(old), slots(new)
    if not (_ascending(was) and _ascending(now)):
        return None
    place = np.searchsorted(was, now)
    known = place < len(was)
    known[known] = was[place[known]] == now[known]
    held = place[known]
    gone = np.ones(len(was), np.bool_)
    gone[held] = False
    matched = {name: (getattr(old, name)[held], getattr(new, name)[known]) for name in COLUMNS}
    changed = {name: _differs(*pair) for name, pair in matched.items()}
    touched = np.logical_or.reduce(list(changed.values()))
    arrays: Arrays = {"#gone": np.flatnonzero(gone).astype(np.int32)}
    arrays |= {f"+{name}": getattr(new, name)[~known] for name in COLUMNS}
    arrays["#rows"] = held[touched].astype(np.int32)
    for name, (before, after) in matched.items():
        if changed[name].any():
            arrays[name] = _less(after[touched], before[touched])
    return arrays


def slots(rows: Any) -> NDArray[np.int64]:
    """Each row's place in its partition as one number, in the order in which rows are sorted."""
    topic, partition, position = (np.asarray(getattr(rows, name), np.int64) for name in _SLOT)
    return (topic << 44) | (partition << 16) | position


def _ascending(keys: NDArray[np.int64]) -> bool:
    return bool((keys[1:] > keys[:-1]).all())


def _packed(header: Mapping[str, Any], arrays: Arrays) -> Iterator[bytes]:
    """The header's length, the header, and the arrays with bytes of equal weight together."""
    listed = [[name, array.dtype.str, len(array)] for name, array in arrays.items()]
    text = json.dumps({**header, "arrays": listed}, separators=(",", ":")).encode()
    yield _LENGTH.pack(len(text)) + text
    for array in arrays.values():
        plain = np.ascontiguousarray(array)
        if plain.itemsize > 1:
            plain = plain.view(np.uint8).reshape(len(array), plain.itemsize).T
        yield plain.tobytes()


def read_header(payload: bytes) -> dict[str, Any]:
    """What a payload says in addition to its columns.

    Raises:
        UnreadableRecordedValue: it is damaged.
    """
    try:
        (length,) = _LENGTH.unpack_from(payload)
        header = dict(read_json(payload[4 : 4 + length], bytes_max=JSON_BYTES_MAX))
        header["starts"] = 4 + length
    except (struct.error, ValueError, TypeError) as error:
        raise UnreadableRecordedValue(f"a recorded snapshot cannot be read: {error}") from None
    return header


def points(payload: bytes) -> Iterator[HistoryPoint]:
    """The points of the history of moves that a payload brings."""
    header = read_header(payload)
    yield from _decoded_points(header.get("fresh", header.get("history", [])))


def _decoded_points(value: Any) -> tuple[HistoryPoint, ...]:
    found = decode(value)
    if not isinstance(found, tuple) or not all(isinstance(one, HistoryPoint) for one in found):
        raise UnreadableRecordedValue("a recorded history has a value that is not a point")
    return found


def _arrays(payload: bytes, header: Mapping[str, Any]) -> Arrays:
    found: Arrays = {}
    place = header["starts"]
    for name, dtype_text, count in header["arrays"]:
        dtype = np.dtype(dtype_text)
        if dtype.kind not in "iufb":
            raise UnreadableRecordedValue(f"a column of {dtype} is not a column of a snapshot")
        raw = np.frombuffer(payload, np.uint8, count * dtype.itemsize, place)
        place += len(raw)
        shuffled = raw.reshape(dtype.itemsize, count).T if count else raw
        found[name] = np.array(shuffled, order="C").view(dtype).reshape(count)
    return found


class Canvas:
    """The snapshot that a run of payloads leads to."""

    def __init__(self) -> None:
        self._columns: Arrays = {}
        self._facts: dict[str, Any] = {}
        self._topics: tuple[str, ...] = ()
        self._history: tuple[HistoryPoint, ...] = ()

    def take(self, payload: bytes) -> None:
        """Apply a payload: a whole snapshot, or changes.

        Raises:
            UnreadableRecordedValue: it is damaged, or holds changes of a snapshot that was not
                taken.
        """
        header = read_header(payload)
        try:
            self._take(header, _arrays(payload, header))
        except (LookupError, ValueError, TypeError, ArithmeticError) as error:
            raise UnreadableRecordedValue(
                f"a recorded snapshot cannot be read: {error!r}"
            ) from None

    def _take(self, header: Mapping[str, Any], arrays: Arrays) -> None:
        if "topics" in header:
            topics = tuple(header["topics"])
            if not all(isinstance(topic, str) for topic in topics):
                raise UnreadableRecordedValue("a recorded topic has no name")
            self._topics = topics
            self._columns = _complete(arrays, header["rows"])
            self._facts = {}
        elif not self._columns:
            raise UnreadableRecordedValue("changes without the snapshot that they change")
        elif header.get("moved"):
            self._merge(arrays)
        else:
            self._write(arrays)
        self._facts |= {name: decode(value) for name, value in header["facts"].items()}
        if "history" in header:
            self._history = _decoded_points(header["history"])
        else:
            # Recordings of earlier versions say how many points have gone.
            before = self._history[header.get("gone", 0) :]
            self._history = thinned(before + _decoded_points(header["fresh"]))

    def _write(self, arrays: Arrays) -> None:
        rows = arrays.pop("#rows")
        for name, values in arrays.items():
            if name in self._columns:
                column = self._columns[name]
                column[rows] = _plus(column[rows], values)

    def _merge(self, arrays: Arrays) -> None:
        stays = np.ones(len(self._columns["broker"]), np.bool_)
        stays[arrays.pop("#gone")] = False
        fresh = {name[1:]: arrays.pop(name) for name in list(arrays) if name.startswith("+")}
        fresh = _complete(fresh, len(fresh["broker"]))
        _check_rows(int(stays.sum()) + len(fresh["broker"]))
        self._write(arrays)
        merged = {
            name: np.concatenate([column[stays], fresh[name]])
            for name, column in self._columns.items()
        }
        order = np.argsort(slots(_Named(merged)), kind="stable")
        self._columns = {name: column[order] for name, column in merged.items()}

    def snapshot(self) -> Snapshot | None:
        """What the payloads have led to; None before the first. It shares nothing with this."""
        if not self._columns:
            return None
        rows = Replicas(**{name: column.copy() for name, column in self._columns.items()})
        known = {name: value for name, value in self._facts.items() if name in _FACTS}
        try:
            found = Snapshot(topics=self._topics, replicas=rows, history=self._history, **known)
            check_fields(found)
            _check_places(found)
        except (TypeError, ValueError) as error:
            raise UnreadableRecordedValue(f"a recorded snapshot cannot be shown: {error}") from None
        return found


def _check_rows(count: int) -> None:
    if not 0 <= count <= ROWS_MAX:
        raise UnreadableRecordedValue(
            f"a recorded snapshot has {count:,} rows; the maximum is {ROWS_MAX:,}"
        )


def _check_places(found: Snapshot) -> None:
    """Each row is of a topic that there is."""
    topic = found.replicas.topic_index
    if len(topic) and not 0 <= int(topic.min()) <= int(topic.max()) < len(found.topics):
        raise UnreadableRecordedValue("a recorded row has a topic without a name")


def _complete(arrays: Arrays, count: int) -> Arrays:
    """Every column of this version; what was not recorded is unknown.

    Raises:
        UnreadableRecordedValue: columns have other lengths, or there are too many rows: a file
            could name any number of rows of columns that it does not hold.
    """
    _check_rows(count)
    if any(array.shape != (count,) for name, array in arrays.items() if name in COLUMNS):
        raise UnreadableRecordedValue("recorded columns differ in length")
    return {
        name: arrays[name].astype(DTYPES[name], copy=False)
        if name in arrays
        else np.full(count, _ASSUMED.get(name, _MISSING[DTYPES[name].kind]), DTYPES[name])
        for name in COLUMNS
    }


class _Named:
    """Columns in a dictionary, by attribute."""

    def __init__(self, columns: Arrays) -> None:
        self.__dict__.update(columns)
