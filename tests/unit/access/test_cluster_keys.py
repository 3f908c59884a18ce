"""The keys that backends share: what they sign, and the files that hold them."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from kshunt.backend.access.cluster_keys import (
    KEYS_MAX,
    ClusterKeys,
    Purpose,
    Signature,
    SignatureVerdict,
    default_path,
    named_path,
    read_keys,
    read_or_make_keys,
    write_keys,
)
from kshunt.backend.errors import ConfigError
from tests.support.access.keys import rotated


def test_a_signature_is_good_for_its_text_and_its_purpose_only() -> None:
    keys = ClusterKeys.new()
    signature = keys.sign(Purpose.JOURNAL, b"text")
    assert keys.verify(Purpose.JOURNAL, b"text", signature) is SignatureVerdict.VALID
    assert keys.verify(Purpose.JOURNAL, b"texts", signature) is SignatureVerdict.FORGED
    assert keys.verify(Purpose.REQUEST, b"text", signature) is SignatureVerdict.FORGED
    assert keys.verify(Purpose.JOURNAL, b"text", Signature(signature.key_id, "\udc80ü")) is (
        SignatureVerdict.FORGED
    )
    assert (
        ClusterKeys.new().verify(Purpose.JOURNAL, b"text", signature)
        is SignatureVerdict.UNKNOWN_KEY
    )


def test_a_key_can_be_replaced_while_the_old_one_still_verifies() -> None:
    old = ClusterKeys.new()
    both = rotated(old)
    assert (
        both.verify(Purpose.JOURNAL, b"x", old.sign(Purpose.JOURNAL, b"x"))
        is SignatureVerdict.VALID
    )
    assert old.verify(Purpose.JOURNAL, b"x", both.sign(Purpose.JOURNAL, b"x")) is (
        SignatureVerdict.UNKNOWN_KEY
    )
    many = old
    for _ in range(KEYS_MAX + 5):
        many = rotated(many)
    assert len(many.keys) == KEYS_MAX


def test_a_key_file_is_made_once_and_for_its_owner_only(tmp_path: Path) -> None:
    path = default_path("AZ/../x", {"XDG_STATE_HOME": str(tmp_path)})
    assert path.name == "AZ____x.keys"
    found: list[ClusterKeys] = []
    threads = [
        threading.Thread(target=lambda: found.append(read_or_make_keys(path))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_secrets_are_never_shown(tmp_path: Path) -> None:
    keys = ClusterKeys.new()
    assert keys.keys[0].secret.hex() not in repr(keys)
    assert repr(keys.keys[0].secret) not in repr(keys)
    path = tmp_path / "keys"
    write_keys(path, keys)
    path.write_text(path.read_text() + "z" * 64)
    with pytest.raises(ConfigError) as refused:
        read_keys(path)
    assert keys.keys[0].secret.hex() not in str(refused.value)
    assert "Line 2" in str(refused.value)


@pytest.mark.parametrize("text", ["", "# nothing\n", "\x00\xff", "a b\n", "1234567G " + "0" * 64])
def test_a_bad_key_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigError):
        read_keys(path)


def test_two_keys_with_one_id_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(ClusterKeys.new().text() * 2)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="same id"):
        read_keys(path)


def test_a_key_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(ClusterKeys.new().text())
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="open to other users"):
        read_keys(path)


def test_a_flag_goes_before_the_environment(tmp_path: Path) -> None:
    environment = {"KSHUNT_CLUSTER_KEYS": "/from/environment"}
    assert named_path(tmp_path, environment) == tmp_path
    assert named_path(None, environment) == Path("/from/environment")
    assert named_path(None, {}) is None
