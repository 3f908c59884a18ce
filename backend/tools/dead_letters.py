"""Messages that webhooks did not accept: their list, and sending them again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from kshunt.backend.clock import SystemClock
from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.domain.text.formatting import listed, many, moment_text, printable
from kshunt.backend.notify.address import WebhookAddress
from kshunt.backend.notify.dead_letters import Letter, read_letters, remove_letters
from kshunt.backend.notify.http_sender import HttpSender
from kshunt.backend.notify.retries import AttemptResult, RetryPolicy
from kshunt.backend.tools.shared.output import ToolReport


def listed_report(path: Path) -> ToolReport:
    """The messages of a file."""
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


def resent_report(path: Path, targets: Sequence[WebhookAddress]) -> ToolReport:
    """Send the messages of a file again, and keep those that are not delivered."""
    return asyncio.run(resent(path, targets))


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
                # A receiver that does not answer would not answer the next message either.
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
