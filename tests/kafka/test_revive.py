"""The dashboard's link starts a killed private backend again, and continues."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from textual.message import Message

from kshunt.backend.errors import BackendUnreachable
from kshunt.backend.tools.shared import private_backend as private
from kshunt.backend.tools.shared.private_backend import private_backend
from kshunt.tui.feed.backend_link import Connected, Disconnected, Link
from tests.support.brokers.launcher import RealKafka
from tests.support.waiting import wait_until


@pytest.mark.kafka
def test_a_killed_private_backend_is_started_again(
    kafka: RealKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    messages: list[Message] = []

    def start() -> str:
        return private_backend(kafka.bootstrap_servers, None)

    def pids() -> list[int]:
        return [m.info.backend_pid for m in messages if isinstance(m, Connected)]

    link = Link(start(), messages.append, retry_s=(0.1,), revive=start)
    link.start()
    try:
        wait_until(lambda: len(pids()) == 1, 60, "the first backend answers")
        os.kill(pids()[0], signal.SIGKILL)
        wait_until(lambda: len(pids()) == 2, 60, "a second backend answers")
        assert pids()[0] != pids()[1]
        assert any(isinstance(message, Disconnected) for message in messages)
    finally:
        link.stop()
        for child in private._started:
            child.terminate()
            child.wait(10)


def test_a_backend_that_cannot_be_started_says_why(tmp_path: Path) -> None:
    messages: list[Message] = []

    def start() -> str:
        raise BackendUnreachable("The backend stopped immediately.")

    link = Link(f"unix:{tmp_path / 'none.sock'}", messages.append, retry_s=(0.05,), revive=start)
    link.start()
    try:
        wait_until(
            lambda: any(
                isinstance(message, Disconnected)
                and message.reason == "The backend stopped immediately."
                for message in messages
            ),
            60,
            "the reason is shown",
        )
    finally:
        link.stop()
