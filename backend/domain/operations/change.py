"""How a change is asked for, whatever it changes; and who stands behind it."""

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


@dataclass(frozen=True, slots=True)
class Change:
    """What every request for a change says in addition to the change itself."""

    validate_only: bool = False
    """True: it is checked, and nothing is changed."""
    cluster_id: str | None = None
    """Of the cluster to change; a backend of another cluster refuses."""
    preview: str = ""
    """The fingerprint of the preview that was agreed to; empty where there was none."""
    who: str = ""
    reason: str = ""
    """For the audit, both."""

    @property
    def requester(self) -> Requester:
        """Who asked for it, and why."""
        return Requester(self.who, self.reason)


@dataclass(frozen=True, slots=True)
class AgreedChange(Change):
    """A change that two people stand behind."""

    proposal: str = ""
    """The id of what they agreed on."""
    people: tuple[str, ...] = ()
    """Their names."""

    @property
    def requester(self) -> Requester:
        """Both, as one who asks."""
        return Requester(self.who, self.reason, self.proposal, self.people)


ANONYMOUS_CHANGE = Change()
"""A real change of whichever cluster answers; it names no requester."""
