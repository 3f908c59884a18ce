"""Keeps the collections of garbage short, however much the process holds.

Goals
    No collection holds up the event loop for long. Python visits all objects in one call, which no
    other thread can interrupt. Modules and large operations are very many objects.
Constraints
    Almost nothing here is garbage in cycles; what is must go some time all the same.
Algorithm
    Whatever outlives a full collection is left out of the later ones (`gc.freeze`), so each goes
    over what is new. It is still freed as soon as nothing refers to it. Once very many more objects
    are left out than after the last thorough collection, the next one goes over all of them again.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

FULL_AFTER: Final = 2
"""Collections of the middle generation until a full one. Python's own 10 let five times as much
gather. Each object is visited once, so more collections cost no more."""
COUNTED_EVERY: Final = 50
"""Full collections; to count the objects is a walk over them."""
LOOSE_MAX: Final = 1_000_000
"""Objects more than twice those of the last thorough collection: some 100 MB."""


@contextmanager
def kept() -> Iterator[None]:
    """What is made inside stays, such as modules: collections neither disturb it nor see it later.

    Without this, a tenth of the time of a large import goes into collections that find nothing.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


class Heap:
    """The objects of this process; see the module's text."""

    def __init__(self, loose_max: int = LOOSE_MAX) -> None:
        self._loose_max = loose_max
        self._collections = 0
        self._frozen_count = 0
        """Objects that outlived the last thorough collection."""
        self._thorough = False
        self._thresholds = gc.get_threshold()

    def start(self) -> None:
        """Leave out what is there now, and what outlives each full collection from now on."""
        gc.collect()
        gc.freeze()
        self._frozen_count = gc.get_freeze_count()
        gc.callbacks.append(self._collected)
        gc.set_threshold(*self._thresholds[:2], FULL_AFTER)

    def stop(self) -> None:
        """Leave nothing out any more."""
        if self._collected in gc.callbacks:
            gc.callbacks.remove(self._collected)
        gc.set_threshold(*self._thresholds)
        gc.unfreeze()

    def _collected(self, phase: str, info: dict[str, Any]) -> None:
        if phase != "stop" or info["generation"] < 2:
            return
        gc.freeze()
        self._collections += 1
        if self._thorough:
            self._thorough = False
            self._frozen_count = gc.get_freeze_count()
        elif self._collections % COUNTED_EVERY == 0:
            self._thorough = gc.get_freeze_count() > 2 * self._frozen_count + self._loose_max
            if self._thorough:
                gc.unfreeze()
