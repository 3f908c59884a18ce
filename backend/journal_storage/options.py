"""Flags of `kshunt serve` about a journal that nobody with the cluster's keys has written."""

from __future__ import annotations

import argparse
from typing import Final

from kshunt.backend.operations.journal.replay import Unproven

_HELP: Final = "use it once, with every other backend stopped, then remove the flag"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    group = parser.add_argument_group("a journal without signatures of this cluster's keys")
    either = group.add_mutually_exclusive_group()
    either.add_argument(
        "--adopt-unsigned-journal",
        action="store_true",
        help=f"trust its entries and sign them, for example after an upgrade; {_HELP}",
    )
    either.add_argument(
        "--ignore-unsigned-journal",
        action="store_true",
        help=f"trust none of its entries and begin a new journal next to them; {_HELP}",
    )


def unproven_of(options: argparse.Namespace) -> Unproven:
    """What the flags say; they mean nothing for a journal that has signatures of our keys."""
    if options.adopt_unsigned_journal:
        return Unproven.ADOPT
    return Unproven.IGNORE if options.ignore_unsigned_journal else Unproven.REFUSE
