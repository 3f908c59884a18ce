"""Claims, notes and presence over real sockets, of people with tokens and of others without."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.operations.team import Presence
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.throttles.configs import ThrottledRate, ThrottledReplicas
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.errors import BackendError
from tests.support.access.team import Shared, shared
from tests.support.admin import fresh_name
from tests.support.embedded.background import running
from tests.support.serving import serving
from tests.support.topics import create_topic, produce
from tests.support.waiting import wait_until

DEADLINE_S = 60.0
SLOW = 2_000


@pytest.fixture(scope="module")
def team(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    with shared(bootstrap, tmp_path_factory.mktemp("team")) as found:
        yield found


@pytest.fixture
def moved(bootstrap: str, team: Shared) -> Iterator[Operation]:
    """A move that takes minutes, and is taken back in the end."""
    topic = fresh_name("moved")
    create_topic(bootstrap, topic, [[1, 2]])
    produce(bootstrap, topic, 20, 100_000, 0)
    plan = ReassignmentPlan({TopicPartition(topic, 0): (1, 3)})
    answer = team.ada.reassignments.start(plan, throttle_bytes_per_s=SLOW, additional=True)
    yield seen(team.ada, answer.operation_id or "")
    left = seen(team.ada, answer.operation_id or "")
    if not left.state.ended:
        if left.claim is not None:
            team.ada.operations.claim(left.id, Change(reason="the test is over"), take_over=True)
        team.ada.operations.cancel(left.id)
        wait_until(lambda: seen(team.ada, left.id).state.ended, DEADLINE_S, "it is taken back")


def seen(client: BackendClient, id: str) -> Operation:
    (found,) = [one for one in client.operations.list() if one.id == id]
    return found


def post(client: BackendClient, path: str, body: Any) -> tuple[int, dict[str, Any]]:
    answer = client.sender.exchange("POST", path, body, endless=False)
    return answer.status, json.loads(answer.content)


# Claims


def test_what_one_steers_another_has_to_take_over(team: Shared, moved: Operation) -> None:
    oli = team.clients["oli"]
    claimed = team.ada.operations.claim(
        moved.id, Change(who="somebody else", reason="the disks are slow")
    )
    assert claimed.claim is not None
    assert (claimed.claim.who, claimed.claim.reason) == ("ada", "the disks are slow")
    partition = moved.partitions[0]
    lists = ThrottledReplicas()
    elsewhere = ReassignmentPlan({partition: (1, 4)})
    attempts: dict[str, Callable[[], object]] = {
        "pause": lambda: oli.operations.pause(moved.id),
        "cancel": lambda: oli.operations.cancel(moved.id, Change(validate_only=True)),
        "undo": lambda: oli.operations.undo(moved.id),
        "abandon": lambda: oli.operations.abandon(moved.id, [1]),
        "cancel its partition": lambda: oli.reassignments.cancel([partition]),
        "its rates": lambda: oli.throttles.alter_rates({1: ThrottledRate(5_000, 5_000)}),
        "its lists": lambda: oli.throttles.alter_replicas({partition.topic: lists}),
        "where it goes": lambda: oli.reassignments.start(elsewhere, additional=True),
    }
    for what, attempt in attempts.items():
        with pytest.raises(BackendError, match="ada has claimed operation") as held:
            attempt()
        assert held.value.status == 409, what
        assert "the disks are slow" in str(held.value)
        assert "take_over" in str(held.value)
    # What it does not touch continues.
    oli.throttles.alter_rates({4: ThrottledRate(5_000, None)}, Change(validate_only=True))
    # The person who claimed it steers it.
    team.ada.operations.pause(moved.id)
    with pytest.raises(BackendError, match="To take it over, give a reason") as unsaid:
        oli.operations.claim(moved.id, take_over=True)
    assert unsaid.value.status == 422
    taken = oli.operations.claim(moved.id, Change(reason="ada is at lunch"), take_over=True)
    assert taken.claim is not None
    assert taken.claim.who == "oli"
    oli.operations.resume(moved.id)
    with pytest.raises(BackendError, match="oli has claimed"):
        team.ada.operations.pause(moved.id)
    assert oli.operations.release(moved.id).claim is None
    team.ada.operations.cancel(moved.id)
    wait_until(lambda: seen(oli, moved.id).state.ended, DEADLINE_S, "it is taken back")
    events = [line.event for line in oli.audit.lines(moved.id)]
    assert [one for one in events if one in ("claimed", "claim_taken", "released")] == [
        "claimed",
        "claim_taken",
        "released",
    ]


def test_what_somebody_did_to_its_throttle_is_settled_by_who_steers_it(
    bootstrap: str, team: Shared, moved: Operation
) -> None:
    team.ada.operations.claim(moved.id)
    set_rate(bootstrap, 3, 9_000)
    wait_until(lambda: team.ada.throttles.drift(), DEADLINE_S, "it has drifted")
    ids = [one.id for one in team.ada.throttles.drift()]
    oli = team.clients["oli"]
    for ours in (True, False):
        with pytest.raises(BackendError, match="ada has claimed operation") as held:
            oli.throttles.reapply_or_accept_drift(ids, ours=ours)
        assert held.value.status == 409
    assert {one.id for one in team.ada.throttles.drift()} == set(ids)
    team.ada.throttles.reapply_or_accept_drift(ids, ours=True)
    assert team.ada.throttles.drift() == ()
    # The audit has it once the engine has looked, and keeps it.
    wait_until(lambda: team.ada.throttles.past_drift().throttles, DEADLINE_S, "it is in the audit")
    assert moved.id in team.ada.throttles.past_drift().operations


def set_rate(bootstrap: str, broker: int, rate_bytes_per_s: int) -> None:
    """As somebody else would, behind the backend's back."""
    name, value = "follower.replication.throttled.rate", str(rate_bytes_per_s)
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, str(broker), incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    [(_, done)] = admin.incremental_alter_configs([resource]).items()
    done.result(DEADLINE_S)


