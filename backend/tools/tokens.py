"""`kshunt tokens`: who may ask a backend on a TCP port, and for how long."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from kshunt.backend.access.roles import Role, role_of
from kshunt.backend.access.tokens import TokenEntry, TokenFile
from kshunt.backend.clock import SystemClock
from kshunt.backend.commandline.cluster_flags import JSON
from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.commandline.reading import read
from kshunt.backend.commandline.table import Argument, Command, Flag
from kshunt.backend.errors import BadInput
from kshunt.backend.tools.shared.console import run_tool, show, show_report
from kshunt.backend.tools.shared.output import ToolReport

EPILOG: Final = """\
The text of a token is shown once, when it is created; the file holds a hash of it. `kshunt serve
--tokens FILE` reads the file again whenever it changes. A revoked token is rejected immediately,
and its open streams end after ten seconds. A client gives the token by --token-file or
--token-command, in KSHUNT_TOKEN, in the file of KSHUNT_TOKEN_FILE, or by the command in
KSHUNT_TOKEN_COMMAND.

roles (each includes the ones before it):
  viewer      look, plan and rehearse
  operator    change the cluster, and undo changes
  admin       lose data, or make changes without undo: unclean elections, fewer partitions
"""
_DAYS: Final = re.compile(r"([1-9]\d{0,4})([hd])")
_HOUR_MS: Final = 3_600_000


def _lifetime_ms(text: str) -> int:
    match = _DAYS.fullmatch(text.strip())
    if match is None:
        raise BadInput(f"'{text}' is not a duration.", advice="Write 90d or 12h.")
    return int(match[1]) * _HOUR_MS * (24 if match[2] == "d" else 1)


_SHARED: Final = (
    Flag(
        "tokens",
        "The file that `kshunt serve --tokens` reads.",
        "FILE",
        value=Path,
        required=True,
    ),
    JSON,
)
_CREATE: Final = (
    Flag(
        "role",
        "What the token allows.",
        "ROLE",
        required=True,
        value=role_of,
        choices=tuple(Role),
    ),
    Flag(
        "expires",
        "Expire after 90d or 12h, for example (default: never).",
        "SPAN",
        value=_lifetime_ms,
    ),
)
COMMAND: Final = Command(
    ("tokens",),
    "Create, list and revoke the bearer tokens of a backend.",
    _SHARED,
    actions=(
        Command(
            ("tokens", "create"),
            "Create a token, and show it once.",
            (*_SHARED, *_CREATE),
            (Argument("named", "NAME", "The owner of the token: the audit names them."),),
            summary="create a token, and show it once",
        ),
        Command(
            ("tokens", "revoke"),
            "Reject the token from now on.",
            _SHARED,
            (Argument("named", "NAME|ID", "Its owner, or its id."),),
            summary="reject the token from now on",
        ),
        Command(("tokens", "list"), "List all tokens.", _SHARED, summary="list all tokens"),
    ),
    epilog=EPILOG,
)


def main(argv: Sequence[str]) -> int:
    """Run the tool."""
    return run_tool(COMMAND, _main, argv, interrupted="Interrupted.")


def _main(argv: Sequence[str]) -> int:
    options = read(COMMAND, argv)
    if options is None:
        return ExitCode.DONE
    tokens = TokenFile(options.tokens, SystemClock())
    if options.action == "create":
        report = _created(tokens, options)
    elif options.action == "revoke":
        revoked = tokens.revoke(options.named)
        report = ToolReport(f"Token {revoked.id} ({revoked.name}) is revoked.", _row(revoked))
    else:
        report = _listed(tokens)
    return show_report(report, as_json=options.json)


def _created(tokens: TokenFile, options: Namespace) -> ToolReport:
    token, text = tokens.create(options.named, options.role, options.expires)
    show(
        f"Token {token.id} for {token.name}, {token.role}, {_until(token)}. It is shown only once:",
        sys.stderr,
    )
    return ToolReport(text, {**_row(token), "token": text})


def _listed(tokens: TokenFile) -> ToolReport:
    now_ms = SystemClock().now_ms()
    found = tokens.listed()
    lines = [
        f"{token.id}  {token.role:8}  {_status(token, now_ms):32}  {token.name}" for token in found
    ]
    return ToolReport(
        "\n".join(lines) or "No token was created.", {"tokens": list(map(_row, found))}
    )


def _status(token: TokenEntry, now_ms: int) -> str:
    if token.revoked_ms is not None:
        return f"revoked {_time(token.revoked_ms)}"
    if not token.valid(now_ms):
        return f"expired {_time(token.expires_ms or 0)}"
    return _until(token)


def _until(token: TokenEntry) -> str:
    return "never expires" if token.expires_ms is None else f"until {_time(token.expires_ms)}"


def _time(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000).astimezone():%Y-%m-%d %H:%M}"


def _row(token: TokenEntry) -> dict[str, Any]:
    """A token without what it is known by."""
    found = asdict(token)
    del found["sha256"]
    return found
