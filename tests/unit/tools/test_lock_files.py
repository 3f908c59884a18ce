"""Files in folders where others may write: links are not followed, and nothing is cut off."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kshunt.backend.api.server.listener import Listen, bind
from kshunt.backend.errors import ConfigError
from kshunt.backend.files import locked, replace_file, turn
from kshunt.backend.telemetry.recording.gaps import GAPS, Gap, GapLog, GapReason

SOMEBODY: int = 65_534


def lock(path: Path) -> None:
    """Take a lock, and give it back."""
    file = locked(path)
    assert file is not None
    file.close()


def take_turn(path: Path) -> None:
    """Take a turn."""
    with turn(path):
        pass


BOTH = pytest.mark.parametrize("take", [lock, take_turn])


@BOTH
def test_what_a_lock_file_holds_stays(tmp_path: Path, take: Callable[[Path], None]) -> None:
    path = tmp_path / "lock"
    path.write_text("precious")
    take(path)
    assert path.read_text() == "precious"


@BOTH
def test_a_link_is_not_followed(tmp_path: Path, take: Callable[[Path], None]) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    link = tmp_path / "lock"
    link.symlink_to(precious)
    with pytest.raises(OSError, match="symbolic link"):
        take(link)
    assert precious.read_text() == "precious"
    missing = tmp_path / "dangling"
    missing.symlink_to(tmp_path / "made-for-others")
    with pytest.raises(OSError, match="symbolic link"):
        take(missing)
    assert not (tmp_path / "made-for-others").exists()


@BOTH
def test_what_is_no_file_is_refused(tmp_path: Path, take: Callable[[Path], None]) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PermissionError, match="does not belong to this user"):
        take(tmp_path / "pipe")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@BOTH
def test_a_lock_file_of_somebody_else_is_refused(
    tmp_path: Path, take: Callable[[Path], None]
) -> None:
    path = tmp_path / "lock"
    path.touch(0o666)
    os.chown(path, SOMEBODY, SOMEBODY)
    with pytest.raises(PermissionError, match="does not belong to this user"):
        take(path)
    # In a folder of theirs it is theirs to give.
    os.chown(tmp_path, SOMEBODY, SOMEBODY)
    take(path)


@BOTH
def test_nobody_else_can_open_a_lock_file(tmp_path: Path, take: Callable[[Path], None]) -> None:
    take(tmp_path / "lock")
    assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600


def test_one_process_at_a_time(tmp_path: Path) -> None:
    first = locked(tmp_path / "lock")
    assert first is not None
    assert locked(tmp_path / "lock") is None
    assert not os.get_inheritable(first.fileno())
    first.close()
    lock(tmp_path / "lock")


def test_a_link_at_the_draft_of_a_file_is_replaced(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (tmp_path / ".file.tmp").symlink_to(precious)
    replace_file(tmp_path / "file", b"content")
    assert precious.read_text() == "precious"
    assert (tmp_path / "file").read_text() == "content"
    assert not (tmp_path / "file").is_symlink()


def test_gaps_are_not_written_through_a_link(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (tmp_path / GAPS).symlink_to(precious)
    with pytest.raises(OSError, match="symbolic links"):
        GapLog(tmp_path).append([Gap(1, 2, GapReason.CRASH, "")])
    assert precious.read_text() == "precious"


def test_a_socket_is_not_put_where_others_could_replace_it(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(ConfigError, match="other users can write to the folder"):
        bind(Listen(path=tmp_path / "s"))
    assert not (tmp_path / "s").exists()
    tmp_path.chmod(0o1777)
    server, _ = bind(Listen(path=tmp_path / "s"))
    server.close()


def test_a_link_in_the_place_of_a_socket_is_left_alone(tmp_path: Path) -> None:
    server, _ = bind(Listen(path=tmp_path / "s"))
    server.close()
    (tmp_path / "link").symlink_to(tmp_path / "s")
    with pytest.raises(ConfigError, match="is not a socket"):
        bind(Listen(path=tmp_path / "link"))
    assert (tmp_path / "link").is_symlink()
