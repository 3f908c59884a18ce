"""The large parts of a header as JSON, and back: whole, or only what changed in them.

Goals
    What did not change costs neither bytes nor time: 2,000 throttled topics of 100 replicas each
    are 2 MB of JSON. A reader keeps the same objects, so that its caches by identity hold.
Constraints
    A client that did not ask for changes gets each part whole, as earlier backends wrote it.
    Entries of a part are told apart by a key. Of mappings the order does not matter.
Algorithm
    1. The writer compares a part with the one before by identity, then entry by entry, by identity
       first. The sampler hands on the same object where a broker said the same again.
    2. A part in which nothing changed is left out. Another one has the entries that are new or
       different, in the shape of the whole part. `gone` has the keys of entries that went, by
       part. Lists without keys (`_LISTS`) are sent whole.
    3. The reader puts entries into a copy of the part that it has, and passes on what it has where
       the part was left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from kshunt.backend.api.schema.base import Json
from kshunt.backend.api.schema.brokers import BrokerAnswer
from kshunt.backend.api.schema.stuck_causes import explained_json, read_explained
from kshunt.backend.api.schema.throttles import read_throttles, throttles_json
from kshunt.backend.domain.cluster.failed_requests import FailedRequest
from kshunt.backend.domain.cluster.metadata import LogDir, TopicPartition
from kshunt.backend.domain.replicas.expected_end_values import ExpectedEnd
from kshunt.backend.domain.replicas.snapshot import BrokerStatus, Snapshot
from kshunt.backend.domain.throttles.configs import Throttles
from kshunt.backend.domain.untrusted.json_codec import from_document, to_document

K = TypeVar("K")
V = TypeVar("V")

_LISTS: Final = ("log_dir_paths", "failed_requests", "min_isr")
"""Parts without keys."""


def parts_json(snapshot: Snapshot) -> Json:
    """Each part whole."""
    return {
        "brokers": _brokers_json(snapshot.brokers.values()),
        "throttles": throttles_json(snapshot.throttles),
        "log_dirs": [to_document(directory) for directory in snapshot.log_dirs],
        "explained": explained_json(snapshot.explained.values()),
        "deletes_ms": [[*partition, at_ms] for partition, at_ms in snapshot.deletes_ms.items()],
        "expected_ends": {id: to_document(end) for id, end in snapshot.expected_ends.items()},
        "log_dir_paths": list(snapshot.log_dir_paths),
        "failed_requests": [to_document(one) for one in snapshot.failed_requests],
        "problems": [one.message for one in snapshot.failed_requests],
        "min_isr": list(snapshot.min_isr),
    }


def changed_parts_json(before: Snapshot, after: Snapshot) -> Json:
    """What turns the parts of `before` into those of `after`; see the module's text."""
    old, new = before.throttles, after.throttles
    found: dict[str, tuple[dict[Any, Any], list[Any]]] = {
        "brokers": _difference(before.brokers, after.brokers),
        "rates": _difference(old.rates, new.rates),
        "replicas": _difference(old.replicas, new.replicas),
        "log_dirs": _log_dir_difference(before.log_dirs, after.log_dirs),
        "explained": _difference(before.explained, after.explained),
        "deletes_ms": _difference(before.deletes_ms, after.deletes_ms),
        "expected_ends": _difference(before.expected_ends, after.expected_ends),
    }
    changed = {name: entries for name, (entries, _) in found.items()}
    gone = {name: keys for name, (_, keys) in found.items() if keys}
    news = gone.keys() | {name for name, entries in changed.items() if entries}
    news |= {name for name in _LISTS if getattr(before, name) != getattr(after, name)}
    if news & {"rates", "replicas"} or old.unknown_brokers != new.unknown_brokers:
        news.add("throttles")
    if "failed_requests" in news:
        news.add("problems")
    changes = replace(
        after,
        brokers=changed["brokers"],
        throttles=Throttles(changed["rates"], changed["replicas"], new.unknown_brokers),
        log_dirs=tuple(changed["log_dirs"].values()),
        explained=changed["explained"],
        deletes_ms=changed["deletes_ms"],
        expected_ends=changed["expected_ends"],
    )
    parts = {name: part for name, part in parts_json(changes).items() if name in news}
    if gone:
        parts["gone"] = {name: [_key_json(key) for key in keys] for name, keys in gone.items()}
    return parts