def test_a_claim_ends_with_its_operation(team: Shared, moved: Operation) -> None:
    team.ada.operations.claim(moved.id)
    team.ada.operations.cancel(moved.id)
    wait_until(lambda: seen(team.ada, moved.id).state.ended, DEADLINE_S, "it is taken back")
    assert seen(team.ada, moved.id).claim is None
    with pytest.raises(BackendError, match="it cannot be claimed") as ended:
        team.ada.operations.claim(moved.id)
    assert ended.value.status == 409


def test_a_viewer_claims_and_notes_nothing(team: Shared, moved: Operation) -> None:
    vic = team.clients["vic"]
    attempts: list[Callable[[], object]] = [
        lambda: vic.operations.claim(moved.id),
        lambda: vic.operations.release(moved.id),
        lambda: vic.operations.add_note(moved.id, "x"),
    ]
    for attempt in attempts:
        with pytest.raises(BackendError) as forbidden:
            attempt()
        assert forbidden.value.status == 403


# Notes


def test_a_note_is_seen_by_everybody_and_is_in_the_audit(team: Shared, moved: Operation) -> None:
    text = "broker 3: [red]slow[/red] <b>disk</b> | see *INC-7*"
    noted = team.clients["oli"].operations.add_note(moved.id, text, Change(who="somebody else"))
    (note,) = noted.notes
    assert (note.who, note.text) == ("oli", text)
    assert seen(team.clients["vic"], moved.id).notes == (note,)
    markdown = team.ada.audit.text("markdown", moved.id)
    assert "&lt;b&gt;disk&lt;/b&gt; &#124; see \\*INC-7\\*" in markdown
    assert "<b>" not in markdown
    (line,) = [one for one in team.ada.audit.lines(moved.id) if one.event == "noted"]
    assert (line.who, line.outcome) == ("oli", text)


@pytest.mark.parametrize(
    ("verb", "body", "status"),
    [
        ("notes", {}, 400),
        ("notes", {"text": ""}, 400),
        ("notes", {"text": "   "}, 422),
        ("notes", {"text": "a\nb"}, 400),
        ("notes", {"text": "a\x1b[2J"}, 400),
        ("notes", {"text": "x" * 2_001}, 400),
        ("notes", {"text": 5}, 400),
        ("notes", {"text": "x", "markup": True}, 400),
        ("notes", {"text": "x", "cluster_id": "another"}, 409),
        ("claim", {"take_over": "yes"}, 400),
        ("claim", {"who": "x" * 201}, 400),
        ("claim", {"reason": "x" * 2_001}, 400),
        ("claim", {"cluster_id": "another"}, 409),
        ("release", {"force": True}, 400),
        ("release", {}, 409),
    ],
)
def test_what_is_said_is_checked(
    team: Shared, moved: Operation, verb: str, body: dict[str, Any], status: int
) -> None:
    found, problem = post(team.ada, f"/v1/operations/{moved.id}/{verb}", body)
    assert found == status, problem
    assert seen(team.ada, moved.id).notes == ()


