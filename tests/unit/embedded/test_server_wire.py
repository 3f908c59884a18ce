"""What bytes become requests, and what answers become bytes: each as a real broker has it.

`test_a_real_broker_does_the_same` sends the same frames to Kafka itself.
"""

import struct
from typing import Any

import pytest
from kafka.protocol.metadata import ApiVersionsResponse

from kshunt.backend.embedded.net.api import KAFKA_APIS, SEED_APIS, Api, ApiTable, WireReply
from kshunt.backend.embedded.net.frame_check import BadFrame, Costs, check_message
from kshunt.backend.wire import kip_requests
from kshunt.backend.wire.reader import Reader, WireError
from tests.support.embedded.frames import (
    ALL_TOPICS,
    API_VERSIONS,
    EXACT,
    FRAMES,
    METADATA,
    header,
)

EVERY_API = {**KAFKA_APIS, **SEED_APIS}
EVERY = [
    pytest.param(api, version, id=f"{api.name}-v{version}")
    for api in EVERY_API.values()
    for version in range(api.min_version, api.max_version + 1)
]
TABLE = ApiTable(EVERY_API)
NOT_CONTROLLER, NO_REASON = 41, ""


def request(api: Api, version: int, message: Any = None) -> bytes:
    """A frame without its length."""
    sent = message or api.request(version=version)
    head = header(api.key, version, flexible=api.flexible(version))
    return head + bytes(sent.encode(version=version))


def answered(frame: bytes) -> bool:
    try:
        TABLE.decode(frame)
    except BadFrame:
        return False
    return True


@pytest.mark.parametrize("what", FRAMES)
def test_what_gets_an_answer(what: str) -> None:
    frame, expected = FRAMES[what]
    assert answered(frame) == expected


@pytest.mark.parametrize("what", EXACT)
def test_api_versions_answers_what_it_cannot_serve(what: str) -> None:
    frame, answer = EXACT[what]
    assert TABLE.api_versions(TABLE.decode(frame)) == answer


@pytest.mark.parametrize(("api", "version"), EVERY)
def test_every_request_is_read_and_every_failure_has_an_answer(api: Api, version: int) -> None:
    decoded = TABLE.decode(request(api, version))
    assert (decoded.header.correlation_id, decoded.header.client_id) == (7, "c")
    assert decoded.message == api.request(version=version)
    frame = decoded.error(WireReply(NOT_CONTROLLER, NO_REASON))
    size, correlation_id = struct.unpack_from(">ii", frame)
    assert (size, correlation_id) == (len(frame) - 4, 7)
    head = 9 if api.key != API_VERSIONS and api.flexible(version) else 8
    check_message(api.response, version, frame[head:])


def error_of(key: int, version: int, /, **fields: Any) -> Any:
    """The answer to a request that fails as a whole."""
    api = EVERY_API[key]
    frame = request(api, version, api.request(version=version, **fields))
    answer = TABLE.decode(frame).error(WireReply(NOT_CONTROLLER, "elsewhere"))
    head = 9 if api.flexible(version) else 8
    return api.response.decode(answer[head:], version=version).to_dict()


PLACES = ("error", "error_code", "partition_error_code")
SAMPLES = {"string": "t", "bytes": b"", "records": b"", "uuid": None, "bool": False}


def sample(container: Any, version: int) -> dict[str, Any]:
    """The fields of a message, with one entry in each array."""
    return {f.name: sample_of(f, version) for f in container.untagged_fields(version)}


def sample_of(field: Any, version: int) -> Any:
    if hasattr(field, "array_of"):
        return [sample_of(field.array_of, version)]
    if field.is_struct():
        return field.data_class(version=version, **sample(field, version))
    return SAMPLES.get(field.type_str, 1)


def codes(said: Any) -> list[int]:
    """Every error code in an answer."""
    if isinstance(said, list):
        return [code for entry in said for code in codes(entry)]
    if not isinstance(said, dict):
        return []
    own = [value for name, value in said.items() if name in PLACES]
    return own + [code for value in said.values() for code in codes(value)]


@pytest.mark.parametrize(("api", "version"), EVERY)
def test_every_failure_is_said_somewhere(api: Api, version: int) -> None:
    if api.key == API_VERSIONS:
        return
    said = error_of(api.key, version, **sample(api.request._struct, version))
    assert set(codes(said)) == {NOT_CONTROLLER}
    assert not said.get("brokers")


