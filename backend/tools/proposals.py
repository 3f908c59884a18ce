"""`kshunt proposals`: changes that take two people."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from kshunt.backend.commandline.cluster_flags import (
    BACKEND_FLAGS,
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    JSON,
    backend_address,
    check_command_config,
)
from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.commandline.reading import UsageError, read
from kshunt.backend.commandline.table import Argument, Command, Flag
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.text.formatting import duration_text, many, moment_text
from kshunt.backend.errors import BackendError
from kshunt.backend.tools.shared.console import run_tool, show_report
from kshunt.backend.tools.shared.output import ToolReport

if TYPE_CHECKING:
    from kshunt.backend.api.client.backend_client import BackendClient
    from kshunt.backend.domain.operations.approval import ProposalEffect, ShownProposal

PROG: Final = "kshunt proposals"
REFUSED: Final = (409, 422)
"""What a backend answers where a change cannot be meant, or not as the cluster is."""
EPILOG: Final = """\
With kshunt serve --two-person, a request for an unclean election or a shrink changes nothing: it
becomes a proposal. Another person must approve it before it expires.

  kshunt proposals list                                 waiting proposals, and the results of others
  kshunt proposals show ID                              what it would do now, and a code
  kshunt proposals approve ID --seen CODE               carry out exactly that, once
  kshunt proposals reject ID --reason 'wrong topic'
  kshunt proposals withdraw ID                          your own proposal

