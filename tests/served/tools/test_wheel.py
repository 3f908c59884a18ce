"""The wheel: one package. It runs nothing of a project whose packages are named as our folders."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.foreign_module import PLANTED
from tests.support.paths import ROOT

DEADLINE_S = 240.0
PIP = ("-m", "pip", "--disable-pip-version-check")
OFFLINE = ("--no-deps", "--no-build-isolation", "--no-index")
FOREIGN = ("backend", "tui", "themes")
PROJECT = f"""
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "another"
version = "1.0"

[tool.hatch.build.targets.wheel]
packages = {list(FOREIGN)}
"""
EVERYTHING = """
import importlib, pkgutil, sys
import kshunt

found = [one.name for one in pkgutil.walk_packages(kshunt.__path__, "kshunt.")]
for name in found:
    importlib.import_module(name)
print(len(found), kshunt.__file__, *sorted({"backend", "tui", "themes"} & set(sys.modules)))
"""
PLACEMENT = """
import sys
from kshunt.placement import ReplicaPlacer, UsableBroker

print(UsableBroker(1, None, False), *sorted({"numpy", "kafka", "textual"} & set(sys.modules)))
"""
CHILD = """
import subprocess
from kshunt.backend.child_processes import command_of, environment

print(subprocess.check_output(command_of("--version"), env=environment(), text=True))
"""


def run(*words: str, cwd: Path = ROOT, **environ: str) -> str:
    """What Python prints; it has to end well, and in time."""
    inherited = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONSAFEPATH")}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        env={**inherited, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def wheel_of(project: Path, folder: Path) -> Path:
    run(*PIP, "wheel", "-q", *OFFLINE, "--wheel-dir", str(folder), str(project))
    [wheel] = folder.glob("*.whl")
    return wheel


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@dataclass(frozen=True)
class Installed:
    """Two wheels in one folder, ours and one with packages named as our folders."""

    wheel: Path
    target: Path
    elsewhere: Path

    def run(self, *words: str) -> str:
        """What Python prints where both are found before what the tests run on."""
        return run(*words, cwd=self.elsewhere, PYTHONPATH=str(self.target))

    def foreign_runs(self) -> list[Path]:
        return list(self.target.rglob("was-run"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("installed")
    other = folder / "another"
    for name in FOREIGN:
        (other / name).mkdir(parents=True)
        (other / name / "__init__.py").write_text(PLANTED)
        (other / name / "__main__.py").write_text(PLANTED)
    (other / "pyproject.toml").write_text(PROJECT)
    wheel, target = wheel_of(ROOT, folder / "ours"), folder / "target"
    wheels = (str(wheel_of(other, folder / "theirs")), str(wheel))
    run(*PIP, "install", "-q", *OFFLINE, "--target", str(target), *wheels)
    (folder / "elsewhere").mkdir()
    return Installed(wheel, target, folder / "elsewhere")


def test_it_has_one_package_with_types(installed: Installed) -> None:
    names = names_in(installed.wheel)
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"kshunt"}
    packages = {name.split("/")[1] for name in names if name.startswith("kshunt/")}
    assert packages >= {"backend", "tui", "themes", "py.typed", "placement.py"}
    real = {
        f"kshunt/{path.relative_to(ROOT)}"
        for folder in FOREIGN
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert real <= names


def test_what_is_installed_runs_beside_the_other_package(installed: Installed) -> None:
    assert {path.name for path in installed.target.iterdir()} >= {*FOREIGN, "kshunt"}
    script = str(installed.target / "bin" / "kshunt")
    for command in ([script], ["-m", "kshunt"]):
        assert installed.run(*command, "--version").startswith("kshunt ")
        assert "drain" in installed.run(*command, "demo", "--list")
    assert installed.run("-c", CHILD).startswith("kshunt ")
    assert installed.foreign_runs() == []


def test_a_placer_imports_little(installed: Installed) -> None:
    assert installed.run("-c", PLACEMENT) == "UsableBroker(id=1, rack=None, fenced=False)"
    assert installed.foreign_runs() == []


def test_no_module_imports_anything_of_the_other_package(installed: Installed) -> None:
    count, place, *foreign = installed.run("-c", EVERYTHING).splitlines()[-1].split()
    assert int(count) > 500
    assert place == str(installed.target / "kshunt" / "__init__.py")
    assert foreign == []
    assert installed.foreign_runs() == []


def test_the_other_package_is_one_that_can_be_run(installed: Installed, tmp_path: Path) -> None:
    # Else nothing above could fail.
    other = installed.target.parent / "another"
    run("-c", "import backend, tui", cwd=tmp_path, PYTHONPATH=str(other))
    assert {path.parent.name for path in other.rglob("was-run")} == {"backend", "tui"}


def test_an_editable_install_has_no_other_package_either(tmp_path: Path) -> None:
    names = (*FOREIGN, "tests")
    look = f"import importlib.util; print(*map(importlib.util.find_spec, {names}))"
    assert run("-c", look, cwd=tmp_path) == "None None None None"


def test_the_source_archive_makes_the_same_wheel(installed: Installed, tmp_path: Path) -> None:
    run("-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path))
    [path] = tmp_path.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    [project] = (tmp_path / "unpacked").iterdir()
    again = wheel_of(project, tmp_path / "again")
    assert names_in(again) == names_in(installed.wheel)
    assert again.read_bytes() == installed.wheel.read_bytes()
