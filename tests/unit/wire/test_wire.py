"""The columnar codecs against kafka-python's own, on any answer, whole and broken."""

import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.errors import KafkaProtocolError
from kafka.protocol.admin import DescribeLogDirsRequest, DescribeLogDirsResponse
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.frame import KafkaBytes
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from kshunt.backend.domain.cluster.assignment import Assignment, ClusterState
from kshunt.backend.error_codes import NAMES, RETRIABLE, error_name
from kshunt.backend.errors import ClusterError, NotAuthorized
from kshunt.backend.wire import metadata, offsets_and_log_dirs
from kshunt.backend.wire.raw_request import RawAnswer, RawRequest
from kshunt.backend.wire.reader import Reader, WireError, uvarint
from tests.support.runs.examples import many
from tests.support.wire_answers import (
    TAG_SECTIONS,
    Encoder,
    columns,
    endless,
    list_offsets_answer,
    log_dirs_answer,
    metadata_answer,
)

names = st.text("abcdefghij._-", min_size=1, max_size=12)
long_names = st.one_of(names, st.text("k", min_size=126, max_size=140))
int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
ids = st.integers(0, 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
brokers = st.lists(ids, unique=True, max_size=5)
tag_sections = st.sampled_from(TAG_SECTIONS)


def rejects(decode: Callable[[bytes], Any], body: bytes) -> None:
    """No beginning of the body, nor the body and one byte more, is taken for an answer."""
    for size in range(len(body)):
        with pytest.raises(WireError, match="byte"):
            decode(body[:size])
    with pytest.raises(WireError, match="left over"):
        decode(body + b"\x00")


def survives(decode: Callable[[bytes], Any], body: bytes) -> None:
    """Bytes that mean something else are an error of ours, or an answer; never another error."""
    with suppress(ClusterError):
        decode(body)


# ListOffsets


def test_list_offsets_request_is_what_kafka_python_reads() -> None:
    asked = columns({"a": [0, 5], "b" * 130: list(range(200))})
    for version in range(4, 8):
        body = offsets_and_log_dirs.encode_list_offsets(asked, version)
        request = ListOffsetsRequest.decode(body, version=version)
        assert (request.replica_id, request.isolation_level) == (-2, 0)
        assert [topic.name for topic in request.topics] == ["a", "b" * 130]
        assert [p.partition_index for p in request.topics[1].partitions] == list(range(200))
        entries = [p for topic in request.topics for p in topic.partitions]
        assert {(p.timestamp, p.current_leader_epoch) for p in entries} == {(-1, -1)}


offset_entries = st.lists(
    st.tuples(ids, int16, int64, int64, int32), max_size=6, unique_by=lambda entry: entry[0]
)


@given(
    topics=st.dictionaries(long_names, offset_entries, max_size=4),
    version=st.integers(4, 7),
    sections=st.lists(tag_sections, max_size=20),
    order=st.randoms(use_true_random=False),
)
def test_list_offsets_answer_says_what_kafka_python_says(
    topics: dict[str, list[tuple[int, int, int, int, int]]],
    version: int,
    sections: list[bytes],
    order: Any,
) -> None:
    body = list_offsets_answer(Encoder(version, 6, endless(sections)), topics)
    theirs = {
        (topic.name, p.partition_index): (p.error_code, p.offset)
        for topic in ListOffsetsResponse.decode(body, version=version).topics
        for p in topic.partitions
    }
    shuffled = list(topics)
    order.shuffle(shuffled)
    asked = columns({name: sorted(entry[0] for entry in topics[name]) for name in shuffled})
    ours = offsets_and_log_dirs.decode_list_offsets(body, version, asked)
    for row in range(len(asked)):
        topic = asked.topics[int(asked.topic_index[row])]
        error, offset = theirs[topic, int(asked.partition[row])]
        assert ours.error_code[row] == error
        assert ours.log_end_offset[row] == (-1 if error else offset)


def test_list_offsets_with_kafka_pythons_encoder_and_long_arrays() -> None:
    partition = ListOffsetsResponse.ListOffsetsTopicResponse.ListOffsetsPartitionResponse
    topic = ListOffsetsResponse.ListOffsetsTopicResponse
    response = ListOffsetsResponse(
        throttle_time_ms=7,
        topics=[
            topic(
                name=name,
                partitions=[
                    partition(partition_index=p, error_code=0, timestamp=-1, offset=p * 3)
                    for p in range(20_000)
                ],
            )
            for name in ("x", "y")
        ],
    )
    asked = columns({name: list(range(20_000)) for name in ("x", "y")})
    body = bytes(response.encode(version=7))
    ours = offsets_and_log_dirs.decode_list_offsets(body, 7, asked)
    np.testing.assert_array_equal(ours.log_end_offset, asked.partition.astype(np.int64) * 3)
    assert not ours.error_code.any()


def test_a_partition_without_an_answer_is_unknown_and_not_zero() -> None:
    body = list_offsets_answer(Encoder(7, 6, endless([])), {"t": [(1, 0, -1, 9, 0)]})
    ours = offsets_and_log_dirs.decode_list_offsets(body, 7, columns({"t": [0, 1, 2], "u": [0]}))
    assert ours.log_end_offset.tolist() == [-1, 9, -1, -1]
    assert ours.error_code.tolist() == [-1, 0, -1, -1]


def test_an_answer_to_another_question_is_refused() -> None:
    body = list_offsets_answer(Encoder(7, 6, endless([])), {"t": [(1, 0, -1, 9, 0)]})
    for asked in ({"t": [0]}, {"u": [1]}, {}):
        with pytest.raises(WireError, match="did not ask for"):
            offsets_and_log_dirs.decode_list_offsets(body, 7, columns(asked))


@pytest.mark.parametrize("version", [4, 7])
@pytest.mark.parametrize("section", TAG_SECTIONS)
def test_list_offsets_cut_anywhere_is_an_error(version: int, section: bytes) -> None:
    entries = [(partition, 0, -1, 5, 0) for partition in range(3)]
    body = list_offsets_answer(Encoder(version, 6, endless([section] * 5)), {"top": entries})
    asked = columns({"top": [0, 1, 2]})
    rejects(lambda cut: offsets_and_log_dirs.decode_list_offsets(cut, version, asked), body)


# DescribeLogDirs


def test_describe_log_dirs_request_is_what_kafka_python_reads() -> None:
    asked = columns({"a": [0, 5], "b": list(range(200))})
    for version in range(1, 5):
        body = offsets_and_log_dirs.encode_describe_log_dirs(asked, version)
        request = DescribeLogDirsRequest.decode(body, version=version)
        assert [(t.topic, t.partitions) for t in request.topics] == [
            ("a", [0, 5]),
            ("b", list(range(200))),
        ]
        everything = offsets_and_log_dirs.encode_describe_log_dirs(None, version)
        assert DescribeLogDirsRequest.decode(everything, version=version).topics is None


log_dir_entries = st.lists(st.tuples(ids, int64, int64, st.booleans()), max_size=5)
log_dirs = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 56]),
        names,
        st.dictionaries(long_names, log_dir_entries, max_size=3),
        st.tuples(int64, int64),
    ),
    max_size=3,
)


