"""What the API says of shrinks that no value of the domain has."""

from __future__ import annotations

from dataclasses import dataclass

from kshunt.backend.domain.shrink.delete_partitions import ShrinkSupport


@dataclass(frozen=True, slots=True)
class DeletionSupport:
    """Whether a cluster can delete partitions (KIP-694)."""

    support: ShrinkSupport
