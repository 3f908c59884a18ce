"""Changes that take two people, as the API answers them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kshunt.backend.domain.operations.approval import ShownProposal


@dataclass(frozen=True, slots=True)
class Proposals:
    """All stored proposals, newest first."""

    proposals: tuple[ShownProposal, ...]


@dataclass(frozen=True, slots=True)
class ApprovedProposal:
    """A proposal that was carried out, and the answer that its request would have had."""

    proposal: ShownProposal
    answer: dict[str, Any]
