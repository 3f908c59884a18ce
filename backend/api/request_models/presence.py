"""Who is connected to a backend, and what they look at."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kshunt.backend.api.request_models.base import PLAIN, Strict, Who

Session = Annotated[str, Field(min_length=8, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]


class PresenceRequestModel(Strict):
    """A report of a session, with its view."""

    session: Session = Field(description="a random text that stays the same during the session")
    who: Who = ""
    screen: str = Field(default="", max_length=40, pattern=PLAIN)
    selected: str = Field(default="", max_length=300, pattern=PLAIN)
    leaves: bool = Field(default=False, description="true: the session ends")