@pytest.mark.parametrize("verb", ["claim", "release", "notes"])
def test_of_an_operation_that_is_not_there_nothing_is_said(team: Shared, verb: str) -> None:
    body = {"text": "x"} if verb == "notes" else {}
    found, problem = post(team.ada, f"/v1/operations/none/{verb}", body)
    assert (found, "There is no operation none" in problem["detail"]) == (422, True)


# Who is here


def test_who_is_here_and_what_they_look_at(team: Shared) -> None:
    alone = team.ada.presence.announce("ada-session", who="eve", screen="overview")
    assert alone.you == "ada"
    team.bob.presence.announce("bob-session", screen="partitions", selected="orders-0 on 3")
    found = team.ada.presence.list()
    assert isinstance(found, Presence)
    shown = {(one.who, one.screen, one.selected) for one in found.present}
    assert {("ada", "overview", ""), ("bob", "partitions", "orders-0 on 3")} <= shown
    left = team.bob.presence.announce("bob-session", leaves=True)
    assert "bob" not in {one.who for one in left.present}
    assert not [line for line in team.ada.audit.lines() if "session" in json.dumps(line.text)]


def test_events_tell_of_notes_and_of_who_comes(team: Shared, moved: Operation) -> None:
    events = team.clients["vic"].events(0)
    next(events)
    team.ada.operations.add_note(moved.id, "look at broker 3")
    team.ada.presence.announce("ada-session", screen="operations", selected=moved.id)
    noted = here = False
    for event in events:
        if event.kind == "operation" and event.operation.id == moved.id:
            noted = noted or bool(event.operation.notes)
        if event.kind == "presence":
            here = here or ("ada", moved.id) in {
                (one["who"], one["selected"]) for one in event.document["present"]
            }
        if noted and here:
            break
    events.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"session": "short"}, 400),
        ({"session": "x" * 65}, 400),
        ({"session": "../../etc"}, 400),
        ({"session": "session-1", "screen": "a\nb"}, 400),
        ({"session": "session-1", "screen": "x" * 41}, 400),
        ({"session": "session-1", "selected": "x" * 301}, 400),
        ({"session": "session-1", "selected": "\x1b]0;x\x07"}, 400),
        ({"session": "session-1", "who": "x" * 201}, 400),
        ({"session": "session-1", "leaves": 1}, 400),
        ({"session": "session-1", "more": 1}, 400),
    ],
)
def test_a_sign_of_life_is_checked(team: Shared, body: dict[str, Any], status: int) -> None:
    assert post(team.ada, "/v1/presence", body)[0] == status


# Without credentials


def test_without_credentials_names_are_what_people_say(tmp_path: Path) -> None:
    with running(ClusterSpec(plain_brokers(3))) as cluster:
        create_topic(cluster.bootstrap_servers, "orders", [[1, 2]])
        produce(cluster.bootstrap_servers, "orders", 20, 100_000, 0)
        with (
            serving(cluster.bootstrap_servers, tmp_path) as address,
            BackendClient(address) as client,
        ):
            plan = ReassignmentPlan({TopicPartition("orders", 0): (1, 3)})
            id = client.reassignments.start(plan, throttle_bytes_per_s=SLOW).operation_id or ""
            client.operations.claim(id, Change(who="ada@bastion"))
            with pytest.raises(BackendError, match="ada@bastion has claimed"):
                client.operations.cancel(id, Change(who="bob@laptop"))
            with pytest.raises(BackendError, match="give a name"):
                client.operations.claim(id)
            client.operations.cancel(id, Change(who="ada@bastion"))
            found = client.presence.announce("a-session", who="ada@bastion", screen="brokers")
            assert (found.you, found.present[0].who) == ("", "ada@bastion")
