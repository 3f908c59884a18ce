"""Flags of `kshunt serve` about a journal that nobody with the cluster's keys has written."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Final

from kshunt.backend.commandline.table import Flag

if TYPE_CHECKING:
    from kshunt.backend.operations.journal.replay import Unproven

_HELP: Final = "use it once, with every other backend stopped, then remove the flag"


_GROUP: Final = "a journal without signatures of this cluster's keys"
FLAGS: Final = (
    Flag(
        "adopt-unsigned-journal",
        f"Trust its entries and sign them, for example after an upgrade; {_HELP}.",
        either="journal",
        group=_GROUP,
    ),
    Flag(
        "ignore-unsigned-journal",
        f"Trust none of its entries and begin a new journal next to them; {_HELP}.",
        either="journal",
        group=_GROUP,
    ),
)


def unproven_of(options: Namespace) -> Unproven:
    """What the flags say; they mean nothing for a journal that has signatures of our keys."""
    from kshunt.backend.operations.journal.replay import Unproven

    if options.adopt_unsigned_journal:
        return Unproven.ADOPT
    return Unproven.IGNORE if options.ignore_unsigned_journal else Unproven.REFUSE
