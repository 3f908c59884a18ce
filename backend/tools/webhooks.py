"""`kshunt webhooks`: what a backend could not deliver, and sending it again."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from kshunt.backend.clock import SystemClock
from kshunt.backend.commandline.cluster_flags import JSON
from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.commandline.reading import read
from kshunt.backend.commandline.table import Argument, Command
from kshunt.backend.domain.text.formatting import listed, many, moment_text, printable
from kshunt.backend.errors import BadInput
from kshunt.backend.notify.address import WebhookAddress
from kshunt.backend.notify.dead_letters import Letter, read_letters, remove_letters
from kshunt.backend.notify.http_sender import HttpSender
from kshunt.backend.notify.options import TARGET_FLAGS, targets_of
from kshunt.backend.notify.retries import AttemptResult, RetryPolicy
from kshunt.backend.tools.shared.console import run_tool, show_report
from kshunt.backend.tools.shared.output import ToolReport

EPILOG: Final = """\
A dead letter names its webhook by host and hash, because the address may be a secret. So resend
needs the --webhook again, or those of [serve] in the configuration. Delivered messages are removed
from the file; the others stay. Receivers recognize by its id a message that they already have.
"""


_FLAGS: Final = (JSON, *TARGET_FLAGS)
_FILE: Final = (Argument("file", "FILE", "Of dead letters.", value=Path),)
CODES: Final[Mapping[int, str]] = {
    ExitCode.DONE: "everything in the file was delivered, or the file was empty",
    ExitCode.FAILED: "some messages were not delivered and are still in the file",
}
COMMAND: Final = Command(
    ("webhooks",),
    "List and send again the messages that a backend's webhooks did not accept.",
    _FLAGS,
    actions=(
        Command(
            ("webhooks", "list"), "List the messages.", _FLAGS, _FILE, summary="list the messages"
        ),
        Command(
            ("webhooks", "resend"),
            "Send the messages again, in order.",
            _FLAGS,
            _FILE,
            summary="send the messages again, in order",
            codes=CODES,
        ),
    ),
    epilog=EPILOG,
    codes=CODES,
)


def main(argv: Sequence[str]) -> int:
    """Run the tool."""
    words = (
        "Interrupted. Some delivered messages may still be in the file; receivers recognize "
        "them by their id."
    )
    return run_tool(COMMAND, _main, argv, interrupted=words)


def _main(argv: Sequence[str]) -> int:
    options = read(COMMAND, argv)
    if options is None:
        return ExitCode.DONE
    if options.action == "list":
        return show_report(_listed(options.file), as_json=options.json)
    targets = targets_of(options, os.environ)
    if not targets:
        raise BadInput("No --webhook is named; nothing was sent.")
    return show_report(asyncio.run(resent(options.file, targets)), as_json=options.json)


def _listed(path: Path) -> ToolReport:
    letters, damaged = read_letters(path)
    lines = [
        f"{moment_text(one.message.time_ms)}  {one.host or one.hook}  {one.message.type}: "
        f"{one.message.text} (given up after {many(one.attempts, 'attempt')}: {one.error})"
        for one in letters
    ]
    rows = [{**one.message.as_json(), "host": one.host, "error": one.error} for one in letters]
    text = printable("\n".join(lines)) or "There are no dead letters."
    return ToolReport(text, {"letters": rows, "damaged": damaged}, problems=_damage(path, damaged))


def _damage(path: Path, damaged: int) -> tuple[str, ...]:
    return (f"{many(damaged, 'line')} of {path} cannot be read.",) if damaged else ()


async def resent(
    path: Path, targets: Sequence[WebhookAddress], policy: RetryPolicy | None = None
) -> ToolReport:
    """Send each letter once, in its order; a webhook that fails is asked no more."""
    letters, damaged = await asyncio.to_thread(read_letters, path)
    policy = policy or RetryPolicy()
    senders = {target.id: HttpSender(target, policy) for target in targets}
    delivered: set[tuple[str, str]] = set()
    silent: set[str] = set()
    problems: dict[str, None] = {}
    try:
        for letter in letters:
            if letter.hook not in senders or letter.hook in silent:
                continue
            answer = await senders[letter.hook].send(letter.message, SystemClock().now_ms())
            if answer.result is AttemptResult.DELIVERED:
                delivered.add((letter.hook, letter.message.id))
                continue
            problems[f"{letter.host}: {answer.words}"] = None
            if answer.result is not AttemptResult.REFUSED:
                # Whoever is not there is not there for the next one either.
                silent.add(letter.hook)
    finally:
        for sender in senders.values():
            await sender.close()
        if delivered:
            await asyncio.to_thread(remove_letters, path, delivered)
    said = (*problems, *_damage(path, damaged))
    return _report(path, letters, delivered, {*senders}, said)


def _report(
    path: Path,
    letters: Sequence[Letter],
    delivered: set[tuple[str, str]],
    known: set[str],
    problems: tuple[str, ...],
) -> ToolReport:
    strange = Counter(one.host or one.hook for one in letters if one.hook not in known)
    left = len(letters) - len(delivered)
    words = f"{many(len(delivered), 'message')} delivered, {left} still in {path}."
    if strange:
        named = listed(f"{host} ({count})" for host, count in strange.items())
        problems = (*problems, f"No --webhook is named for {named}.")
    document = {"delivered": len(delivered), "left": left, "problems": list(problems)}
    return ToolReport(words, document, ExitCode.FAILED if left else ExitCode.DONE, problems)
