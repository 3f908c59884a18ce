"""`kshunt serve` and the keys that the backends of its cluster share."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from kshunt.backend.access.cluster_keys import (
    KEYS_VARIABLE,
    ClusterKeys,
    default_path,
    read_keys,
    write_keys,
)
from kshunt.backend.api.client.backend_client import BackendClient
from tests.support.serving import serve_process, serving


def test_keys_are_made_at_the_first_start_and_kept(
    bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(KEYS_VARIABLE)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with serving(bootstrap, tmp_path) as address, BackendClient(address) as client:
        path = default_path(client.cluster().cluster_id, os.environ)
    first = read_keys(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with serving(bootstrap, tmp_path):
        assert read_keys(path) == first


def test_a_flag_goes_before_the_environment(
    bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_flag, by_variable = tmp_path / "flag", tmp_path / "variable"
    monkeypatch.setenv(KEYS_VARIABLE, str(by_variable))
    with serving(bootstrap, tmp_path, "--cluster-keys", str(by_flag)):
        assert read_keys(by_flag)
        assert not by_variable.exists()
    with serving(bootstrap, tmp_path):
        assert read_keys(by_variable) != read_keys(by_flag)


def test_keys_that_others_can_read_are_refused(bootstrap: str, tmp_path: Path) -> None:
    path = tmp_path / "keys"
    write_keys(path, ClusterKeys.new())
    path.chmod(0o644)
    with (
        pytest.raises(AssertionError, match="open to other users"),
        serve_process(bootstrap, tmp_path / "s", "--cluster-keys", str(path)),
    ):
        pass
