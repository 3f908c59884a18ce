"""How a client sends what it asks; the part of each resource is built on it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TypeVar

from kshunt.backend.domain.untrusted.json_codec import from_document

T = TypeVar("T")


class Requests(ABC):
    """Sends requests, and gives the values of the answers.

    Raises:
        BackendError: the backend refuses a request.
        BackendUnreachable: it does not answer.
    """

    def _ask(self, kind: type[T], path: str, parameters: Mapping[str, str] | None = None) -> T:
        """Ask for a path; the answer as a value of a class."""
        return from_document(kind, self._get(path, parameters))

    def _send(
        self, kind: type[T], path: str, body: Mapping[str, Any], *, endless: bool = False
    ) -> T:
        """Send a request; `endless` where its answer may take as long as it likes."""
        return from_document(kind, self._post(path, body, endless=endless))

    @abstractmethod
    def _get(self, path: str, parameters: Mapping[str, str] | None = None) -> Any:
        """Ask for a path; the JSON of the answer."""

    @abstractmethod
    def _post(self, path: str, body: Mapping[str, Any], *, endless: bool = False) -> Any:
        """Send a request; the JSON of the answer."""
