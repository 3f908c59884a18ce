"""What would not fit where a plan copies it, in words; and directories that are offline."""

from __future__ import annotations

from kshunt.backend.domain.cluster.metadata import LogDir, TopicPartition
from kshunt.backend.domain.throttles.configs import Move
from kshunt.backend.operations.moves.disk_space import room_warnings
from kshunt.backend.telemetry.sampling.observed_state import with_last_room
from tests.support.operations.engine import at as at_place
from tests.support.operations.engine import view_with

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


def test_what_fits_to_the_byte_is_no_warning() -> None:
    assert room_warnings(MOVES, SIZES, [at("/a", 10 * MB, 50 * MB), at("/b", 60 * MB)]) != []
    assert room_warnings(MOVES, SIZES, [at("/a", 60 * MB, 61 * MB), at("/b", 60 * MB)]) == []
    assert room_warnings(MOVES[:1], SIZES, [at("/a", 60 * MB - 1, 99 * MB), at("/b", 60 * MB)])
    named = {(PLACE, 2): "/b", (OTHER, 2): "/a"}
    dirs = [at("/a", 10 * MB, 50 * MB), at("/b", 60 * MB)]
    assert room_warnings(MOVES, SIZES, dirs, named) == []


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


def test_what_a_move_copies_is_its_size_for_each_replica_that_is_added() -> None:
    view = view_with(at_place("t-0", (1, 2)), at_place("t-1", (1, 2)), sizes={"t-0": 7})
    for target, size in (((1, 2), 0), ((2, 1), 0), ((1, 3), 7), ((3, 4), 14)):
        assert view.copy_bytes(Move(PLACE, (1, 2), target)) == size
    assert view.copy_bytes(Move(OTHER, (1, 2), (1, 3))) is None
    assert view.copy_bytes(Move(OTHER, (1, 2), (2, 1))) == 0
