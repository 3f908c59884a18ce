"""A backend that several people share: a port, and a token of each one's own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kshunt.backend.access.roles import Role
from kshunt.backend.access.tokens import TokenFile
from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.clock import SystemClock
from tests.support.ports import free_ports
from tests.support.serving import serve_process

PEOPLE: Final[Mapping[str, Role]] = {
    "ada": Role.ADMIN,
    "bob": Role.ADMIN,
    "oli": Role.OPERATOR,
    "vic": Role.VIEWER,
}


@dataclass(frozen=True)
class Shared:
    """A backend, and a client of each who asks it."""

    url: str
    tokens: Mapping[str, str]
    clients: Mapping[str, BackendClient]

    @property
    def ada(self) -> BackendClient:
        return self.clients["ada"]

    @property
    def bob(self) -> BackendClient:
        return self.clients["bob"]


def make_tokens(path: Path) -> dict[str, str]:
    """Of each of `PEOPLE`, by name."""
    file = TokenFile(path, SystemClock())
    return {name: file.create(name, role)[1] for name, role in PEOPLE.items()}


@contextmanager
def clients_of(url: str, tokens: Mapping[str, str]) -> Iterator[Mapping[str, BackendClient]]:
    """A client of each, which shows its own token."""
    before = os.environ.get("KSHUNT_TOKEN")
    with ExitStack() as stack:
        found = {}
        try:
            for name, token in tokens.items():
                # A client takes its token with its first request, and keeps it.
                os.environ["KSHUNT_TOKEN"] = token
                found[name] = stack.enter_context(BackendClient(url))
                found[name].presence.list()
        finally:
            if before is None:
                del os.environ["KSHUNT_TOKEN"]
            else:
                os.environ["KSHUNT_TOKEN"] = before
        yield found


@contextmanager
def shared(bootstrap: str, folder: Path, *options: str) -> Iterator[Shared]:
    """A backend on a loopback port that asks for tokens."""
    tokens = make_tokens(folder / "tokens.json")
    port = free_ports(1)[0]
    where = ("--listen", f"127.0.0.1:{port}", "--tokens", str(folder / "tokens.json"))
    with serve_process(bootstrap, folder / "backend", *where, *options):
        url = f"http://127.0.0.1:{port}"
        with clients_of(url, tokens) as clients:
            yield Shared(url, tokens, clients)
