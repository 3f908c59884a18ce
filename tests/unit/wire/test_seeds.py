"""The seeds' messages: their bytes as the seeds write them down, round trips, the mode."""

import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from importlib.resources import files
from itertools import chain, repeat
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.api_header import ResponseClassRegistry
from kafka.protocol.metadata import MetadataResponse

from kshunt.backend.domain.cluster.assignment import partition_states
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.cluster.partition_modes import UNKNOWN_MS, PartitionMode
from kshunt.backend.embedded.net.frame_check import BadFrame, check_message
from kshunt.backend.wire import kip_requests
from kshunt.backend.wire.metadata import METADATA_FLEXIBLE_FROM, METADATA_VERSIONS, decode_metadata
from kshunt.backend.wire.partition_modes import DELETES_TAG, MODE_TAG, tag_section
from kshunt.backend.wire.reader import WireError
from tests.support.wire_answers import TAG_SECTIONS, Encoder, endless, metadata_answer

VALUES = {
    "bool": st.booleans(),
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "string": st.text(max_size=200),
}
EVERY = [
    pytest.param(message, version, id=f"{message.name}-v{version}")
    for pair in kip_requests.MESSAGES.values()
    for message in pair
    for version in range(message.max_version + 1)
]


def values_of(field: Any, version: int) -> st.SearchStrategy[Any]:
    """Any value that the schema allows in a field."""
    if hasattr(field, "array_of"):
        element = field.array_of
        one = entries(element, version) if element.is_struct() else VALUES[element.type_str]
        found: st.SearchStrategy[Any] = st.lists(one, max_size=3)
    else:
        found = VALUES[field.type_str]
    return st.none() | found if field.nullable_for_version_q(version) else found


def entries(container: Any, version: int) -> st.SearchStrategy[Any]:
    """Any message, or any entry of one."""
    fields = {f.name: values_of(f, version) for f in container.untagged_fields(version)}
    made = container.data_class
    return st.fixed_dictionaries(fields).map(lambda found: made(version=version, **found))


@pytest.mark.parametrize(("message", "version"), EVERY)
@given(data=st.data())
def test_every_message_comes_back_as_it_was(
    message: Any, version: int, data: st.DataObject
) -> None:
    fields = {f.name: values_of(f, version) for f in message._struct.untagged_fields(version)}
    sent = message(version=version, **data.draw(st.fixed_dictionaries(fields)))
    body = bytes(sent.encode(version=version))
    check_message(message, version, body)
    received = message.decode(body, version=version)
    assert received == sent
    for size in range(len(body)):
        with pytest.raises(BadFrame):
            check_message(message, version, body[:size])


def text(value: str) -> bytes:
    """STRING."""
    return struct.pack(">h", len(value)) + value.encode()


def ints(*values: int) -> bytes:
    """An array of INT32."""
    return struct.pack(f">i{len(values)}i", len(values), *values)


ONE = struct.pack(">i", 1)
"""The length of an array of one entry."""
NO_TEXT = struct.pack(">h", -1)


@pytest.mark.conforms("kip-179:request-layout", "kip-179:rates-layout", "kip-179:replicas-layout")
def test_the_requests_of_kip_179_are_byte_for_byte_the_seeds() -> None:
    made = kip_requests.ReassignPartitionsRequest(
        version=0,
        topic_reassignments=[("t", [(7, [1, 2])])],
        timeout=1000,
        validate_only=True,
        throttle=5_000_000,
        remove_throttle=True,
    )
    topic = ONE + text("t") + ONE + struct.pack(">i", 7) + ints(1, 2)
    assert made.encode(version=0) == topic + struct.pack(">i?q?", 1000, True, 5_000_000, True)
    rates = kip_requests.AlterInterbrokerThrottledRatesRequest(
        version=0, broker_throttles=[(3, 10, 20)], remove_throttle=True, timeout=9
    )
    assert rates.encode(version=0) == ONE + struct.pack(">iqq?i?", 3, 10, 20, True, 9, False)
    replicas = kip_requests.AlterInterbrokerThrottledReplicasRequest(
        version=0, topic_throttles=[("t", [(7, [1, 2])])], validate_only=True
    )
    assert replicas.encode(version=0) == topic + struct.pack(">?i?", False, 0, True)