def test_a_failure_is_said_where_the_api_has_a_place_for_it() -> None:
    whole = error_of(45, 0, topics=[("t", [(0, [1, 2])])])
    assert (whole["error_code"], whole["error_message"]) == (NOT_CONTROLLER, "elsewhere")
    offsets = error_of(2, 4, topics=[("t", [(3, -1, -1), (4, -1, -1)])])
    (topic,) = offsets["topics"]
    assert topic["name"] == "t"
    found = [(p["partition_index"], p["error_code"]) for p in topic["partitions"]]
    assert found == [(3, NOT_CONTROLLER), (4, NOT_CONTROLLER)]
    produced = error_of(0, 9, acks=1, topic_data=[("t", [(5, None)])])
    (topic,) = produced["responses"]
    (partition,) = topic["partition_responses"]
    assert (topic["name"], partition["index"], partition["error_code"]) == ("t", 5, NOT_CONTROLLER)
    assert partition["error_message"] == "elsewhere"
    configs = error_of(32, 4, resources=[(2, "t", None)])["results"]
    assert [(c["resource_type"], c["resource_name"], c["error_code"]) for c in configs] == [
        (2, "t", NOT_CONTROLLER)
    ]
    keys = error_of(10, 4, coordinator_keys=["g", "h"])["coordinators"]
    assert [(k["key"], k["error_code"]) for k in keys] == [
        ("g", NOT_CONTROLLER),
        ("h", NOT_CONTROLLER),
    ]
    deleted = error_of(20, 4, topic_names=["t"])["responses"]
    assert [(t["name"], t["error_code"]) for t in deleted] == [("t", NOT_CONTROLLER)]


def test_a_failure_is_said_in_the_seeds_answers() -> None:
    moved = error_of(
        kip_requests.REASSIGN_PARTITIONS_KEY, 0, topic_reassignments=[("t", [(7, [1])])]
    )
    (topic,) = moved["reassign_partition_result"]
    assert topic == {
        "topic": "t",
        "partition_error": [
            {"partition_id": 7, "error_code": NOT_CONTROLLER, "error_message": "elsewhere"}
        ],
    }
    elected = error_of(
        kip_requests.ELECT_PREFERRED_LEADERS_KEY, 0, topic_partitions=[("t", [1, 2])]
    )
    (topic,) = elected["replica_election_result"]
    assert [p["partition_id"] for p in topic["partition_result"]] == [1, 2]
    altered = error_of(kip_requests.ALTER_TOPICS_KEY, 0, altered_topic=[("t", 3, 1, [])])
    assert altered["altered_topic"] == [
        {"topic": "t", "error": NOT_CONTROLLER, "detail": "elsewhere"}
    ]
    rated = error_of(
        kip_requests.ALTER_INTERBROKER_THROTTLED_RATES_KEY, 0, broker_throttles=[(3, 1, 2)]
    )
    assert [(b["broker_id"], b["error_code"]) for b in rated["broker_error"]] == [
        (3, NOT_CONTROLLER)
    ]
    deleted = error_of(kip_requests.DELETE_PARTITIONS_KEY, 0, topics=[("t", [1])])
    assert (deleted["error_code"], deleted["responses"]) == (NOT_CONTROLLER, [])


def test_the_seeds_keys_can_be_switched_off() -> None:
    plain = ApiTable(EVERY_API, native=False)
    assert plain.apis.keys() == KAFKA_APIS.keys()
    with pytest.raises(BadFrame, match="no API with the key 10000"):
        plain.decode(request(SEED_APIS[10_000], 0))


def test_a_table_holds_what_it_is_given_and_api_versions() -> None:
    table = ApiTable([METADATA])
    asked = table.decode(header(API_VERSIONS, 0))
    listed = ApiVersionsResponse.decode(table.api_versions(asked)[8:], version=0)
    keys = {key.api_key: (key.min_version, key.max_version) for key in listed.api_keys}
    assert keys == {METADATA: (0, 13), API_VERSIONS: (0, 4)}
    with pytest.raises(ValueError, match="no API with the key 5"):
        ApiTable([5])


def test_tagged_fields_must_have_their_size_and_unknown_ones_are_skipped() -> None:
    body = bytes(KAFKA_APIS[1].request(version=15).encode(version=15))
    plain = body[:-1]
    check_message(KAFKA_APIS[1].request, 15, plain + b"\x01\x63\x02ab")
    for section in (b"\x01\x00\x05\x03ab\x00\x00", b"\x01\x63\x05ab", b"\x02\x63\x00"):
        with pytest.raises(BadFrame):
            check_message(KAFKA_APIS[1].request, 15, plain + section)


def test_what_decoding_may_cost_is_bounded() -> None:
    topics = 1_000_001
    huge = struct.pack(">i", topics) + b"\x00\x00" * topics
    with pytest.raises(BadFrame, match="more than 1000000 entries"):
        check_message(KAFKA_APIS[METADATA].request, 1, huge)
    costs = Costs(tag_copies_bytes=10)
    reader = Reader(bytes(8), flexible=True, what="message")
    costs.spend_tags(reader)
    with pytest.raises(WireError, match="too many tagged fields"):
        costs.spend_tags(reader)
    long_varint = header(METADATA, 12, flexible=True) + b"\xff" * 1_000_000
    with pytest.raises(BadFrame, match="varint"):
        TABLE.decode(long_varint)


def test_a_client_id_that_is_not_text_is_no_request() -> None:
    frame = struct.pack(">hhih", METADATA, 1, 7, 1) + b"\xff" + ALL_TOPICS
    with pytest.raises(BadFrame, match="UTF-8"):
        TABLE.decode(frame)
    topic = header(METADATA, 1) + struct.pack(">ih", 1, 1) + b"\xff"
    with pytest.raises(BadFrame, match="UTF-8"):
        TABLE.decode(topic)