def read_parts(header: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a snapshot that a header has, by name."""
    if "problems" in header and "failed_requests" not in header:
        # An older backend says it in words alone.
        failed = [{"message": words} for words in header["problems"]]
        header = {**header, "failed_requests": failed}
    return {name: read(header[name]) for name, read in _READ.items() if name in header}


def read_changed_parts(header: Mapping[str, Any], before: Snapshot) -> dict[str, Any]:
    """The fields that the changes of a header lead to; what did not change is `before`'s own."""
    changes, gone = read_parts(header), header.get("gone", {})
    if "throttles" in changes:
        old, new = before.throttles, changes["throttles"]
        changes["throttles"] = Throttles(
            _with_changes(old.rates, new.rates, gone.get("rates", ())),
            _with_changes(old.replicas, new.replicas, gone.get("replicas", ())),
            new.unknown_brokers,
        )
    if "log_dirs" in changes:
        dirs = _with_changes(
            _by_place(before.log_dirs), _by_place(changes["log_dirs"]), gone.get("log_dirs", ())
        )
        changes["log_dirs"] = tuple(dirs.values())
    for name in changes.keys() & {"brokers", "explained", "deletes_ms", "expected_ends"}:
        changes[name] = _with_changes(getattr(before, name), changes[name], gone.get(name, ()))
    return {name: changes.get(name, getattr(before, name)) for name in _READ}


def _brokers_json(statuses: Iterable[BrokerStatus]) -> list[Json]:
    return [to_document(BrokerAnswer.of(status)) for status in statuses]


def _read_brokers(documents: Iterable[Mapping[str, Any]]) -> dict[int, BrokerStatus]:
    statuses = (from_document(BrokerAnswer, one).status() for one in documents)
    return {status.broker.id: status for status in statuses}


_READ: Final[Mapping[str, Callable[[Any], Any]]] = {
    "brokers": _read_brokers,
    "throttles": read_throttles,
    "log_dirs": lambda documents: from_document(tuple[LogDir, ...], documents),
    "explained": read_explained,
    "deletes_ms": lambda documents: {
        TopicPartition(topic, n): at_ms for topic, n, at_ms in documents
    },
    "expected_ends": lambda documents: from_document(dict[str, ExpectedEnd], documents),
    "failed_requests": lambda documents: from_document(tuple[FailedRequest, ...], documents),
    "log_dir_paths": tuple,
    "min_isr": tuple,
}
"""How each part is read; the names are those of fields of a snapshot."""


def _difference(before: Mapping[K, V], after: Mapping[K, V]) -> tuple[dict[K, V], list[K]]:
    """Entries that are new or different, and keys that went."""
    if before is after:
        return {}, []
    changed = {
        key: value
        for key, value in after.items()
        if (was := before.get(key)) is not value and was != value
    }
    return changed, [key for key in before if key not in after]


def _with_changes(before: Mapping[K, V], changed: Mapping[K, V], gone: Iterable[Any]) -> Any:
    """`before` with entries put in, or out; `before` itself where there are none."""
    if not changed and not gone:
        return before
    left = {_key(key) for key in gone}
    return {key: value for key, value in before.items() if key not in left} | dict(changed)


def _log_dir_difference(
    before: tuple[LogDir, ...], after: tuple[LogDir, ...]
) -> tuple[dict[tuple[int, str], LogDir], list[tuple[int, str]]]:
    """As `_difference`, by broker and path; all of them where they are in another order."""
    if before == after:
        return {}, []
    old, new = _by_place(before), _by_place(after)
    return _difference(old, new) if list(old) == list(new) else (new, list(old))


def _by_place(dirs: Iterable[LogDir]) -> dict[tuple[int, str], LogDir]:
    return {(one.broker, one.path): one for one in dirs}


def _key_json(key: Any) -> Any:
    """A key as `gone` has it: `[topic, partition, broker]` of a replica."""
    match key:
        case (TopicPartition() as partition, broker):
            return [*partition, broker]
        case TopicPartition() | tuple():
            return list(key)
    return key


def _key(document: Any) -> Any:
    """The opposite of `_key_json`."""
    match document:
        case [topic, partition, broker]:
            return TopicPartition(topic, partition), broker
        case [str(topic), int(partition)]:
            return TopicPartition(topic, partition)
        case list():
            return tuple(document)
    return document