@given(dirs=log_dirs, version=st.integers(1, 4), sections=st.lists(tag_sections, max_size=20))
def test_log_dirs_answer_says_what_kafka_python_says(
    dirs: list[Any], version: int, sections: list[bytes]
) -> None:
    body = log_dirs_answer(Encoder(version, 2, endless(sections)), dirs)
    theirs = DescribeLogDirsResponse.decode(body, version=version).results
    ours = offsets_and_log_dirs.decode_describe_log_dirs(body, version, broker=4)
    assert [(d.path, d.error) for d in ours.dirs] == [
        (r.log_dir, error_name(r.error_code) if r.error_code else None) for r in theirs
    ]
    if version >= 4:
        assert [(d.total_bytes, d.usable_bytes) for d in ours.dirs] == [
            (r.total_bytes, r.usable_bytes) for r in theirs
        ]
    else:
        assert {d.total_bytes for d in ours.dirs} <= {-1}
    rows = [
        (place, t.name, p.partition_index, p.partition_size, p.is_future_key)
        for place, result in enumerate(theirs)
        for t in result.topics
        for p in t.partitions
    ]
    assert rows == list(
        zip(
            ours.dir_index.tolist(),
            [ours.topics[index] for index in ours.topic_index],
            ours.partition.tolist(),
            ours.size_bytes.tolist(),
            ours.is_future.tolist(),
            strict=True,
        )
    )


