"""Questions to planners that are given up: the connection goes, so that the work ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kshunt.backend.domain.planning.goals import Goal
from kshunt.backend.domain.planning.requests import PlanRequest
from kshunt.backend.errors import BackendError, BackendUnreachable
from kshunt.tui.feed.backend_link import PlannerConnection, ask_planner

DEADLINE_S = 10.0
QUESTION = PlanRequest(Goal.DRAIN, (1,))


class Silent:
    """A server that takes a question, and says nothing or something else."""

    def __init__(self, says: bytes) -> None:
        self.says = says
        self.asked = asyncio.Event()
        self.left = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.asked.set()
        if self.says:
            writer.write(self.says)
            writer.write_eof()
        while await reader.read(65_536):
            pass
        self.left.set()
        writer.close()


@asynccontextmanager
async def silent(tmp_path: Path, says: bytes = b"") -> AsyncIterator[tuple[str, Silent]]:
    server = Silent(says)
    path = tmp_path / "s"
    async with await asyncio.start_unix_server(server.serve, path):
        yield f"unix:{path}", server


async def test_whoever_is_left_alone_notices_it(tmp_path: Path) -> None:
    async with silent(tmp_path) as (address, server):
        question = asyncio.create_task(
            ask_planner(address, lambda client: client.plans.propose(QUESTION))
        )
        await asyncio.wait_for(server.asked.wait(), DEADLINE_S)
        question.cancel()
        with pytest.raises(asyncio.CancelledError):
            await question
        await asyncio.wait_for(server.left.wait(), DEADLINE_S)


async def test_a_connection_that_was_left_before_it_connected_waits_for_nothing(
    tmp_path: Path,
) -> None:
    async with silent(tmp_path) as (address, _):
        connection = PlannerConnection(address)
        connection.leave()
        question = asyncio.to_thread(connection.ask, lambda client: client.plans.propose(QUESTION))
        with pytest.raises(BackendUnreachable):
            await asyncio.wait_for(question, DEADLINE_S)


async def test_an_answer_that_cannot_be_read_is_the_backends_failure(tmp_path: Path) -> None:
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]"
    async with silent(tmp_path, answer) as (address, _):
        with pytest.raises(BackendError, match="cannot be read"):
            await ask_planner(address, lambda client: client.plans.propose(QUESTION))


async def test_a_backend_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(BackendUnreachable):
        await ask_planner(f"unix:{tmp_path / 's'}", lambda client: client.plans.propose(QUESTION))
