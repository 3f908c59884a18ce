"""People who share a backend: who is here, who steers what, and what waits for a second one. Pure.

Names are those that the backend knows, or what people say of themselves where it asks for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kshunt.backend.domain.operations.approval import ShownProposal
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.operations.team import Claim, ConnectedSession, Presence
from kshunt.backend.domain.text.formatting import duration_text, moment_text
from kshunt.backend.operator_identity import who_am_i
from kshunt.tui.actions.view_names import TITLES
from kshunt.tui.feed.polled_facts import PRESENCE
from kshunt.tui.text.fitting import printable

if TYPE_CHECKING:
    from kshunt.tui.data.store import Store

SELECTED_MAX: Final = 300
STATES: Final = {
    "waiting": "warn",
    "approved": "warn",
    "done": "good",
    "failed": "bad",
    "rejected": "dim",
    "withdrawn": "dim",
    "expired": "dim",
}


def my_name(store: Store) -> str:
    """What the backend calls the operator of this dashboard; `who_am_i` until it has answered."""
    presence = store.scene.answer(PRESENCE)
    return (presence.you if presence is not None else "") or who_am_i()


# Who is here


def others(presence: Presence | None) -> tuple[ConnectedSession, ...]:
    """Everybody else."""
    if presence is None:
        return ()
    return tuple(one for one in presence.present if one.session != presence.session)


def presence_forms(presence: Presence | None) -> tuple[str, ...]:
    """`2 here: you, bob`, and shorter forms of it; none where nobody else is here."""
    found = others(presence)
    if not found:
        return ()
    names = list(dict.fromkeys(printable(one.who.partition("@")[0]) or "?" for one in found))
    count = f"{len(found) + 1} here"
    few = names if len(names) <= 3 else [*names[:2], f"{len(names) - 2} more"]
    return f"{count}: you, {', '.join(few)}", count


def presence_facts(presence: Presence | None) -> list[tuple[str, str]]:
    """Name, view and arrival of each person; the operator of this dashboard comes first."""
    if presence is None:
        return []
    mine = [one for one in presence.present if one.session == presence.session]
    return [
        (
            f"{one.who or '?'}{' (you)' if one in mine else ''}",
            f"{looks_at(one)} (here since {moment_text(one.since_ms)[11:16]} UTC)",
        )
        for one in (*mine, *others(presence))
    ]


def looks_at(one: ConnectedSession) -> str:
    """`Partitions: orders-0 on 3`."""
    title = TITLES[one.screen].full if one.screen in TITLES else one.screen
    if not title:
        return "does not report its view"
    return f"{title}: {one.selected}" if one.selected else title


def selected_words(key: object) -> str:
    """What is under a cursor, for others to read."""
    if isinstance(key, tuple):
        words = "-".join(str(part) for part in key)
    else:
        words = "" if key is None else str(key)
    return "".join(c if c.isprintable() else " " for c in words)[:SELECTED_MAX]


# Claims


def held_words(operation: Operation, me: str, key: str) -> str:
    """Why an operation cannot be steered from here, or empty."""
    claim = operation.claim
    if claim is None or claim.who == me:
        return ""
    return f"{steered_words(claim)}. {key} takes over."


def steered_words(claim: Claim) -> str:
    """`ada steers it since 05:35:31 UTC: the disks are slow`."""
    why = f": {claim.reason}" if claim.reason else ""
    return f"{claim.who} has claimed it since {moment_text(claim.since_ms)[11:]}{why}"


# Proposals


def awaits_me(proposals: Sequence[ShownProposal]) -> tuple[ShownProposal, ...]:
    """Those that the operator of this dashboard may approve."""
    return tuple(one for one in proposals if "approve" in one.actions)


def left_text(proposal: ShownProposal, now_ms: int) -> str:
    """How long it waits still, in minutes: what changes every second would be drawn every one."""
    minutes = math.ceil(max(proposal.expires_ms - now_ms, 0) / 60_000)
    return duration_text(minutes * 60.0)[:-3] if 0 < minutes < 60 else duration_text(minutes * 60.0)


def proposal_lines(proposal: ShownProposal, now_ms: int) -> tuple[str, str]:
    """What it is, and who proposed, may decide or decided it."""
    head = f"{proposal.state:9} {proposal.summary}"
    by = f"{proposal.id}, by {proposal.who}" + (f": {proposal.reason}" if proposal.reason else "")
    if proposal.waiting:
        able = " or ".join(proposal.actions) or "look at"
        return head, f"{by}; expires in {left_text(proposal, now_ms)}; you may {able} it"
    came = proposal.outcome or proposal.settled_reason
    who = f" by {proposal.settled_by}" if proposal.settled_by else ""
    return head, f"{by}; {proposal.state}{who}" + (f": {came}" if came else "")


def words_of(proposal: ShownProposal, now_ms: int, key: str) -> str:
    """One sentence about a proposal that waits for the operator of this dashboard."""
    left = left_text(proposal, now_ms)
    return f"{proposal.who} proposes: {proposal.summary} ({key} shows it; it expires in {left})."
