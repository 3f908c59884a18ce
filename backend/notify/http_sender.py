"""One attempt: a POST over HTTP, and what came of it."""

from __future__ import annotations

import asyncio
import ssl
from typing import Final, Protocol

import httpx

from kshunt import __version__
from kshunt.backend.errors import ConfigError
from kshunt.backend.notify.address import WebhookAddress
from kshunt.backend.notify.message import Message, one_line
from kshunt.backend.notify.retries import AttemptOutcome, AttemptResult, RetryPolicy, judged
from kshunt.backend.notify.signatures import headers_of

ANSWER_BYTES_MAX: Final = 2_048
"""More of an answer is not read."""
WORDS_MAX: Final = 200


class Sender(Protocol):
    """Makes one attempt."""

    async def send(self, message: Message, now_ms: int) -> AttemptOutcome:
        """What came of sending a message once; fails never."""
        ...

    async def close(self) -> None:
        """Release the connections."""
        ...


class HttpSender:
    """Sends to one target. Redirects are not followed, and no proxy of the environment is asked."""

    def __init__(self, target: WebhookAddress, policy: RetryPolicy) -> None:
        """Raises:
        ConfigError: the file of authorities cannot be used.
        """
        self._target = target
        self._policy = policy
        # Without TLS no context is needed, and building one takes 30 ms.
        verify = _trusted(target) if target.url.startswith("https:") else False
        self._client = httpx.AsyncClient(
            verify=verify, follow_redirects=False, trust_env=False, timeout=policy.answer_s
        )

    async def close(self) -> None:
        """Release the connections."""
        await self._client.aclose()

    async def send(self, message: Message, now_ms: int) -> AttemptOutcome:
        """What came of sending a message once. A 2xx is a delivery, whatever follows it."""
        body = message.body()
        headers = {
            "content-type": "application/json",
            "accept-encoding": "identity",
            "user-agent": f"kshunt/{__version__}",
            **headers_of(message, body, now_ms, self._target.keys),
        }
        try:
            async with (
                # httpx counts its own time anew with each piece: one that drips would hold it up.
                asyncio.timeout(self._policy.answer_s),
                self._client.stream(
                    "POST", self._target.url, content=body, headers=headers
                ) as answer,
            ):
                said = "" if answer.is_success else await _said(answer, self._target)
                after = answer.headers.get("retry-after", "")
                return judged(answer.status_code, said, after, now_ms)
        except (TimeoutError, httpx.TimeoutException):
            return AttemptOutcome(
                AttemptResult.AGAIN, f"no answer within {self._policy.answer_s:g} s"
            )
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            words = self._target.without_address(f"{type(error).__name__}: {error}")
            return AttemptOutcome(AttemptResult.AGAIN, one_line(words, WORDS_MAX))
        finally:
            # What a receiver wants to be told again (Set-Cookie) is kept nowhere.
            self._client.cookies.clear()


def _trusted(target: WebhookAddress) -> ssl.SSLContext:
    path = target.authorities
    try:
        return ssl.create_default_context(cafile=path)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"--webhook-ca {path} cannot be used: {error}.") from None


async def _said(answer: httpx.Response, target: WebhookAddress) -> str:
    """The beginning of what an answer says, on one line; what cannot be read is left out."""
    parts: list[bytes] = []
    size = 0
    try:
        async for part in answer.aiter_raw():
            parts.append(part)
            size += len(part)
            if size >= ANSWER_BYTES_MAX:
                break
    except (httpx.HTTPError, OSError):
        pass
    text = b"".join(parts)[:ANSWER_BYTES_MAX].decode("utf-8", "replace")
    return one_line(target.without_address(text), WORDS_MAX)
