"""The client's part for who is connected to a backend."""

from __future__ import annotations

from dataclasses import replace

from kshunt.backend.api.client.sending.sender import Subject
from kshunt.backend.domain.operations.team import Presence


class PresenceClient(Subject):
    """Who is here, and what they look at."""

    def list(self) -> Presence:
        """Who is connected to the backend, and what they look at."""
        return self._sender.ask(Presence, "/v1/presence")

    def announce(
        self,
        session: str,
        *,
        who: str = "",
        screen: str = "",
        selected: str = "",
        leaves: bool = False,
    ) -> Presence:
        """Say that one is here, and what one looks at; who else is.

        Args:
            session: letters and digits chosen at random; the same as long as the session lasts.
            who: a name, for a backend that asks for no credentials.
            screen: the view that is shown.
            selected: what is under its cursor, in words.
            leaves: True to say that one goes.
        """
        body = {
            "session": session,
            "who": who,
            "screen": screen,
            "selected": selected,
            "leaves": leaves,
        }
        found = self._sender.send(Presence, "/v1/presence", body)
        return replace(found, session=session)
