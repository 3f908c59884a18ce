"""`kshunt keys`: a key is replaced step by step, and no secret is ever shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kshunt.backend.access.cluster_keys import ClusterKeys, read_keys, write_keys
from kshunt.backend.tools import keys
from tests.support.tools import Tool, run_with


@pytest.fixture
def tool(capsys: pytest.CaptureFixture[str]) -> Tool:
    return run_with(keys.main, capsys)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "cluster.keys"
    write_keys(found, ClusterKeys.new())
    return found


def test_a_key_is_replaced_in_three_steps(tool: Tool, path: Path) -> None:
    at = ("--cluster-keys", str(path))
    [old] = read_keys(path).keys
    code, out, _ = tool(*at, "add")
    new = read_keys(path).keys[1]
    assert (code, out) == (0, f"{old.id}  signs\n{new.id}  verifies\n")
    assert tool(*at, "remove", old.id)[0] == 1
    assert tool(*at, "use", new.id)[:2] == (0, f"{new.id}  signs\n{old.id}  verifies\n")
    assert tool(*at, "remove", old.id)[:2] == (0, f"{new.id}  signs\n")
    assert read_keys(path) == ClusterKeys((new,))
    shown = tool(*at, "--json", "show")[1]
    assert json.loads(shown)["keys"] == [{"id": new.id, "use": "signs"}]
    assert new.secret.hex() not in shown
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_cannot_be_done_changes_nothing(
    tool: Tool, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = path.read_bytes()
    for line in (("use", "0badc0de"), ("remove", "0badc0de")):
        code, _, err = tool("--cluster-keys", str(path), *line)
        assert code == 1
        assert "has no key '0badc0de'" in err
    monkeypatch.delenv("KSHUNT_CLUSTER_KEYS", raising=False)
    code, _, err = tool("show")
    assert code == 1
    assert "No key file is named" in err
    monkeypatch.setenv("KSHUNT_CLUSTER_KEYS", str(path))
    assert tool("path")[1] == f"{path}\n"
    for _ in range(40):
        tool("add")
    assert len(read_keys(path).keys) == 32
    path.write_bytes(before)
    code, _, err = tool("--cluster-keys", f"{path}.absent", "add")
    assert code == 1
    assert "cannot be read" in err
    assert "The first start of a backend makes it." in err
