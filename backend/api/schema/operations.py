"""Operations as the API answers them."""

from __future__ import annotations

from dataclasses import dataclass

from kshunt.backend.domain.operations.operation import Operation


@dataclass(frozen=True, slots=True)
class Operations:
    """The operations of a backend, newest first."""

    operations: tuple[Operation, ...]
