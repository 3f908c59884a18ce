"""One attempt, against receivers on real sockets that do whatever they like."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest
from standardwebhooks.webhooks import Webhook

from kshunt.backend.errors import ConfigError
from kshunt.backend.notify.http_sender import ANSWER_BYTES_MAX, WORDS_MAX, HttpSender
from kshunt.backend.notify.retries import AttemptOutcome, AttemptResult, RetryPolicy
from tests.support.access.certificates import Authority
from tests.support.notify.messages import SECRET, message, target
from tests.support.notify.receiver import Answer as ReceiverAnswer
from tests.support.notify.receiver import hangs, receiving, resets, says, sends

POLICY = RetryPolicy(answer_s=1.0)


async def sent(url: str, policy: RetryPolicy = POLICY, ca: Path | None = None) -> AttemptOutcome:
    """What one attempt came to."""
    sender = HttpSender(target(url, ca=ca), policy)
    try:
        return await sender.send(message(), 1_700_000_000_000)
    finally:
        await sender.close()


async def answered(reply: ReceiverAnswer, policy: RetryPolicy = POLICY) -> AttemptOutcome:
    with receiving() as receiver:
        receiver.next.append(reply)
        return await sent(receiver.url, policy)


async def test_a_message_arrives_as_the_specification_has_it() -> None:
    with receiving() as receiver:
        assert await sent(receiver.url) == AttemptOutcome(AttemptResult.DELIVERED)
    (request,) = receiver.received
    assert request.path == "/hook?key=secret-of-the-path"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["webhook-timestamp"] == "1700000000"
    moment = datetime.fromtimestamp(1_700_000_000, UTC)
    found = Webhook(SECRET).sign("msg_1", moment, request.body.decode())
    assert request.headers["webhook-signature"] == found
    assert request.document["type"] == "test.event"


@pytest.mark.parametrize(
    ("reply", "result", "words"),
    [
        (says(200, b"x" * 5_000_000), AttemptResult.DELIVERED, ""),
        (says(500, b"no\nroom"), AttemptResult.AGAIN, "HTTP 500: no room"),
        (says(404, b"<b>no</b>"), AttemptResult.REFUSED, "HTTP 404: (b)no(/b)"),
        (says(410), AttemptResult.GONE, "HTTP 410"),
        (sends(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf"), AttemptResult.DELIVERED, ""),
        (
            sends(b"HTTP/1.1 500 No\r\ncontent-length: 100\r\n\r\nhalf"),
            AttemptResult.AGAIN,
            "HTTP 500: half",
        ),
        (sends(b"HTTP/1.1 200 OK\r\ncontent-le"), AttemptResult.AGAIN, "RemoteProtocolError"),
        (sends(b""), AttemptResult.AGAIN, "RemoteProtocolError"),
        (sends(b"\x00\xff" * 300), AttemptResult.AGAIN, "RemoteProtocolError"),
        (sends(b"x: y\r\n" * 50_000), AttemptResult.AGAIN, "RemoteProtocolError"),
        (resets(), AttemptResult.AGAIN, "ReadError"),
        (hangs(), AttemptResult.AGAIN, "no answer within 1 s"),
        (hangs(b"HTTP/1.1 200 OK\r\n"), AttemptResult.AGAIN, "no answer within 1 s"),
        (hangs(b"HTTP/1.1 200 OK\r\n\r\n"), AttemptResult.DELIVERED, ""),
        (hangs(b"HTTP/1.1 503 No\r\n\r\nlater"), AttemptResult.AGAIN, "no answer within 1 s"),
    ],
)
async def test_whatever_a_receiver_does_an_attempt_ends(
    reply: ReceiverAnswer, result: AttemptResult, words: str
) -> None:
    async with asyncio.timeout(20):
        answer = await answered(reply)
    assert answer.result is result
    assert answer.words.startswith(words)
    assert answer.result is AttemptResult.DELIVERED or answer.words
    assert "secret-of-the-path" not in answer.words


async def test_of_a_long_answer_little_is_read() -> None:
    answer = await answered(says(500, b"a" * 50_000_000), RetryPolicy(answer_s=20))
    assert len(answer.words) <= WORDS_MAX + len("HTTP 500: ")
    assert ANSWER_BYTES_MAX < 50_000


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b"Cannot POST /hook?key=secret-of-the-path", "Cannot POST …"),
        (b"<pre>Cannot POST /hook</pre>", "(pre)Cannot POST …(/pre)"),
        (b"no key 'secret-of-the-path' here", "no key '…' here"),
        (b"the key is wrong", "the key is wrong"),
    ],
)
async def test_an_answer_that_quotes_the_address_does_not_give_it_away(
    said: bytes, words: str
) -> None:
    assert (await answered(says(404, said))).words == f"HTTP 404: {words}"


async def test_what_a_receiver_wants_to_be_told_again_is_not_kept() -> None:
    with receiving() as receiver:
        receiver.next.append(says(204, set_cookie="a=b; Path=/"))
        sender = HttpSender(target(receiver.url), POLICY)
        for _ in range(2):
            assert (await sender.send(message(), 1)).result is AttemptResult.DELIVERED
        await sender.close()
    assert ["cookie" in one.headers for one in receiver.received] == [False, False]


async def test_a_redirect_is_not_followed() -> None:
    with receiving() as elsewhere, receiving() as receiver:
        receiver.next.append(says(307, location=elsewhere.url))
        answer = await sent(receiver.url)
    assert answer.result is AttemptResult.REFUSED
    assert "not followed" in answer.words
    assert not elsewhere.received


async def test_retry_after_is_told() -> None:
    assert (await answered(says(503, retry_after="120"))).retry_after_s == 120


async def test_nobody_there_is_no_error_of_ours() -> None:
    with receiving() as receiver:
        url = receiver.url
    answer = await sent(url)
    assert answer.result is AttemptResult.AGAIN
    assert "Connect" in answer.words
    assert "secret-of-the-path" not in answer.words


# TLS


def served(authority: Authority, folder: Path, *names: str) -> ssl.SSLContext:
    return authority.issue(*names).context(folder)


async def test_over_tls_only_whom_the_authority_vouches_for_is_told(tmp_path: Path) -> None:
    authority, stranger = Authority(), Authority()
    believed = authority.file(tmp_path)
    for who, names, result in (
        (authority, ("127.0.0.1",), AttemptResult.DELIVERED),
        (authority, ("hooks.example.org",), AttemptResult.AGAIN),
        (stranger, ("127.0.0.1",), AttemptResult.AGAIN),
    ):
        with receiving(served(who, tmp_path, *names)) as receiver:
            answer = await sent(receiver.url, RetryPolicy(answer_s=20), believed)
        assert answer.result is result, (names, answer)
        assert bool(receiver.received) == (result is AttemptResult.DELIVERED)


async def test_the_systems_authorities_do_not_know_a_test(tmp_path: Path) -> None:
    with receiving(served(Authority(), tmp_path, "127.0.0.1")) as receiver:
        answer = await sent(receiver.url)
    assert "certificate" in answer.words.lower()


@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
def test_authorities_that_are_none_are_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match="--webhook-ca"):
        HttpSender(target("https://hooks.example.org", ca=path), POLICY)


async def test_what_follows_an_answer_is_none() -> None:
    with receiving() as receiver:
        receiver.next.append(sends(b"HTTP/1.1 204 No\r\n\r\nHTTP/1.1 410 Gone\r\n\r\n"))
        sender = HttpSender(target(receiver.url), POLICY)
        for _ in range(2):
            assert (await sender.send(message(), 1)).result is AttemptResult.DELIVERED
        await sender.close()
        assert len(receiver.received) == 2
