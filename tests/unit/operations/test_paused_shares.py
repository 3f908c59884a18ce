"""What a pause makes of an operation's shares, and that its end makes them what they were."""

from __future__ import annotations

import pytest

from kshunt.backend.domain.throttles.configs import ReplicaSet, ThrottledReplicas
from kshunt.backend.operations.moves.pause_throttles import FLOOR_BYTES_PER_S, Pause, PauseRecord
from kshunt.backend.operations.ownership.cells import ListKey, Pairs, RateKey
from kshunt.backend.operations.ownership.ownership import Shares
from kshunt.backend.operations.reassignment.pausing import (
    follower_share,
    paused_shares,
    resumed_shares,
)
from tests.support.operations.engine import tp

FLOOR, FAST = FLOOR_BYTES_PER_S, 500_000
LIST = ("a", ListKey.FOLLOWERS)
NONE = PauseRecord()


def shares(rates: dict[int, int], listed: str = "0:3,0:4") -> Shares:
    """As a follower on these brokers, and a leader's rate that no pause touches."""
    pairs: Pairs = ReplicaSet.parse(listed).pairs
    lists = {LIST: pairs} if pairs else {}
    cells = {(broker, RateKey.FOLLOWER): rate for broker, rate in rates.items()}
    return Shares({**cells, (1, RateKey.LEADER): FAST}, lists)


def pause(*held: int, topics: str | None = None, added: str = "") -> Pause:
    """Copies to these brokers are held, whose rate is written."""
    record = PauseRecord(dict.fromkeys(held, 7), {"a": ReplicaSet.parse(added)} if added else {})
    lists = (
        {} if topics is None else {"a": ThrottledReplicas(ReplicaSet(), ReplicaSet.parse(topics))}
    )
    return Pause(lists, {}, record, frozenset((tp("a-0"), broker) for broker in held), {})


@pytest.mark.parametrize(
    ("before", "of", "after", "record"),
    [
        (shares({3: FAST, 4: FAST}), pause(3), shares({3: FLOOR, 4: FAST}), {3: FAST}),
        # It had no rate there.
        (shares({4: FAST}), pause(3), shares({3: FLOOR, 4: FAST}), {3: None}),
        # What only the pause lists is its own.
        (shares({3: FAST}), pause(3, added="0:5"), shares({3: FLOOR}, "0:3,0:4,0:5"), {3: FAST}),
        (shares({3: FAST}, ""), pause(3, added="0:5"), shares({3: FLOOR}, "0:5"), {3: FAST}),
        # What is not written stays in no list; all of a topic narrows nothing.
        (shares({3: FAST}), pause(3, topics="0:3"), shares({3: FLOOR}, "0:3"), {3: FAST}),
        (shares({3: FAST}), pause(3, topics="9:9"), shares({3: FLOOR}, ""), {3: FAST}),
        (shares({3: FAST}), pause(3, topics="*"), shares({3: FLOOR}), {3: FAST}),
        (shares({3: FAST}, ""), pause(3, topics="0:3"), shares({3: FLOOR}, ""), {3: FAST}),
        (shares({3: FAST}), pause(), shares({3: FAST}), {}),
    ],
)
def test_copies_are_held_at_the_floor(
    before: Shares, of: Pause, after: Shares, record: dict[int, int | None]
) -> None:
    found, remembered = paused_shares(before, of, NONE)
    assert found == after
    assert remembered == PauseRecord(record, of.record.added)
    if not of.topics:
        assert resumed_shares(found, remembered) == before


def test_a_pause_that_goes_on_remembers_the_first_rate() -> None:
    once, record = paused_shares(shares({3: FAST}), pause(3), NONE)
    twice, again = paused_shares(once, pause(3), record)
    assert (twice, again.rates) == (once, {3: FAST})
    # What is not held any more has its rate back.
    back, after = paused_shares(twice, pause(4), again)
    assert back == shares({3: FAST, 4: FLOOR})
    assert after.rates == {4: None}


def test_a_share_that_was_given_up_meanwhile_does_not_come_back() -> None:
    gone = shares({})
    assert resumed_shares(gone, PauseRecord({3: FAST, 4: None})) == gone
    listed = resumed_shares(shares({}, "0:3"), PauseRecord({}, {"a": ReplicaSet.parse("0:3")}))
    assert listed == shares({}, "")
    other = PauseRecord({}, {"b": ReplicaSet.parse("0:3")})
    assert resumed_shares(shares({}), other) == shares({})


def test_the_follower_s_lists_are_its_share() -> None:
    held = Shares({}, {LIST: frozenset({(0, 3)}), ("a", ListKey.LEADERS): frozenset({(0, 1)})})
    assert follower_share(held) == {"a": ReplicaSet.parse("0:3")}