@pytest.mark.conforms("kip-179:replicas-roles")
def test_the_roles_of_throttled_replicas_are_apart_in_version_1() -> None:
    partition = (
        kip_requests.AlterInterbrokerThrottledReplicasRequest.TopicThrottles.PartitionThrottles
    )
    request = kip_requests.AlterInterbrokerThrottledReplicasRequest(
        version=1,
        topic_throttles=[
            ("t", [partition(version=1, partition_id=7, leaders=None, followers=[2])])
        ],
    )
    body = bytes(request.encode(version=1))
    assert body == (
        b"\x02\x02t\x02" + struct.pack(">i", 7) + b"\x00\x02" + struct.pack(">i", 2)
        + b"\x00\x00" + struct.pack(">?i?", False, 0, False) + b"\x00"
    )  # fmt: skip


@pytest.mark.conforms(
    "kip-179:response-layout", "kip-179:rates-response", "kip-179:replicas-response"
)
def test_the_answers_of_kip_179_are_byte_for_byte_the_seeds() -> None:
    failed = ONE + text("t") + ONE + struct.pack(">ih", 7, 3) + text("no")
    moved = kip_requests.ReassignPartitionsResponse(
        version=0, throttle_time_ms=5, reassign_partition_result=[("t", [(7, 3, "no")])]
    )
    assert moved.encode(version=0) == struct.pack(">i", 5) + failed
    listed = kip_requests.AlterInterbrokerThrottledReplicasResponse(
        version=0, topic_errors=[("t", [(7, 3, "no")])]
    )
    assert listed.encode(version=0) == failed
    rated = kip_requests.AlterInterbrokerThrottledRatesResponse(
        version=0, broker_error=[(3, 0, None)]
    )
    assert rated.encode(version=0) == ONE + struct.pack(">ih", 3, 0) + NO_TEXT


@pytest.mark.conforms(
    "kip-179-early-draft:alter-layout",
    "kip-179-early-draft:alter-response",
    "kip-179-early-draft:status-layout",
    "kip-179-early-draft:status-response",
)
def test_the_early_draft_is_byte_for_byte_the_seed() -> None:
    altered = kip_requests.AlterTopicsRequest(
        version=0, altered_topic=[("t", -1, 3, [(0, [1, 2, 3])])]
    )
    assert altered.encode(version=0) == (
        ONE + text("t") + struct.pack(">ii", -1, 3) + ONE + struct.pack(">i", 0) + ints(1, 2, 3)
    )
    answer = kip_requests.AlterTopicsResponse(version=0, altered_topic=[("t", 37, "few")])
    assert answer.encode(version=0) == ONE + text("t") + struct.pack(">i", 37) + text("few")
    asked = kip_requests.ReplicaStatusRequest(version=0, replica=[("t", 1, 2)])
    assert asked.encode(version=0) == ONE + text("t") + struct.pack(">ii", 1, 2)
    status = kip_requests.ReplicaStatusResponse(
        version=0, replica_status=[("t", 1, 2, 0, 99, 10456)]
    )
    assert status.encode(version=0) == ONE + text("t") + struct.pack(">iihqq", 1, 2, 0, 99, 10456)


@pytest.mark.conforms("kip-183:request-layout", "kip-183:response-layout")
def test_kip_183_is_byte_for_byte_the_seed() -> None:
    asked = kip_requests.ElectPreferredLeadersRequest(
        version=0, topic_partitions=[("t", [0, 1])], timeout_ms=30
    )
    assert asked.encode(version=0) == ONE + text("t") + ints(0, 1) + struct.pack(">i", 30)
    everywhere = kip_requests.ElectPreferredLeadersRequest(
        version=0, topic_partitions=None, timeout_ms=30
    )
    assert everywhere.encode(version=0) == struct.pack(">ii", -1, 30)
    answer = kip_requests.ElectPreferredLeadersResponse(
        version=0, replica_election_result=[("t", [(0, 80, None)])]
    )
    assert answer.encode(version=0) == (
        struct.pack(">i", 0) + ONE + text("t") + ONE + struct.pack(">ih", 0, 80) + NO_TEXT
    )


