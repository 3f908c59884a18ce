"""Tokens in a file: who holds one comes in, until it expires or is revoked."""

from __future__ import annotations

import json
import stat
from multiprocessing import get_context
from pathlib import Path

import pytest

from kshunt.backend.access.roles import Role
from kshunt.backend.access.tokens import TokenFile, read_tokens
from kshunt.backend.clock import SystemClock
from kshunt.backend.errors import BadInput, ConfigError
from kshunt.backend.tools import tokens as tool
from tests.support.clocks import StoppedClock
from tests.support.tools import run_with

HOUR_MS = 3_600_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tokens.json"


async def test_a_token_lets_in_whoever_holds_it(path: Path) -> None:
    clock = StoppedClock()
    made, text = TokenFile(path, clock).create("ada", Role.OPERATOR)
    caller = await TokenFile(path, clock).caller(text)
    assert caller is not None
    assert (caller.name, caller.role) == ("ada", Role.OPERATOR)
    assert made.id in text


def test_the_file_is_of_no_use_to_who_reads_it(path: Path) -> None:
    _, text = TokenFile(path, StoppedClock()).create("ada", Role.OPERATOR)
    assert text.split("_", 2)[2] not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:-1],
        lambda text: text[:-1] + ("A" if text[-1] != "A" else "B"),
        lambda text: text.upper(),
        lambda text: text.replace("kshunt_", "kshunt_0"),
        lambda text: "kshunt_" + "0" * 12 + text[19:],
        lambda text: f"{text} ",
        lambda text: "",
        lambda text: "\x00" * 63,
    ],
)
async def test_nothing_else_does(path: Path, change: object) -> None:
    tokens = TokenFile(path, StoppedClock())
    _, text = tokens.create("ada", Role.VIEWER)
    assert callable(change)
    assert await tokens.caller(change(text)) is None


async def test_it_expires_and_is_revoked_at_once(path: Path) -> None:
    clock = StoppedClock()
    reader, writer = TokenFile(path, clock), TokenFile(path, clock)
    _, brief = writer.create("brief", Role.VIEWER, HOUR_MS)
    made, lasting = writer.create("lasting", Role.ADMIN)
    assert await reader.caller(brief) is not None
    clock.ms += HOUR_MS
    assert await reader.caller(brief) is None
    assert await reader.caller(lasting) is not None
    writer.revoke(made.id)
    assert await reader.caller(lasting) is None
    with pytest.raises(BadInput, match="revoked"):
        writer.revoke(made.id)
    assert [token.name for token in writer.listed()] == ["brief", "lasting"]


def test_names_are_unique_among_the_valid(path: Path) -> None:
    tokens = TokenFile(path, StoppedClock())
    tokens.create("ada", Role.VIEWER)
    with pytest.raises(BadInput, match="There is already a valid token named ada"):
        tokens.create("Ada", Role.VIEWER)
    with pytest.raises(BadInput, match="There is already a valid token named ada"):
        tokens.create("ada", Role.ADMIN)
    tokens.revoke("ada")
    tokens.create("ada", Role.ADMIN)
    for name in ("", " ada", "a/b", "x" * 101, "é", "a\nb"):
        with pytest.raises(BadInput, match="is not a valid name"):
            tokens.create(name, Role.VIEWER)
    with pytest.raises(BadInput, match="no valid token"):
        tokens.revoke("nobody")


def test_others_must_not_read_the_file(path: Path) -> None:
    TokenFile(path, StoppedClock()).create("ada", Role.VIEWER)
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="Other users can read"):
        read_tokens(path)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"version": 2, "tokens": []}',
        '{"version": 1, "tokens": [{}]}',
        '{"version": 1, "tokens": [{"id": "x", "name": "n", "role": "king", "sha256": "", '
        '"created_ms": 0, "expires_ms": null, "revoked_ms": null}]}',
        '{"version": 1, "tokens": [{"id": "x", "name": "n", "role": "admin", "sha256": "00", '
        '"created_ms": 0, "expires_ms": null, "revoked_ms": null}]}',
    ],
)
def test_a_file_that_is_none_is_refused(path: Path, content: str) -> None:
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(ConfigError):
        read_tokens(path)
    path.unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        read_tokens(path)


def _create(path: Path, number: int) -> None:
    for count in range(5):
        TokenFile(path, SystemClock()).create(f"t{number}-{count}", Role.VIEWER)


def test_several_may_write_it_at_once(path: Path) -> None:
    spawning = get_context("spawn")
    writers = [spawning.Process(target=_create, args=(path, number)) for number in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert len(read_tokens(path)) == 15


async def test_the_command_makes_lists_and_revokes(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_with(tool.main, capsys)
    at = ("--tokens", str(path))
    code, text, words = run(*at, "create", "ada", "--role", "operator", "--expires", "90d")
    assert code == 0
    assert "It is shown only once" in words
    caller = await TokenFile(path, SystemClock()).caller(text.strip())
    assert caller is not None
    assert caller.role is Role.OPERATOR
    code, text, _ = run(*at, "--json", "list")
    assert [entry["name"] for entry in json.loads(text)["tokens"]] == ["ada"]
    assert "sha256" not in text
    assert run(*at, "revoke", "ada")[0] == 0
    assert "revoked" in run(*at, "list")[1]
    for wrong, said, code in (
        (("create", "bob", "--role", "king"), "one of viewer, operator, admin", 2),
        (("create", "bob", "--role", "admin", "--expires", "soon"), "not a duration", 2),
        (("revoke", "ada"), "no valid token", 1),
    ):
        found, text, words = run(*at, *wrong)
        assert found == code
        assert said in words
