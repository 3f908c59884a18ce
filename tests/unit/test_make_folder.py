"""Folders that several processes make at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from kshunt.backend.files import make_folder

MAKERS: int = 8
FOLDERS: int = 100


def test_makers_of_one_folder_all_get_it(tmp_path: Path) -> None:
    together = Barrier(MAKERS)

    def make(_maker: int) -> None:
        for at in range(FOLDERS):
            together.wait(timeout=20)
            make_folder(tmp_path / str(at) / "a" / "b")

    with ThreadPoolExecutor(MAKERS) as pool:
        list(pool.map(make, range(MAKERS)))
    assert all((tmp_path / str(at) / "a" / "b").is_dir() for at in range(FOLDERS))


def test_the_mode_is_that_of_the_folder_alone(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b", mode=0o700)
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "a").stat().st_mode & 0o777 != 0o700


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    with pytest.raises(NotADirectoryError, match="A file is where a folder is needed"):
        make_folder(tmp_path / "a")
    with pytest.raises(NotADirectoryError):
        make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a").read_text() == "x"
