"""Who runs this dashboard or tool, for the audit."""

from __future__ import annotations

import getpass
import os
import socket
from typing import Final

from kshunt.backend.domain.audit.requester_limits import WHO_MAX

WHO_VARIABLE: Final = "KSHUNT_USER"
"""Names the operator where user and host do not tell: a shared account, a container."""


def who_am_i() -> str:
    """`user@host`, or what `KSHUNT_USER` says."""
    named = os.environ.get(WHO_VARIABLE, "").strip() or f"{_user()}@{socket.gethostname()}"
    # Bytes of the environment that are no text cannot be sent.
    return named.encode("utf-8", "replace").decode("utf-8")[:WHO_MAX]


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container may run under a number that has no name.
        return f"uid-{os.getuid()}"
