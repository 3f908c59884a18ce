"""Ownership as the journal's documents say it."""

from __future__ import annotations

from collections.abc import Mapping

from kshunt.backend.operations.ownership.ownership import Ownership
from kshunt.backend.operations.state.ownership_documents import Document, readable


def from_documents(documents: Mapping[str, Document]) -> Ownership:
    """The ownership that `to_documents` wrote.

    Raises:
        UnreadableOwnership: a document cannot be understood; the message names its field.
    """
    ownership, unreadable = readable(documents)
    for error in unreadable.values():
        raise error
    return ownership