@pytest.mark.parametrize("version", [1, 2, 4])
@pytest.mark.parametrize("section", TAG_SECTIONS)
def test_log_dirs_cut_anywhere_is_an_error(version: int, section: bytes) -> None:
    dirs = [(0, "/d", {"t": [(0, 1, 0, False), (1, 2, 0, True)]}, (9, 8)), (0, "/e", {}, (1, 1))]
    body = log_dirs_answer(Encoder(version, 2, endless([section] * 6)), dirs)
    rejects(lambda cut: offsets_and_log_dirs.decode_describe_log_dirs(cut, version, 1), body)


def test_a_directory_has_the_error_that_its_broker_names() -> None:
    dirs: list[Any] = [(code, f"/{code}", {}, (1, 1)) for code in (0, 56, -1)]
    body = log_dirs_answer(Encoder(4, 2, endless([])), dirs)
    found = offsets_and_log_dirs.decode_describe_log_dirs(body, 4, broker=1).dirs
    errors = [None, "KAFKA_STORAGE_ERROR", "UNKNOWN_SERVER_ERROR"]
    assert [one.error for one in found] == errors


def test_log_dirs_that_are_not_shown_are_an_error() -> None:
    with pytest.raises(NotAuthorized, match="CLUSTER_AUTHORIZATION_FAILED"):
        offsets_and_log_dirs.decode_describe_log_dirs(
            log_dirs_answer(Encoder(4, 2, endless([])), [], 31), 4, 1
        )
    with pytest.raises(ClusterError, match="UNKNOWN_SERVER_ERROR"):
        offsets_and_log_dirs.decode_describe_log_dirs(
            log_dirs_answer(Encoder(4, 2, endless([])), [], -1), 4, 1
        )


def test_a_boolean_that_is_neither_is_an_error() -> None:
    body = log_dirs_answer(
        Encoder(4, 2, endless([])), [(0, "/d", {"t": [(0, 1, 0, True)]}, (9, 8))]
    )
    at = body.rindex(b"\x01\x00\x00")
    with pytest.raises(WireError, match="boolean"):
        offsets_and_log_dirs.decode_describe_log_dirs(body[:at] + b"\x02" + body[at + 1 :], 4, 1)


# Metadata


def test_metadata_request_is_what_kafka_python_reads() -> None:
    for version in range(9, 13):
        for topics in (None, [], ["a", "b" * 130]):
            request = MetadataRequest.decode(
                metadata.encode_metadata(topics, version), version=version
            )
            asked = None if request.topics is None else [t.name for t in request.topics]
            assert asked == topics
            assert not request.allow_auto_topic_creation
            assert not request.include_topic_authorized_operations


metadata_partitions = st.lists(
    st.tuples(int16, ids, int32, int32, brokers, brokers, brokers),
    max_size=8,
    unique_by=lambda entry: entry[1],
)
metadata_topics = st.dictionaries(
    names, st.tuples(st.sampled_from([0, 0, 0, 3, 29]), metadata_partitions), max_size=4
)
metadata_brokers = st.lists(
    st.tuples(ids, names, st.integers(1, 65535), st.one_of(st.none(), names)),
    max_size=4,
    unique_by=lambda broker: broker[0],
)


