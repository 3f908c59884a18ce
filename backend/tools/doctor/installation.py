"""Checks of this installation: its own modules, the packages that it needs, a folder of samples."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution, requires
from pathlib import Path
from re import match
from typing import Final

import kshunt
from kshunt.backend.tools.doctor.findings import Finding

OWN: Final = ("kshunt.backend.errors", "kshunt.tui.settings")
"""One module of each package that is installed with kshunt."""
ROOM_BYTES_MIN: Final = 1 << 30
"""Less room for samples is reported."""


def installation() -> Iterator[Finding]:
    """This Python, and where kshunt and its packages are loaded from."""
    python = ".".join(map(str, sys.version_info[:3]))
    yield Finding("Python", "ok", f"{python} at {sys.executable}")
    yield own_modules()
    yield needed_packages()


def own_modules() -> Finding:
    """Another package of the name may lie before kshunt on Python's path."""
    root = Path(kshunt.__file__).parent.resolve()
    homes = {root, *(entry.resolve() for entry in root.iterdir() if entry.is_symlink())}
    for name in OWN:
        found = Path(str(import_module(name).__file__)).resolve()
        if not any(found.is_relative_to(home) for home in homes):
            return Finding(
                "packages",
                "problem",
                f"{name} is loaded from {found}, and kshunt from {root}.",
                "Remove the other package from PYTHONPATH, or run kshunt in its own environment.",
            )
    return Finding("packages", "ok", f"kshunt {kshunt.__version__} from {root}")


def needed_packages() -> Finding:
    """Each package that `pyproject.toml` names is installed."""
    try:
        wanted = [line for line in requires("kshunt") or () if "extra ==" not in line]
    except PackageNotFoundError:
        return Finding("requirements", "unknown", "kshunt is run from a folder, not installed.")
    missing = [name for line in wanted if not _is_installed(name := _name(line))]
    if missing:
        return Finding(
            "requirements",
            "problem",
            f"These packages are missing: {', '.join(missing)}.",
            f"Install them: pip install {' '.join(missing)}",
        )
    return Finding("requirements", "ok", f"all {len(wanted)} packages are installed")


def _name(requirement: str) -> str:
    found = match(r"[A-Za-z0-9._-]+", requirement)
    return found[0] if found else requirement


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def samples_folder(folder: Path) -> Finding:
    """Whether `kshunt serve --samples` can write there; nothing is created."""
    subject = "samples"
    if not folder.exists():
        return Finding(subject, "problem", f"{folder} does not exist.", f"mkdir -p {folder}")
    if not folder.is_dir():
        return Finding(
            subject, "problem", f"{folder} is not a folder.", "Name a folder by --samples."
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        return Finding(
            subject,
            "problem",
            f"This user may not write to {folder}.",
            "Change the owner of the folder, or name another one.",
        )
    free = shutil.disk_usage(folder).free
    room = f"{folder} has {free / 1e9:.1f} GB free"
    if free < ROOM_BYTES_MIN:
        return Finding(
            subject,
            "warning",
            f"{room}.",
            "Make room, or keep samples for fewer days: kshunt serve --keep-samples DAYS.",
        )
    return Finding(subject, "ok", room)
