"""How a tool sends what it asks of a backend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from kshunt.backend.api.client.sending.sender import Sender
from kshunt.backend.api.client.sending.stdlib_sender import StdlibSender


@contextmanager
def quick_sender(address: str, *, timeout_s: float = 30.0) -> Iterator[Sender]:
    """By the standard library, unless that lacks what the address needs; httpx takes long to load.

    Raises:
        BackendUnreachable: the address cannot be one.
    """
    with closing(_sender(address, timeout_s)) as sender:
        yield sender


def _sender(address: str, timeout_s: float) -> Sender:
    if not address.startswith("https:"):
        return StdlibSender(address, timeout_s=timeout_s)
    from kshunt.backend.api.client.sending.httpx_sender import HttpxSender

    return HttpxSender(address, timeout_s=timeout_s)
