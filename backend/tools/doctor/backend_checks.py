"""Checks of a running backend: it answers, sees the cluster, and can change it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kshunt.backend.api.client.answer_checks import ANSWER_BYTES_MAX
from kshunt.backend.api.client.sending.sender import Sender
from kshunt.backend.api.schema.health import Readiness
from kshunt.backend.domain.untrusted.json_codec import UnreadableValue, from_document
from kshunt.backend.domain.untrusted.strict_json import UnreadableJson, read_json
from kshunt.backend.errors import KshuntError
from kshunt.backend.tools.doctor.findings import Finding, Status
from kshunt.backend.tools.shared.senders import quick_sender

READY: Final = "/readyz/changes"
"""The route asks for no token."""
TIMEOUT_S: Final = 10.0


def check_backend(address: str) -> Iterator[Finding]:
    """What the backend reports of itself."""
    try:
        with quick_sender(address, timeout_s=TIMEOUT_S) as sender:
            yield from _readiness(sender)
    except KshuntError as error:
        yield Finding("backend", "problem", error.message, error.advice)


def _readiness(sender: Sender) -> Iterator[Finding]:
    reply = sender.exchange("GET", READY, endless=False)
    try:
        found = from_document(Readiness, read_json(reply.content, bytes_max=ANSWER_BYTES_MAX))
    except (UnreadableJson, UnreadableValue):
        yield Finding(
            "backend",
            "problem",
            f"{sender.address} answers with status {reply.status}, and not as a kshunt backend.",
            "Check the address of --backend.",
        )
        return
    yield Finding("backend", "ok", f"{sender.address} answers")
    for check in found.checks:
        status: Status = "ok" if check.ok else "problem"
        yield Finding(f"backend's {check.name}", status, check.words)
