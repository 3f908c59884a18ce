"""What a scripted backend answers of people who share it: none of it changes its cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any, Final

from kshunt.backend.domain.operations.approval import ProposalState, ShownProposal
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.operations.team import Claim, ConnectedSession, Note
from kshunt.backend.domain.untrusted.json_codec import to_document
from tests.support.tui.cluster import ScriptedCluster

Json = dict[str, Any]
_ABOUT: Final = ("claim", "release", "notes")
_DECIDED: Final = {"reject": "rejected", "withdraw": "withdrawn"}


class TeamAnswers:
    """Who is here, claims, notes and proposals. An approval is left to who counts changes."""

    def __init__(self, cluster: ScriptedCluster, announce: Callable[[Operation], None]) -> None:
        self._cluster = cluster
        self._announce = announce
        self.present: list[ConnectedSession] = []
        """Who else is here."""
        self.you = ""
        """What a backend with credentials calls the client that asks."""
        self.full: Exception | None = None
        """Why nobody more is remembered; None where everybody is."""
        self.proposals: list[ShownProposal] = []
        self.foreseen: Json = {"lines": [], "notes": [], "fingerprint": "f-1", "changed": False}
        """What each of them would do."""
        self.heard: list[Json] = []
        """What a dashboard said of itself."""
        self.sent: list[tuple[str, Json]] = []
        """What else was said: path and body."""

    def answer(self, method: str, path: str, body: Json) -> Json | None:
        """The answer to a question of this kind; None to any other."""
        parts = path.removeprefix("/v1/").split("/")
        match (method, *parts):
            case ("POST", "presence"):
                return self._seen(body)
            case ("GET", "presence"):
                return {"you": self.you, "present": list(map(asdict, self.present))}
            case ("GET", "proposals"):
                return {"proposals": [asdict(one) for one in self.proposals]}
            case ("GET", "proposals", _, "preview"):
                return self.foreseen
            case ("POST", "proposals", id, verb) if verb in _DECIDED:
                self.sent.append((path, body))
                return self._decided(id, _DECIDED[verb], body)
            case ("POST", "proposals", id, "approve"):
                return None
            case ("POST", "operations", id, verb) if verb in _ABOUT:
                self.sent.append((path, body))
                return self._said(id, verb, body)
        return None

    def _seen(self, body: Json) -> Json:
        if self.full is not None:
            raise self.full
        self.heard.append(body)
        own = {name: body[name] for name in ("session", "screen", "selected")}
        own |= {"who": self.you or body["who"], "since_ms": self._cluster.now_ms}
        return {"you": self.you, "present": [own, *map(asdict, self.present)]}

    def _decided(self, id: str, state: str, body: Json) -> Json:
        (found,) = [one for one in self.proposals if one.id == id]
        after = replace(
            found, state=ProposalState(state), settled_reason=body["reason"], actions=()
        )
        self.proposals = [after if one.id == id else one for one in self.proposals]
        return asdict(after)

    def _said(self, id: str, verb: str, body: Json) -> Json:
        operation, now_ms = self._cluster.operations[id], self._cluster.now_ms
        who = self.you or body["who"]
        if verb == "notes":
            after = replace(operation, notes=(*operation.notes, Note(who, now_ms, body["text"])))
        else:
            claim = None if verb == "release" else Claim(who, now_ms, body["reason"])
            after = replace(operation, claim=claim)
        self._cluster.operations[id] = after
        self._announce(after)
        return to_document(after)
