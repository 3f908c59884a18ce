"""How a client sends what it asks; the questions of each subject are built on it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urlencode

from kshunt.backend.api.client.answer_checks import ANSWER_BYTES_MAX, VALUES_MAX, checks_answers
from kshunt.backend.api.client.problems import raise_for_problem, raise_if_proposed
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.untrusted.json_codec import from_document
from kshunt.backend.domain.untrusted.strict_json import read_json

T = TypeVar("T")

UNPREVIEWED: Final = ("preview",)
"""For `Sender.change`: nothing shows beforehand what it would touch."""
UNCHECKED: Final = ("validate_only", *UNPREVIEWED)
"""And it cannot be checked alone either."""


class Reply(NamedTuple):
    """What a backend answers."""

    status: int
    content: bytes


class Sender(ABC):
    """Sends requests to one backend.

    Raises:
        BackendError: the backend refuses a request.
        BackendUnreachable: it does not answer.
        AwaitsApproval: what was asked for takes two people.
        UnreadableJson: the answer is no JSON.
    """

    def __init__(self, address: str) -> None:
        self.address = address

    @abstractmethod
    def close(self) -> None:
        """Release the connections."""

    @abstractmethod
    def exchange(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, endless: bool
    ) -> Reply:
        """Send a request; `endless` where its answer may take as long as it likes."""

    def get(self, path: str, parameters: Mapping[str, str] | None = None) -> Any:
        """Ask for a path; the JSON of the answer."""
        return _document(self._asked(path, parameters))

    def get_text(self, path: str, parameters: Mapping[str, str] | None = None) -> str:
        """Ask for a path; the answer as it stands."""
        reply = self._asked(path, parameters)
        raise_for_problem(*reply)
        return reply.content.decode()

    def post(self, path: str, body: Mapping[str, Any], *, endless: bool = False) -> Any:
        """Send a request; the JSON of the answer."""
        return _document(self.exchange("POST", path, body, endless=endless))

    def ask(self, kind: type[T], path: str, parameters: Mapping[str, str] | None = None) -> T:
        """Ask for a path; the answer as a value of a class."""
        return from_document(kind, self.get(path, parameters))

    def send(
        self, kind: type[T], path: str, body: Mapping[str, Any], *, endless: bool = False
    ) -> T:
        """Send a request; the answer as a value of a class."""
        return from_document(kind, self.post(path, body, endless=endless))

    def change(
        self,
        kind: type[T],
        path: str,
        change: Change,
        body: Mapping[str, Any],
        *,
        omit: Collection[str] = (),
        endless: bool = False,
    ) -> T:
        """Send a change of what `body` names; the answer as a value of a class.

        Fields of the change that `omit` names are left out where they are empty: a route that
        does not know them refuses the others.
        """
        said = {name: value for name, value in asdict(change).items() if value or name not in omit}
        return self.send(kind, path, {**body, **said}, endless=endless)

    def _asked(self, path: str, parameters: Mapping[str, str] | None) -> Reply:
        asked = f"{path}?{urlencode(parameters)}" if parameters else path
        return self.exchange("GET", asked, endless=False)


class Subject:
    """What can be asked about one subject; an answer that cannot be read is refused."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def __init_subclass__(cls) -> None:
        checks_answers(cls)


def _document(reply: Reply) -> Any:
    raise_for_problem(*reply)
    document = read_json(reply.content, bytes_max=ANSWER_BYTES_MAX, values_max=VALUES_MAX)
    raise_if_proposed(reply.status, document)
    return document
