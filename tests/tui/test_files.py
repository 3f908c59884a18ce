"""Files that the dashboard writes: never over one that is there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kshunt.backend.errors import BadInput, PlanError
from kshunt.tui.data.files import new_audit_file, save_plan

PLAN = {"version": 1, "partitions": []}


def test_a_plan_never_replaces_a_file_that_is_there(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    assert save_plan(PLAN, str(path)) == path
    assert json.loads(path.read_text()) == PLAN
    with pytest.raises(PlanError, match="File exists"):
        save_plan({"version": 1, "partitions": [{}]}, str(path))
    assert json.loads(path.read_text()) == PLAN


def test_a_plan_without_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="No such file or directory"):
        save_plan(PLAN, str(tmp_path / "absent" / "plan.json"))


def test_an_audit_is_written_to_a_new_file_of_a_known_format(tmp_path: Path) -> None:
    assert new_audit_file(f" {tmp_path}/audit.md ") == tmp_path / "audit.md"
    for name, words in (("audit.txt", r"\.md or \.json"), ("absent/audit.json", "no folder")):
        with pytest.raises(BadInput, match=words):
            new_audit_file(f"{tmp_path}/{name}")
    (tmp_path / "audit.json").touch()
    with pytest.raises(BadInput, match="exists"):
        new_audit_file(f"{tmp_path}/audit.json")
