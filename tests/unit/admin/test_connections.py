"""What becomes of sockets to brokers."""

from __future__ import annotations

import socket
import ssl

import pytest
from kafka.net.selector import NetworkSelector

from kshunt.backend.admin.rpc import connections


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_close_leaves_no_socket_open_where_a_request_still_waits_to_be_sent(
    *, encrypted: bool
) -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    net = NetworkSelector()
    with theirs:
        if encrypted:
            context = ssl.create_default_context()
            opened = connections._TlsTransport(net, ours, host="broker", ssl_context=context)
        else:
            opened = connections._PlainTransport(net, ours, host="broker")
        held = opened._sock
        opened.write(b"a request")
        opened.close()
        net.close()
        assert held.fileno() == -1
        assert theirs.recv(100) == b""