def replicas_by_kafka_python(body: bytes, version: int) -> list[tuple[Any, ...]]:
    """One tuple a replica, sorted as `Assignment` is."""
    return sorted(
        (t.name, p.partition_index, place, broker, p.leader_id,
         broker in p.isr_nodes, broker in p.offline_replicas)
        for t in MetadataResponse.decode(body, version=version).topics
        for p in t.partitions
        for place, broker in enumerate(p.replica_nodes)
    )  # fmt: skip


def replicas_by_us(assignment: Assignment) -> list[tuple[Any, ...]]:
    return list(
        zip(
            [assignment.topics[index] for index in assignment.topic_index],
            assignment.partition.tolist(),
            assignment.position.tolist(),
            assignment.broker.tolist(),
            assignment.leader.tolist(),
            assignment.in_isr.tolist(),
            assignment.offline.tolist(),
            strict=True,
        )
    )


@settings(max_examples=many(300))
@given(
    listed=metadata_brokers,
    topics=metadata_topics,
    version=st.integers(9, 12),
    sections=st.lists(tag_sections, max_size=30),
)
def test_metadata_answer_says_what_kafka_python_says(
    listed: list[Any], topics: dict[str, Any], version: int, sections: list[bytes]
) -> None:
    body = metadata_answer(Encoder(version, 9, endless(sections)), listed, topics)
    theirs = MetadataResponse.decode(body, version=version)
    ours = metadata.decode_metadata(body, version)
    assert (ours.cluster_id, ours.controller) == (theirs.cluster_id, theirs.controller_id)
    assert [(b.id, b.host, b.port, b.rack) for b in ours.brokers.values()] == listed
    assert ours.topic_errors == {n: error_name(code) for n, (code, _) in topics.items() if code}
    assert ours.assignment.topics == tuple(sorted(topics))
    assert replicas_by_us(ours.assignment) == replicas_by_kafka_python(body, version)


