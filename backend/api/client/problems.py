"""Why a backend has not done what it was asked, in words; no HTTP library is loaded for it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from kshunt.backend.domain.text.formatting import moment_text
from kshunt.backend.domain.untrusted.json_codec import from_document
from kshunt.backend.errors import AwaitsApproval, BackendError, BackendUnreachable

PROPOSED: Final = 202

_WHO: Final = (
    "Give a valid token by --token-file, --token-command, KSHUNT_TOKEN or the context. To create "
    "one, run `kshunt tokens` on the backend's host."
)
_ADVICE: Final[Mapping[int, str]] = {
    401: _WHO,
    403: "Ask a person who has the role, or ask for a token with another role.",
    407: "A proxy answered, and kshunt does not use proxies. Reach the backend directly or by a "
    "tunnel.",
    421: "This is another server. Check the address and --tls-server-name.",
}
_STRANGE: Final[Mapping[int, str]] = {
    401: "It rejects the credential without a reason: is it a kshunt backend?",
    403: "It rejects the request without a reason: is it a kshunt backend?",
}


def raise_for_problem(status: int, content: bytes) -> None:
    """Do nothing for an answer that is a success.

    Raises:
        BackendError: it is not a success.
    """
    if 200 <= status < 300:
        return
    try:
        document = json.loads(content)
        detail, advice = str(document["detail"]), str(document.get("advice", ""))
        retriable, title = document.get("retriable") is True, str(document.get("title", ""))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        detail = f"The backend answered {status}."
        if status in _STRANGE:
            detail = f"{detail} {_STRANGE[status]}"
        advice, retriable, title = "", False, ""
    advice = advice or _ADVICE.get(status, "")
    if status in _ADVICE:
        # A caller that shows only the message must also say what to do: nothing else helps here.
        detail, advice = f"{detail} {advice}", ""
    raise BackendError(detail, advice=advice, status=status, retriable=retriable, title=title)


def raise_if_proposed(status: int, document: Any) -> None:
    """Say of a change that it waits for somebody else.

    Raises:
        AwaitsApproval: it does.
    """
    if status != PROPOSED:
        return
    from kshunt.backend.domain.operations.approval import ShownProposal

    proposal = from_document(ShownProposal, document)
    raise AwaitsApproval(
        "Nothing is changed yet: this change needs a second person. It was proposed as "
        f"{proposal.id} ({proposal.summary}).",
        advice=f"Another admin can approve it until {moment_text(proposal.expires_ms)}: run "
        f"`kshunt proposals show {proposal.id}`, or use the dashboard's list of proposals.",
        proposal_id=proposal.id,
    )


def unreachable(address: str, why: str) -> BackendUnreachable:
    """Nobody could be asked at an address, for the reason that the connection gave."""
    if "CERTIFICATE_VERIFY_FAILED" in why:
        return BackendUnreachable(
            f"The certificate of {address} is not trusted ({why}).",
            advice="Nothing was sent. Give the certificate authority by --ca-file. Behind a "
            "tunnel, also give the name in the certificate by --tls-server-name.",
        )
    return BackendUnreachable(
        f"No backend answers at {address} ({why}).",
        advice="Moves that were started continue in the cluster.",
    )
