"""What the live feed has told, whatever is shown: kept as a scene, and recorded as it comes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from kshunt.tui.feed.scene import Scene

if TYPE_CHECKING:
    from textual.message import Message

    from kshunt.tui.recorder.recorder import Recorder


class LiveScene:
    """The sum of the live feed's messages. Coming back to the present is showing it."""

    def __init__(
        self,
        now_s: Callable[[], float],
        post: Callable[[Message], object],
        recorder: Recorder | None = None,
    ) -> None:
        """Empty at first.

        Args:
            now_s: the clock of the live feed, in seconds.
            post: takes each message once it is part of the scene, from any thread.
            recorder: writes each message. None: nothing is recorded.
        """
        self.now_s = now_s
        self.recorder = recorder
        self.scene = Scene()
        """What the live feed has told so far."""
        self._post = post
        self._lock = threading.Lock()

    def tell(self, message: Message) -> None:
        """Take a message of the live feed: keep, record and post it. From any thread."""
        with self._lock:
            self.scene = self.scene.after(message, self.now_s())
            if self.recorder is not None:
                self.recorder.take(message)
        self._post(message)
