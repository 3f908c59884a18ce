"""The command palette: what the view in sight can do, and every topic, broker and operation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from textual.await_complete import AwaitComplete
from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.markup import escape

from kshunt.tui.actions import Action, actions_of, key_name
from kshunt.tui.actions.view_names import BROKERS, OPERATIONS, PARTITIONS
from kshunt.tui.text.fitting import printable
from kshunt.tui.views.view_screen import ViewScreen

if TYPE_CHECKING:
    from kshunt.tui.shell.dashboard import Dashboard
    from kshunt.tui.tables.targets import ScreenTarget

PLACES_MOST: Final = 30
"""Places that are offered for what was typed; another letter makes them fewer."""


class Palette(CommandPalette):
    """Textual's palette, which neither turns a page of a list without room nor closes only once."""

    def _action_command_list(self, action: str) -> None:
        with suppress(KeyError, IndexError):
            super()._action_command_list(action)

    def dismiss(self, result: None = None) -> AwaitComplete:
        """Close it, once: the view under it may be another by then."""
        return super().dismiss(result) if self.app.screen is self else AwaitComplete()


def _view_of(provider: Provider) -> ViewScreen:
    assert isinstance(provider.screen, ViewScreen)
    return provider.screen


class ActionProvider(Provider):
    """What the view in sight can do."""

    def _entries(self) -> Iterable[tuple[str, str, Action]]:
        view = _view_of(self)
        for action in actions_of(view.VIEW):
            if action.group == "Move" or action.id == "palette":
                continue
            keys = key_name(action.keys[0])
            refusal = view.refusal(action)
            yield f"{action.title} ({keys})", refusal or action.help, action

    async def discover(self) -> Hits:
        """Everything, while nothing is typed."""
        for title, text, action in self._entries():
            yield DiscoveryHit(title, self._command(action), help=text)

    async def search(self, query: str) -> Hits:
        """What matches."""
        matcher = self.matcher(query)
        for title, text, action in self._entries():
            score = matcher.match(title)
            if score > 0:
                score += _nearness(query, action.title)
                yield Hit(score, matcher.highlight(title), self._command(action), help=text)

    def _command(self, action: Action) -> Callable[[], Awaitable[None]]:
        view = _view_of(self)

        async def run() -> None:
            await view.run_action(action.id)

        return run


def _nearness(query: str, title: str) -> float:
    """What puts a title before others that hold the same words: it is these words, or begins so."""
    typed, whole = query.strip().lower(), title.lower()
    return 1.0 if whole == typed else 0.5 if whole.startswith(typed) else 0.0


class PaletteTarget(NamedTuple):
    """Something that the palette leads to."""

    title: str
    """`topic payments`, `broker 3`, `operation op-1`."""
    text: str
    target: ScreenTarget


class PlaceProvider(Provider):
    """Topics, brokers and operations by name; offered once something is typed."""

    async def startup(self) -> None:
        """What there is when the palette opens: 20,000 topics are not listed at each key."""
        self._places = list(places(_view_of(self).kshunt))

    async def search(self, query: str) -> Hits:
        """The names that hold every word that was typed, the shortest first."""
        words = query.lower().split()
        found = [place for place in self._places if all(w in place.title.lower() for w in words)]
        found.sort(key=lambda place: (len(place.title), place.title))
        matcher = self.matcher(query)
        for place in found[:PLACES_MOST]:
            score = matcher.match(place.title)
            # Names are no markup: a topic may hold brackets.
            title = matcher.highlight(escape(place.title))
            yield Hit(score, title, self._command(place), help=escape(place.text))

    def _command(self, place: PaletteTarget) -> Callable[[], None]:
        app = _view_of(self).kshunt

        def run() -> None:
            from kshunt.tui.shell.navigation import go

            go(app, place.target)

        return run


def places(app: Dashboard) -> Iterable[PaletteTarget]:
    """Everything that has a name, but for replicas: the filter finds those."""
    from kshunt.tui.tables.targets import ScreenTarget

    store = app.store
    for operation in store.scene.operations:
        words = f"{operation.state.value}: {printable(operation.summary)}"
        target = ScreenTarget(OPERATIONS, key=operation.id)
        yield PaletteTarget(f"operation {operation.id}", words, target)
    snapshot = store.scene.snapshot
    if snapshot is None:
        return
    for id in sorted(snapshot.brokers):
        yield PaletteTarget(
            f"broker {id}", "Its row in the brokers view.", ScreenTarget(BROKERS, key=id)
        )
    for topic in snapshot.topics:
        target = ScreenTarget(PARTITIONS, filter_text=f"topic:{topic}")
        yield PaletteTarget(f"topic {printable(topic)}", "Its replicas.", target)
