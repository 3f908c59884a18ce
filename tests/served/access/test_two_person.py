"""What needs a second person, over real sockets with tokens: proposed, approved, carried out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kshunt.backend import two_person
from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.commandline.reading import read
from kshunt.backend.commandline.table import Command
from kshunt.backend.config_file import expanded
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.approval import ShownProposal
from kshunt.backend.domain.operations.change import ANONYMOUS_CHANGE, Change
from kshunt.backend.domain.shrink.delete_partitions import DeletePartitions
from kshunt.backend.domain.untrusted.json_codec import from_document, to_json
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.errors import AwaitsApproval, BackendError
from kshunt.backend.tools.topics import command
from kshunt.backend.two_person import TwoPersonKind, TwoPersonRule
from tests.support.access.team import Shared, make_tokens, shared
from tests.support.admin import fresh_name
from tests.support.embedded.background import Running, running
from tests.support.serving import refused_start
from tests.support.topics import create_topic, produce
from tests.support.waiting import wait_until

DEADLINE_S = 60.0
RULE = ("--two-person", "unclean,shrink")
HOUR_MS = 3_600_000
"""Nobody waits for it."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Running]:
    """One that deletes partitions by itself (KIP-694)."""
    configs = {
        "delete.topic.partition.enable": "true",
        "delete.topic.partition.interval.delay.ms": "1000",
    }
    with running(ClusterSpec(plain_brokers(3), seed=5, static=configs)) as handle:
        yield handle


