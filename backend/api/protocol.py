"""HTTP with patience that ends: a connection that says too little is closed."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from backend.settings import LIMITS


class PatientProtocol(H11Protocol):
    """uvicorn's, with a deadline for the head of each request.

    uvicorn closes a connection that stays idle after an answer; for one that never sends a whole
    head it would wait for ever, and such connections cost memory.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for the first request, but not for ever."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._settle()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """The time of a head runs from its first byte, and ends with its last one."""
        if self._deadline is None and not self._answering:
            self._wait()
        super().data_received(data)
        if self._answering:
            self._settle()

    @property
    def _answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _wait(self) -> None:
        self._deadline = self.loop.call_later(LIMITS.header_s, self._out_of_patience)

    def _settle(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _out_of_patience(self) -> None:
        if not self._answering:
            self.transport.close()
