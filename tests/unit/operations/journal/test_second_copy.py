"""What a host remembers of the journal: written when there is news, and asked when some is lost."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import pytest

from kshunt.backend.operations.journal.entries import (
    AuditSpan,
    Body,
    Entry,
    EntryHeader,
    JournalState,
)
from kshunt.backend.operations.journal.second_copy import (
    FILE_BYTES_MAX,
    Remembered,
    SecondCopy,
    file_of,
    path_of,
    read_file,
)
from tests.support.access.keys import KEYS, rotated
from tests.support.clocks import StoppedClock

CLUSTER = "abc/../d e"
THROTTLES: Mapping[str, Body] = {
    "throttle/broker/1": {"rate": 5},
    "throttle/topic/t": {"list": "*"},
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file lies here."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def journal(
    *keys: str, missing: tuple[str, ...] = (), journal_id: str = "first", newest: str = "audit/9"
) -> JournalState:
    """A journal with these ownership records, and with something else."""
    bodies: dict[str, Body] = {key: THROTTLES[key] for key in keys} | {"operation/a": {}}
    entries = {key: Entry(key, body, EntryHeader("c", "one", 0)) for key, body in bodies.items()}
    span = AuditSpan(newest, newest, "0") if newest else None
    return JournalState(entries, missing=missing, audit=span, journal_id=journal_id)


def here() -> SecondCopy:
    return SecondCopy(KEYS, StoppedClock())


async def saved(state: JournalState) -> None:
    copy = here()
    copy.opened(JournalState(), CLUSTER)
    await copy.save(state)


def test_the_file_of_a_cluster_has_a_name_that_is_safe(tmp_path: Path) -> None:
    assert path_of(CLUSTER) == tmp_path / "kshunt" / "prior" / "abc____d_e.json"
    assert path_of("x" * 101).name == "x" * 100 + ".json"
    for base in ("", "relative"):
        below = path_of("c", {"XDG_STATE_HOME": base}).parent
        assert below == Path.home() / ".local" / "state" / "kshunt" / "prior"


async def test_what_is_written_is_what_was_owned() -> None:
    await saved(journal(*THROTTLES))
    found = read_file(path_of(CLUSTER), CLUSTER, KEYS)
    assert found == Remembered("first", "audit/9", THROTTLES)
    assert path_of(CLUSTER).stat().st_mode & 0o777 == 0o600
    assert Remembered.of(journal(newest="")) == Remembered("first", "", {})


async def test_only_what_a_backend_with_these_keys_wrote_of_this_cluster_is_read() -> None:
    await saved(journal(*THROTTLES))
    path = path_of(CLUSTER)
    assert read_file(path, "another", KEYS) is None
    assert read_file(path.with_name("none.json"), CLUSTER, KEYS) is None
    assert read_file(path, CLUSTER, rotated(KEYS)) is not None
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"rate":5', b'"rate":6'))
    assert read_file(path, CLUSTER, KEYS) is None


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path, content = tmp_path / "f", file_of(Remembered(), CLUSTER, 0, KEYS)
    path.write_bytes(content)
    with path.open("r+b") as file:
        file.truncate(FILE_BYTES_MAX + 1)
    assert read_file(path, CLUSTER, KEYS) is None
    path.write_bytes(content + b"\n" * (FILE_BYTES_MAX - len(content)))
    assert read_file(path, CLUSTER, KEYS) == Remembered()


@pytest.mark.parametrize(
    ("found", "lost"),
    [
        (journal(*THROTTLES), set()),
        # It was removed in order.
        (journal("throttle/broker/1"), set()),
        (journal("throttle/broker/1", missing=("throttle/topic/t",)), {"throttle/topic/t"}),
        (journal(*THROTTLES, missing=tuple(THROTTLES)), set()),
        (journal("throttle/broker/1", journal_id="second"), {"throttle/topic/t"}),
        (journal(journal_id="second"), set(THROTTLES)),
    ],
)
async def test_what_a_journal_has_lost_is_noticed(found: JournalState, lost: set[str]) -> None:
    await saved(journal(*THROTTLES))
    copy = here()
    copy.opened(found, CLUSTER)
    assert set(copy.lost) == lost
    assert bool(copy.remarks) is bool(lost)


async def test_what_is_lost_is_kept_until_an_operator_has_seen_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    await saved(journal(*THROTTLES))
    before = path_of(CLUSTER).read_bytes()
    copy = here()
    with caplog.at_level(logging.WARNING):
        copy.opened(journal(journal_id="second"), CLUSTER)
    assert "removed by others: 0, known to this host: 2" in caplog.text
    assert copy.remarks[0].startswith(
        "the journal has lost 2 throttle records that this host remembers: throttle/broker/1, "
        "throttle/topic/t; GET"
    )
    await copy.save(journal(journal_id="second"))
    assert path_of(CLUSTER).read_bytes() == before
    copy.forget_lost()
    assert copy.remarks == ()
    await copy.save(journal(journal_id="second"))
    assert read_file(path_of(CLUSTER), CLUSTER, KEYS) == Remembered("second", "audit/9", {})


def test_many_lost_records_are_not_all_named() -> None:
    copy = here()
    for count, words in ((3, ": 0, 1, 2;"), (4, ": 0, 1, 2, ...;")):
        copy.lost = {str(number): {} for number in range(count)}
        assert f"has lost {count} throttle records" in copy.remarks[0]
        assert words in copy.remarks[0]


async def test_nothing_is_written_without_news() -> None:
    copy, path = here(), path_of(CLUSTER)
    await copy.save(journal(*THROTTLES))
    assert not path.exists(), "whose journal it is is not known yet"
    copy.opened(JournalState(), CLUSTER)
    await copy.save(journal(*THROTTLES))
    path.unlink()
    await copy.save(journal(*THROTTLES))
    assert not path.exists()
    await copy.save(journal(*THROTTLES, newest="audit/10"))
    assert path.exists()
    heir = here()
    heir.opened(journal(*THROTTLES, newest="audit/10"), CLUSTER)
    path.unlink()
    await heir.save(journal(*THROTTLES, newest="audit/10"))
    assert not path.exists()


async def test_a_folder_that_cannot_be_written_is_told_once(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (home / "kshunt").write_text("no folder")
    copy = here()
    copy.opened(JournalState(), CLUSTER)
    with caplog.at_level(logging.WARNING):
        await copy.save(journal(*THROTTLES))
        await copy.save(journal(*THROTTLES))
    assert caplog.text.count("The second copy of prior values cannot be written") == 1


def test_entries_that_others_removed_are_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        here().opened(journal(*THROTTLES), CLUSTER)
        assert caplog.text == ""
        here().opened(journal(missing=("operation/b",)), CLUSTER)
    assert "removed by others: 1, known to this host: 0" in caplog.text
