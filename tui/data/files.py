"""Files that an operator names: reading and writing a plan, and completing a path."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kshunt.backend.domain.reassignment.plan import ReassignmentPlan, parse_plan, rollback_path
from kshunt.backend.errors import BadInput, PlanError, WrongCluster
from kshunt.tui.terminal.downloads import Downloads, whole_lines

PLAN_BYTES_MOST: Final = 4 * 1024 * 1024
"""A plan of 10,000 partitions is about 1 MB; no backend takes more than this."""
SHOWN_MOST: Final = 6


def plan_for(text: str, cluster_id: str) -> ReassignmentPlan:
    """The plan in the file that was typed, unless it names another cluster than this one.

    Raises:
        PlanError: there is no such file, it cannot be read, or it holds no plan.
        WrongCluster: the plan names another cluster.
    """
    plan = read_plan(text)
    if plan.cluster_id not in (None, cluster_id):
        raise WrongCluster(f"This plan is for cluster {plan.cluster_id}, not for {cluster_id}.")
    return plan


def read_plan(text: str) -> ReassignmentPlan:
    """The plan in the file that was typed.

    Raises:
        PlanError: there is no such file, it cannot be read, or it holds no plan.
    """
    if not text.strip():
        raise PlanError("Type the path of a reassignment JSON file.")
    path = _typed(text)
    try:
        if path.stat().st_size > PLAN_BYTES_MOST:
            raise PlanError(f"{path} is larger than 4 MB; no plan is.")
        content = path.read_text("utf-8")
    except OSError as error:
        raise PlanError(f"{path}: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise PlanError(f"{path} is not a text file.") from None
    return parse_plan(content)


def complete_path(text: str) -> tuple[str, Sequence[str]]:
    """What is typed, completed as far as it is certain; and names it could become."""
    folder, _, start = text.rpartition("/")
    try:
        root = _typed(f"{folder}/" if folder or text.startswith("/") else ".")
        names = sorted(
            entry.name + ("/" if entry.is_dir() else "")
            for entry in os.scandir(root)
            if entry.name.startswith(start) and (start or not entry.name.startswith("."))
        )
    except (OSError, BadInput):
        return text, ()
    if not names:
        return text, ()
    whole = text[: len(text) - len(start)] + _common_start(names)
    return whole, names[:SHOWN_MOST] if len(names) > 1 else ()


def _common_start(names: Sequence[str]) -> str:
    """The longest text that every name begins with; the names are sorted."""
    first, last = names[0], names[-1]
    same = next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), None)
    return first[:same] if same is not None else min(first, last, key=len)


def save_plan(plan: Mapping[str, Any], name: str) -> Path:
    """Write a plan to a new file in the working directory.

    Raises:
        PlanError: there is such a file already, or the folder cannot be written to.
    """
    path = Path(name)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(json.dumps(plan) + "\n")
    except OSError as error:
        raise PlanError(f"{path}: {error.strerror or error}.") from None
    return path.absolute()


AUDIT_FORMATS: Final = (".md", ".json")
PLAN_FORMATS: Final = (".json",)


def new_audit_file(text: str) -> Path:
    """The file that was typed, as `new_file`."""
    return new_file(text, AUDIT_FORMATS)


def new_file(text: str, formats: Sequence[str]) -> Path:
    """The file that was typed, which is not there yet; its ending is one of `formats`.

    Raises:
        BadInput: it is there, its folder is not, or its name does not say a format.
    """
    path = _typed(text)
    if path.suffix not in formats:
        raise BadInput(f"The name must end in {' or '.join(formats)}, which sets the format.")
    check_new(path)
    return path


def _typed(text: str) -> Path:
    """The path that was typed, with the home folder in place of `~`.

    Raises:
        BadInput: there is no such home folder.
    """
    try:
        return Path(text.strip()).expanduser()
    except RuntimeError:
        raise BadInput(f"There is no home folder {text.strip().partition('/')[0]}.") from None


def check_new(path: Path) -> None:
    """Refuse what is there, or cannot be made.

    Raises:
        BadInput: so it is.
    """
    try:
        if path.exists():
            raise BadInput(f"{path} exists; it is not replaced.")
        if not path.parent.is_dir():
            raise BadInput(f"There is no folder {path.parent}.")
    except OSError as error:
        # A name that is too long, a folder that may not be looked into.
        raise BadInput(f"{path}: {error.strerror or error}.") from None


def save_text(text: str, path: Path) -> None:
    """Write a text to a new file.

    Raises:
        BadInput: there is such a file already, or the folder cannot be written to.
    """
    _save(whole_lines(text).encode(), path)


def _save(content: bytes, path: Path) -> None:
    try:
        with path.open("xb") as file:
            file.write(content)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}. No file was replaced.") from None


def deliver(content: str | bytes, path: Path, downloads: Downloads | None) -> None:
    """Have the browser download a text or bytes, where there is one; else write a new file.

    Raises:
        BadInput: as `save_text`.
    """
    if downloads is not None:
        downloads.offer(path.name, content)
    elif isinstance(content, bytes):
        _save(content, path)
    else:
        save_text(content, path)


def new_plan_file(text: str) -> Path:
    """The file that was typed, which is not there yet, and neither is that of its way back.

    Raises:
        BadInput: one of them is there, the folder is not, or the name does not end in .json.
    """
    path = _typed(text)
    if path.suffix != ".json":
        raise BadInput("The name must end in .json.")
    check_new(path)
    check_new(rollback_path(path))
    return path


def save_pair(first: tuple[Path, str], second: tuple[Path, str]) -> None:
    """Write two texts to new files, both or none.

    Raises:
        BadInput: there is such a file already, or the folder cannot be written to.
    """
    save_text(first[1], first[0])
    try:
        save_text(second[1], second[0])
    except BadInput:
        first[0].unlink(missing_ok=True)
        raise
