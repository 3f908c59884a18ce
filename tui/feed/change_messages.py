"""A change is told in words as it is sent, and so is what became of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from kshunt.backend.domain.reassignment.answers import ChangeAnswer, Result
from kshunt.backend.error_codes import ELECTION_NOT_NEEDED
from kshunt.backend.errors import AwaitsApproval, KshuntError
from kshunt.tui.feed.messages import ActionTaken

if TYPE_CHECKING:
    from kshunt.backend.api.client.backend_client import BackendClient

T = TypeVar("T")
FAILURES_SHOWN: Final = 3


def with_messages(
    tell: Callable[[ActionTaken], object], asked: ActionTaken, send: Callable[[BackendClient], T]
) -> Callable[[BackendClient], T]:
    """`send`, with `asked` told before it and its answer after it, from the thread that sends."""

    def sending(client: BackendClient) -> T:
        tell(asked)
        try:
            answer = send(client)
        except AwaitsApproval as waits:
            words = f"proposed as {waits.proposal_id}, for another person to approve"
            tell(_became(asked, "answered", words))
            raise
        except KshuntError as error:
            tell(_became(asked, "refused", error.message))
            raise
        if asked.stage == "sent":
            tell(_became(asked, "answered", answer_words(answer)))
        return answer

    return sending


def _became(asked: ActionTaken, stage: str, words: str) -> ActionTaken:
    return ActionTaken(stage, f"{asked.text}: {words}", asked.who)


def answer_words(answer: object) -> str:
    """What became of a change."""
    if not isinstance(answer, ChangeAnswer):
        return "done"
    failed = [one for one in answer.results if not _as_wanted(one)]
    words = [f"operation {answer.operation_id}"] if answer.operation_id else []
    if answer.results:
        words.append(f"{len(answer.results) - len(failed)} of {len(answer.results)} done")
    words += [f"{one.item}: {one.message or one.error_name}" for one in failed[:FAILURES_SHOWN]]
    return ", ".join(words) or "done"


def _as_wanted(result: Result) -> bool:
    return result.ok or result.error_code == ELECTION_NOT_NEEDED