@pytest.mark.conforms("kip-694:request-layout", "kip-694:response-layout")
def test_kip_694_is_byte_for_byte_the_seed() -> None:
    asked = kip_requests.DeletePartitionsRequest(
        version=0, timeout_ms=5, delete_partitions_delay=300_000, topics=[("t", [3, 4])]
    )
    assert asked.encode(version=0) == (
        struct.pack(">iq", 5, 300_000) + b"\x02\x02t\x03" + struct.pack(">ii", 3, 4) + b"\x00\x00"
    )
    answer = kip_requests.DeletePartitionsResponse(
        version=0, responses=[("t", [(3, PartitionMode.READ_ONLY, 0, None)])]
    )
    assert answer.encode(version=0) == (
        struct.pack(">ih", 0, 0) + b"\x00\x02\x02t\x02" + struct.pack(">ibh", 3, 1, 0)
        + b"\x00\x00\x00\x00"
    )  # fmt: skip


@pytest.mark.conforms("kip-179:protocol", "kip-179:api-keys")
def test_keys_are_private_and_every_schema_is_a_message() -> None:
    shipped = {
        path.name for path in files(kip_requests.SCHEMAS).iterdir() if path.name.endswith(".json")
    }
    messages = [message for pair in kip_requests.MESSAGES.values() for message in pair]
    assert shipped == {f"{message.name}.json" for message in messages}
    for key, (request, response) in kip_requests.MESSAGES.items():
        assert kip_requests.FIRST_PRIVATE_KEY <= key < 2**15
        assert {request.API_KEY, response.API_KEY} == {key}
        header = request(version=0).header_class(
            request_api_key=key, request_api_version=0, correlation_id=1, client_id="c"
        )
        assert ResponseClassRegistry.get_response_class(header).name == response.name


# The mode of a partition

PARTITIONS = {"a": [0, 1, 2], "b": [0], "none": []}
WHICH = [(topic, partition) for topic, found in PARTITIONS.items() for partition in found]
modes_given = st.dictionaries(st.sampled_from(WHICH), st.sampled_from([0, 1, -1]))
sections = st.lists(st.sampled_from(TAG_SECTIONS), max_size=30)


def answer_of(version: int, tags: Iterator[bytes]) -> bytes:
    topics: dict[str, Any] = {
        name: (0, [(0, p, 1, 5, [1, 2], [1], []) for p in found])
        for name, found in PARTITIONS.items()
    }
    nodes = [(1, "localhost", 9092, "r"), (2, "localhost", 9093, None)]
    return metadata_answer(Encoder(version, METADATA_FLEXIBLE_FROM, tags), nodes, topics)


@pytest.mark.conforms("kip-694:mode-read-write", "kip-694:metadata-mode", "kip-694:metadata-shown")
@pytest.mark.parametrize("version", range(METADATA_VERSIONS[0], METADATA_VERSIONS[1] + 1))
@given(modes=modes_given, tags=sections)
def test_a_mode_is_read_by_who_knows_it_and_skipped_by_all_others(
    version: int, modes: dict[tuple[str, int], int], tags: list[bytes]
) -> None:
    plain = answer_of(version, endless(tags))
    with_modes = kip_requests.add_modes(plain, version, modes)
    assert kip_requests.read_modes(plain, version) == {}
    assert kip_requests.read_modes(with_modes, version) == {k: m for k, m in modes.items() if m}
    assert kip_requests.add_modes(with_modes, version, modes) == with_modes
    known, unknown = decode_metadata(with_modes, version), decode_metadata(plain, version)
    states = partition_states(known.assignment)
    told = {(p.topic, p.partition): int(state.mode) for p, state in states.items()}
    assert {which: mode for which, mode in told.items() if mode} == kip_requests.read_modes(
        with_modes, version
    )
    rest: Any = {"mode": unknown.assignment.mode, "deletes_ms": unknown.assignment.deletes_ms}
    without = replace(known, assignment=replace(known.assignment, **rest))
    assert repr(without) == repr(unknown)
    theirs = MetadataResponse.decode(with_modes, version=version)
    assert theirs.to_dict() == MetadataResponse.decode(plain, version=version).to_dict()


