"""The client's part that checks a shrink; see `backend.api.client.backend_client`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from backend.api.schema.shrinks import read_check
from backend.domain.shrink.check import ShrinkCheck


class ShrinkClient:
    """What `BackendClient` adds to by knowing how to send it."""

    def shrink_check(
        self, topic: str, partitions: int, *, copy_rate_bytes_per_s: int | None = None
    ) -> ShrinkCheck:
        """What speaks against leaving a topic so many partitions; nothing is changed.

        Args:
            topic: Its name.
            partitions: How many it shall keep; any number, for a senseless one is a finding.
            copy_rate_bytes_per_s: How fast a copy would be; None: the backend's assumption.

        Raises:
            BackendError: there is no such topic (`status` 404), or the cluster does not answer.
        """
        asked = {"partitions": str(partitions)}
        if copy_rate_bytes_per_s is not None:
            asked["copy_rate"] = str(copy_rate_bytes_per_s)
        return read_check(self._get(f"/v1/topics/{quote(topic, safe='')}/shrink", asked))

    # Sending is `BackendClient`'s.

    def _get(self, path: str, parameters: Mapping[str, str] | None = None) -> Any:
        raise NotImplementedError
