"""Who is connected to a backend, as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kshunt.backend.api.schema.base import Json
from kshunt.backend.domain.operations.team import ConnectedSession, Presence


def present_json(one: ConnectedSession) -> Json:
    """One who is here."""
    return {
        "session": one.session,
        "who": one.who,
        "screen": one.screen,
        "selected": one.selected,
        "since_ms": one.since_ms,
    }


def presence_json(presence: Presence) -> Json:
    """Who is here, and whom the backend takes the reader for."""
    return {"you": presence.you, "present": [present_json(one) for one in presence.present]}


def read_presence(document: Mapping[str, Any]) -> Presence:
    """The opposite of `presence_json`."""
    return Presence(tuple(ConnectedSession(**one) for one in document["present"]), document["you"])
