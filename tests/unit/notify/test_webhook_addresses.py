"""Addresses of webhooks that are secrets: from a file, and told where others can read them."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest

from kshunt.backend.commandline.reading import read
from kshunt.backend.commandline.table import Command
from kshunt.backend.errors import ConfigError
from kshunt.backend.notify.address import WebhookAddress
from kshunt.backend.notify.options import TARGET_FLAGS, targets_of

SECRET = "https://hooks.example.org/services/T0/B0/hidden-hidden"
PLAIN = "https://hooks.example.org/kshunt"


def targets(*words: str) -> tuple[WebhookAddress, ...]:
    """The webhooks of a command line."""
    options = read(Command(("webhooks",), "", TARGET_FLAGS), words)
    assert options is not None
    return targets_of(options, {})


def test_addresses_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "hooks"
    path.write_text(f"# Slack\n{SECRET}\n\n  {PLAIN}\n")
    path.chmod(0o600)
    found = targets("--webhook", "https://first.example.org/", "--webhook-file", str(path))
    assert [each.url for each in found] == ["https://first.example.org/", SECRET, PLAIN]
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="open to other users"):
        targets("--webhook-file", str(path))
    path.write_text("# none\n")
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="holds no address"):
        targets("--webhook-file", str(path))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["kshunt", "serve", "--webhook", SECRET], True),
        (["kshunt", "serve", f"--webhook={SECRET}"], True),
        (["kshunt", "serve"], False),
    ],
)
def test_a_secret_address_on_the_command_line_is_told(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    line: list[str],
    *,
    said: bool,
) -> None:
    monkeypatch.setattr(sys, "orig_argv", line)
    with caplog.at_level(logging.WARNING):
        targets("--webhook", SECRET)
    assert ("every user of this host can see it" in caplog.text) is said
    assert "hidden" not in caplog.text


def test_a_plain_address_is_no_secret(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["kshunt", "serve", "--webhook", PLAIN])
    targets("--webhook", PLAIN)
    assert caplog.text == ""
