"""The application as its parts below the screens know it: facts, the feed, and saying something.

`kshunt.tui.app.KshuntApp` is it. Parts name this class, so that none of them depends on what is
built of them. What screens may ask for in addition is in `kshunt.tui.shell.dashboard`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from kshunt.tui.terminal.input import InputApp

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.signal import Signal

    from kshunt.tui.data.live_scene import LiveScene
    from kshunt.tui.data.store import Store
    from kshunt.tui.feed.backend_link import Link
    from kshunt.tui.feed.messages import Feed
    from kshunt.tui.feed.scene import Scene
    from kshunt.tui.terminal.downloads import Downloads
    from kshunt.tui.text.glyphs import Glyphs


class Host(InputApp):
    """See the module's text."""

    address: str
    read_only: bool
    downloads: Downloads | None
    """Where files go; None: the dashboard uses the files of the host that it runs on."""
    glyphs: Glyphs
    store: Store
    live: Link
    """The feed of the present, whatever is shown; silent while a recording is replayed."""
    live_scene: LiveScene
    """What that has told."""
    changed: Signal[str]
    """The store changed: the name of a view, or empty for all of them."""
    changing: bool
    """True while a change is being asked for, sent or answered."""
    opens_on_all: bool
    """True where the partitions view opens on every replica, and not on what moves or ails."""
    underway: bool
    """True while the cursor is on its way to a row of another view."""

    @property
    @abstractmethod
    def link(self) -> Feed:
        """Whom to ask about what is shown; in the past nobody answers."""

    @property
    @abstractmethod
    def seen(self) -> tuple[str, str]:
        """The view in sight, and what is under its cursor, for others to read."""

    @abstractmethod
    def say(self, text: str, tone: str = "") -> None:
        """Say something on the last line of the view in sight."""

    @abstractmethod
    def compute_table(self, view: str) -> None:
        """Compute a view's table from the newest snapshot."""

    @abstractmethod
    def show_scene(self, scene: Scene, now_s: Callable[[], float]) -> None:
        """Show all that was known at one moment; `now_s` is the clock of the scene's times."""
