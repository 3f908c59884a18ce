"""Flags of `kshunt serve` and `kshunt webhooks` that say whom to tell, and where it is kept."""

from __future__ import annotations

import logging
import os
import secrets
import sys
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kshunt.backend.clock import Clock
from kshunt.backend.commandline.reading import UsageError
from kshunt.backend.commandline.table import Flag
from kshunt.backend.errors import ConfigError
from kshunt.backend.files import state_folder
from kshunt.backend.secret_files import read_secret

if TYPE_CHECKING:
    from kshunt.backend.notify.address import WebhookAddress
    from kshunt.backend.notify.notifier import Notifier

log = logging.getLogger(__name__)

SECRET: Final = "KSHUNT_WEBHOOK_SECRET"


_GROUP: Final = "webhooks"
TARGET_FLAGS: Final = (
    Flag(
        "webhook",
        "Send changes to this address, as Standard Webhooks; may be given several times.",
        "URL",
        repeatable=True,
        group=_GROUP,
    ),
    Flag(
        "webhook-file",
        "File of secret addresses, one a line; other users can see a command line.",
        "FILE",
        value=Path,
        group=_GROUP,
    ),
    Flag(
        "webhook-secret-file",
        "The signing key, whsec_… or a text: one for all, or one for each --webhook in the same "
        f"order (default: {SECRET}).",
        "FILE",
        value=Path,
        repeatable=True,
        group=_GROUP,
    ),
    Flag(
        "webhook-ca",
        "PEM: authorities for the certificates of the receivers.",
        "FILE",
        value=Path,
        group=_GROUP,
    ),
)
"""They name webhooks."""
FLAGS: Final = (
    *TARGET_FLAGS,
    Flag(
        "webhook-dead-letter",
        "File of messages that could not be delivered (default: webhooks/dead-letters.jsonl in "
        "the user's state folder); FILE.waiting holds those that wait.",
        "FILE",
        value=Path,
        group=_GROUP,
    ),
)
"""The flags of a backend."""


def targets_of(options: Namespace, environment: Mapping[str, str]) -> tuple[WebhookAddress, ...]:
    """The webhooks that are named.

    Raises:
        ConfigError: an address, a key or a file cannot be used, or does not fit the others.
    """
    from kshunt.backend.notify.address import target_of

    urls = [*options.webhook, *_addresses(options.webhook_file)]
    if not urls:
        if options.webhook_secret_file or options.webhook_ca is not None:
            raise UsageError("--webhook-secret-file and --webhook-ca need --webhook URL.")
        return ()
    if len(set(urls)) < len(urls):
        raise UsageError("The same --webhook is given twice.")
    keys = _keys(options.webhook_secret_file, len(urls), environment)
    targets = tuple(
        target_of(url, key, options.webhook_ca) for url, key in zip(urls, keys, strict=True)
    )
    for shown in visible(targets, sys.orig_argv):
        log.warning(
            "the address of webhook %s may be a secret, but every user of this host can see it "
            "in the list of processes. Put it into a --webhook-file, or into [serve]",
            shown,
        )
    return targets


def visible(targets: Iterable[WebhookAddress], words: Sequence[str]) -> tuple[WebhookAddress, ...]:
    """Those whose address may be a secret, and is among the words of a command line."""
    line = "\0".join(words)
    return tuple(each for each in targets if each.lets_in and each.url in line)


def _addresses(path: Path | None) -> list[str]:
    """The addresses of a file.

    Raises:
        ConfigError: it cannot be read, others can read it, or it holds none.
    """
    if path is None:
        return []
    lines = read_secret(path, "The file of webhooks").splitlines()
    found = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not found:
        raise ConfigError(f"The file of webhooks {path} holds no address.")
    return found


def _keys(
    files: Sequence[Path], count: int, environment: Mapping[str, str]
) -> Sequence[tuple[bytes, ...]]:
    from kshunt.backend.notify.signatures import keys_of

    if not files:
        text = environment.get(SECRET, "")
        return [keys_of(text, SECRET) if text else ()] * count
    if len(files) not in (1, count):
        raise UsageError(
            f"{len(files)} --webhook-secret-file are given for {count} --webhook.",
            advice="Give one for all of them, or one for each, in the same order.",
        )
    what = "The webhook's key"
    found = [keys_of(read_secret(path, what), f"{what} {path}") for path in files]
    return found * count if len(files) == 1 else found


def dead_letter_path(options: Namespace, environment: Mapping[str, str]) -> Path:
    """Where dead letters go."""
    named: Path | None = options.webhook_dead_letter
    if named is not None:
        return named.absolute()
    return state_folder(environment) / "webhooks" / "dead-letters.jsonl"


def waiting_path(dead_letters: Path) -> Path:
    """Where messages are kept that wait, next to the dead letters."""
    return dead_letters.with_name(f"{dead_letters.name}.waiting")


def notifier_of(
    options: Namespace, clock: Clock, environment: Mapping[str, str] = os.environ
) -> Notifier | None:
    """What tells the webhooks; None, and nothing is loaded, where there are none.

    Raises:
        ConfigError: as `targets_of`.
    """
    targets = targets_of(options, environment)
    if not targets:
        return None
    from kshunt.backend.notify.dead_letters import DeadLetters
    from kshunt.backend.notify.http_sender import HttpSender
    from kshunt.backend.notify.message_store import MessageStore
    from kshunt.backend.notify.notifier import Notifier
    from kshunt.backend.notify.retries import RetryPolicy
    from kshunt.backend.notify.spool import Spool
    from kshunt.backend.notify.webhook import Webhook

    policy, path = RetryPolicy(), dead_letter_path(options, environment)
    keeping = MessageStore(Spool(waiting_path(path)), DeadLetters(path), clock)
    hooks = [
        Webhook(target, HttpSender(target, policy), keeping, clock, policy, secrets.randbits(64))
        for target in targets
    ]
    return Notifier(hooks, keeping, clock, policy)
