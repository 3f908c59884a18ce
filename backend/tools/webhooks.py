"""`kshunt webhooks`: what a backend could not deliver, and sending it again."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.text.formatting import listed, many, moment_text
from kshunt.backend.errors import BadInput
from kshunt.backend.notify.address import WebhookAddress
from kshunt.backend.notify.dead_letters import Letter, read_letters, remove_letters
from kshunt.backend.notify.http_sender import HttpSender
from kshunt.backend.notify.options import add_target_options, targets_of
from kshunt.backend.notify.retries import AttemptResult, RetryPolicy
from kshunt.backend.tools.shared import output
from kshunt.backend.tools.shared.console import run_tool, show_report
from kshunt.backend.tools.shared.output import ToolReport

PROG: Final = "kshunt webhooks"
EPILOG: Final = """\
A dead letter names its webhook by host and hash, because the address may be a secret. So resend
needs the --webhook again, or those of [serve] in the configuration. Delivered messages are removed
from the file; the others stay. Receivers recognize by its id a message that they already have.

exit codes:
  0   everything in the file was delivered, or the file was empty
  1   some messages were not delivered and are still in the file
  64  wrong usage; nothing was sent
"""


def main(argv: Sequence[str]) -> int:
    """Run the tool."""
    words = (
        "Interrupted. Some delivered messages may still be in the file; receivers recognize "
        "them by their id."
    )
    return run_tool(PROG, _main, argv, interrupted=words, usage_code=output.USAGE)


def _main(argv: Sequence[str]) -> int:
    options = _parser().parse_intermixed_args(list(argv))
    if options.action == "list":
        return show_report(_listed(options.file), as_json=options.json)
    targets = targets_of(options, os.environ)
    if not targets:
        raise BadInput("No --webhook is named; nothing was sent.")
    return show_report(asyncio.run(resent(options.file, targets)), as_json=options.json)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROG,
        description="List and send again the messages that a backend's webhooks did not accept.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "action",
        metavar="ACTION",
        choices=("list", "resend"),
        help="list the messages, or send them again in order",
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="of dead letters")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_target_options(parser)
    return parser


def _listed(path: Path) -> ToolReport:
    letters, damaged = read_letters(path)
    lines = [
        f"{moment_text(one.message.time_ms)}  {one.host or one.hook}  {one.message.type}: "
        f"{one.message.text} (given up after {many(one.attempts, 'attempt')}: {one.error})"
        for one in letters
    ]
    rows = [{**one.message.as_json(), "host": one.host, "error": one.error} for one in letters]
    text = output.printable("\n".join(lines)) or "There are no dead letters."
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
    return ToolReport(words, document, output.FAILED if left else output.DONE, problems)
