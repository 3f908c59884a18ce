"""What Kafka's znodes say, and files that say how to reach them: parsed, or refused in words."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.admin.security.client_properties import load_client_config
from kshunt.backend.admin.zookeeper import znode_layout
from kshunt.backend.admin.zookeeper.ensemble_config import PACKET_BYTES_DEFAULT, ensemble_config
from kshunt.backend.admin.zookeeper.session import Create, Delete, Put
from kshunt.backend.admin.zookeeper.znode_layout import TopicZnode, UnreadableZnode
from kshunt.backend.domain.cluster.metadata import Broker, OngoingReassignment, TopicPartition
from kshunt.backend.errors import ConfigError, Conflict
from kshunt.backend.journal_storage.zookeeper.removal_records import (
    FoundRecords,
    Removal,
    changes_for,
)
from tests.support.brokers.tls import make_tls_files

ZERO = TopicPartition("t", 0)

# Brokers' znodes


def test_topics_of_every_version_are_read() -> None:
    old = b'{"version":1,"partitions":{"1":[2,1],"0":[1,2]}}'
    assert znode_layout.read_topic("/t", old) == TopicZnode(
        {0: (1, 2), 1: (2, 1)}, tells_moves=False
    )
    new = (
        b'{"removing_replicas":{"0":[1]},"partitions":{"0":[3,2,1]},"topic_id":"x",'
        b'"adding_replicas":{"0":[3]},"version":3}'
    )
    assert znode_layout.read_topic("/t", new) == TopicZnode({0: (3, 2, 1)}, {0: (3,)}, {0: (1,)})


def test_a_broker_is_found_at_the_listener_of_our_protocol() -> None:
    data = (
        b'{"listener_security_protocol_map":{"IN":"PLAINTEXT","OUT":"SASL_SSL"},"endpoints":'
        b'["IN://10.0.0.1:9092","OUT://[2001:db8::1]:9093"],"rack":"r1","version":5}'
    )
    assert znode_layout.read_broker("/b", data, 4, "PLAINTEXT") == Broker(4, "10.0.0.1", 9092, "r1")
    assert znode_layout.read_broker("/b", data, 4, "SASL_SSL") == Broker(
        4, "2001:db8::1", 9093, "r1"
    )
    assert znode_layout.read_broker("/b", data, 4, "SSL") == Broker(4, "", 0, "r1")


BROKEN = (b"", b"{", b"\xff", b"[]", b"7", b"null", b'{"partitions":7}', b"[" * 100_000)


@pytest.mark.parametrize("data", BROKEN, ids=range(len(BROKEN)))
def test_what_is_no_json_of_kafkas_is_refused_and_named(data: bytes) -> None:
    with pytest.raises(UnreadableZnode, match="/admin/reassign_partitions"):
        znode_layout.read_reassignment(data)
    with pytest.raises(UnreadableZnode, match="/state"):
        znode_layout.read_state("/state", data)
    with pytest.raises(UnreadableZnode, match="/config"):
        znode_layout.read_config("/config", data)
    with pytest.raises(UnreadableZnode, match="/removal"):
        znode_layout.read_removal("/removal", "topics", data, str)
    if data != b"{}":
        with pytest.raises(UnreadableZnode):
            znode_layout.read_cluster_id(data)


@given(st.binary(max_size=60))
def test_no_bytes_lead_to_another_error(data: bytes) -> None:
    readers = (
        lambda: znode_layout.read_reassignment(data),
        lambda: znode_layout.read_state("/p", data),
        lambda: znode_layout.read_topic("/p", data),
        lambda: znode_layout.read_config("/p", data),
        lambda: znode_layout.read_broker("/p", data, 1, "SSL"),
        lambda: znode_layout.read_controller(data),
        lambda: znode_layout.read_removal("/p", "brokers", data, int),
    )
    for read in readers:
        with suppress(UnreadableZnode):
            read()


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["partitions", "topic", "partition", "replicas", "leader", "isr", "0"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(_JSON)
def test_no_json_leads_to_another_error(found: object) -> None:
    data = json.dumps(found).encode()
    for read in (
        lambda: znode_layout.read_reassignment(data),
        lambda: znode_layout.read_state("/p", data),
        lambda: znode_layout.read_topic("/p", data),
        lambda: znode_layout.read_broker("/p", data, 1, "SSL"),
    ):
        with suppress(UnreadableZnode):
            read()


@pytest.mark.parametrize("version", [2, "2", None, [1]], ids=str)
def test_what_is_written_again_is_of_a_version_that_is_known(version: object) -> None:
    """Otherwise a write would lose the other fields that the znode holds."""
    data = json.dumps({"version": version, "config": {}, "topics": [], "quota": 1}).encode()
    with pytest.raises(UnreadableZnode, match="/config has version"):
        znode_layout.read_config("/config", data)
    with pytest.raises(UnreadableZnode, match="/removal has version"):
        znode_layout.read_removal("/removal", "topics", data, str)
    assert znode_layout.read_config("/config", b'{"version":"1","config":{"a":"b"}}') == {"a": "b"}


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "t/partitions", "\u00fc", "a b", "a" * 250])
def test_what_no_topic_is_called_is_no_path(name: str) -> None:
    assert not znode_layout.may_be_topic(name)
    assert znode_layout.may_be_topic("__consumer_offsets.v-2" + "a" * 227)


# What moves


def test_a_move_is_seen_before_the_controller_has_taken_it_and_until_it_lets_go() -> None:
    resting = {"t": TopicZnode({0: (1, 2)})}
    asked = {ZERO: (2, 3), TopicPartition("gone", 0): (1,), TopicPartition("t", 9): (1,)}
    assert znode_layout.ongoing_of(resting, asked) == {
        ZERO: OngoingReassignment(ZERO, (2, 3, 1), adding=(3,), removing=(1,))
    }
    moving = {"t": TopicZnode({0: (2, 3, 1)}, {0: (3,)}, {0: (1,)})}
    seen = OngoingReassignment(ZERO, (2, 3, 1), adding=(3,), removing=(1,))
    assert (
        znode_layout.ongoing_of(moving, asked)
        == znode_layout.ongoing_of(moving, {})
        == {ZERO: seen}
    )
    arrived = {"t": TopicZnode({0: (2, 3)})}
    assert znode_layout.ongoing_of(arrived, {ZERO: (2, 3)})[ZERO].target == (2, 3)
    assert znode_layout.ongoing_of(arrived, {}) == {}


def test_what_a_controller_before_2_4_adds_is_what_is_not_in_sync_yet() -> None:
    union = {"t": TopicZnode({0: (2, 3, 1)}, tells_moves=False)}
    asked = {ZERO: (2, 3), TopicPartition("t", 9): (1,), TopicPartition("gone", 0): (1,)}
    assert znode_layout.untold(union, asked) == [ZERO]
    assert znode_layout.ongoing_of(union, asked, {ZERO: (1, 2)}) == {
        ZERO: OngoingReassignment(ZERO, (2, 3, 1), adding=(3,), removing=(1,))
    }
    assert znode_layout.ongoing_of(union, asked, {ZERO: (1, 2, 3)})[ZERO].adding == ()
    # Before it has begun, and where the znode tells, no ISR is needed.
    assert znode_layout.untold({"t": TopicZnode({0: (1, 2)}, tells_moves=False)}, asked) == []
    assert znode_layout.untold({"t": TopicZnode({0: (2, 3, 1)})}, asked) == []


@pytest.mark.conforms("kip-179:zookeeper-as-before")
def test_what_is_written_is_what_kafkas_tool_wrote() -> None:
    text = znode_layout.reassignment_text({ZERO: (1, 2)})
    assert text == (b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}')
    assert znode_layout.read_reassignment(text) == {ZERO: (1, 2)}
    assert znode_layout.election_text([ZERO]) == (
        b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'
    )
    assert znode_layout.change_text("topics/t") == b'{"version":2,"entity_path":"topics/t"}'


# The seed's removal records

NAMES = st.frozensets(st.sampled_from("abcd"))


@given(NAMES, NAMES, NAMES)
def test_names_of_others_stay_and_ours_come_and_go(
    there: frozenset[str], before: frozenset[str], after: frozenset[str]
) -> None:
    path = znode_layout.TOPICS_REMOVAL
    found = FoundRecords(Removal(there), {path: 3} if there else {})
    operations = changes_for(found, Removal(before), Removal(after))
    left = there
    for one in operations:
        assert one.path == path
        if isinstance(one, Delete):
            left = frozenset()
            continue
        assert isinstance(one, Create if not there else Put)
        left = frozenset(znode_layout.read_removal(path, "topics", one.data, str))
    assert left == (there - before) | after
    assert not operations or left != there


def test_a_removal_record_that_cannot_be_read_is_not_written_over() -> None:
    path = znode_layout.BROKERS_REMOVAL
    found = FoundRecords(
        unreadable={path: UnreadableZnode(path, "does not hold JSON")}, versions={path: 1}
    )
    assert (
        changes_for(found, Removal(), Removal(frozenset("t")))[0].path
        == znode_layout.TOPICS_REMOVAL
    )
    with pytest.raises(Conflict, match=path):
        changes_for(found, Removal(), Removal(brokers=frozenset({1})))


# Flags and files


def test_zookeepers_client_is_loaded_only_for_zookeeper() -> None:
    program = (
        "import sys, kshunt.backend.tools.local.cluster, kshunt.backend.serve.command\n"
        "import kshunt.backend.tools.reassign.command\n"
        "assert 'kazoo' not in sys.modules\n"
        "import kshunt.backend.admin.zookeeper.zookeeper_admin\n"
        "assert 'kazoo' in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "connect", ["", "host", "host:", ":2181", "h:1,", "h:1/", "h:1/a/", "h:1//a", "h:x"]
)
def test_what_is_no_connect_string_is_refused(connect: str) -> None:
    with pytest.raises(ConfigError):
        ensemble_config(connect, None)


def test_a_file_says_who_we_are_and_the_repr_does_not(tmp_path: Path) -> None:
    path = tmp_path / "zk.properties"
    path.write_text("zookeeper.digest=ops:secret\njute.maxbuffer=4194304\nclient.id=me\n")
    config = ensemble_config("h1:2181,h2:2181/kafka", path)
    assert (config.digest, config.packet_bytes_max) == ("ops:secret", 4194304)
    assert config.servers == (("h1", 2181), ("h2", 2181))
    assert "secret" not in repr(config)
    assert ensemble_config("h:1", None).packet_bytes_max == PACKET_BYTES_DEFAULT
    # The rest is for the brokers.
    assert load_client_config(path).client_id == "me"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("zookeeper.digest=ops", "not in the form user:password"),
        ("zookeeper.digest=:secret", "not in the form user:password"),
        ("zookeeper.ssl.client.enable=yes", "be true or false"),
        ("zookeeper.set.acl=true", "zookeeper.set.acl"),
        ("jute.maxbuffer=many", "not a number"),
        ("zookeeper.ssl.client.enable=true\nzookeeper.ssl.truststore.location=x.jks", "PEM"),
        ("zookeeper.ssl.client.enable=true\nzookeeper.ssl.truststore.location=x.pem", "x.pem"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused_by_name(
    line: str, why: str, tmp_path: Path
) -> None:
    path = tmp_path / "zk.properties"
    path.write_text(line)
    with pytest.raises(ConfigError, match=why) as refused:
        ensemble_config("h:1", path)
    assert "secret" not in str(refused.value)
    with pytest.raises(ConfigError, match="Cannot read"):
        ensemble_config("h:1", tmp_path / "missing")


def test_stores_are_those_of_a_brokers_properties(tmp_path: Path) -> None:
    files = make_tls_files(tmp_path / "tls")
    path = tmp_path / "zk.properties"
    path.write_text(
        "zookeeper.ssl.client.enable=true\n"
        "zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty\n"
        f"zookeeper.ssl.truststore.location={files.ca}\n"
        "zookeeper.ssl.endpoint.identification.algorithm=\n"
    )
    config = ensemble_config("h:1", path)
    assert config.stores is not None
    assert not config.stores.check_hostname
