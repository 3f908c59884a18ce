"""Owned throttles by example, and their documents; see also `tests/property/test_ownership.py`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from kshunt.backend.domain.cluster.config_names import ConfigSource
from kshunt.backend.domain.throttles.configs import (
    BrokerThrottle,
    ReplicaSet,
    ThrottledRate,
    ThrottledReplicas,
    Throttles,
)
from kshunt.backend.errors import UnreadableOwnership
from kshunt.backend.operations.core.throttle_writes import become, left_on
from kshunt.backend.operations.ownership.cells import FoundRate, Lift, ListKey, RateKey
from kshunt.backend.operations.ownership.ownership import (
    FoundSettings,
    ListCellId,
    Ownership,
    RateCellId,
    SettingValues,
    Shares,
    found_settings,
)
from kshunt.backend.operations.state.ownership_documents import (
    changed_documents,
    readable,
    to_documents,
)
from tests.support.operations.ownership import from_documents

RATE: RateCellId = (1, RateKey.LEADER)
LIST: ListCellId = ("t", ListKey.LEADERS)


def reading(rate: int | None, listed: str = "") -> FoundSettings:
    source = ConfigSource.DEFAULT if rate is None else ConfigSource.DYNAMIC_BROKER
    return FoundSettings({RATE: FoundRate(rate, source)}, {LIST: ReplicaSet.parse(listed)})


def test_the_lowest_rate_is_in_force_and_who_asked_for_it_is_named() -> None:
    first = Ownership().record("a", Shares({RATE: 10}), reading(None))
    own = first.after.confirm(reading(10))
    second = own.record("b", Shares({RATE: 50}), reading(10))
    assert not second.writes
    assert second.after.holders(*RATE) == ("a",)
    raised = second.after.change("a", {RATE: 90}, reading(10))
    assert raised.writes.rates == {RATE: 50}
    assert raised.after.holders(*RATE) == ("b",)


def test_an_inherited_rate_comes_back_by_deleting_the_key() -> None:
    for source in (
        ConfigSource.STATIC,
        ConfigSource.DYNAMIC_DEFAULT_BROKER,
        ConfigSource.DEFAULT,
    ):
        prior = FoundSettings({RATE: FoundRate(5_000, source)}, {})
        own = Ownership().record("a", Shares({RATE: 10}), prior).after.confirm(reading(10))
        assert own.lift("a", reading(10)).writes.rates == {RATE: None}


def test_what_was_not_read_is_not_written_and_what_is_found_there_stays() -> None:
    silent = FoundSettings({}, {})
    step = Ownership().record("a", Shares({RATE: 10}, {LIST: frozenset({(0, 1)})}), silent)
    assert not step.writes
    assert step.after.rates[RATE].prior is None
    assert step.after.lists[LIST].prior is None
    back = step.after.outstanding(reading(7, "0:1"))
    assert back.writes.rates == {RATE: 10}
    own = back.after.confirm(reading(10, "0:1"))
    lifted = own.lift("a", reading(10, "0:1"))
    assert lifted.writes.rates == {RATE: 7}
    assert not lifted.writes.lists
    unread = step.after.lift("a", silent)
    # A broker that was never written need not come back for the operation to end.
    assert unread.after.unlifted("a") == (LIST,)
    assert not unread.after.lift("a", reading(10, "0:1")).writes


def test_what_was_written_unread_is_taken_off_and_nothing_else() -> None:
    own = Ownership().record("a", Shares({RATE: 10}), FoundSettings({}, {})).after.tried([1])
    assert own.lift("a", reading(10)).writes.rates == {RATE: None}
    assert not own.lift("a", reading(7)).writes


def test_only_what_was_never_read_counts_as_tried() -> None:
    unread = Ownership().record("a", Shares({RATE: 10}), FoundSettings({}, {})).after
    assert unread.tried([2]) == unread, "another broker was tried"
    assert unread.tried([1]).rates[RATE].known >= {10}
    read = Ownership().record("a", Shares({RATE: 10}), reading(5)).after
    assert read.tried([1]) == read
    over = read.confirm(reading(10)).lift("a", reading(10)).after.confirm(reading(5))
    assert over.tried([1]) == over


def test_what_shall_stay_is_lifted_only_to_undo_an_operation_that_never_began() -> None:
    shares = Shares({RATE: 10}, {LIST: frozenset({(0, 1)})})
    own = Ownership().record("a", shares, reading(5), auto_remove=False).after
    own = own.confirm(reading(10, "0:1"))
    assert not own.lift("a", reading(10, "0:1")).writes
    undone = own.lift("a", reading(10, "0:1"), Lift.UNDONE).writes
    assert (undone.rates, undone.lists) == ({RATE: 5}, {LIST: ReplicaSet()})


def test_what_was_left_on_stays_while_its_operation_continues_elsewhere() -> None:
    """As when an operation is resumed of which a part was cancelled before, with its throttle."""
    shares = Shares({RATE: 10}, {LIST: frozenset({(0, 1)})})
    own = Ownership().record("a", shares, reading(5), auto_remove=False).after
    own = own.confirm(reading(10, "0:1")).lift("a", reading(10, "0:1")).after
    step = become(own, "a", Shares(), reading(10, "0:1"), auto_remove=False)
    assert step.after == own
    assert not step.writes


def test_a_rate_that_was_to_be_deleted_is_not_left_on() -> None:
    """The broker refused to delete it; then its operation is told to leave its throttle on."""
    own = Ownership().record("a", Shares({RATE: 10}), reading(None), auto_remove=False).after
    own = own.confirm(reading(10)).change("a", {RATE: None}, reading(10)).after
    lifted = own.confirm(reading(10)).lift("a", reading(10))
    assert lifted.writes.rates == {RATE: None}
    own = lifted.after.confirm(reading(10))
    assert own.unlifted("a") == (RATE,)
    assert own.outstanding(reading(10)).writes.rates == {RATE: None}
    assert own.confirm(reading(None)) == Ownership()


def test_replicas_that_were_given_up_are_not_left_on() -> None:
    """The topic refused to take one off its list; then the rest is to be left on."""
    both = Shares({}, {LIST: frozenset({(0, 1), (1, 1)})})
    kept = Shares({}, {LIST: frozenset({(1, 1)})})
    own = Ownership().record("a", both, reading(None)).after.confirm(reading(None, "0:1,1:1"))
    own = own.reduce("a", kept, reading(None, "0:1,1:1")).after
    own = left_on(own.confirm(reading(None, "0:1,1:1")), "a")
    lifted = own.lift("a", reading(None, "0:1,1:1"))
    assert lifted.writes.lists == {LIST: ReplicaSet.parse("1:1")}
    own = lifted.after.confirm(reading(None, "0:1,1:1"))
    assert own.unlifted("a") == (LIST,)
    assert own.outstanding(reading(None, "0:1,1:1")).writes.lists == {LIST: ReplicaSet.parse("1:1")}
    own = own.confirm(reading(None, "1:1"))
    assert own.unlifted("a") == ()
    assert own.lists[LIST].wanted == ReplicaSet.parse("1:1")


def test_a_topic_that_is_gone_is_forgotten_and_a_broker_by_word() -> None:
    shares = Shares({RATE: 10}, {LIST: frozenset({(0, 1)})})
    own = Ownership().record("a", shares, reading(None)).after
    gone = FoundSettings({}, {LIST: ReplicaSet()}, frozenset({"t"}))
    assert own.confirm(gone).topics == ()
    assert not own.outstanding(gone).writes.lists
    assert own.confirm(gone).forget(brokers=[1]) == Ownership()


def test_the_port_gets_both_sides_of_a_broker_and_of_a_topic() -> None:
    follower, leaders = (1, RateKey.FOLLOWER), ReplicaSet.parse("0:1")
    throttles = Throttles(
        {1: BrokerThrottle(1, ThrottledRate(None, 7), 8, "")},
        {"t": ThrottledReplicas(followers=ReplicaSet.parse("5:5"))},
    )
    present = found_settings(throttles, ["t"])
    assert present.rates[follower].own_bytes_per_s == 7
    writes = SettingValues({RATE: 10}, {LIST: leaders})
    assert writes.port_rates(present) == {1: ThrottledRate(10, 7)}
    assert writes.port_log_dir_rates() == {}
    both = ThrottledReplicas(leaders, ReplicaSet.parse("5:5"))
    assert writes.port_replicas(present) == {"t": both}


def test_each_rate_is_from_where_its_own_source_says() -> None:
    throttle = BrokerThrottle(
        1,
        ThrottledRate(5, 7),
        8,
        leader_source=ConfigSource.DYNAMIC_DEFAULT_BROKER,
        follower_source=ConfigSource.DYNAMIC_BROKER,
        log_dir_source=ConfigSource.STATIC,
    )
    found = found_settings(Throttles({1: throttle}, {}), ()).rates
    assert [found[1, key] for key in RateKey] == [
        FoundRate(5, ConfigSource.DYNAMIC_DEFAULT_BROKER),
        FoundRate(7, ConfigSource.DYNAMIC_BROKER),
        FoundRate(8, ConfigSource.STATIC),
    ]
    assert [found[1, key].own_bytes_per_s for key in RateKey] == [None, 7, None]


def test_a_rate_from_an_unknown_source_is_not_taken_for_read() -> None:
    throttle = BrokerThrottle(1, ThrottledRate(5, None), leader_source="UNKNOWN")
    found = found_settings(Throttles({1: throttle}, {}), ()).rates
    assert (1, RateKey.LEADER) not in found
    assert found[1, RateKey.FOLLOWER] == FoundRate(None, ConfigSource.DEFAULT)


def stored() -> dict[str, Any]:
    shares = Shares({RATE: 10}, {LIST: frozenset({(0, 1)})})
    own = Ownership().record("a", shares, reading(5, "3:3")).after
    return dict(json.loads(json.dumps(to_documents(own))))


def test_documents_are_one_a_broker_and_one_a_topic() -> None:
    assert stored().keys() == {"throttle/broker/1", "throttle/topic/t"}
    cell = stored()["throttle/broker/1"]["rates"]["leader.replication.throttled.rate"]
    assert cell == {
        "prior": {"value": 5, "source": "DYNAMIC_BROKER_CONFIG"},
        "known": [5, 10],
        "shares": {"a": {"rate": 10, "auto_remove": True, "state": "held"}},
    }
    own = from_documents(stored())
    assert changed_documents(own, Ownership()) == dict.fromkeys(stored())
    assert changed_documents(own, own) == {}


def _paths(document: Any, path: tuple[str, ...] = ()) -> Iterable[tuple[str, ...]]:
    if isinstance(document, dict):
        for name, value in document.items():
            yield (*path, name)
            yield from _paths(value, (*path, name))


@pytest.mark.parametrize("path", list(_paths(stored())), ids=".".join)
@pytest.mark.parametrize("damage", ["missing", -1, 1.5, "no such", [True], {"x": 1}])
def test_a_damaged_document_is_refused_as_a_whole_and_its_field_named(
    path: tuple[str, ...], damage: Any
) -> None:
    documents = stored()
    place = documents
    for name in path[:-1]:
        place = place[name]
    if damage == "missing":
        del place[path[-1]]
    else:
        place[path[-1]] = damage
    own, unreadable = readable(documents)
    if len(path) == 1 and damage == "missing":
        assert not unreadable
    elif path[-1] in ("a", RATE[1].value, LIST[1].value) and damage == "missing":
        assert not unreadable  # No share, or no cell: an empty object is well-formed.
    else:
        (error,) = unreadable.values()
        assert path[0] in str(error)
        assert path[-1] in str(error)
        assert path[0] not in to_documents(own)
        with pytest.raises(UnreadableOwnership):
            from_documents(documents)


def test_a_newer_format_an_unknown_field_and_a_foreign_key_are_refused() -> None:
    for key, change, words in (
        ("throttle/broker/1", {"format": 2}, "format is 2; this kshunt knows 1"),
        ("throttle/broker/1", {"more": 2}, "unknown field more"),
        ("throttle/broker/1", {"broker": 2}, "broker is 2, which differs from the key"),
    ):
        with pytest.raises(UnreadableOwnership, match=words):
            from_documents({key: stored()[key] | change})
    with pytest.raises(UnreadableOwnership, match="not the key of a throttle record"):
        from_documents({"audit/1": {}})


def test_a_new_operation_is_throttled_over_a_foreign_rate_which_is_back_in_the_end() -> None:
    own = Ownership().record("a", Shares({RATE: 10}), reading(5)).after.confirm(reading(10))
    step = own.record("b", Shares({RATE: 20}), reading(500))
    assert step.writes.rates == {RATE: 10}
    own = step.after.confirm(reading(10)).lift("a", reading(10)).after.confirm(reading(20))
    assert own.lift("b", reading(20)).writes.rates == {RATE: 500}


def test_what_is_adopted_goes_and_nothing_comes_back_in_its_place() -> None:
    wanted = {"t": ThrottledReplicas(leaders=ReplicaSet.parse("0:1,0:2"))}
    now = reading(500, "0:1,3:3")
    step = Ownership().adopt("a", [1], wanted, now)
    assert not step.writes
    lifted = step.after.lift("a", now).writes
    assert lifted.rates == {RATE: None}
    assert lifted.lists == {LIST: ReplicaSet.parse("3:3")}
