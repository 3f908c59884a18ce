"""SaslHandshake and SaslAuthenticate of a client that need not, or need no longer, authenticate.

What a client sends before that is answered by its connection (`net.sasl`).
"""

from __future__ import annotations

from typing import Any

from kshunt.backend.embedded.net.api import WireReply
from kshunt.backend.embedded.net.server import Handler, RequestContext
from kshunt.backend.error_codes import ILLEGAL_SASL_STATE
from kshunt.backend.wire.api_keys import SASL_AUTHENTICATE_KEY, SASL_HANDSHAKE_KEY


def handlers() -> dict[int, Handler]:
    """The APIs of this module by key."""
    return {SASL_HANDSHAKE_KEY: _out_of_place, SASL_AUTHENTICATE_KEY: _out_of_place}


async def _out_of_place(context: RequestContext, message: Any) -> Any:
    words = "SaslAuthenticate request received after successful authentication"
    raise WireReply(ILLEGAL_SASL_STATE, words)