@pytest.fixture(scope="module")
def team(cluster: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    folder = tmp_path_factory.mktemp("two")
    with shared(cluster.bootstrap_servers, folder, *RULE) as found:
        yield found


@pytest.fixture
def topic(cluster: Running) -> str:
    name = fresh_name("two")
    create_topic(cluster.bootstrap_servers, name, [[1, 2], [2, 3], [3, 1], [1, 3]])
    return name


def fewer(
    client: BackendClient, topic: str, count: int = 2, change: Change = ANONYMOUS_CHANGE
) -> None:
    client.shrinks.delete_partitions({topic: DeletePartitions(count)}, change)


def proposed(client: BackendClient, topic: str, count: int = 2, reason: str = "") -> ShownProposal:
    """What `client` proposes."""
    with pytest.raises(AwaitsApproval) as awaits:
        fewer(client, topic, count, Change(reason=reason))
    (found,) = [one for one in client.proposals.list() if one.id == awaits.value.proposal_id]
    return found


def modes_of(client: BackendClient, topic: str) -> list[str]:
    (described,) = client.topics.describe([topic], configs=False).topics
    return [str(one.mode) for one in described.partitions]


def count_of(client: BackendClient, topic: str) -> int:
    (described,) = client.topics.describe([topic], configs=False).topics
    return len(described.partitions)


@pytest.mark.conforms("kip-694:two-people")
def test_it_is_proposed_approved_and_carried_out(team: Shared, topic: str) -> None:
    with pytest.raises(AwaitsApproval) as awaits:
        fewer(team.ada, topic, change=Change(who="somebody else", reason="too many"))
    said = str(awaits.value)
    for words in (
        "Nothing is changed yet",
        "needs a second person",
        "Another admin",
        "kshunt proposals",
    ):
        assert words in said
    assert count_of(team.ada, topic) == 4
    (waiting,) = [one for one in team.bob.proposals.list() if one.id in said]
    assert (waiting.who, waiting.reason, waiting.state) == ("ada", "too many", "waiting")
    assert waiting.actions == ("approve", "reject")
    assert topic in waiting.summary
    assert any(f"{topic}-3" in line for line in waiting.foreseen)

    foreseen = team.bob.proposals.foresee(waiting.id)
    assert (foreseen.lines, foreseen.changed) == (waiting.foreseen, False)
    assert f"{topic}-3" in {one.item for one in foreseen.results}
    done, answer = team.bob.proposals.approve(
        waiting.id, Change(preview=foreseen.fingerprint, reason="seen the board")
    )
    assert (done.state, done.settled_by) == ("done", "bob")
    assert (answer.operation_id, answer.failures) == (done.operation_id, ())
    wait_until(lambda: count_of(team.ada, topic) == 2, DEADLINE_S, "the topic is smaller")
    (operation,) = [one for one in team.ada.operations.list() if one.id == done.operation_id]
    assert operation.who == "ada, approved by bob"
    assert operation.reason == "too many; approved: seen the board"
    events = {(line.event, line.who) for line in team.ada.audit.lines() if waiting.id in line.text}
    assert {("proposed", "ada"), ("approved", "bob")} <= events


def test_who_proposed_cannot_approve_and_who_may_not_cannot_either(
    team: Shared, topic: str
) -> None:
    waiting = proposed(team.ada, topic)
    with pytest.raises(BackendError, match="another person must approve") as refused:
        team.ada.proposals.approve(waiting.id)
    assert refused.value.status == 409
    for name in ("oli", "vic"):
        with pytest.raises(BackendError) as forbidden:
            team.clients[name].proposals.approve(waiting.id)
        assert forbidden.value.status == 403
        (seen,) = [one for one in team.clients[name].proposals.list() if one.id == waiting.id]
        assert seen.actions == (), "nothing is offered that would be refused"
    with pytest.raises(BackendError) as forbidden:
        fewer(team.clients["oli"], topic)
    assert forbidden.value.status == 403
    assert count_of(team.ada, topic) == 4
    assert team.ada.proposals.withdraw(waiting.id).state == "withdrawn"
    with pytest.raises(BackendError, match="withdrawn by ada"):
        team.bob.proposals.approve(waiting.id)


def test_it_is_rejected_with_a_reason(team: Shared, topic: str) -> None:
    waiting = proposed(team.ada, topic)
    with pytest.raises(BackendError, match="Give the reason why") as unsaid:
        team.bob.proposals.reject(waiting.id, Change(reason=""))
    assert unsaid.value.status == 422
    rejected = team.bob.proposals.reject(waiting.id, Change(reason="the wrong topic"))
    assert (rejected.state, rejected.settled_reason) == ("rejected", "the wrong topic")
    assert count_of(team.ada, topic) == 4


def test_many_who_approve_at_once_let_it_happen_once(team: Shared, topic: str) -> None:
    waiting = proposed(team.ada, topic)

    def attempt(_: int) -> str:
        status, document = post(team, f"/v1/proposals/{waiting.id}/approve", {})
        return document["proposal"]["state"] if status == 200 else str(status)

    with ThreadPoolExecutor(8) as pool:
        outcomes = sorted(pool.map(attempt, range(8)))
    assert outcomes == [*["409"] * 7, "done"]
    ours = [one for one in team.ada.operations.list() if topic in one.summary]
    assert len(ours) == 1


def test_a_world_that_has_changed_is_looked_at_anew(team: Shared, topic: str) -> None:
    first, second = proposed(team.ada, topic, 3), proposed(team.ada, topic, 2)
    team.bob.proposals.approve(first.id)
    wait_until(lambda: count_of(team.ada, topic) == 3, DEADLINE_S, "the topic is smaller")
    with pytest.raises(BackendError, match="The cluster has changed") as changed:
        team.bob.proposals.approve(second.id)
    assert changed.value.status == 409
    foreseen = team.bob.proposals.foresee(second.id)
    assert foreseen.changed
    assert (
        team.bob.proposals.approve(second.id, Change(preview=foreseen.fingerprint))[0].state
        == "done"
    )


def test_what_would_be_refused_is_not_even_proposed(team: Shared, topic: str) -> None:
    before = len(team.ada.proposals.list())
    for partitions, count in ((topic, 9), ("no-such-topic", 1)):
        with pytest.raises(BackendError) as refused:
            fewer(team.ada, partitions, count)
        assert refused.value.status in (409, 422)
    # It has a leader, so no unclean election is needed.
    led = TopicPartition(topic, 0)
    with pytest.raises(BackendError, match="It would be rejected") as refused:
        team.ada.elections.elect_unclean_leaders([led], confirm=[str(led)])
    assert refused.value.status == 409
    with pytest.raises(BackendError, match="must be exactly") as unconfirmed:
        team.ada.elections.elect_unclean_leaders([led], confirm=[])
    assert unconfirmed.value.status == 422
    assert len(team.ada.proposals.list()) == before


def test_a_deletion_is_called_off_by_one_while_its_delay_runs(team: Shared, topic: str) -> None:
    with pytest.raises(AwaitsApproval) as awaits:
        team.ada.shrinks.delete_partitions({topic: DeletePartitions(2, HOUR_MS)})
    team.bob.proposals.approve(awaits.value.proposal_id)
    assert modes_of(team.ada, topic) == ["ReadWrite", "ReadWrite", "ReadOnly", "ReadOnly"]
    before = len(team.ada.proposals.list())
    # An action that continues it, or makes it happen sooner, takes two people as ever.
    for count, delay_ms in ((3, HOUR_MS), (2, 0)):
        with pytest.raises(AwaitsApproval):
            team.ada.shrinks.delete_partitions({topic: DeletePartitions(count, delay_ms)})
    assert len(team.ada.proposals.list()) == before + 2
    answer = team.ada.shrinks.delete_partitions({topic: DeletePartitions(4)})
    assert answer.operation_id is not None
    assert modes_of(team.ada, topic) == ["ReadWrite"] * 4
    assert len(team.ada.proposals.list()) == before + 2


def test_one_of_two_topics_that_is_refused_is_named_so(team: Shared, topic: str) -> None:
    wanted = {topic: DeletePartitions(2), "no-such-topic": DeletePartitions(1)}
    with pytest.raises(AwaitsApproval) as awaits:
        team.ada.shrinks.delete_partitions(wanted)
    lines = team.bob.proposals.foresee(awaits.value.proposal_id).lines
    assert f"{topic}-3: is deleted immediately, with its records" in lines
    assert any(line.startswith("no-such-topic: REFUSED, ") for line in lines)
    done, answer = team.bob.proposals.approve(awaits.value.proposal_id)
    assert [one.item for one in answer.failures] == ["no-such-topic"]
    assert "2 of 3 done; no-such-topic: " in done.outcome


@pytest.mark.parametrize("as_json", [False, True])
def test_kafka_topics_says_that_it_takes_two(
    team: Shared,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    as_json: bool,
) -> None:
    monkeypatch.setenv("KSHUNT_TOKEN", team.tokens["ada"])
    words = ["--alter", "--backend", team.url, "--topic", topic, "--partitions", "2"]
    words += ["--delete-partitions-delay", "0", *(["--json"] if as_json else [])]
    assert command.main(words) == 1
    out, err = capsys.readouterr()
    said = json.loads(out)["error"]["detail"] if as_json else err
    (waiting,) = [one for one in team.ada.proposals.list() if topic in one.summary]
    assert "Nothing is changed yet: this change needs a second person." in said
    assert f"It was proposed as {waiting.id}" in said
    assert count_of(team.ada, topic) == 4


def test_a_rehearsal_takes_one(team: Shared, topic: str) -> None:
    before = len(team.ada.proposals.list())
    fewer(team.ada, topic, change=Change(validate_only=True))
    assert len(team.ada.proposals.list()) == before


def test_an_unclean_election_takes_two(cluster: Running, team: Shared) -> None:
    name = fresh_name("lossy")
    create_topic(cluster.bootstrap_servers, name, [[2, 3]])
    partition = TopicPartition(name, 0)
    cluster.call(lambda c: c.stop_broker(3))
    produce(cluster.bootstrap_servers, name, 20, 10, 0)
    cluster.call(lambda c: c.stop_broker(2))
    cluster.call(lambda c: c.start_broker(3))

    def foreseen() -> bool:
        found = team.ada.elections.elect_unclean_leaders([partition], Change(validate_only=True))
        return bool(found.losses) and found.losses[0].candidate_end is not None

    wait_until(foreseen, DEADLINE_S, "broker 3 has said where its log ends")
    with pytest.raises(AwaitsApproval) as awaits:
        team.ada.elections.elect_unclean_leaders(
            [partition], Change(reason="disk is dead"), confirm=[str(partition)]
        )
    id = awaits.value.proposal_id
    assert led_by(cluster, name) == -1
    seen = team.bob.proposals.foresee(id)
    assert any("may lose" in line for line in seen.lines)
    done, answer = team.bob.proposals.approve(id, Change(preview=seen.fingerprint))
    assert (done.state, answer.failures) == ("done", ())
    assert led_by(cluster, name) == 3
    cluster.call(lambda c: c.start_broker(2))


def led_by(cluster: Running, topic: str) -> int:
    found = cluster.call(lambda c: c.image.partition(topic, 0))
    assert found is not None
    return found.leader


# Bad input

ROUTES = ("approve", "reject", "withdraw")


def post(shared: Shared, path: str, body: Any, who: str = "bob") -> tuple[int, dict[str, Any]]:
    answer = shared.clients[who].sender.exchange("POST", path, body, endless=False)
    return answer.status, json.loads(answer.content)


@pytest.mark.parametrize("verb", ROUTES)
@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"reason": "x"}, 422),
        ({"reason": 5}, 400),
        ({"reason": "x" * 2_001}, 400),
        ({"approved": True}, 400),
        ({"preview": "x" * 501, "reason": "x"}, 400),
        ({"cluster_id": "another", "reason": "x"}, 409),
        ([], 400),
        (None, 400),
    ],
)
def test_what_is_sent_to_a_proposal_is_checked(
    team: Shared, verb: str, body: Any, status: int
) -> None:
    found, problem = post(team, f"/v1/proposals/nothing/{verb}", body)
    assert found == status, problem
    assert problem["detail"]