def test_metadata_with_uneven_runs_and_kafka_pythons_encoder() -> None:
    topic, partition = (
        MetadataResponse.MetadataResponseTopic,
        MetadataResponse.MetadataResponseTopic.MetadataResponsePartition,
    )

    def described(p: int) -> Any:
        replicas = [p % 7, p % 7 + 1, p % 7 + 2]
        # Long even runs, short ones, and single ones that are uneven.
        in_sync = replicas[: 3 - (p % 97 == 0) - (p // 1000 % 2)]
        return partition(
            error_code=0,
            partition_index=p,
            leader_id=replicas[0],
            leader_epoch=p,
            replica_nodes=replicas,
            isr_nodes=in_sync,
            offline_replicas=replicas[2:] if p % 500 == 3 else [],
        )

    response = MetadataResponse(
        throttle_time_ms=0,
        brokers=[],
        cluster_id=None,
        controller_id=-1,
        topics=[
            topic(
                error_code=0,
                name=name,
                is_internal=False,
                partitions=[described(p) for p in reversed(range(5_000))],
            )
            for name in ("zebra", "ant")
        ],
    )
    body = bytes(response.encode(version=12))
    ours = metadata.decode_metadata(body, 12)
    assert ours.cluster_id == ""
    assert ours.controller == -1
    assert replicas_by_us(ours.assignment) == replicas_by_kafka_python(body, 12)


def test_a_partition_with_more_replicas_than_a_byte_counts() -> None:
    many = list(range(130))
    high = [2**31 - 1 - n for n in range(128)]
    entries = [
        (0, 0, 1, 1, many, many[:127], []),
        (0, 1, 1, 1, many, many, many[:126]),
        (0, 2, 1, 1, high, [], []),
    ]
    body = metadata_answer(Encoder(12, 9, endless([])), [], {"t": (0, entries)})
    assert replicas_by_us(metadata.decode_metadata(body, 12).assignment) == (
        replicas_by_kafka_python(body, 12)
    )


def test_a_topic_has_the_error_that_its_broker_names() -> None:
    topics: dict[str, Any] = {"fine": (0, []), "gone": (3, []), "odd": (-1, [])}
    body = metadata_answer(Encoder(12, 9, endless([])), [], topics)
    assert metadata.decode_metadata(body, 12).topic_errors == {
        "gone": "UNKNOWN_TOPIC_OR_PARTITION",
        "odd": "UNKNOWN_SERVER_ERROR",
    }


@pytest.mark.parametrize("version", range(9, 13))
def test_topics_have_ids_from_version_10_on(version: int) -> None:
    answer = MetadataResponse(
        brokers=[],
        topics=[
            MetadataResponse.MetadataResponseTopic(
                name=name, topic_id=UUID(int=number), partitions=[]
            )
            for number, name in enumerate(("a", "b"), 1)
        ],
    )
    found = metadata.decode_topic_ids(bytes(answer.encode(version=version)), version)
    ids = {"a": bytes(15) + b"\x01", "b": bytes(15) + b"\x02"}
    assert found == (ids if version >= 10 else {})


def test_an_empty_cluster_is_described() -> None:
    body = metadata_answer(Encoder(12, 9, endless([])), [], {})
    state: ClusterState = metadata.decode_metadata(body, 12)
    assert len(state.assignment) == 0
    assert state.assignment.in_isr.dtype == np.bool_
    assert state.assignment.broker.dtype == np.int32


@pytest.mark.parametrize("version", [9, 10, 12])
@pytest.mark.parametrize("section", TAG_SECTIONS)
def test_metadata_cut_anywhere_is_an_error(version: int, section: bytes) -> None:
    entries: list[Any] = [(0, p, 1, 1, [1, 2], [1] if p == 1 else [1, 2], []) for p in range(4)]
    encoder = Encoder(version, 9, endless([section] * 9))
    body = metadata_answer(encoder, [(1, "h", 9092, None)], {"t": (0, entries)})
    rejects(lambda cut: metadata.decode_metadata(cut, version), body)


@pytest.mark.parametrize(
    ("topics", "problem"),
    [
        ({"t": (0, [(0, 1, 1, 1, [1], [], []), (0, 1, 1, 1, [2], [], [])])}, "described twice"),
        ({"t": (0, [(0, -1, 1, 1, [1], [], [])])}, "negative"),
        ({"t": (0, [(0, 1, 1, 1, [-1], [], [])])}, "negative broker"),
    ],
)
def test_metadata_that_contradicts_itself_is_an_error(topics: dict[str, Any], problem: str) -> None:
    body = metadata_answer(Encoder(12, 9, endless([])), [], topics)
    with pytest.raises(WireError, match=problem):
        metadata.decode_metadata(body, 12)


@given(data=st.binary(max_size=200), flips=st.lists(st.tuples(st.integers(0, 400), ids)))
def test_no_bytes_cause_another_error(data: bytes, flips: list[tuple[int, int]]) -> None:
    entries: list[Any] = [(0, p, 1, 1, [1, 2], [1], []) for p in range(5)]
    body = bytearray(
        metadata_answer(Encoder(12, 9, endless([])), [(1, "h", 1, "r")], {"t": (0, entries)})
    )
    for at, value in flips:
        body[at % len(body)] = value % 256
    asked = columns({"t": [0, 1]})
    for broken in (data, bytes(body)):
        survives(lambda b: metadata.decode_metadata(b, 12), broken)
        survives(lambda b: offsets_and_log_dirs.decode_list_offsets(b, 7, asked), broken)
        survives(lambda b: offsets_and_log_dirs.decode_list_offsets(b, 4, asked), broken)
        survives(lambda b: offsets_and_log_dirs.decode_describe_log_dirs(b, 4, 1), broken)
        survives(lambda b: offsets_and_log_dirs.decode_describe_log_dirs(b, 1, 1), broken)


# Primitives and raw requests


@given(st.integers(0, 2**32 - 1))
def test_a_varint_is_read_as_it_was_written(value: int) -> None:
    assert Reader(uvarint(value), flexible=True, what="x").uvarint() == value


@pytest.mark.parametrize(
    "raw", [b"\xff" * 5, b"\x80" * 5 + b"\x00", b"\xff\xff\xff\xff\x1f", b"\x80\x80\x80\x80\x10"]
)
def test_a_varint_of_more_than_32_bits_is_an_error(raw: bytes) -> None:
    with pytest.raises(WireError, match="varint"):
        Reader(raw, flexible=True, what="x").uvarint()


def test_a_length_that_cannot_fit_is_refused_before_anything_is_allocated() -> None:
    with pytest.raises(WireError, match="of 4294967294 entries"):
        Reader(uvarint(2**32 - 1), flexible=True, what="x").count()
    read = Reader(b"\x00\x03\x00", flexible=True, what="x")
    read.skip(1)
    with pytest.raises(WireError, match="of 2 entries does not fit"):
        read.count()
    with pytest.raises(WireError, match="of -1 entries"):
        Reader(struct.pack(">i", -1), flexible=False, what="x").count()


def read_answer(request: RawRequest, frame: bytes) -> RawAnswer:
    """What kafka-python's protocol parser does with an answer's frame."""
    buffer = KafkaBytes(len(frame))
    buffer.write(frame)
    buffer.seek(0)
    assert request.header is not None
    answer_class = request.header.get_response_class()
    assert answer_class.parse_header(buffer).correlation_id == 7
    return answer_class.decode(buffer)


@pytest.mark.parametrize(("version", "tagged"), [(4, b""), (7, b"\x00"), (7, b"\x01\x00\x01x")])
def test_a_raw_request_speaks_as_kafka_pythons_own(version: int, tagged: bytes) -> None:
    asked = columns({"t": [0]})
    request = RawRequest(
        "ListOffsets", 2, (4, 7), 6, lambda v: offsets_and_log_dirs.encode_list_offsets(asked, v)
    )
    request.API_VERSION = version
    request.with_header(correlation_id=7, client_id="me")
    frame = request.encode(framed=True, header=True)
    header_bytes = 17 if version >= 6 else 16
    decoded = ListOffsetsRequest.decode(frame[header_bytes:], version=version)
    assert struct.unpack(">ihhih", frame[:14]) == (len(frame) - 4, 2, version, 7, 2)
    assert decoded.topics[0].name == "t"
    answer = read_answer(request, struct.pack(">i", 7) + tagged + struct.pack(">i", 250) + b"rest")
    assert (answer.version, answer.throttle_time_ms) == (version, 250)
    assert answer.body.endswith(b"rest")


def test_a_message_of_kafka_pythons_goes_over_as_a_raw_request() -> None:
    request = RawRequest.of(DescribeLogDirsRequest(topics=None), min_version=1)
    assert (request.API_KEY, request.min_version) == (35, 1)
    request.API_VERSION = 4
    request.with_header(correlation_id=1, client_id="me")
    frame = request.encode(framed=True, header=True)
    assert frame.endswith(offsets_and_log_dirs.encode_describe_log_dirs(None, 4))


def test_the_length_of_a_client_id_is_that_of_its_bytes() -> None:
    request = RawRequest.of(DescribeLogDirsRequest(topics=None))
    request.API_VERSION = 4
    request.with_header(correlation_id=1, client_id="größe")
    assert request.encode(framed=True, header=True)[12:].startswith(
        b"\x00\x07gr\xc3\xb6\xc3\x9fe\x00"
    )


def test_an_answer_without_a_header_closes_the_connection() -> None:
    request = RawRequest("X", 2, (0, 9), 0, lambda _: b"")
    request.API_VERSION = 9
    request.with_header(correlation_id=7, client_id="me")
    with pytest.raises(KafkaProtocolError, match="X answer"):
        read_answer(request, b"\x00")


def test_error_codes_have_kafkas_names() -> None:
    assert NAMES[6] == "NOT_LEADER_OR_FOLLOWER"
    assert NAMES.keys() >= RETRIABLE
    assert error_name(9999) == "ERROR_9999"