Each person needs their own token: KSHUNT_TOKEN, KSHUNT_TOKEN_FILE or KSHUNT_TOKEN_COMMAND.
"""


_FLAGS: Final = (
    *BACKEND_FLAGS,
    JSON,
    # A context may name a cluster; a proposal is a backend's.
    BOOTSTRAP_SERVER._replace(hidden=True),
    COMMAND_CONFIG._replace(hidden=True),
)
_REASON: Final = Flag("reason", "The reason, for the audit.", "TEXT", default="")
_SEEN: Final = Flag("seen", "The code that `show ID` printed.", "CODE", default="")
_ID: Final = (Argument("id", "ID", "The id of a proposal; list prints the ids."),)
CODES: Final[Mapping[int, str]] = {
    ExitCode.FAILED: "rejected, or the backend does not answer; or it was approved, but not all "
    "of it succeeded",
}


def _action(name: str, summary: str, *flags: Flag) -> Command:
    return Command(
        ("proposals", name),
        f"{summary.capitalize()}.",
        (*_FLAGS, *flags),
        () if name == "list" else _ID,
        summary=summary,
        codes=CODES,
    )


COMMAND: Final = Command(
    ("proposals",),
    "List, approve, reject and withdraw changes that need a second person.",
    _FLAGS,
    actions=(
        _action("list", "list waiting proposals, and the results of others"),
        _action("show", "show what it would do now, and a code"),
        _action("approve", "carry out exactly that, once", _SEEN, _REASON),
        _action("reject", "reject the proposal", _REASON),
        _action("withdraw", "withdraw your own proposal", _REASON),
    ),
    epilog=EPILOG,
    codes=CODES,
)


def main(argv: Sequence[str]) -> int:
    """Run the tool."""
    interrupted = "Interrupted. An approved change continues; check it before you ask again."
    return run_tool(COMMAND, _main, argv, interrupted=interrupted)


def _main(argv: Sequence[str]) -> int:
    options = read(COMMAND, argv)
    if options is None:
        return ExitCode.DONE
    _check(options)
    from kshunt.backend.api.client.backend_client import BackendClient

    with closing(BackendClient(options.backend)) as client:
        return show_report(_report(client, options), as_json=options.json)


def _check(options: Namespace) -> None:
    check_command_config(options.given)
    if not backend_address(options.given):
        raise UsageError(
            "Proposals need a shared backend: name it by --backend, or by a context that has one."
        )
    if options.action == "approve" and not options.seen:
        raise UsageError(
            f"First check what it would do: `{PROG} show {options.id}` prints a code for --seen."
        )
    if options.action == "reject" and not options.reason.strip():
        raise UsageError("reject needs a --reason.")


def _report(client: BackendClient, options: Namespace) -> ToolReport:
    match options.action:
        case "list":
            return _listed(client.proposals.list())
        case "show":
            return _shown(client, options)
        case "approve":
            return _approved(client, options)
        case "reject":
            found = client.proposals.reject(options.id, Change(reason=options.reason))
            return ToolReport(f"Proposal {found.id} was rejected: {found.summary}.", _row(found))
        case _:
            found = client.proposals.withdraw(options.id, Change(reason=options.reason))
            return ToolReport(f"Proposal {found.id} was withdrawn: {found.summary}.", _row(found))


def _listed(proposals: Sequence[ShownProposal]) -> ToolReport:
    now_ms = time.time_ns() // 1_000_000
    waiting_first = sorted(proposals, key=lambda one: not one.waiting)
    lines = [line for one in waiting_first for line in _lines(one, now_ms)]
    return ToolReport(
        "\n".join(lines) or "There is no proposal.", {"proposals": list(map(_row, proposals))}
    )


def _lines(proposal: ShownProposal, now_ms: int) -> list[str]:
    """One proposal: what and who, then what may be done or what came of it."""
    reason = f": {proposal.reason}" if proposal.reason else ""
    head = f"{proposal.id}  {proposal.state:9}  {proposal.summary}"
    lines = [head, f"          by {proposal.who}{reason}"]
    if proposal.waiting:
        left = duration_text(max(proposal.expires_ms - now_ms, 0) / 1000)
        able = " or ".join(proposal.actions) or "look at"
        lines.append(f"          expires in {left}; you may {able} it")
        return lines
    by = f"by {proposal.settled_by} " if proposal.settled_by else ""
    why = f": {proposal.settled_reason}" if proposal.settled_reason else ""
    when = "" if proposal.settled_ms is None else moment_text(proposal.settled_ms)
    lines.append(f"          {by}{when}{why}".rstrip())
    if proposal.outcome:
        lines.append(f"          {proposal.outcome}")
    return lines


def _shown(client: BackendClient, options: Namespace) -> ToolReport:
    proposal = next((one for one in client.proposals.list() if one.id == options.id), None)
    if proposal is None:
        raise UsageError(f"There is no proposal {options.id}.")
    lines = _lines(proposal, time.time_ns() // 1_000_000)
    if not proposal.waiting:
        return ToolReport("\n".join(lines), {"proposal": _row(proposal)})
    try:
        foreseen = client.proposals.foresee(proposal.id)
    except BackendError as error:
        if error.status not in REFUSED:
            raise
        document = {"proposal": _row(proposal), "foreseen": None}
        said = "It cannot be carried out now, and waits for:"
        return ToolReport("\n".join(lines), document, ExitCode.FAILED, (f"{said} {error}",))
    lines += ["", *_foreseen_lines(foreseen)]
    if "approve" in proposal.actions:
        command = f"{PROG} approve {proposal.id} --seen {foreseen.fingerprint}"
        lines += ["", f"To carry that out: {command} --backend {options.backend}"]
    return ToolReport("\n".join(lines), {"proposal": _row(proposal), "foreseen": asdict(foreseen)})


def _foreseen_lines(foreseen: ProposalEffect) -> list[str]:
    than = ", which differs from the time when it was proposed" if foreseen.changed else ""
    return [
        f"It would do this{than}:",
        *(f"  {line}" for line in foreseen.lines),
        *(f"  {note}" for note in foreseen.notes),
    ]


def _approved(client: BackendClient, options: Namespace) -> ToolReport:
    change = Change(preview=options.seen, reason=options.reason)
    proposal, answer = client.proposals.approve(options.id, change)
    failed = answer.failures
    where = f", operation {proposal.operation_id}" if proposal.operation_id else ""
    text = f"Proposal {proposal.id} was carried out{where}: {proposal.outcome}."
    problems = (f"{many(len(failed), 'item')} failed.",) if failed else ()
    document = {"proposal": _row(proposal), "answer": asdict(answer)}
    return ToolReport(text, document, ExitCode.FAILED if failed else ExitCode.DONE, problems)


def _row(proposal: ShownProposal) -> dict[str, Any]:
    return asdict(proposal)
