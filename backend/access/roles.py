"""Roles, and who a caller is."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from kshunt.backend.errors import BadInput


class Role(enum.StrEnum):
    """What a caller may do; each may all that the ones before it may."""

    VIEWER = "viewer"
    """Look, plan and rehearse."""
    OPERATOR = "operator"
    """Change the cluster, and take it back."""
    ADMIN = "admin"
    """What loses data, or cannot be taken back."""

    def may(self, needed: Role) -> bool:
        """Whether that is enough."""
        return _RANK[self] >= _RANK[needed]


_RANK: Final = {role: rank for rank, role in enumerate(Role)}


@dataclass(frozen=True, slots=True)
class Caller:
    """The one who asks, once it is certain who that is."""

    name: str
    """For the audit: a token's name, or the subject in an identity provider's signed claims."""
    role: Role
    id: str
    """The same for all requests of one credential; rates are counted by it."""


LOCAL: Final = Caller("", Role.ADMIN, "local")
"""A caller who may open the backend's socket, or reach a loopback port that needs no credential.

Such a caller has no name: the audit has only the name that they give themselves."""


def role_of(text: str) -> Role:
    """The role of that name.

    Raises:
        BadInput: there is none.
    """
    try:
        return Role(text.strip().lower())
    except ValueError:
        raise BadInput(f"'{text}' is not a role.", advice=f"Roles are {', '.join(Role)}.") from None
