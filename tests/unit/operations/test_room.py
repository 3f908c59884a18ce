"""What would not fit where a plan copies it, in words; and directories that are offline."""

from __future__ import annotations

from kshunt.backend.domain.cluster.metadata import LogDir, TopicPartition
from kshunt.backend.domain.throttles.configs import Move
from kshunt.backend.operations.moves.disk_space import room_warnings
from kshunt.backend.telemetry.sampling.observed_state import with_last_room

MB = 1_000_000
PLACE = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
MOVES = (Move(PLACE, (1,), (2,)), Move(OTHER, (1,), (2,)))
SIZES = {PLACE: 60 * MB, OTHER: 10 * MB}


def at(path: str, free: int, total: int = 1_000 * MB, error: str | None = None) -> LogDir:
    return LogDir(2, path, total, free, error)


def test_what_fits_is_no_warning() -> None:
    assert room_warnings(MOVES, SIZES, [at("/a", 70 * MB)]) == []


def test_a_broker_that_would_receive_more_than_is_free() -> None:
    (said,) = room_warnings(MOVES, SIZES, [at("/a", 40 * MB), at("/b", 20 * MB)])
    assert said == "Broker 2 would receive 70.0 MB and has 60.0 MB free."


def test_two_directories_of_one_volume_count_once() -> None:
    (said,) = room_warnings(MOVES, SIZES, [at("/a", 40 * MB), at("/b", 40 * MB)])
    assert said == "Broker 2 would receive 70.0 MB and has 40.0 MB free."


def test_a_directory_that_is_too_small_for_what_may_land_there() -> None:
    (said,) = room_warnings(MOVES, SIZES, [at("/a", 900 * MB), at("/b", 30 * MB, 50 * MB)])
    assert said.startswith("Log directory /b of broker 2 has 30.0 MB free, and t-0 has 60.0 MB.")
    assert said.endswith("name log_dirs in the plan.")


def test_a_directory_that_the_plan_names() -> None:
    dirs = [at("/a", 900 * MB), at("/b", 30 * MB, 50 * MB)]
    there = {(PLACE, 2): "/b", (OTHER, 2): "/a"}
    assert room_warnings(MOVES, SIZES, dirs, there) == [
        "Log directory /b of broker 2 would receive 60.0 MB and has 30.0 MB free."
    ]
    elsewhere = {(PLACE, 2): "/a", (OTHER, 2): "/b"}
    assert room_warnings(MOVES, SIZES, dirs, elsewhere) == []


def test_a_directory_that_is_offline_is_named() -> None:
    dirs = [at("/a", 900 * MB), at("/b", 5 * MB, error="KAFKA_STORAGE_ERROR")]
    assert room_warnings(MOVES, SIZES, dirs) == [
        "Log directory /b of broker 2 is offline (KAFKA_STORAGE_ERROR)."
    ]


def test_what_is_not_known_is_no_warning() -> None:
    assert room_warnings(MOVES, {}, [at("/a", 1)]) == []
    assert room_warnings(MOVES, SIZES, []) == []
    assert room_warnings(MOVES, SIZES, [at("/a", -1), at("/b", 1)]) == []


def test_a_directory_that_went_offline_keeps_what_it_last_said() -> None:
    failed = LogDir(2, "/a", error="KAFKA_STORAGE_ERROR")
    (kept,) = with_last_room((failed,), (at("/a", 5),))
    assert (kept.total_bytes, kept.usable_bytes, kept.error) == (1_000 * MB, 5, failed.error)
    assert with_last_room((failed,), ()) == (failed,)
    assert with_last_room((at("/a", 7),), (kept,)) == (at("/a", 7),)
