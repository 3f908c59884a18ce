"""The command palette over the action registry: what the view in sight can do, by name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from textual.command import DiscoveryHit, Hit, Hits, Provider

from tui.actions import Action, actions_of, key_name
from tui.screens.view import ViewScreen


class ActionProvider(Provider):
    """The command palette's entries: what the view in sight can do."""

    @property
    def _view(self) -> ViewScreen:
        assert isinstance(self.screen, ViewScreen)
        return self.screen

    def _entries(self) -> Iterable[tuple[str, str, Action]]:
        for action in actions_of(self._view.VIEW):
            if action.group == "Move" or action.id == "palette":
                continue
            keys = key_name(action.keys[0])
            refusal = self._view.refusal(action)
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
                yield Hit(score, matcher.highlight(title), self._command(action), help=text)

    def _command(self, action: Action) -> Callable[[], Awaitable[None]]:
        view = self._view

        async def run() -> None:
            await view.run_action(action.id)

        return run
