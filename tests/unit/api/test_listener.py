"""The sockets that answer HTTP: their connections send each part of an answer immediately."""

from __future__ import annotations

import socket

from kshunt.backend.api.server.listener import Listen, bind


def test_no_answer_waits_for_an_acknowledgement() -> None:
    listener, _ = bind(Listen())
    with listener, socket.create_connection(listener.getsockname()[:2]):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
