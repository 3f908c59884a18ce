"""The ACLs of the quick start are enough: those to look for looking, and the rest for a change."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.throttles.configs import ThrottledRate
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.tools.reassign import command as reassign
from kshunt.backend.tools.topics import command as topics
from tests.support.documents.blocks import blocks_of
from tests.support.embedded.background import running
from tests.support.embedded.rights import AUTHORIZED, granted
from tests.support.embedded.users import USERS, login
from tests.support.paths import ROOT
from tests.support.serving import serving
from tests.support.tools import run_with, write
from tests.support.waiting import wait_until

DEADLINE_S = 60.0
PRINCIPAL = "User:kshunt"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
KINDS = {"--cluster": "cluster", "--topic": "topic", "--transactional-id": "transactional_id"}
PROPERTIES = (
    "security.protocol=SASL_PLAINTEXT\n"
    "sasl.mechanism=PLAIN\n"
    'sasl.jaas.config={} required username="{}" password="{}-secret";\n'
)
TOPIC = "orders"


def rights(which: str) -> Iterator[str]:
    """The ACLs of the quick start's blocks of that name, in the words of `allow`."""
    for block in blocks_of(ROOT / "docs" / "quick-start.md"):
        if block.options.get("acls") == which:
            for command in block.commands():
                yield from _granted_by(shlex.split(command))


def _granted_by(words: list[str]) -> Iterator[str]:
    assert words[words.index("--allow-principal") + 1] == PRINCIPAL
    [kind] = [KINDS[word] for word in words if word in KINDS]
    name = "" if kind == "cluster" else words[words.index(f"--{kind.replace('_', '-')}") + 1]
    if "prefixed" in words:
        name += "*"
    for place, word in enumerate(words):
        if word == "--operation":
            operation = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", words[place + 1]).upper()
            yield f"{operation} {kind} {name}".strip()


def logged_in(folder: Path, user: str) -> str:
    path = write(folder, f"{user}.properties", PROPERTIES.format(MODULE, user, user))
    Path(path).chmod(0o600)
    return path


def test_the_acls_of_the_quick_start_are_enough(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    users = {**USERS, "kshunt": "kshunt-secret"}
    spec = ClusterSpec(plain_brokers(3), static=AUTHORIZED, users=users, native=False)
    with running(spec) as cluster:
        admin = AdminClient(login(cluster, "admin"))
        admin.create_topics([NewTopic(TOPIC, num_partitions=1, replica_assignment=[[1]])])[
            TOPIC
        ].result(DEADLINE_S)
        granted(cluster, *rights("look"), principal=PRINCIPAL)
        flags = ("--command-config", logged_in(tmp_path, "kshunt"))
        with serving(cluster.bootstrap_servers, tmp_path, *flags) as address:
            moves, alters = run_with(reassign.main, capsys), run_with(topics.main, capsys)
            entry = {"topic": TOPIC, "partition": 0, "replicas": [3]}
            plan = write(tmp_path, "plan.json", json.dumps({"version": 1, "partitions": [entry]}))
            of_plan = ("--backend", address, "--reassignment-json-file", plan)
            start = ("--execute", *of_plan, "--throttle", "50MB/s")
            assert TOPIC in alters("--describe", "--backend", address)[1]
            assert moves("--list", "--backend", address)[0] == 0
            assert "Behind" not in moves("--progress", *of_plan)[1]
            code, _, err = moves(*start)
            assert code == 1
            assert "uthoriz" in err

            granted(cluster, *rights("change"), principal=PRINCIPAL)
            wait_until(lambda: moves(*start)[0] == 0, DEADLINE_S, "the move starts")
            wait_until(lambda: moves("--verify", *of_plan)[0] == 0, DEADLINE_S, "it has moved")
            grow = ("--topic", TOPIC, "--partitions", "2")
            assert alters("--alter", "--backend", address, *grow)[0] == 0
            with BackendClient(address) as client:

                def ended() -> bool:
                    return all(one.state.ended for one in client.operations.list())

                wait_until(ended, DEADLINE_S, "the operation ends")
                assert {rate.rate for rate in client.throttles.list().rates.values()} <= {
                    ThrottledRate(None, None)
                }
                assert not client.elections.elect_preferred_leaders(None).failures
