"""A cluster reached by this very process, for when no backend runs: no second one is started."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from kshunt.backend.admin.connect import reach
from kshunt.backend.settings import Settings

if TYPE_CHECKING:
    from kshunt.backend.admin.kips.backend_placer import BackendPlacer

T = TypeVar("T")


class LocalCluster:
    """The connections; what is asked over them is the code that a backend would run."""

    def __init__(self, settings: Settings) -> None:
        """Connect to the cluster.

        Raises:
            ClusterUnreachable: no broker answered in time.
            ConfigError: the client configuration cannot be used.
        """
        self.settings = settings
        self._runner = asyncio.Runner()
        try:
            self.admin = self.run(reach(settings))
        except BaseException:
            self._runner.close()
            raise
        try:
            self.run(self.admin.connect())
        except BaseException:
            self.close()
            raise

    def run(self, asked: Coroutine[Any, Any, T]) -> T:
        """What it comes to."""
        return self._runner.run(asked)

    def close(self) -> None:
        """Release the connections."""
        self.run(self.admin.close())
        self._runner.close()
        if self.settings.placer.name:
            from kshunt.backend.placement.placer_calls import close_placers

            close_placers()

    def placing(self) -> BackendPlacer | None:
        """What asks the placer, where one is named; those questions load it that need it.

        Raises:
            ConfigError: it cannot be loaded.
        """
        if not self.settings.placer.name:
            return None
        from kshunt.backend.admin.kips.backend_placer import load_backend_placer

        return load_backend_placer(self.settings.placer, self.admin.cluster, self.admin.logs)
