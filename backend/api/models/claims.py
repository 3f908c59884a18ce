"""What people say about an operation, as answers show it."""

from __future__ import annotations

from pydantic import BaseModel


class ClaimModel(BaseModel):
    """Who steers an operation."""

    who: str
    since_ms: int
    reason: str


class NoteModel(BaseModel):
    """A remark on an operation."""

    who: str
    at_ms: int
    text: str