def described(
    fields: dict[int, bytes],
) -> tuple[dict[tuple[str, int], int], PartitionMode, int]:
    """What two partitions with these tagged fields, and one without, say of the first of them."""
    section = tag_section(fields)
    # A broker, and its list of topics, end with a section each.
    body = answer_of(12, chain([b"\x00", b"\x00", section], repeat(b"\x00")))
    states = partition_states(decode_metadata(body, 12).assignment)
    first = states.pop(TopicPartition("a", 0))
    others = {(one.mode, one.deletes_ms) for one in states.values()}
    assert others == {(PartitionMode.READ_WRITE, UNKNOWN_MS)}
    return kip_requests.read_modes(body, 12), first.mode, first.deletes_ms


def test_a_time_of_deletion_that_is_not_told_is_unknown() -> None:
    mode = int(PartitionMode.READ_ONLY).to_bytes(1, "big")
    modes, shown, deletes_ms = described({MODE_TAG: mode})
    assert (modes, shown, deletes_ms) == (
        {("a", 0): PartitionMode.READ_ONLY}, PartitionMode.READ_ONLY, UNKNOWN_MS,
    )  # fmt: skip
    *_, deletes_ms = described({MODE_TAG: mode, DELETES_TAG: (1_000).to_bytes(8, "big")})
    assert deletes_ms == 1_000


def test_a_partition_that_is_said_to_be_read_write_is_as_one_of_which_nothing_is_said() -> None:
    modes, shown, _ = described({MODE_TAG: b"\x00"})
    assert (modes, shown) == ({}, PartitionMode.READ_WRITE)


def test_a_mode_of_a_later_version_takes_no_records() -> None:
    modes, shown, _ = described({MODE_TAG: b"\x07"})
    assert (modes, shown) == ({("a", 0): PartitionMode.READ_ONLY}, PartitionMode.READ_ONLY)


@pytest.mark.parametrize("fields", [{MODE_TAG: b"\x00\x01"}, {DELETES_TAG: b"\x00" * 4}])
def test_a_tagged_field_of_another_length_is_an_error(fields: dict[int, bytes]) -> None:
    with pytest.raises(WireError, match=r"has [24] bytes"):
        described(fields)


def test_a_mode_is_put_next_to_the_tagged_fields_that_are_there_in_ascending_order() -> None:
    other, read_only = {5: b"ab", 12_000: b"z"}, {MODE_TAG: b"\x01"}
    plain = answer_of(12, chain([b"\x00", b"\x00", tag_section(other)], repeat(b"\x00")))
    with_mode = kip_requests.add_modes(plain, 12, {("a", 0): PartitionMode.READ_ONLY})
    before = b"\x03" + b"\x05\x02ab" + b"\x90\x4e\x01\x01" + b"\xe0\x5d\x01z"
    assert with_mode == plain.replace(tag_section(other), before)
    assert tag_section(other | read_only) == before


@pytest.mark.conforms("kip-694:old-brokers")
def test_a_version_without_tagged_fields_has_no_modes() -> None:
    body = bytes(MetadataResponse(version=8, brokers=[], topics=[]).encode(version=8))
    assert kip_requests.add_modes(body, 8, {("a", 0): 1}) is body
    assert kip_requests.read_modes(body, 8) == {}


@given(cut=st.integers(0, 1000), at=st.integers(0, 1000), byte=st.integers(0, 255))
def test_broken_metadata_is_an_error_of_ours(cut: int, at: int, byte: int) -> None:
    body = kip_requests.add_modes(answer_of(12, endless([])), 12, {("a", 1): 1})
    broken = bytearray(body)
    broken[at % len(body)] = byte
    with suppress(WireError):
        kip_requests.read_modes(bytes(broken), 12)
    with suppress(WireError):
        kip_requests.add_modes(bytes(broken[: cut % len(body)]), 12, {("a", 1): -1})
