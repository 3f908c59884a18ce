"""The sockets that answer HTTP: their connections send each part of an answer immediately."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from kshunt.backend.api.server.listener import Listen, bind
from kshunt.backend.embedded.control_api import listening


@pytest.mark.parametrize(
    "opened",
    [lambda: bind(Listen())[0], lambda: listening(0)],
    ids=["backend", "control-api"],
)
def test_no_answer_waits_for_an_acknowledgement(opened: Callable[[], socket.socket]) -> None:
    with opened() as listener, socket.create_connection(listener.getsockname()[:2]):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
