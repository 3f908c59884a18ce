"""Pictures of clusters: taken from samples, kept in files, and read again or refused."""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kshunt.backend.errors import BadInput
from kshunt.backend.rehearsal.picture import picture_of
from kshunt.backend.rehearsal.picture_files import (
    load_picture,
    picture_json,
    picture_of_json,
    save_picture,
)
from kshunt.backend.rehearsal.run import rehearse
from tests.support.rehearsals import picture
from tests.support.tui.cluster import incident


@pytest.mark.parametrize("name", ["picture.json", "picture.json.gz"])
def test_a_picture_that_is_kept_is_the_same(tmp_path: Path, name: str) -> None:
    path, saved = tmp_path / name, picture()
    save_picture(saved, path)
    found = load_picture(path)
    assert picture_json(found) == picture_json(saved)
    assert found.throttles.replicas["a"].leaders.everything
    assert found.capacities == saved.capacities
    assert found.lag_bytes == saved.lag_bytes
    assert found.situation.brokers == saved.situation.brokers
    assert found.situation.moving == saved.situation.moving
    for column in ("replicas", "leader", "in_sync", "size_bytes", "min_isr", "log_dir"):
        assert (getattr(found.situation, column) == getattr(saved.situation, column)).all()
    one, other = found.situation.in_bytes_per_s, saved.situation.in_bytes_per_s
    assert np.array_equal(one, other, equal_nan=True)


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "picture.json"
    path.write_text("mine")
    with pytest.raises(BadInput, match="exists"):
        save_picture(picture(), path)
    assert path.read_text() == "mine"
    with pytest.raises(BadInput, match="cannot be written"):
        save_picture(picture(), tmp_path / "no" / "picture.json")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not UTF-8"),
        pytest.param(b"[" * 100_000, "nested too deeply", id="deep"),
        (b"[]", "not a picture of a cluster"),
        (b'{"kind": "other"}', "not a picture of a cluster"),
        (b'{"kind": "kshunt cluster picture"}', "The picture has no version"),
        (b'{"kind": "kshunt cluster picture", "version": 9}', "picture of version 9"),
        (b"\x1f\x8bnonsense", "cannot be read"),
        (gzip.compress(b"{" * 1_000, mtime=0)[:-9], "cannot be read"),
    ],
)
def test_what_is_no_picture_is_refused(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "p"
    path.write_bytes(data)
    with pytest.raises(BadInput, match=words) as refused:
        load_picture(path)
    assert str(path) in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        load_picture(tmp_path / "none")


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("taken_ms",), -1),
        (("taken_ms",), True),
        (("cluster_id",), 5),
        (("brokers",), {}),
        (("brokers", 0, "id"), "1"),
        (("brokers", 0, "rack"), 7),
        (("brokers", 0, "up"), "yes"),
        (("brokers", 0, "log_dirs"), [["/d", 1]]),
        (("brokers", 0, "capacity"), [1, 2]),
        (("brokers", 0, "throttle"), [-1, 2, 3]),
        (("brokers", 1), None),
        (("topics",), []),
        (("topics", "a", "leaders"), "0:x"),
        (("partitions", 0, "topic"), None),
        (("partitions", 0, "partition"), -2),
        (("partitions", 0, "replicas"), [1, 1]),
        (("partitions", 0, "replicas"), []),
        (("partitions", 0, "replicas"), ["1"]),
        (("partitions", 0, "size_bytes"), 1.5),
        (("partitions", 0, "in_bytes_per_s"), float("inf")),
        (("partitions", 0, "min_isr"), "2"),
        (("partitions", 0, "log_dirs"), ["/d", 2]),
        (("partitions", 0, "log_dirs"), ["/d"]),
        (("partitions", 1, "lag_bytes"), {"x": 1}),
        (("partitions", 1, "lag_bytes"), {"4": "many"}),
        (("partitions", 1, "adding"), None),
        (("partitions", 1, "topic"), "a"),
    ],
)
def test_a_mistake_in_it_is_refused_in_words(where: tuple[str | int, ...], value: object) -> None:
    document: Any = json.loads(json.dumps(picture_json(picture())))
    part = document
    for step in where[:-1]:
        part = part[step]
    part[where[-1]] = value
    if where == ("partitions", 1, "topic"):
        part["partition"] = 0
    with pytest.raises(BadInput):
        picture_of_json(document)
    lost: Any = copy.deepcopy(json.loads(json.dumps(picture_json(picture()))))
    part = lost
    for step in where[:-1]:
        part = part[step]
    del part[where[-1]]
    if where != ("brokers", 1) and where[-2:-1] != ("a",):
        with pytest.raises(BadInput, match="has no"):
            picture_of_json(lost)


def test_a_picture_is_taken_of_what_was_sampled() -> None:
    cluster = incident()
    cluster.step()
    snapshot = cluster.step()
    sampled = picture_of(snapshot)
    situation = sampled.situation
    assert len(situation) == len(cluster.partitions)
    assert situation.current() == {
        name: tuple(state.replicas) for name, state in sorted(cluster.partitions.items())
    }
    assert set(situation.brokers) == set(snapshot.brokers)
    assert sampled.throttles is snapshot.throttles
    moving = {name for name, state in cluster.partitions.items() if state.copied}
    assert set(situation.moving) >= moving
    still = next(
        name
        for name, row in zip(situation.partitions, situation.replicas, strict=True)
        if name not in situation.moving and len(row) > 1
    )
    found = rehearse(sampled, {still: situation.current()[still][::-1]})
    assert found.finish_s is not None
