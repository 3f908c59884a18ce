"""Members of consumer groups on the wire: as brokers write them, and as anybody else may."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.wire.group_describe import (
    DescribedGroup,
    DescribedMember,
    assigned_in,
    describe_request,
    described,
    subscribes,
)
from kshunt.backend.wire.raw_request import RawAnswer
from kshunt.backend.wire.reader import WireError
from tests.support.wire_answers import TAG_SECTIONS, Encoder, endless

MEMBER = DescribedMember(
    "m-1", None, "app", "/10.0.0.1", ("orders", "payments"), (("orders", (0, 5)), ("payments", ()))
)
GROUPS = (
    DescribedGroup("a", 0, None, "Stable", (MEMBER, DescribedMember("", "i", "", "", (), ()))),
    DescribedGroup("b", 15, "later", "", ()),
)


def member(encoder: Encoder, one: DescribedMember) -> bytes:
    def assignment(topics: tuple[tuple[str, tuple[int, ...]], ...]) -> bytes:
        entries = [
            bytes(16) + encoder.string(name) + encoder.ids(list(numbers)) + encoder.tags()
            for name, numbers in topics
        ]
        return encoder.array(entries) + encoder.tags()

    return b"".join(
        (
            encoder.string(one.member_id) + encoder.string(one.instance_id),
            encoder.string("a rack") + struct.pack(">i", 7),
            encoder.string(one.client_id) + encoder.string(one.host),
            encoder.array([encoder.string(name) for name in one.subscribed]),
            encoder.string("order.*"),
            assignment(one.assigned),
            assignment((("other", (9,)),)),
            b"\x01" if encoder.version >= 1 else b"",
            encoder.tags(),
        )
    )


def answer(version: int, sections: Iterator[bytes]) -> bytes:
    encoder = Encoder(version, 0, sections)
    groups = [
        b"".join(
            (
                struct.pack(">h", one.error_code) + encoder.string(one.error_message),
                encoder.string(one.name) + encoder.string(one.state),
                struct.pack(">ii", 3, 4) + encoder.string("uniform"),
                encoder.array([member(encoder, each) for each in one.members]),
                struct.pack(">i", -1) + encoder.tags(),
            )
        )
        for one in GROUPS
    ]
    return struct.pack(">i", 0) + encoder.array(groups) + encoder.tags()


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("section", TAG_SECTIONS)
def test_groups_are_read_as_they_were_written(version: int, section: bytes) -> None:
    body = answer(version, iter([section] * 40))
    assert described(RawAnswer(version, body)) == GROUPS
    for size in range(len(body)):
        with pytest.raises(WireError, match="byte"):
            described(RawAnswer(version, body[:size]))
    with pytest.raises(WireError, match="left over"):
        described(RawAnswer(version, body + b"\x00"))


def test_a_coordinator_is_asked_for_its_groups_and_not_what_we_may_do_with_them() -> None:
    request = describe_request(["a", "bc"])
    request.API_VERSION = 0
    request.with_header(5, "me")
    assert request.encode(framed=True, header=True) == b"".join(
        (
            b"\x00\x00\x00\x15",
            b"\x00\x45\x00\x00\x00\x00\x00\x05\x00\x02me\x00",
            b"\x03\x02a\x03bc\x00\x00",
        )
    )
    assert (request.min_version, request.max_version) == (0, 1)


def classic(topics: dict[str, list[int]], *, numbered: bool) -> bytes:
    encoded = [struct.pack(">hi", 1, len(topics))]
    for name, numbers in topics.items():
        encoded.append(struct.pack(">h", len(name)) + name.encode())
        if numbered:
            encoded.append(struct.pack(f">i{len(numbers)}i", len(numbers), *numbers))
    # What follows is the member's own.
    return b"".join(encoded) + b"anything"


def test_a_classic_member_says_what_it_reads_and_subscribes() -> None:
    topics = {"orders": [5, 0], "payments": [1]}
    assigned = classic(topics, numbered=True)
    assert assigned_in(assigned, "orders") == (0, 5)
    assert assigned_in(assigned, "other") == assigned_in(b"", "orders") == ()
    subscription = classic(topics, numbered=False)
    assert subscribes(subscription, "payments")
    assert not subscribes(subscription, "order")
    assert not subscribes(b"", "orders")


@given(st.binary(max_size=40))
def test_whatever_a_member_wrote_is_an_answer_or_an_error_of_ours(data: bytes) -> None:
    for read in (assigned_in, subscribes):
        try:
            read(data, "orders")
        except WireError:
            continue


def test_a_described_group_needs_no_tags() -> None:
    assert described(RawAnswer(1, answer(1, endless([])))) == GROUPS


# What else a broker wants of us


@pytest.mark.parametrize(
    ("body", "throttles", "wait_ms"),
    [
        (b"\x00\x00\x00\x05more", True, 5),
        (b"\x00\x00\x00\x05", True, 5),
        (b"\x00\x00\x00\x05", False, 0),
        (b"\x00\x00\x05", True, 0),
        (b"\xff\xff\xff\xff", True, 0),
    ],
)
def test_a_broker_that_wants_to_be_left_alone_is_obeyed(
    body: bytes, throttles: bool, wait_ms: int
) -> None:
    assert RawAnswer(3, body, throttles).throttle_time_ms == wait_ms
    assert str(RawAnswer(3, body, throttles)) == f"{len(body)} bytes, v3"