@pytest.mark.parametrize("id", ["nothing", "x" * 65, "..%2f..", "%00", "a%2Fb"])
def test_an_id_is_an_id(team: Shared, id: str) -> None:
    answer = team.bob.sender.exchange("GET", f"/v1/proposals/{id}/preview", endless=False)
    assert answer.status in (400, 404, 422)


def test_the_answer_to_a_proposal_is_what_the_description_says(team: Shared, topic: str) -> None:
    body = {"topics": [{"topic": topic, "total_count": 2}]}
    status, document = post(team, "/v1/topics/delete-partitions", body, "ada")
    assert status == 202
    shown = from_document(ShownProposal, document)
    assert shown.who == "ada"
    assert json.loads(to_json(shown)) == document
    described = team.ada.sender.get("/openapi.json")["paths"]
    for path in ("/v1/elections/unclean", "/v1/topics/{topic}/shrink"):
        assert "202" in described[path]["post"]["responses"]
    team.ada.proposals.withdraw(document["id"])


# What is given to `kshunt serve`


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--socket", "SOCKET", "--two-person", "unclean"], "told apart"),
        (["--listen", "127.0.0.1:0", "--two-person", "shrink"], "--tokens or --oidc-issuer"),
        (["--listen", "127.0.0.1:0", "--tokens", "TOKENS", "--two-person", "all"], "unclean, shr"),
        (["--listen", "127.0.0.1:0", "--tokens", "TOKENS", "--two-person", ""], "is not valid"),
        (
            [*("--listen", "127.0.0.1:0", "--tokens", "TOKENS"), "--proposal-expiry", "15 min"],
            "15 min",
        ),
        (["--listen", "127.0.0.1:0", "--tokens", "TOKENS", "--proposal-expiry", "31d"], "30 days"),
        (["--listen", "127.0.0.1:0", "--tokens", "TOKENS", "--proposal-expiry", "0s"], "90s, 15m"),
    ],
)
def test_it_does_not_start(cluster: Running, tmp_path: Path, options: list[str], said: str) -> None:
    make_tokens(tmp_path / "tokens.json")
    named = {"TOKENS": str(tmp_path / "tokens.json"), "SOCKET": str(tmp_path / "k.sock")}
    words = [named.get(word, word) for word in options]
    done = refused_start("--bootstrap-server", cluster.bootstrap_servers, *words)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr


def test_what_the_rule_does_not_name_takes_one(tmp_path: Path) -> None:
    configs = {"delete.topic.partition.enable": "true"}
    with running(ClusterSpec(plain_brokers(1), static=configs)) as alone:
        create_topic(alone.bootstrap_servers, "t", [[1], [1]])
        with shared(alone.bootstrap_servers, tmp_path, "--two-person", "unclean") as found:
            fewer(found.ada, "t", 1)
            assert found.ada.proposals.list() == ()
            wait_until(lambda: count_of(found.ada, "t") == 1, DEADLINE_S, "it is smaller")


def test_the_file_and_the_environment_say_it_as_the_flag_does(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[serve]\ntwo-person = ["unclean", "shrink"]\nproposal-expiry = "5m"\n')
    words = expanded(["serve"], {"KSHUNT_CONFIG": str(path)})
    assert rule(words) == TwoPersonRule(frozenset(TwoPersonKind), 300.0)
    spoken = {"KSHUNT_CONFIG": str(path), "KSHUNT_SERVE_TWO_PERSON": "Shrink"}
    assert rule(expanded(["serve"], spoken)).guarded == {TwoPersonKind.SHRINK}
    assert rule(["serve"]) == TwoPersonRule()


def rule(words: list[str]) -> TwoPersonRule:
    options = read(Command(("serve",), "", two_person.FLAGS), words[1:])
    assert options is not None
    return two_person.rule_of(options, identified=True)
