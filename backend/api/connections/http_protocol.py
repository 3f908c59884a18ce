"""HTTP with patience that ends: a connection that says too little is closed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from kshunt.backend.api.connections.connection_limits import Phase
from kshunt.backend.limits import LIMITS

PACE_S: Final = 1.0
"""How often the pace of a body is looked at."""

_SLOW: Final = json.dumps(
    {
        "type": "about:blank",
        "title": "Too slow",
        "status": 408,
        "detail": f"The body of the request arrived at less than {LIMITS.body_bytes_per_s} bytes "
        "a second. Nothing was changed.",
        "advice": "Try again over a faster connection.",
        "kafka_code": -1,
        "retriable": True,
    }
).encode()


class DeadlineProtocol(H11Protocol):
    """uvicorn's, with deadlines for all that a client has to send.

    uvicorn closes a connection that stays idle after an answer. For a head or a body that never
    ends it would wait for ever, and what follows an early refusal it would read to the end.
    """

    when_connected: Callable[[], None] = staticmethod(lambda: None)
    when_lost: Callable[[], None] = staticmethod(lambda: None)
    _waits_in: tuple[Phase, RequestResponseCycle | None, bool] | None = None
    """What `_deadline` belongs to."""
    _deadline: asyncio.TimerHandle | None = None
    _lingers = False
    """Whether a request is answered whose body still arrives."""
    _body_bytes = 0
    """Of the request whose body arrives."""
    _body_s = 0.0
    """How long the backend has waited for it."""

    @property
    def connected(self) -> bool:
        """Whether the client can send requests; False while TLS is not settled."""
        return self.transport is not None

    @property
    def phase(self) -> Phase:
        """How far the connection has got."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None:
            return Phase.HEAD
        if not cycle.response_complete:
            if cycle.more_body:
                return Phase.BODY
            return Phase.STALLED if self.flow.write_paused else Phase.ANSWER
        if self._lingers or self.conn.trailing_data[0]:
            return Phase.HEAD
        return Phase.IDLE

    def connection_made(self, transport: Any) -> None:
        """Wait for the first request, but not for ever."""
        super().connection_made(transport)
        self.when_connected()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._stop_waiting()
        super().connection_lost(exc)
        self.when_lost()

    def data_received(self, data: bytes) -> None:
        """The time of a head runs from its first byte, and ends with its last one."""
        self._body_bytes += len(data)
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """What is left of a body that nobody wants is read for a moment only."""
        super().on_response_complete()
        self._look()

    def _look(self) -> None:
        """Set the deadline of what is waited for."""
        if self.transport.is_closing():
            return
        answered = self.cycle is not None and self.cycle.response_complete
        self._lingers = answered and self.conn.their_state is h11.SEND_BODY
        phase = self.phase
        waits_in = (phase, self.cycle, self._lingers)
        if waits_in == self._waits_in:
            return
        self._stop_waiting()
        self._waits_in = waits_in
        if phase is Phase.HEAD:
            # The client reads its refusal before the connection is reset.
            wait_s = LIMITS.linger_s if self._lingers else LIMITS.header_s
            self._deadline = self.loop.call_later(wait_s, self._out_of_patience)
        elif phase is Phase.IDLE:
            self._deadline = self.loop.call_later(self.timeout_keep_alive, self._out_of_patience)
        elif phase is Phase.BODY:
            self._body_bytes, self._body_s = 0, 0.0
            self._deadline = self.loop.call_later(PACE_S, self._look_at_pace)

    def _stop_waiting(self) -> None:
        self._waits_in = None
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _out_of_patience(self) -> None:
        self.transport.abort()

    def _look_at_pace(self) -> None:
        if self.phase is not Phase.BODY:
            self._look()
            return
        # While this end does not read, the client cannot send.
        self._body_s += 0.0 if self.flow.read_paused else PACE_S
        if self._body_s > LIMITS.body_grace_s + self._body_bytes / LIMITS.body_bytes_per_s:
            self._refuse()
        else:
            self._deadline = self.loop.call_later(PACE_S, self._look_at_pace)

    def _refuse(self) -> None:
        """Say that the body is too slow, and close; the application sees a client that left."""
        self.cycle.disconnected = True
        self.cycle.message_event.set()
        if self.conn.our_state is h11.SEND_RESPONSE:
            headers = [
                (b"content-type", b"application/problem+json"),
                (b"content-length", str(len(_SLOW)).encode()),
                (b"connection", b"close"),
            ]
            answer = h11.Response(status_code=408, headers=headers, reason=b"Request Timeout")
            for event in (answer, h11.Data(data=_SLOW), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
