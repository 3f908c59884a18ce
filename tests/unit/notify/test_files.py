"""What webhooks keep on the disk: what waits, and dead letters; cut off anywhere, full, shared."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kshunt.backend.errors import BadInput, ConfigError
from kshunt.backend.notify.dead_letters import DeadLetters, Letter, read_letters, remove_letters
from kshunt.backend.notify.message import Message
from kshunt.backend.notify.spool import REWRITE_BYTES, Spool
from tests.support.faults.full_disk import full_disk
from tests.support.notify.messages import message

HOOK = "h1"


@contextmanager
def opened(path: Path) -> Iterator[tuple[Spool, tuple[tuple[str, Message], ...]]]:
    spool = Spool(path)
    try:
        yield spool, spool.open()
    finally:
        spool.close()


def left(path: Path) -> list[str]:
    """Ids of what waits, as the next backend finds it."""
    with opened(path) as (_, found):
        return [one.id for _, one in found]


# What waits


def test_what_is_not_settled_waits_for_the_next_backend(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "waiting"
    with opened(path) as (spool, found):
        assert found == ()
        spool.put([(HOOK, message(n)) for n in range(1, 5)])
        spool.put([("h2", message(1))])
        spool.forget(HOOK, "msg_2")
        spool.forget(HOOK, "msg_2")
        spool.forget(HOOK, "nobody knows it")
    with opened(path) as (_, found):
        assert [(hook, one.id) for hook, one in found] == [
            (HOOK, "msg_1"),
            (HOOK, "msg_3"),
            (HOOK, "msg_4"),
            ("h2", "msg_1"),
        ]
        assert found[0][1] == message(1)
    for one in path.parent.iterdir():
        assert stat.S_IMODE(one.stat().st_mode) == 0o600


def test_cut_off_at_any_byte_no_whole_message_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "waiting"
    with opened(path) as (spool, _):
        for n in range(1, 4):
            spool.put([(HOOK, message(n))])
        spool.forget(HOOK, "msg_1")
    content = path.read_bytes()
    ends = [n + 1 for n, byte in enumerate(content) if byte == ord("\n")]
    assert len(ends) == 4
    for size in range(len(content) + 1):
        path.write_bytes(content[:size])
        # A line is whole without its end too.
        whole = sum(end - 1 <= size for end in ends)
        waiting = ["msg_1", "msg_2", "msg_3"][:whole] if whole < 4 else ["msg_2", "msg_3"]
        assert left(path) == waiting
        # What comes after is not spoiled by what was cut off.
        if size % 20 == 0:
            with opened(path) as (spool, _):
                spool.put([(HOOK, message(9))])
            assert left(path) == [*waiting, "msg_9"]


@pytest.mark.parametrize(
    "line",
    [
        b"\x00\xff\n",
        b"[]\n",
        b"5\n",
        b'{"hook": "h1"}\n',
        b'{"hook": "h1", "message": {"id": 5}}\n',
        b"[" * 100_000 + b"\n",
    ],
)
def test_a_damaged_line_is_passed_over(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "waiting"
    with opened(path) as (spool, _):
        spool.put([(HOOK, message(1))])
    path.write_bytes(line + path.read_bytes() + line)
    assert left(path) == ["msg_1"]


def test_the_file_is_emptied_and_does_not_grow_with_what_is_past(tmp_path: Path) -> None:
    path = tmp_path / "waiting"
    with opened(path) as (spool, _):
        spool.put([(HOOK, message(0))])
        large = Message("", "a.b", 1, "c", "x" * 10_000)
        for n in range(3 * REWRITE_BYTES // 10_000):
            one = Message(f"m{n}", large.type, 1, "c", large.text)
            spool.put([(HOOK, one)])
            spool.forget(HOOK, one.id)
        assert path.stat().st_size < REWRITE_BYTES + 20_000
        spool.put([(HOOK, message(1))])
        spool.forget(HOOK, "msg_0")
        spool.forget(HOOK, "msg_1")
        assert path.stat().st_size == 0
        spool.put([(HOOK, message(2))])
    assert left(path) == ["msg_2"]


def test_a_full_disk_spoils_nothing_that_is_there(tmp_path: Path) -> None:
    path = tmp_path / "waiting"
    with opened(path) as (spool, _):
        spool.put([(HOOK, message(1))])
        size = path.stat().st_size
        with full_disk(size + 10), pytest.raises(OSError, match="too large"):
            spool.put([(HOOK, message(2))])
        assert path.stat().st_size == size
        spool.put([(HOOK, message(3))])
    assert left(path) == ["msg_1", "msg_3"]


def test_a_text_that_utf_8_does_not_have_holds_up_nothing(tmp_path: Path) -> None:
    odd = Message("msg_1", "a.b", 1, "c", "half \ud83d", {"reason": "\udc00"})
    assert json.loads(odd.body())["data"] == {"reason": "?"}
    with opened(tmp_path / "waiting") as (spool, _):
        spool.put([(HOOK, odd), (HOOK, message(2))])
    assert left(tmp_path / "waiting") == ["msg_1", "msg_2"]
    DeadLetters(tmp_path / "dead").add([Letter(HOOK, "host", 1, 1, "\ud800", odd)])
    assert ids(tmp_path / "dead") == ["msg_1"]


def test_two_backends_do_not_share_it(tmp_path: Path) -> None:
    with opened(tmp_path / "waiting"):
        code = (
            "import sys; from pathlib import Path; from kshunt.backend.notify.spool import Spool\n"
            "Spool(Path(sys.argv[1])).open()"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "waiting")],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "Another backend keeps" in done.stderr


@pytest.mark.parametrize("kind", ["folder", "link", "below a file"])
def test_a_place_that_is_none_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "waiting"
    (tmp_path / "file").write_text("precious")
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(tmp_path / "file")
    else:
        path = tmp_path / "file" / "waiting"
    with pytest.raises(ConfigError, match="cannot be used"):
        Spool(path).open()
    assert (tmp_path / "file").read_text() == "precious"


# Dead letters


def letter(number: int, words: str = "HTTP 500") -> Letter:
    return Letter(HOOK, "hooks.example.org", 1_700_000_000_000 + number, 12, words, message(number))


def ids(path: Path) -> list[str]:
    return [one.message.id for one in read_letters(path)[0]]


def test_a_dead_letter_holds_the_whole_message(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "dead.jsonl"
    DeadLetters(path).add([letter(1), letter(2)])
    assert read_letters(path) == ((letter(1), letter(2)), 0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    document = json.loads(path.read_text().splitlines()[0])
    assert document["attempts"] == 12
    assert document["error"] == "HTTP 500"
    assert document["message"]["data"] == {"number": 1}


def test_the_file_is_rotated_and_the_oldest_goes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "dead.jsonl"
    room = len(letter(10).line()) * 2
    dead = DeadLetters(path, room, 2)
    for n in range(10, 18):
        dead.add([letter(n)])
    older = [ids(path.with_name(f"dead.jsonl.{n}")) for n in (1, 2)]
    assert ids(path) == ["msg_16", "msg_17"]
    assert older == [["msg_14", "msg_15"], ["msg_12", "msg_13"]]
    assert not path.with_name("dead.jsonl.3").exists()
    assert "dead.jsonl.2 is dropped" in caplog.text
    for one in tmp_path.glob("dead.jsonl*"):
        assert not stat.S_IMODE(one.stat().st_mode) & 0o077


def test_a_full_disk_takes_no_half_letter(tmp_path: Path) -> None:
    path = tmp_path / "dead.jsonl"
    dead = DeadLetters(path)
    dead.add([letter(1)])
    with full_disk(path.stat().st_size + 10), pytest.raises(OSError, match="too large"):
        dead.add([letter(2)])
    dead.add([letter(3)])
    assert read_letters(path) == ((letter(1), letter(3)), 0)


def test_what_was_delivered_leaves_and_what_came_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "dead.jsonl"
    dead = DeadLetters(path)
    dead.add(letter(n) for n in (1, 2, 3))
    with path.open("ab") as file:
        file.write(b"no letter\n")
    dead.add([letter(4)])
    remove_letters(path, {(HOOK, "msg_1"), (HOOK, "msg_3"), ("h2", "msg_2")})
    assert ids(path) == ["msg_2", "msg_4"]
    assert read_letters(path)[1] == 1
    assert b"no letter\n" in path.read_bytes()


@pytest.mark.parametrize(
    "change",
    [
        {"hook": 1},
        {"host": None},
        {"error": []},
        {"at_ms": "x"},
        {"attempts": 1.5},
        {"message": {}},
        {"message": None},
    ],
)
def test_a_damaged_letter_is_counted(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "dead.jsonl"
    document = json.loads(letter(1).line())
    path.write_text(f"{json.dumps({**document, **change})}\n{json.dumps(document)}\n")
    assert read_letters(path) == ((letter(1),), 1)


def test_a_file_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        read_letters(tmp_path / "none" / "dead.jsonl")
    with pytest.raises(BadInput, match="there is none yet"):
        read_letters(tmp_path / "dead.jsonl")
    # A reader leaves nothing behind.
    assert not list(tmp_path.iterdir())
    with pytest.raises(BadInput, match="cannot be written"):
        remove_letters(tmp_path / "none" / "dead.jsonl", {(HOOK, "msg_1")})


def test_who_reads_takes_turns_with_who_writes(tmp_path: Path) -> None:
    path = tmp_path / "dead.jsonl"
    DeadLetters(path).add([letter(1)])
    before = os.listdir("/proc/self/fd") if Path("/proc/self/fd").exists() else []
    for _ in range(5):
        read_letters(path)
        DeadLetters(path).add([letter(2)])
    if before:
        assert len(os.listdir("/proc/self/fd")) == len(before)
