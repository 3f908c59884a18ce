"""Files with secrets, and files that say whom to trust: others may not read or write them."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from kshunt.backend.access.cluster_keys import read_keys, read_or_make_keys
from kshunt.backend.access.tokens import read_tokens
from kshunt.backend.admin.security.client_properties import load_client_config
from kshunt.backend.admin.security.oauth import _from_file
from kshunt.backend.admin.zookeeper.ensemble_config import ensemble_config
from kshunt.backend.api.connections.certificates import Tls, load_certificate
from kshunt.backend.config_file import load
from kshunt.backend.errors import ConfigError
from kshunt.backend.pipeline.spark.kafka_connector import client_settings
from kshunt.backend.secret_files import check_secret, read_secret, refuse_writable
from tests.support.access.certificates import Authority

CONTENT: Mapping[str, str] = {
    "tokens.json": '{"version": 1, "tokens": []}',
    "config.toml": "",
    "client.properties": "security.protocol=PLAINTEXT\n",
    "secret": "text",
}
READERS: Mapping[str, tuple[str, Callable[[Path], object]]] = {
    "a secret": ("secret", lambda path: read_secret(path, "The secret")),
    "a secret that others read": ("secret", lambda path: check_secret(path, "The secret")),
    "tokens": ("tokens.json", read_tokens),
    "the configuration": ("config.toml", lambda path: load({"KSHUNT_CONFIG": str(path)})),
    "a client's properties": ("client.properties", load_client_config),
    "ZooKeeper's properties": ("client.properties", lambda path: ensemble_config("z:1", path)),
    "Spark's properties": ("client.properties", client_settings),
    "a token of SASL": ("secret", _from_file),
}
EACH = pytest.mark.parametrize("reader", list(READERS))


def made(folder: Path, reader: str) -> tuple[Path, Callable[[Path], object]]:
    """A file that only its owner can use, and what reads it."""
    name, read = READERS[reader]
    path = folder / name
    path.write_text(CONTENT[name])
    path.chmod(0o600)
    return path, read


@EACH
def test_what_others_can_write_is_not_used(tmp_path: Path, reader: str) -> None:
    path, read = made(tmp_path, reader)
    if reader != "a token of SASL":
        read(path)
    for mode in (0o602, 0o666, 0o777):
        path.chmod(mode)
        with pytest.raises(ConfigError, match=f"mode {mode:04o}") as refused:
            read(path)
        assert "text" not in str(refused.value)
        assert "chmod" in str(refused.value)


@EACH
def test_a_folder_where_others_can_replace_it(tmp_path: Path, reader: str) -> None:
    path, read = made(tmp_path, reader)
    tmp_path.chmod(0o777)
    with pytest.raises(ConfigError, match="other users can write to the folder"):
        read(path)


@EACH
def test_a_link_into_such_a_folder(tmp_path: Path, reader: str) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    path, read = made(folder, reader)
    link = tmp_path / "link"
    link.symlink_to(path)
    if reader != "a token of SASL":
        read(link)
    folder.chmod(0o777)
    with pytest.raises(ConfigError, match="other users can write to the folder"):
        read(link)


def test_a_sticky_folder_is_as_good_as_ones_own(tmp_path: Path) -> None:
    path, read = made(tmp_path, "a secret")
    tmp_path.chmod(0o1777)
    assert read(path) == "text"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_group_that_may_write(tmp_path: Path) -> None:
    path, _ = made(tmp_path, "a client's properties")
    path.chmod(0o664)
    refuse_writable(path, "The file")
    os.chown(path, -1, 65_534)
    with pytest.raises(ConfigError, match="Other users can write"):
        refuse_writable(path, "The file")


def test_the_keys_of_a_cluster(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "c.keys"
    read_or_make_keys(path)
    read_keys(path)
    path.parent.chmod(0o777)
    with pytest.raises(ConfigError, match="other users can write to the folder"):
        read_keys(path)


@pytest.mark.parametrize(
    ("name", "mode", "usable"),
    [
        ("key", 0o600, True),
        ("key", 0o644, False),
        ("key", 0o640, False),
        ("key", 0o602, False),
        ("certificate", 0o644, True),
        ("certificate", 0o646, False),
    ],
)
def test_a_key_of_tls(tmp_path: Path, name: str, mode: int, *, usable: bool) -> None:
    certificate, key = Authority().issue("localhost").write(tmp_path)
    (key if name == "key" else certificate).chmod(mode)
    if usable:
        load_certificate(Tls(certificate, key))
        return
    with pytest.raises(ConfigError, match=f"mode {mode:04o}"):
        load_certificate(Tls(certificate, key))


@pytest.mark.parametrize(
    ("line", "mode", "said"),
    [
        ("sasl.jaas.config=x password='geheim';\n", 0o644, True),
        ("sasl.jaas.config=x password='geheim';\n", 0o600, False),
        ("client.id=me\n", 0o644, False),
    ],
)
def test_a_password_that_others_can_read_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, line: str, mode: int, *, said: bool
) -> None:
    path = tmp_path / "client.properties"
    path.write_text(line)
    path.chmod(mode)
    with caplog.at_level(logging.WARNING):
        load_client_config(path)
    assert ("other users can read it" in caplog.text) is said
    assert "geheim" not in caplog.text
