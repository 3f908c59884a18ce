"""Messages and their signatures, as the specification's own reader takes them."""

from __future__ import annotations

import base64
import json
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from kshunt.backend.errors import ConfigError
from kshunt.backend.notify.address import target_of
from kshunt.backend.notify.message import TEXT_MAX, Message, News, one_line
from kshunt.backend.notify.signatures import headers_of, keys_of, signature
from tests.support.notify.messages import CLUSTER, KEY, SECRET, message

PUBLISHED = {
    "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "body": b'{"test": 2432232314}',
    "signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}
"""The example of the specification."""


def test_the_published_example_is_signed_as_it_says() -> None:
    (key,) = keys_of(str(PUBLISHED["secret"]), "a test")
    body = bytes(PUBLISHED["body"])  # type: ignore[arg-type]
    assert signature(key, str(PUBLISHED["id"]), 1614265330, body) == PUBLISHED["signature"]


@given(text=st.text(max_size=50), data=st.dictionaries(st.text(max_size=9), st.integers()))
def test_the_specifications_reader_accepts_what_is_sent(text: str, data: dict[str, int]) -> None:
    sent = Message.of(News("a.b", text, data), "msg_1", 1_700_000_000_000, CLUSTER)
    body = sent.body()
    headers = headers_of(sent, body, time.time_ns() // 1_000_000, [KEY])
    found = Webhook(SECRET).verify(body, headers)
    assert found["data"] == data
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(body + b" ", headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(body, {**headers, "webhook-id": "msg_2"})


def test_while_a_key_is_replaced_either_is_believed() -> None:
    other = base64.b64encode(b"another key of a test").decode()
    keys = keys_of(f"{SECRET}\nwhsec_{other}\n", "a test")
    headers = headers_of(message(), message().body(), time.time_ns() // 1_000_000, keys)
    for secret in (SECRET, f"whsec_{other}"):
        assert Webhook(secret).verify(message().body(), headers)


def test_without_a_key_nothing_is_signed_and_a_message_is_still_known() -> None:
    headers = headers_of(message(), b"", 1_700_000_000_999, ())
    assert headers == {"webhook-id": "msg_1", "webhook-timestamp": "1700000000"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds 0 keys"),
        ("short", "holds a key of 5 bytes"),
        ("whsec_c2hvcnQ=", "holds a key of 5 bytes"),
        ("whsec_!!!!", "not base64"),
        (" ".join([SECRET] * 6), "holds 6 keys"),
    ],
)
def test_a_key_that_is_none_is_refused_and_not_shown(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        keys_of(text, "the file")
    if text:
        assert text not in str(caught.value)


def test_a_key_may_be_any_long_text() -> None:
    assert keys_of("correct-horse-battery", "a test") == (b"correct-horse-battery",)


def test_a_message_says_what_and_where_and_when() -> None:
    document = json.loads(message(7).body())
    assert document == {
        "type": "test.event",
        "timestamp": "2023-11-14T22:13:20.000Z",
        "cluster": CLUSTER,
        "text": f"{CLUSTER}: event 7",
        "data": {"number": 7},
    }
    assert datetime.fromisoformat(document["timestamp"]).tzinfo is UTC


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\nlines\tand\x1b[31m more", "two lines and [31m more"),
        ("<!channel> look", "(!channel) look"),
        ("<https://evil|here>", "(https://evil|here)"),
        ("@here and ada@bastion", "(at)here and ada@bastion"),
        ("[a](https://evil)", "[a] (https://evil)"),
        ("‮gnp.exe", "gnp.exe"),
        ("", ""),
    ],
)
def test_a_text_is_one_line_and_calls_nobody(text: str, shown: str) -> None:
    assert one_line(text) == shown


@given(st.text(max_size=3_000))
def test_a_text_is_short_and_printable(text: str) -> None:
    found = one_line(text)
    assert len(found) <= TEXT_MAX
    assert found.isprintable()
    assert "<" not in found


@given(text=st.text(), subject=st.text(max_size=9))
def test_what_is_written_to_a_file_is_read_again(text: str, subject: str) -> None:
    sent = Message("msg_1", "a.b", 5, CLUSTER, text, {"x": [1, {"y": None}]}, subject)
    assert Message.from_json(json.loads(json.dumps(sent.as_json()))) == sent


@pytest.mark.parametrize(
    "change",
    [
        {"id": 5},
        {"id": ""},
        {"id": "a\r\nx: y"},
        {"id": "é"},
        {"time_ms": "5"},
        {"time_ms": True},
        {"time_ms": -1},
        {"time_ms": 1 << 60},
        {"data": []},
        {"text": None},
        {"subject": 1},
    ],
)
def test_a_damaged_message_is_none(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"it is not a message|its time|its id"):
        Message.from_json({**message().as_json(), **change})


# Addresses


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://hooks.example.org/services/T0/B0/abc", "hooks.example.org"),
        ("https://user:pass@hooks.example.org:8443/x?y=z", "hooks.example.org:8443"),
        ("https://10.0.0.7/inside", "10.0.0.7"),
        ("http://localhost:9/x", "localhost:9"),
        ("http://[::1]:9/x", "::1:9"),
    ],
)
def test_of_an_address_only_the_host_is_shown(url: str, host: str) -> None:
    found = target_of(url, (KEY,), None)
    assert found.host == host
    assert str(found) == f"{host} ({found.id})"
    assert url not in repr(found)
    assert "a key" not in repr(found)
    assert found.id != target_of(f"{url}1", (), None).id


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "not a valid address"),
        ("hooks.example.org/secret-path", "not a valid address"),
        ("ftp://hooks.example.org/secret-path", "not a valid address"),
        ("file:///secret-path", "not a valid address"),
        ("https:///secret-path", "not a valid address"),
        ("https://hooks.example.org/secret-path#x", "not a valid address"),
        ("https://hooks.example.org/secret-path\r\nx: y", "not a valid address"),
        ("https://hooks.example.org:port/secret-path", "not a valid address"),
        ("https://[hooks/secret-path", "not a valid address"),
        ("https://hooks.example.örg/secret-path", "not a valid address"),
        ("http://hooks.example.org/secret-path", "unencrypted"),
        ("http://127.0.0.1.example.org/secret-path", "unencrypted"),
    ],
)
def test_an_address_that_is_none_is_refused_and_not_shown(url: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        target_of(url, (), None)
    assert "secret-path" not in str(caught.value)
