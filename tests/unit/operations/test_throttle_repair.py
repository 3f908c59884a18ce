"""Throttles that are not as they should be: shown with an id, repaired by it, and only as shown."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.operation import OperationKind, OperationState
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.throttles.configs import ReplicaSet, ThrottledReplicas
from kshunt.backend.domain.throttles.owners import DriftKind, OrphanOrigin, SettingValue
from kshunt.backend.errors import BadInput
from kshunt.backend.operations.journal.entries import Body
from kshunt.backend.operations.ownership.cells import ListKey, RateKey
from kshunt.backend.operations.throttles.repair import change_id, shown_drift, shown_orphan
from tests.support.operations.engine_world import BROKER, TOPIC
from tests.support.operations.story import MB, RATE, Story

DRY, REAL = Change(validate_only=True), Change(who="ada")
CHANGED = (-1, "CHANGED_SINCE", "it was removed, or has changed since it was shown")


@pytest.fixture
def story() -> Iterator[Story]:
    found = Story()
    yield found
    found.world.close()


def told(answer: ChangeAnswer) -> list[tuple[str, int, str]]:
    return [(one.item, one.error_code, one.message) for one in answer.results]


def drifted(story: Story) -> list[str]:
    """Somebody else changes a rate and a list of an operation; the ids of both."""
    story.start({"a-0": (3, 4)})
    story.tick()
    story.world.set(BROKER, "3", RateKey.FOLLOWER, "7000")
    story.world.set(TOPIC, "a", ListKey.LEADERS, "0:1")
    return [change_id(one) for one in story.world.run(story.backend.mending.drift())]


RATE_WORDS = "follower rate of broker 3 was changed: 7 kB/s instead of 500 kB/s"
LIST_WORDS = "leader list of topic a was narrowed: it lacks 0:2"


@pytest.mark.parametrize(
    ("ours", "done", "verb"), [(True, "restored", "restored"), (False, "kept", "accepted")]
)
def test_drift_is_put_back_or_kept(story: Story, ours: bool, done: str, verb: str) -> None:
    mending, run = story.backend.mending, story.world.run
    ids = drifted(story)
    before, operations = story.throttles(), len([*story.backend.registry])
    seen = run(mending.reapply_or_accept([*ids, "gone", "gone"], DRY, ours=ours))
    expected = [(RATE_WORDS, 0, done), (LIST_WORDS, 0, done)]
    assert told(seen)[:2] == expected
    assert told(seen)[2:] == [("gone", -1, CHANGED[2])]
    assert (seen.validate_only, seen.operation_id) == (True, None)
    assert (story.throttles(), len([*story.backend.registry])) == (before, operations)
    answer = run(mending.reapply_or_accept(ids, REAL, ours=ours))
    assert (told(answer), answer.validate_only, answer.notes) == (expected, False, ())
    operation = story.operation(answer)
    assert (operation.kind, operation.state) == (OperationKind.DRIFT, OperationState.DONE)
    assert operation.summary == f"drift {verb}: {RATE_WORDS}, {LIST_WORDS}"
    assert story.rates(3)[1] == (str(RATE) if ours else "7000")
    assert story.world.config(TOPIC, "a", ListKey.LEADERS) == ("0:1,0:2" if ours else "0:1")
    assert run(mending.drift()) == ()
    # What is no drift any more is left alone, and the answer says so.
    again = run(mending.reapply_or_accept(ids[:1], REAL, ours=ours))
    assert [one.error_code for one in again.results] == [-1]
    assert [one.error_name for one in again.results] == ["CHANGED_SINCE"]
    assert story.operation(again).summary == f"drift {verb}: it was already removed"
    assert story.operation(again).state is OperationState.FAILED


def test_lists_that_are_set_through_us_accept_no_drift_of_other_topics(story: Story) -> None:
    story.world.cluster.create("b", (1, 2))
    story.start({"a-0": (3, 4), "b-0": (3, 4)})
    story.world.set(TOPIC, "b", ListKey.LEADERS, "0:1")
    before = story.world.run(story.backend.mending.drift())
    assert [str(one) for one in before] == ["leader list of topic b was narrowed: it lacks 0:2"]
    lists = {"a": ThrottledReplicas(ReplicaSet.parse("0:1"), ReplicaSet.parse("0:3,0:4"))}
    answer = story.world.run(story.backend.throttles.alter_replicas(lists, REAL))
    assert not answer.failures
    assert story.world.config(TOPIC, "a", ListKey.LEADERS) == "0:1"
    assert story.world.run(story.backend.mending.drift()) == before


def test_an_id_is_another_one_when_anything_about_it_is(story: Story) -> None:
    first = drifted(story)
    story.world.set(BROKER, "3", RateKey.FOLLOWER, "8000")
    second = [change_id(one) for one in story.world.run(story.backend.mending.drift())]
    assert first[0] != second[0]
    assert first[1] == second[1]
    answer = story.world.run(story.backend.mending.reapply_or_accept(first, DRY, ours=True))
    assert [one.error_code for one in answer.results] == [-1, 0]


def test_drift_is_shown_with_both_values(story: Story) -> None:
    drifted(story)
    rate, lists = map(shown_drift, story.world.run(story.backend.mending.drift()))
    (ours,) = rate.operations
    assert (rate.broker, rate.topic, rate.kind) == (3, None, DriftKind.CHANGED)
    assert (rate.wanted_value, rate.found_value) == (SettingValue(RATE), SettingValue(7_000))
    assert (lists.broker, lists.topic, lists.kind) == (None, "a", DriftKind.NARROWED)
    assert (lists.wanted_value, lists.found_value) == (
        SettingValue(replicas="0:1,0:2"),
        SettingValue(replicas="0:1"),
    )
    assert (lists.changed_replicas, lists.operations) == ("0:2", (ours,))


def test_every_setting_of_an_operation_is_listed_with_its_owner(story: Story) -> None:
    drifted(story)
    found = {
        (one.setting, one.broker or one.topic): one
        for one in story.world.run(story.backend.mending.owned())
    }
    assert len(found) == 8 + 2, "four brokers, and two lists"
    rate = found[RateKey.FOLLOWER, 3]
    assert (rate.present_value, rate.prior_value) == (SettingValue(7_000), SettingValue(None))
    assert rate.drift_kind is DriftKind.CHANGED
    assert [share.wanted_value for share in rate.shares] == [SettingValue(RATE)]
    assert found[RateKey.LEADER, 3].drift_kind is None


# Orphans


def orphaned(story: Story) -> list[str]:
    """A crashed tool has left a rate and a list; the ids of both."""
    story.world.set(BROKER, "4", RateKey.LEADER, "9000")
    story.world.set(TOPIC, "a", ListKey.FOLLOWERS, "1:4,2:5")
    return [change_id(one) for one in story.world.run(story.backend.mending.orphans())]


def test_orphans_are_taken_off_as_they_were_shown(story: Story) -> None:
    mending, run = story.backend.mending, story.world.run
    ids = orphaned(story)
    expected = [
        ("follower list of topic a: 1:4,2:5", 0, "removed"),
        ("leader rate of broker 4: 9 kB/s", 0, "removed"),
    ]
    before = story.throttles()
    seen = run(mending.remove_orphans([*ids, "gone"], DRY))
    assert told(seen) == [*expected, ("gone", -1, CHANGED[2])]
    assert (seen.validate_only, seen.operation_id, seen.notes) == (True, None, ())
    assert story.throttles() == before
    answer = run(mending.remove_orphans(ids, REAL))
    assert (told(answer), answer.validate_only) == (expected, False)
    assert not any(story.throttles().values())
    operation = story.operation(answer)
    assert operation.kind is OperationKind.ORPHANS
    assert operation.summary == "remove 2 orphan throttles"
    assert run(mending.orphans()) == ()


def test_one_orphan_is_not_called_many(story: Story) -> None:
    ids = orphaned(story)
    answer = story.world.run(story.backend.mending.remove_orphans(ids[1:], REAL))
    assert story.operation(answer).summary == "remove 1 orphan throttle"
    assert (TOPIC, "a", ListKey.FOLLOWERS) in story.throttles()


def test_an_orphan_is_shown_with_its_value_and_likely_origin(story: Story) -> None:
    orphaned(story)
    lists, rate = map(shown_orphan, story.world.run(story.backend.mending.orphans()))
    assert (rate.broker, rate.topic, rate.present_value) == (4, None, SettingValue(9_000))
    assert rate.origin is OrphanOrigin.UNKNOWN
    assert (lists.broker, lists.topic) == (None, "a")
    assert lists.present_value == SettingValue(replicas="1:4,2:5")


def test_a_rate_between_directories_is_no_orphan_while_nobody_knows(story: Story) -> None:
    """Where disks cannot be asked about, something may be moving there."""
    story.world.set(BROKER, "2", RateKey.LOG_DIRS, "9000")
    assert story.world.run(story.backend.mending.orphans()) == ()


@pytest.mark.parametrize("what", ["drift", "orphan", "prior"])
def test_nothing_named_is_nothing_done(story: Story, what: str) -> None:
    mending = story.backend.mending
    calls = {
        "drift": lambda: mending.reapply_or_accept([], REAL, ours=True),
        "orphan": lambda: mending.remove_orphans([], REAL),
        "prior": lambda: mending.restore_prior({}, REAL),
    }
    with pytest.raises(BadInput):
        story.world.run(calls[what]())
    assert [*story.backend.registry] == []


# A journal that was lost


def remembered(story: Story) -> dict[str, Body]:
    """A move begins on brokers with rates of their own; its ownership records, once it is lost."""
    story.world.set(BROKER, "3", RateKey.FOLLOWER, "5000000")
    story.start({"a-0": (3, 4)})
    story.tick()
    entries = story.world.state.entries
    lost = {key: one.body for key, one in entries.items() if key.startswith("throttle")}
    assert lost, sorted(entries)
    return lost


def test_what_was_before_a_lost_journal_is_brought_back() -> None:
    first = Story()
    lost = remembered(first)
    first.world.close()
    story = Story()
    for kind, name, key in first.throttles():
        story.world.set(kind, name, key, first.world.config(kind, name, key))
    mending, run = story.backend.mending, story.world.run
    shown = run(mending.prior(lost))
    assert {one.broker for one in shown} == {None, 1, 2, 3, 4}
    before = story.throttles()
    seen = run(mending.restore_prior(lost, DRY))
    words = {one.item: one.message for one in seen.results}
    assert words["broker 3 follower rate"] == "5 MB/s again"
    assert words["broker 3 leader rate"] == "none again"
    assert words["topic a leader list"] == "unset again"
    assert (seen.validate_only, seen.operation_id) == (True, None)
    assert story.throttles() == before
    answer = run(mending.restore_prior(lost, REAL))
    assert not answer.validate_only
    operation = story.operation(answer)
    assert operation.summary == f"restore {len(shown)} settings of a lost journal"
    left = {place: value for place, value in story.throttles().items() if value}
    assert left == {(BROKER, "3", RateKey.FOLLOWER): str(5 * MB)}
    story.world.close()


def test_what_is_owned_again_is_not_brought_back(story: Story) -> None:
    lost = remembered(story)
    assert story.world.run(story.backend.mending.prior(lost)) == ()
