"""Answers of a backend that cannot be what they are: one error for all of them.

A client believes nothing of what it is sent: a proxy, another version or something that is no
backend may answer. Each question of a client reads its answer in its own way, and each of those
ways fails in another one, so all questions of a class are wrapped here.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final, TypeVar

from kshunt.backend.domain.untrusted.field_types import wrong_within
from kshunt.backend.errors import BackendError

C = TypeVar("C", bound=type[Any])

ANSWER_BYTES_MAX: Final = 256 << 20
"""An answer that is longer is refused; a plan of 200,000 partitions is about 12 MB."""
VALUES_MAX: Final = 30_000_000
"""And one of more values."""
_ADVICE: Final = (
    "Is it a kshunt backend of this version? If you asked for a change, it may have been made: "
    "check before you ask again."
)


def strange(why: str) -> BackendError:
    """The error."""
    return BackendError(f"The backend's answer cannot be read: {why}.", advice=_ADVICE)


def checks_answers(kind: C) -> C:
    """A class whose public methods are questions; an answer that cannot be read is refused.

    Streams are left out: they tell damage by themselves.
    """
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        if name.startswith("_") or name == "close" or inspect.isgeneratorfunction(method):
            continue
        setattr(kind, name, _refusing(method))
    return kind


def _refusing(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def asked(*args: Any, **kwargs: Any) -> Any:
        try:
            answer = method(*args, **kwargs)
        except KeyError as error:
            raise strange(f"it has no {error}") from None
        except (TypeError, AttributeError):
            raise strange("a part of it has the wrong type") from None
        except (LookupError, ValueError) as error:
            raise strange(str(error)[:200].rstrip(".") or type(error).__name__) from None
        except (ArithmeticError, AssertionError, RecursionError) as error:
            raise strange(type(error).__name__) from None
        if wrong := wrong_within(answer):
            raise strange(f"{wrong} does not have the expected value")
        return answer

    return asked
