"""How a job of the pipeline is told to end: by a signal, or because its parent is gone."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

END_S: Final = 15.0
"""A batch that is under way has this long to end, once its job is to end."""
StopCallback = Callable[[], None]
"""What is done about it. It may come more than once, and from another thread."""


@contextmanager
def ended_by_signals(on_stop: StopCallback) -> Iterator[None]:
    """Meanwhile SIGTERM and SIGINT tell, and do not end the process themselves."""

    def stop(number: int, frame: FrameType | None) -> None:
        on_stop()

    former = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


@contextmanager
def ended_with_its_parent(wanted: bool, on_stop: StopCallback) -> Iterator[None]:
    """From here on, if it is wanted, the end of standard input tells: nobody holds it any more."""

    def look() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            pass
        on_stop()

    if wanted:
        threading.Thread(target=look, name="parent", daemon=True).start()
    yield


def end_anyway(first: StopCallback) -> None:
    """End the process in a while, after a call; what is said from that call on is of no use.

    A batch that takes too long is not waited for, and done again.
    """

    def end() -> None:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
            first()
        finally:
            os._exit(0)

    timer = threading.Timer(END_S, end)
    timer.daemon = True
    timer.start()
