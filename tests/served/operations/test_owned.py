"""Whose a throttle is, and what comes back: as decided, as written, and as a client reads it."""

from pathlib import Path

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.cluster.config_names import ConfigSource
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.throttles.configs import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    ReplicaSet,
    ThrottledRate,
)
from kshunt.backend.domain.throttles.owners import (
    DriftKind,
    OwnedThrottle,
    SettingValue,
    Share,
    ShareState,
)
from kshunt.backend.domain.untrusted.json_codec import from_document
from kshunt.backend.embedded.core.spec import plain_brokers
from kshunt.backend.embedded.scenario.model import Scenario, TopicSpec
from kshunt.backend.operations.ownership.cells import FoundRate, ListKey, RateKey
from kshunt.backend.operations.ownership.listing import owned_throttles
from kshunt.backend.operations.ownership.ownership import (
    FoundSettings,
    ListCellId,
    Ownership,
    RateCellId,
    Shares,
)
from tests.support.embedded.background import running
from tests.support.serving import serving

RATE: RateCellId = (1, RateKey.LEADER)
LIST: ListCellId = ("t", ListKey.LEADERS)
BEFORE = FoundRate(7_000, ConfigSource.DYNAMIC_DEFAULT_BROKER)


def present(rate: FoundRate, listed: str) -> FoundSettings:
    return FoundSettings({RATE: rate}, {LIST: ReplicaSet.parse(listed)})


def set_to(rate: int) -> FoundRate:
    return FoundRate(rate, ConfigSource.DYNAMIC_BROKER)


def replicas(text: str) -> SettingValue:
    return SettingValue(replicas=text)


def requester_of(operation_id: str) -> str:
    return {"a": "ada@bastion"}.get(operation_id, "")


def two_operations() -> Ownership:
    """`a` and `b` throttle one broker; only `a` throttles the topic."""
    before = present(BEFORE, "9:9")
    first = Ownership().record("a", Shares({RATE: 20_000}, {LIST: frozenset({(0, 1)})}), before)
    one = first.after.confirm(present(set_to(20_000), "0:1,9:9"))
    second = one.record("b", Shares({RATE: 10_000}), present(set_to(20_000), "0:1,9:9"))
    return second.after.confirm(present(set_to(10_000), "0:1,9:9"))


def test_a_setting_says_its_value_its_owners_and_what_comes_back() -> None:
    rate, listed = owned_throttles(
        two_operations(), present(set_to(10_000), "0:1,9:9"), requester_of
    )
    assert (rate.setting, rate.broker, rate.topic) == (LEADER_RATE, 1, None)
    assert (rate.present_value, rate.source) == (SettingValue(10_000), "DYNAMIC_BROKER_CONFIG")
    assert rate.prior_value == SettingValue(7_000)
    assert rate.prior_source == "DYNAMIC_DEFAULT_BROKER_CONFIG"
    assert rate.shares == (
        Share("a", "ada@bastion", ShareState.HELD, SettingValue(20_000)),
        Share("b", "", ShareState.HELD, SettingValue(10_000)),
    )
    assert (listed.topic, listed.present_value) == ("t", replicas("0:1,9:9"))
    assert listed.prior_value == replicas("9:9")
    assert listed.shares == (Share("a", "ada@bastion", ShareState.HELD, replicas("0:1")),)
    assert rate.drift_kind is listed.drift_kind is None


def test_what_somebody_else_did_is_named_and_what_was_not_read_is_unknown() -> None:
    rate, listed = owned_throttles(two_operations(), present(set_to(99_000), ""), requester_of)
    assert (rate.present_value, rate.drift_kind) == (SettingValue(99_000), DriftKind.CHANGED)
    assert (listed.present_value, listed.drift_kind) == (replicas(""), DriftKind.NARROWED)
    rate, listed = owned_throttles(two_operations(), FoundSettings({}, {}), requester_of)
    assert (rate.present_value, rate.source, rate.drift_kind) == (None, "", None)
    assert listed.present_value is None
    gone = FoundSettings({}, {}, frozenset({"t"}))
    assert [one.broker for one in owned_throttles(two_operations(), gone, requester_of)] == [1]


def test_what_is_being_taken_off_says_so() -> None:
    now = present(set_to(10_000), "0:1,9:9")
    lifted = two_operations().lift("a", now).after
    rate, listed = owned_throttles(lifted, now, requester_of)
    assert {share.operation: share.state for share in rate.shares} == {"a": "ending", "b": "held"}
    assert listed.shares == (Share("a", "ada@bastion", ShareState.ENDING, replicas("0:1")),)


def test_what_version_0_1_wrote_is_read_without_its_values() -> None:
    share = {"operation": "a", "who": "ada@bastion", "wants": "none", "state": "left"}
    document = {
        "setting": LEADER_RATE,
        "broker": 1,
        "topic": None,
        "value": "10000 B/s",
        "source": "DYNAMIC_BROKER_CONFIG",
        "prior": "none",
        "prior_source": "",
        "shares": [share],
        "drift": "",
    }
    left = Share("a", "ada@bastion", ShareState.LEFT)
    assert from_document(OwnedThrottle, document) == OwnedThrottle(
        LEADER_RATE, 1, None, "DYNAMIC_BROKER_CONFIG", "", (left,)
    )


def test_a_running_move_owns_its_throttle_and_what_was_set_before_is_kept(tmp_path: Path) -> None:
    topic = TopicSpec("t", 1, bytes_per_partition=300_000_000, brokers=(1, 2, 3), leaders=(1,))
    scenario = Scenario("mine", "t", "a", plain_brokers(4), topics=(topic,))
    plan = ReassignmentPlan({TopicPartition("t", 0): (1, 2, 4)})
    with (
        running(scenario) as cluster,
        serving(cluster.bootstrap_servers, tmp_path) as address,
        BackendClient(address) as client,
    ):
        assert client.throttles.owned() == ()
        client.throttles.alter_rates({4: ThrottledRate(None, 9_000_000)})
        answer = client.reassignments.start(
            plan, Change(who="ada@bastion"), throttle_bytes_per_s=50_000
        )
        assert answer.failures == ()
        owned = {(one.setting, one.broker or one.topic): one for one in client.throttles.owned()}
        rate = owned[FOLLOWER_RATE, 4]
        assert rate.present_value == SettingValue(50_000)
        assert rate.prior_value == SettingValue(9_000_000)
        assert rate.shares == (
            Share(answer.operation_id or "", "ada@bastion", ShareState.HELD, SettingValue(50_000)),
        )
        assert owned[LEADER_RATE, 1].prior_value == SettingValue()
        listed = owned[FOLLOWER_REPLICAS, "t"]
        assert (listed.present_value, listed.prior_value) == (replicas("0:4"), replicas(""))
