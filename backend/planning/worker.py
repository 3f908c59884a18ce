"""The process that plans and rehearses for a backend, and ends with it.

It is asked once: eight bytes of length and a pickle come on standard input, from the backend that
started it and nobody else; the answer goes to standard output. When standard input ends meanwhile,
the backend is gone, and the process ends too.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
from typing import BinaryIO

from kshunt.backend.domain.planning.requests import PlanRequest
from kshunt.backend.errors import BadInput
from kshunt.backend.planning.propose import propose
from kshunt.backend.planning.question import LENGTH, Answer, Question
from kshunt.backend.planning.rehearsals import rehearse_all
from kshunt.backend.rehearsal.picture import Picture


def answer_to(picture: Picture, question: Question) -> Answer:
    """The answer.

    Raises:
        BadInput: what is asked cannot be planned or rehearsed.
    """
    if isinstance(question, PlanRequest):
        return propose(picture, question)
    return rehearse_all(picture, question)


def main() -> None:
    """Answer the question of standard input."""
    length = LENGTH.unpack(_read(sys.stdin.buffer, LENGTH.size))[0]
    picture, question = pickle.loads(_read(sys.stdin.buffer, length))
    threading.Thread(target=_end_with, args=(sys.stdin.buffer,), daemon=True).start()
    try:
        answer: object = answer_to(picture, question)
    except BadInput as error:
        # An exception with arguments by name does not come back from a pickle as it was.
        answer = (type(error).title, error.message, error.advice)
    pickle.dump(answer, sys.stdout.buffer, protocol=pickle.HIGHEST_PROTOCOL)
    sys.stdout.buffer.flush()
    os._exit(0)


def _read(stream: BinaryIO, length: int) -> bytes:
    data = stream.read(length)
    if len(data) < length:
        os._exit(1)
    return data


def _end_with(stream: BinaryIO) -> None:
    stream.read()
    os._exit(1)


if __name__ == "__main__":
    main()
