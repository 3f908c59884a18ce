"""A real broker answers the frames of `tests.support.embedded.frames` as the embedded ones do."""

import asyncio
import struct

import pytest
from kafka.protocol.metadata import ApiVersionsResponse

from kshunt.backend.embedded.net.api import KAFKA_APIS
from tests.support.brokers.launcher import RealKafka
from tests.support.embedded.frames import (
    API_VERSIONS,
    CLIENT,
    EXACT,
    FRAMES,
    header,
)


async def ask(port: int, frame: bytes) -> bytes:
    """The whole of what a broker sends until it has answered or closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(struct.pack(">i", len(frame)) + frame)
        head = await reader.readexactly(4)
        return head + await reader.readexactly(int.from_bytes(head, "big"))
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""
    finally:
        writer.close()


@pytest.mark.kafka
async def test_a_real_broker_does_the_same(kafka: RealKafka) -> None:
    port = int(kafka.bootstrap_servers.split(",")[0].rpartition(":")[2])
    served = {what: bool(await ask(port, frame)) for what, (frame, _) in FRAMES.items()}
    assert served == {what: expected for what, (_, expected) in FRAMES.items()}
    exact = {what: await ask(port, frame) for what, (frame, _) in EXACT.items()}
    assert exact == {what: answer for what, (_, answer) in EXACT.items()}
    answer = await ask(port, header(API_VERSIONS, 4, flexible=True) + CLIENT)
    theirs = ApiVersionsResponse.decode(answer[8:], version=4)
    spoken = {key.api_key: (key.min_version, key.max_version) for key in theirs.api_keys}
    ours = {api.key: (api.advertised_min, api.max_version) for api in KAFKA_APIS.values()}
    assert ours.items() <= spoken.items()
