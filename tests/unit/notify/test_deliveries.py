"""Hooks at work, over real sockets: order, repetition, what is given up, and what a stop keeps."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.notify.notifier import NO_HOOK, Notifier
from kshunt.backend.notify.retries import RetryPolicy
from kshunt.backend.notify.webhook import CROWDED, superseded
from tests.support.faults.full_disk import full_disk
from tests.support.notify.messages import CLUSTER, QUICK, Desk, message, news, target
from tests.support.notify.receiver import Receiver, hangs, receiving, resets, says, sends
from tests.support.waiting import wait_until_async

DEADLINE_S = 30.0


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def told(notifier: Notifier, *numbers: int, subject: str = "") -> None:
    """Tell of events, one after the other."""
    for number in numbers:
        notifier.tell(news(number, subject), CLUSTER)
        await asyncio.sleep(0)


async def idle(notifier: Notifier) -> None:
    """Wait until nothing waits."""
    await wait_until_async(
        lambda: not any(one.waiting for one in notifier.status), DEADLINE_S, "nothing waits"
    )


def numbers(receiver: Receiver) -> list[int]:
    return [request.document["data"]["number"] for request in tuple(receiver.received)]


def all_kept(notifier: Notifier, count: int) -> bool:
    """Whether the single hook has, or had, exactly `count` messages."""
    (status,) = notifier.status
    return status.waiting + status.delivered == count


async def came(receiver: Receiver, count: int) -> None:
    await wait_until_async(
        lambda: len(receiver.received) >= count, DEADLINE_S, f"{count} requests came"
    )


async def test_messages_come_to_every_hook_in_their_order(desk: Desk) -> None:
    with receiving() as one, receiving() as other:
        async with desk.notifying(target(one.url), target(other.url)) as notifier:
            await told(notifier, *range(1, 21))
            await came(one, 20)
            await came(other, 20)
            await idle(notifier)
            assert [each.delivered for each in notifier.status] == [20, 20]
    assert numbers(one) == numbers(other) == list(range(1, 21))
    assert desk.waiting.stat().st_size == 0
    assert not desk.letters()


async def test_what_fails_is_sent_again_with_its_id_before_what_came_after(desk: Desk) -> None:
    with receiving() as receiver:
        receiver.next += [says(500), resets(), sends(b"\x00"), says(204), says(503)]
        async with desk.notifying(target(receiver.url)) as notifier:
            await told(notifier, 1, 2)
            await came(receiver, 6)
            await idle(notifier)
            (status,) = notifier.status
    assert numbers(receiver) == [1, 1, 1, 1, 2, 2]
    assert [request.id for request in receiver.received] == ["msg_1"] * 4 + ["msg_2"] * 2
    assert len({request.body for request in receiver.received[:4]}) == 1
    assert (status.delivered, status.failed, status.given_up) == (2, 4, 0)
    # Three failures in a row, then a first one.
    pauses = desk.clock.pauses
    assert [round(pause, 1) <= 2 * 2**n for n, pause in enumerate(pauses[:3])] == [True] * 3
    assert pauses[3] <= 2


async def test_a_receiver_that_asks_for_time_gets_it_within_a_bound(desk: Desk) -> None:
    with receiving() as receiver:
        receiver.next += [says(429, retry_after="120"), says(503, retry_after="999999")]
        async with desk.notifying(target(receiver.url)) as notifier:
            await told(notifier, 1)
            await came(receiver, 3)
            await idle(notifier)
    assert desk.clock.pauses == [120, QUICK.retry_after_s_max]


async def test_after_the_last_attempt_it_is_a_dead_letter_and_the_next_one_is_sent(
    desk: Desk,
) -> None:
    with receiving() as receiver:
        receiver.next += [says(500, b"on fire")] * QUICK.attempts
        async with desk.notifying(target(receiver.url)) as notifier:
            await told(notifier, 1, 2)
            await came(receiver, QUICK.attempts + 1)
            await idle(notifier)
            (status,) = notifier.status
    (letter,) = desk.letters()
    assert numbers(receiver) == [1] * QUICK.attempts + [2]
    assert letter.message.data == {"number": 1}
    assert (letter.attempts, letter.error) == (QUICK.attempts, "HTTP 500: on fire")
    assert letter.hook == target(receiver.url).id
    assert "secret-of-the-path" not in desk.dead.read_text()
    assert (status.delivered, status.given_up) == (1, 1)


async def test_what_is_refused_is_given_up_sooner(desk: Desk) -> None:
    with receiving() as receiver:
        receiver.next += [says(400)] * QUICK.attempts_refused
        async with desk.notifying(target(receiver.url)) as notifier:
            await told(notifier, 1, 2)
            await came(receiver, QUICK.attempts_refused + 1)
            await idle(notifier)
    assert numbers(receiver)[-1] == 2
    assert len(desk.letters()) == 1


async def test_who_is_gone_is_asked_no_more_and_nothing_is_lost(desk: Desk) -> None:
    with receiving() as receiver, receiving() as other:
        receiver.next.append(says(410))
        async with desk.notifying(target(receiver.url), target(other.url)) as notifier:
            await told(notifier, 1, 2)
            await wait_until_async(lambda: len(desk.letters()) == 2, DEADLINE_S, "two are dead")
            await told(notifier, 3)
            await wait_until_async(lambda: len(desk.letters()) == 3, DEADLINE_S, "three are")
            await came(other, 3)
            await idle(notifier)
            assert [one.stopped for one in notifier.status] == [True, False]
    assert numbers(receiver) == [1]
    assert [letter.message.data["number"] for letter in desk.letters()] == [1, 2, 3]


async def test_one_that_hangs_does_not_hold_up_another(tmp_path: Path) -> None:
    desk = Desk(tmp_path, RetryPolicy(answer_s=20, grace_s=0.1))
    with receiving() as slow, receiving() as quick:
        slow.always = hangs()
        async with desk.notifying(target(slow.url), target(quick.url)) as notifier:
            await told(notifier, *range(1, 6))
            await came(quick, 5)
            assert len(slow.received) == 1


# The queue's bound


@given(st.lists(st.sampled_from(["", "a", "b", "c"]), min_size=1, max_size=12))
def test_what_is_dropped_has_a_newer_one_of_its_subject_where_any_has(subjects: list[str]) -> None:
    place = superseded([message(n, subject) for n, subject in enumerate(subjects)])
    has_newer = [bool(s) and s in subjects[n + 1 :] for n, s in enumerate(subjects)]
    assert place == (has_newer.index(True) if True in has_newer else 0)


async def test_a_queue_that_is_full_keeps_the_newest_of_each_subject(tmp_path: Path) -> None:
    desk = Desk(tmp_path, RetryPolicy(answer_s=20, waiting_max=4, grace_s=5))
    with receiving() as receiver:
        receiver.next.append(hangs())
        async with desk.notifying(target(receiver.url)) as notifier:
            await told(notifier, 1)
            await came(receiver, 1)
            await told(notifier, 2, 3, subject="operation a")
            await told(notifier, 4, 5, 6)
            await wait_until_async(lambda: len(desk.letters()) == 2, DEADLINE_S, "two are dropped")
            assert notifier.status[0].waiting == 4
            receiver.over.set()
            await came(receiver, 5)
            await idle(notifier)
    # What was being sent is never dropped.
    assert numbers(receiver) == [1, 1, 4, 5, 6]
    dropped = [letter.message.data["number"] for letter in desk.letters()]
    assert dropped == [2, 3]
    assert {letter.error for letter in desk.letters()} == {CROWDED}


# Stops


async def test_at_a_stop_what_waits_is_tried_once_and_then_kept(tmp_path: Path) -> None:
    desk = Desk(tmp_path, RetryPolicy(grace_s=2))
    desk.clock.free.clear()
    with receiving() as receiver:
        receiver.next += [says(500)]
        async with desk.notifying(target(receiver.url)) as notifier:
            await told(notifier, 1, 2)
            await wait_until_async(lambda: desk.clock.pauses, DEADLINE_S, "it pauses")
        assert numbers(receiver) == [1, 1, 2]
        receiver.always = says(500)
        desk.clock.pauses.clear()
        async with desk.notifying(target(receiver.url)) as notifier:
            await told(notifier, 3, 4)
            await wait_until_async(lambda: desk.clock.pauses, DEADLINE_S, "it pauses")
        # The first one failed, and order is kept.
        assert numbers(receiver)[3:] == [3, 3]
        receiver.always = says(204)
        async with desk.notifying(target(receiver.url)) as notifier:
            await came(receiver, 7)
            await idle(notifier)
    assert numbers(receiver)[5:] == [3, 4]
    assert not desk.letters()


async def test_a_stop_waits_no_longer_than_its_grace(tmp_path: Path) -> None:
    desk = Desk(tmp_path, RetryPolicy(answer_s=60, grace_s=0.2))
    with receiving() as receiver:
        receiver.always = hangs()
        began_s = asyncio.get_running_loop().time()
        async with desk.notifying(target(receiver.url)) as notifier:
            await told(notifier, 1)
            await came(receiver, 1)
        assert asyncio.get_running_loop().time() - began_s < 20
        receiver.over.set()
    assert desk.waiting.stat().st_size > 0


async def killed(notifier: Notifier) -> None:
    """Nothing is sent any more, and nothing is written."""
    await notifier._end_tasks()
    for hook in notifier._hooks:
        await hook.close()
    await notifier._keeping.close()


async def test_killed_at_any_moment_nothing_that_was_kept_is_lost(tmp_path: Path) -> None:
    for moment in range(5):
        desk = Desk(tmp_path / str(moment))
        with receiving() as receiver:
            receiver.next.append(says(500))
            notifier = desk.notifier(target(receiver.url))
            await notifier.start()
            await told(notifier, 1, 2, 3)
            await wait_until_async(partial(all_kept, notifier, 3), DEADLINE_S, "all are kept")
            await came(receiver, moment)
            await killed(notifier)
            async with desk.notifying(target(receiver.url)) as again:
                await idle(again)
            assert sorted(set(numbers(receiver))) == [1, 2, 3]
        assert not desk.letters()


async def test_what_waits_for_a_hook_that_is_no_more_is_a_dead_letter(tmp_path: Path) -> None:
    desk = Desk(tmp_path, RetryPolicy(grace_s=0.2))
    desk.clock.free.clear()
    with receiving() as receiver, receiving() as other:
        receiver.always = says(500)
        async with desk.notifying(target(receiver.url)) as notifier:
            await told(notifier, 1)
            await wait_until_async(lambda: desk.clock.pauses, DEADLINE_S, "it pauses")
        async with desk.notifying(target(other.url)):
            pass
        assert not other.received
    assert [letter.error for letter in desk.letters()] == [NO_HOOK]
    assert desk.waiting.stat().st_size == 0


# The disk


async def test_on_a_full_disk_messages_are_sent_and_tried_on(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    with receiving() as receiver:
        receiver.always = says(500)
        async with desk.notifying(target(receiver.url)) as notifier:
            with full_disk(0):
                await told(notifier, 1)
                await came(receiver, QUICK.attempts + 3)
                assert notifier.status[0].waiting == 1
                assert notifier.status[0].given_up == 0
            await wait_until_async(desk.letters, DEADLINE_S, "it is a dead letter")
            await idle(notifier)
    assert [letter.message.data["number"] for letter in desk.letters()] == [1]
    assert "kept in memory only" in caplog.text
    assert caplog.text.count("cannot be written") == 1


async def test_a_receiver_that_comes_back_is_told_all(desk: Desk) -> None:
    with receiving() as receiver:
        receiver.always = says(503)
        async with desk.notifying(target(receiver.url)) as notifier:
            await told(notifier, 1, 2, 3)
            await came(receiver, 2)
            receiver.always = says(204)
            await idle(notifier)
            delivered = notifier.status[0].delivered
    assert delivered + len(desk.letters()) == 3
    assert numbers(receiver)[-1] == 3


async def test_what_neither_queue_nor_disk_has_room_for_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    desk = Desk(tmp_path, RetryPolicy(answer_s=20, waiting_max=2, grace_s=0.1))
    with receiving() as receiver:
        receiver.always = hangs()
        async with desk.notifying(target(receiver.url)) as notifier:
            with full_disk(0):
                await told(notifier, 1)
                await came(receiver, 1)
                await told(notifier, 2, 3)
                await wait_until_async(
                    lambda: "drops message msg_2" in caplog.text, DEADLINE_S, "it is said"
                )
            assert notifier.status[0].waiting == 2
        receiver.over.set()
    assert "event 2" in caplog.text
    assert "secret-of-the-path" not in caplog.text
