"""The commands of the page about ZooKeeper, as they are printed, on a real ZooKeeper."""

from __future__ import annotations

import json
import os

from kshunt.backend.access.cluster_keys import KEYS_VARIABLE
from tests.support.brokers.zookeeper import ZooKeeperKafka
from tests.support.documents.printed import printed_blocks
from tests.support.documents.session import session_on
from tests.support.topics import create_topic, produce
from tests.support.waiting import wait_until
from tests.support.zookeeper.znodes import DEADLINE_S, ON_ZOOKEEPER, client_of

pytestmark = ON_ZOOKEEPER

TOPIC = "manual"
MOVING = "/admin/reassign_partitions"


def test_the_commands_of_the_page_work(zookeeper: ZooKeeperKafka) -> None:
    create_topic(zookeeper.bootstrap_servers, TOPIC, [[1], [2]])
    produce(zookeeper.bootstrap_servers, TOPIC, 20, 1_000)
    names = {
        "zk1:2181,zk2:2181/kafka": zookeeper.connect,
        "zk1:2181/kafka": zookeeper.connect,
    }
    entry = {"topic": TOPIC, "partition": 0, "replicas": [3]}
    plan = json.dumps({"version": 1, "partitions": [entry]})
    # The brokers have a journal of other tests, and so its keys.
    keys = {KEYS_VARIABLE: os.environ[KEYS_VARIABLE]}
    with session_on("", "", names, keys) as reader, client_of(zookeeper.connect) as client:

        def has_moved() -> bool:
            state, _ = client.get(f"/brokers/topics/{TOPIC}")
            return json.loads(state)["partitions"]["0"] == [3] and not client.exists(MOVING)

        def is_unthrottled() -> bool:
            settings, _ = client.get(f"/config/topics/{TOPIC}")
            return not json.loads(settings)["config"]

        (reader.folder / "work" / "plan.json").write_text(plan)
        for block in printed_blocks("docs/operating/zookeeper.md", __file__):
            reader.run(block)
            wait_until(has_moved, DEADLINE_S, "the move has ended")
            wait_until(is_unthrottled, DEADLINE_S, "the backend has removed the throttle")
