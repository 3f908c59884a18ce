"""Past stalls of replicas, as the data pipeline has them: asked for when one is looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kshunt.backend.errors import KshuntError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from kshunt.backend.api.client.backend_client import BackendClient
    from kshunt.backend.domain.pipeline.delivered import Rows, StallRow

    Ask = Callable[[Callable[[BackendClient], Rows[StallRow]]], Awaitable[Rows[StallRow]]]

REPLICAS_CACHED: Final = 64
AGE_MOST_S: Final = 30.0
"""The dashboard asks again when an answer is older than this."""
HOURS: Final = 24
MOST: Final = 1_000


class ReplicaStalls:
    """Answers by topic, partition and broker, each with the time at which it came."""

    def __init__(self, ask: Ask, now_s: Callable[[], float]) -> None:
        self._ask, self._now_s = ask, now_s
        self._known: dict[tuple[str, int, int], tuple[float, Rows[StallRow] | None]] = {}
        self._open: set[tuple[str, int, int]] = set()

    def known(self, replica: tuple[str, int, int]) -> Rows[StallRow] | None:
        """The replica's stalls; None where nobody has said."""
        _, found = self._known.get(replica, (0.0, None))
        return found

    def wants(self, replica: tuple[str, int, int]) -> bool:
        """Whether the replica has to be asked for: never, or too long ago."""
        if replica in self._open:
            return False
        at_s, _ = self._known.get(replica, (float("-inf"), None))
        return self._now_s() - at_s > AGE_MOST_S

    async def fetch(self, replica: tuple[str, int, int]) -> None:
        """Ask for a replica, and keep what comes of it; what was known stays where nobody says."""
        if replica in self._open:
            return
        self._open.add(replica)
        try:
            found: Rows[StallRow] | None = await self._ask(
                lambda client: client.pipeline.stalls(HOURS, replica=replica, most=MOST)
            )
        except KshuntError:
            found = self.known(replica)
        finally:
            self._open.discard(replica)
        self._known.pop(replica, None)
        self._known[replica] = (self._now_s(), found)
        while len(self._known) > REPLICAS_CACHED:
            del self._known[next(iter(self._known))]

    def forget(self) -> None:
        """This is another cluster: topics of the same name are others."""
        self._known.clear()
