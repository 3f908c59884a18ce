"""What becomes of sockets to brokers."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading

import pytest
from kafka.net.selector import NetworkSelector

from kshunt.backend.admin.rpc import connections
from kshunt.backend.admin.security.client_properties import ClientConfig
from kshunt.backend.errors import BrokerUnreachable
from kshunt.backend.wire.raw_request import RawRequest
from tests.support.waiting import wait_until, wait_until_async

DEADLINE_S = 20.0


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


def requested() -> RawRequest:
    return RawRequest("Metadata", 3, (12, 12), 9, lambda version: b"")


async def test_a_read_that_begins_again_while_the_client_closes_opens_no_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    accepted: list[asyncio.StreamWriter] = []
    client_id = "closes-amid-a-read"
    links = connections.BrokerConnections(ClientConfig(client_id), frame_bytes_max=1 << 20)
    end = links._net.close

    def end_when_the_read_has_ended() -> None:
        wait_until(lambda: read.done() or len(accepted) > 1, DEADLINE_S, "the read to end")
        end()

    monkeypatch.setattr(links._net, "close", end_when_the_read_has_ended)
    silent = await asyncio.start_server(lambda _, writer: accepted.append(writer), "127.0.0.1", 0)
    async with silent:
        there = silent.sockets[0].getsockname()[:2]
        read = asyncio.create_task(links.call(there, requested(), timeout_s=DEADLINE_S))
        await wait_until_async(lambda: accepted, DEADLINE_S, "the connection")
        await links.close()
        with pytest.raises(BrokerUnreachable, match="this client has been closed"):
            await read
        with pytest.raises(BrokerUnreachable, match="this client has been closed"):
            await links.call(there, requested(), timeout_s=DEADLINE_S)
        assert len(accepted) == 1
        assert not [t for t in threading.enumerate() if t.name == f"kafka-io-{client_id}"]
        accepted[0].close()
