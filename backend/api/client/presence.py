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
            session: Letters and digits chosen at random. They stay the same until the session ends.
            who: A name. It is for a backend that asks for no credentials.
            screen: The view that is shown.
            selected: What is under its cursor, in words.
            leaves: Whether the session ends.
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
