"""Whether a backend can do its work."""

from __future__ import annotations

from pydantic import BaseModel, Field


class CheckModel(BaseModel):
    """One thing that has to be so."""

    name: str
    ok: bool
    words: str


class ReadyModel(BaseModel):
    """Whether the backend can be used, to look or to change."""

    ready: bool
    checks: list[CheckModel] = Field(description="all of them, those that hold too")
