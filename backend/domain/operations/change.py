"""Who stands behind a change."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Requester:
    """Who asked for a change, and why; as they say of themselves."""

    who: str = ""
    """`ada@bastion`, or empty."""
    reason: str = ""
    proposal: str = ""
    """The id of the proposal that two people agreed on; empty where it took only one."""
    people: tuple[str, ...] = ()
    """Both names; empty for one, whose is `who`."""

    @property
    def names(self) -> tuple[str, ...]:
        """Everybody who stands behind it."""
        return self.people or (self.who,)


UNKNOWN_REQUESTER = Requester()
