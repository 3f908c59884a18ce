"""The log of events: what a reader that resumes is given."""

from __future__ import annotations

import asyncio
import json
import threading

from kshunt.backend.api.core.event_log import EventLog, Made
from kshunt.backend.api.core.streams import event_stream
from kshunt.backend.limits import LIMITS
from kshunt.backend.offload import OFFLOAD_MIN

START = 1_000


def after(log: EventLog, last_id: int) -> list[tuple[str, object]]:
    async def read() -> list[tuple[str, object]]:
        fresh = log.after(last_id)
        return [(event.kind, json.loads(await event.data()).get("n")) for event in fresh]

    return asyncio.run(read())


def made(n: int) -> Made:
    return lambda: {"n": n}


def test_whoever_saw_the_last_one_is_given_what_came_after() -> None:
    log = EventLog(START)
    assert after(log, START) == []
    for n in range(3):
        log.publish("alert", made(n))
    assert after(log, START) == [("alert", 0), ("alert", 1), ("alert", 2)]
    assert after(log, START + 2) == [("alert", 2)]
    assert after(log, log.last_id) == []


def test_a_number_of_another_backend_is_a_reset() -> None:
    log = EventLog(START)
    log.publish("alert", dict)
    assert after(log, START - 1) == [("reset", None)]
    assert after(log, START + 2) == [("reset", None)]


def test_of_one_operation_only_what_it_is_like_last_is_kept() -> None:
    log = EventLog(START)
    log.publish("operation", made(1), of="a")
    log.publish("operation", made(2), of="b")
    log.publish("alert", made(3))
    log.publish("operation", made(4), of="a")
    assert after(log, START) == [("operation", 2), ("alert", 3), ("operation", 4)]
    assert after(log, START + 1) == [("operation", 2), ("alert", 3), ("operation", 4)]
    assert after(log, START + 3) == [("operation", 4)]


def test_one_operation_however_often_it_changes_crowds_out_nothing() -> None:
    log = EventLog(START)
    log.publish("alert", made(0))
    for n in range(10 * LIMITS.events_kept):
        log.publish("operation", made(n), of="a")
    assert after(log, START) == [("alert", 0), ("operation", 10 * LIMITS.events_kept - 1)]


def test_whoever_lacks_more_than_is_kept_starts_anew() -> None:
    log = EventLog(START)
    for n in range(LIMITS.events_kept + 1):
        log.publish("alert", made(n))
    assert after(log, START) == [("reset", None)]
    assert len(after(log, START + 1)) == LIMITS.events_kept


def test_a_document_is_made_once_for_all_readers_and_not_on_the_loop_where_it_is_large() -> None:
    async def scenario() -> None:
        log, threads = EventLog(START), list[threading.Thread]()

        def large() -> dict[str, object]:
            threads.append(threading.current_thread())
            return {"partitions": list(range(OFFLOAD_MIN))}

        log.publish("operation", large, of="a", entries=OFFLOAD_MIN)
        streams = [event_stream(log, START) for _ in range(5)]
        for stream in streams:
            assert await anext(stream) == b": kshunt events\n\n"
        texts = await asyncio.gather(*(anext(stream) for stream in streams))
        data = json.dumps({"partitions": list(range(OFFLOAD_MIN))}, separators=(",", ":"))
        assert set(texts) == {f"id: {log.last_id}\nevent: operation\ndata: {data}\n\n".encode()}
        assert len(threads) == 1
        assert threads[0] is not threading.main_thread()

    asyncio.run(scenario())


def test_a_document_that_nobody_reads_is_not_made() -> None:
    async def scenario() -> None:
        log, asked = EventLog(START), list[int]()

        def noted(n: int) -> Made:
            def document() -> dict[str, int]:
                asked.append(n)
                return {"n": n}

            return document

        for n in range(100):
            log.publish("operation", noted(n), of="a")
        stream = event_stream(log, START)
        await anext(stream)
        assert b'{"n":99}' in await anext(stream)
        assert asked == [99]

    asyncio.run(scenario())
