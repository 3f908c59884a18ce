"""Bodies of requests, read by a layer and given on to the application."""

from __future__ import annotations

from typing import Any

from kshunt.backend.limits import LIMITS


async def buffer_body(receive: Any) -> bytes | None:
    """The whole body, or None where the client went away, or sends more than any request holds."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > LIMITS.request_body_bytes:
            return None
        if not message.get("more_body", False):
            return b"".join(parts)


def replayed(body: bytes, receive: Any) -> Any:
    """A `receive` that gives a body that was read already, and then what comes after it."""
    first: list[Any] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Any:
        return first.pop() if first else await receive()

    return again
