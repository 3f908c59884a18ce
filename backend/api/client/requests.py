"""How a client sends what it asks; the part of each resource is built on it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any


class Requests(ABC):
    """Sends requests, and gives the JSON of the answers.

    Raises:
        BackendError: the backend refuses a request.
        BackendUnreachable: it does not answer.
    """

    @abstractmethod
    def _get(self, path: str, parameters: Mapping[str, str] | None = None) -> Any:
        """Ask for a path."""

    @abstractmethod
    def _post(self, path: str, body: Mapping[str, Any], *, endless: bool = False) -> Any:
        """Send a request; `endless` where its answer may take as long as it likes."""
