"""Changes that take two people: a list, and what can be done with each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget

from kshunt.backend.domain.operations.approval import ShownProposal
from kshunt.tui.data.team import STATES, proposal_lines
from kshunt.tui.dialogs.dialog import Dialog, Lines, remove_children
from kshunt.tui.feed.polled_facts import PROPOSALS
from kshunt.tui.text.fitting import printable

if TYPE_CHECKING:
    from kshunt.tui.shell.dashboard import Dashboard

SHOWN_MOST: Final = 30
"""Older ones that have ended are in the audit."""
KEYS: Final = "j k choose   a approve   r reject   w withdraw   Esc closes"


class ProposalAction(NamedTuple):
    """What is to be done with a proposal."""

    verb: str
    proposal: ShownProposal


class ProposalsScreen(Dialog[ProposalAction | None]):
    """Answers with what is to be done next, or None; each is asked about once more."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "close", "Close", show=False),
        Binding("j,down", "choose(1)", "Down", show=False),
        Binding("k,up", "choose(-1)", "Up", show=False),
        Binding("a,enter", "want('approve')", "Approve", show=False),
        Binding("r", "want('reject')", "Reject", show=False),
        Binding("w", "want('withdraw')", "Withdraw", show=False),
    ]

    def __init__(self, app: Dashboard) -> None:
        super().__init__("Proposals", opened_by="proposals")
        self._kshunt = app
        self._chosen = ""
        """The id of the one that is chosen."""

    def compose_body(self) -> Iterable[Widget]:
        """A place for the list."""
        yield VerticalScroll(id="details", can_focus=False)
        yield Lines(KEYS, id="keys", classes="hint")

    def on_mount(self) -> None:
        """Follow the store."""
        self._kshunt.changed.subscribe(self, self._on_changed)
        self._on_changed("")

    @property
    def listed(self) -> tuple[ShownProposal, ...]:
        """Those that wait first, and then the newest; the chosen one stays, whatever comes."""
        found = sorted(self._kshunt.store.scene.answer(PROPOSALS), key=lambda one: not one.waiting)
        most = max(SHOWN_MOST, sum(one.waiting for one in found))
        return (*found[:most], *(one for one in found[most:] if one.id == self._chosen))

    def _on_changed(self, view: str) -> None:
        self.ask(self._show)

    async def _show(self) -> None:
        listed, box = self.listed, self.query_one("#details")
        if listed and self._chosen not in {one.id for one in listed}:
            self._chosen = listed[0].id
        wanted = [
            (one, proposal_lines(one, self._kshunt.store.now_ms), one.id == self._chosen)
            for one in listed
        ]
        shown, count = list(box.query(Lines)), max(2 * len(wanted), 1)
        if len(shown) < count:
            more = [Lines(classes="effect item") for _ in range(count - len(shown))]
            await box.mount_all(more)
            shown += more
        elif len(shown) > count:
            await remove_children(box, shown[count:])
        if not wanted:
            shown[0].say(
                "There is no proposal; with --two-person, the backend proposes some changes."
            )
        for place, (one, (head, rest), chosen) in enumerate(wanted):
            tone = f"-{STATES.get(one.state, 'dim')}"
            # Not by colour alone: what is pressed next is about this one.
            self._say(shown[2 * place], f"{'>' if chosen else ' '} {head}", tone, chosen)
            self._say(shown[2 * place + 1], f"    {rest}", "", chosen)

    def _say(self, line: Lines, text: str, tone: str, chosen: bool) -> None:
        if line.plain != printable(text):
            # What is said anew is laid out anew, and the list may be long.
            line.say(text)
        line.set_class(chosen, "-chosen")
        for other in ("-warn", "-good", "-bad", "-dim"):
            line.set_class(other == tone, other)
        if chosen:
            # Lines that have just come have no place yet.
            self.call_after_refresh(line.scroll_visible, animate=False)

    def action_choose(self, steps: int) -> None:
        """Choose another one."""
        ids = [one.id for one in self.listed]
        if ids:
            place = ids.index(self._chosen) if self._chosen in ids else 0
            self._chosen = ids[min(max(place + steps, 0), len(ids) - 1)]
            self.ask(self._show)

    def action_want(self, verb: str) -> None:
        """Do something with the chosen one, if that is possible; else say why not."""
        found = next((one for one in self.listed if one.id == self._chosen), None)
        keys = self.query_one("#keys", Lines)
        if found is None:
            return
        if verb in found.actions:
            self.dismiss(ProposalAction(verb, found))
        elif not found.waiting:
            keys.say(f"It is {found.state}; it cannot be changed any more.   {KEYS}")
        elif "withdraw" in found.actions:
            keys.say(f"You proposed it: another person must {verb} it.   {KEYS}")
        else:
            able = " or ".join(found.actions) or "only look"
            keys.say(f"You cannot {verb} it; you may {able}.   {KEYS}")
