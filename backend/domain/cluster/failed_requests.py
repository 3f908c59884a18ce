"""Requests that came to nothing while a snapshot was made."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FailedRequest:
    """A request of the sampler that failed."""

    message: str
    """The reason: a sentence from the part that failed, to be shown as it is."""
    broker: int | None = None
    """Who was asked; None where it was the whole cluster, or is not known."""
    waited_s: float | None = None
    """For how long an answer was waited for; None where it failed for something else."""
