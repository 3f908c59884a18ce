"""A dialogue or a part of one that is taken down while it waits for the next paint."""

from textual.app import App, ComposeResult
from textual.containers import Vertical
from textual.widgets import Static

from kshunt.tui.dialogs.dialog import Composed


class Parted(Composed, Vertical):
    """It says something once the screen was painted, in the last of its lines."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def compose(self) -> ComposeResult:
        """Two lines."""
        yield Static(id="first")
        yield Static(id="last")

    def say(self, words: str) -> None:
        """Say it in the last line."""
        self.query_one("#last", Static).update(words)
        self.said.append(words)


async def test_nothing_is_said_in_lines_that_are_being_removed() -> None:
    part = Parted()
    async with App[None]().run_test() as pilot:
        await pilot.app.mount(part)
        part.call_after_refresh(part.say, "here")
        await pilot.pause()
        assert part.said == ["here"]
        part.call_after_refresh(part.say, "gone")
        await part.remove()
        await pilot.pause()
    assert part.said == ["here"]
