"""`--progress` and `--verify`: the seed's table byte for byte, Kafka's words, and no guessed 0."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.api.schema.progress import ProgressRows
from kshunt.backend.domain.backend.forecast_record import ForecastRecord
from kshunt.backend.domain.cluster.metadata import (
    NO_BROKER,
    OngoingReassignment,
    PartitionState,
    TopicPartition,
)
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.reassignment.answers import (
    LogDirRow,
    ProgressRow,
    VerifyAnswer,
    VerifyRow,
    VerifyState,
)
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.reassignment.progress import (
    NOT_HOSTED,
    UNKNOWN_BROKER,
    UNKNOWN_PARTITION,
    UNKNOWN_TOPIC,
    ReplicaDirs,
    log_dir_rows,
    progress_rows,
    verify_rows,
    with_causes,
    with_turns,
)
from kshunt.backend.domain.reassignment.progress_words import (
    format_log_dirs,
    format_progress,
    format_verify,
    is_not_as_planned,
)
from kshunt.backend.domain.replicas.expected_end_values import (
    Bottleneck,
    ExpectedEnd,
    Resource,
    ResourceKind,
)
from kshunt.backend.domain.replicas.stuck_causes import Cause, Stuck, StuckEvidence
from kshunt.backend.domain.untrusted.json_codec import from_document
from kshunt.backend.tools.reassign.reports import progress_report, verify_report

SEED_TABLE = """\
Topic      Partition  Broker  Status
-------------------------------------
my_topic   0          0       In sync
my_topic   0          1       Behind: 10456 messages behind
asdf       0          1       Unknown topic
my_topic   42         1       Unknown partition
my_topic   0          42      Unknown broker
my_topic   1          0       Broker does not host this partition"""
"""KIP-179, "That might print something like the following"."""

MY_0, MY_1, MY_42 = (TopicPartition("my_topic", number) for number in (0, 1, 42))
ASDF_0 = TopicPartition("asdf", 0)
UNMATCHED = (UNKNOWN_TOPIC, UNKNOWN_PARTITION, UNKNOWN_BROKER, NOT_HOSTED)


def state(partition: TopicPartition, *replicas: int, isr: tuple[int, ...] = ()) -> PartitionState:
    """A partition that its first replica leads."""
    return PartitionState(partition, replicas[0], replicas, isr or replicas)


STATES = {MY_0: state(MY_0, 0, 1, isr=(0,)), MY_1: state(MY_1, 1)}
NOBODYS = PartitionState(MY_0, NO_BROKER, (0, 1), ())
LAGS = {(MY_0, 0): 0, (MY_0, 1): 10456, (MY_1, 1): 0}


def rows_of(
    target: Mapping[TopicPartition, tuple[int, ...]],
    lags: Mapping[tuple[TopicPartition, int], int | None] = LAGS,
    states: Mapping[TopicPartition, PartitionState] = STATES,
    brokers: tuple[int, ...] = (0, 1),
    silent: tuple[int, ...] = (),
) -> tuple[ProgressRow, ...]:
    return progress_rows(ReassignmentPlan(target), states, brokers, lags, silent)


@pytest.mark.conforms("kip-179:progress-table")
def test_the_seeds_table_byte_for_byte() -> None:
    rows = (
        *rows_of({MY_0: (0, 1), ASDF_0: (1,), MY_42: (1,)}),
        *rows_of({MY_0: (42,), MY_1: (0,)}),
    )
    assert format_progress(rows) == SEED_TABLE


def test_the_table_without_rows_is_its_heading() -> None:
    assert format_progress([]) == "\n".join(SEED_TABLE.splitlines()[:2])


def test_columns_grow_for_longer_entries_and_the_rule_with_them() -> None:
    long = TopicPartition("a-topic-with-a-long-name", 1234567890)
    table = format_progress(
        [ProgressRow(long.topic, long.partition, 2147483647, "In sync", 0, in_sync=True)]
    )
    assert table == (
        "Topic                     Partition   Broker      Status\n"
        "---------------------------------------------------------\n"
        "a-topic-with-a-long-name  1234567890  2147483647  In sync"
    )


@given(
    st.lists(
        st.builds(
            ProgressRow,
            st.text("abc._-", min_size=1, max_size=40),
            st.integers(0),
            st.integers(0, 2**31 - 1),
            st.sampled_from(UNMATCHED),
            st.none(),
            st.just(False),
        )
    )
)
def test_every_row_can_be_taken_apart_again(rows: list[ProgressRow]) -> None:
    lines = format_progress(rows).splitlines()
    assert [tuple(line.split(maxsplit=3)) for line in lines[2:]] == [
        (row.topic, str(row.partition), str(row.broker), row.status) for row in rows
    ]
    starts = {line.index(row.status) for line, row in zip(lines[2:], rows, strict=True)}
    assert starts <= {lines[0].index("Status")}


def test_a_row_carries_the_figures_beside_the_words() -> None:
    in_sync, behind = rows_of({MY_0: (0, 1)})
    assert in_sync == ProgressRow("my_topic", 0, 0, "In sync", 0, in_sync=True)
    assert behind == ProgressRow(
        "my_topic", 0, 1, "Behind: 10456 messages behind", 10456, in_sync=False
    )


def test_a_replica_that_has_caught_up_but_is_not_in_the_isr_is_not_in_sync() -> None:
    (row,) = rows_of({MY_0: (1,)}, {(MY_0, 1): 0})
    assert row == ProgressRow("my_topic", 0, 1, "Behind: 0 messages behind", 0, in_sync=False)


def test_a_follower_that_seems_ahead_is_0_behind() -> None:
    (row,) = rows_of({MY_0: (1,)}, {(MY_0, 1): -3})
    assert row.lag_messages == 0


@pytest.mark.conforms("kip-179:progress-unknown-lag")
@pytest.mark.parametrize(
    ("states", "brokers", "silent", "why"),
    [
        (STATES, (0,), (), "broker 1 does not answer"),
        (STATES, (0, 1), (1,), "broker 1 does not answer"),
        (STATES, (1,), (), "leader 0 does not answer"),
        (STATES, (0, 1), (0,), "leader 0 does not answer"),
        ({MY_0: NOBODYS}, (0, 1), (), "the partition has no leader"),
        ({MY_0: replace(NOBODYS, mode=PartitionMode.NONE)}, (0,), (), "it is being deleted"),
        (STATES, (0, 1), (), "broker 1 has not reported an offset yet"),
    ],
)
@pytest.mark.parametrize("lags", [{}, {(MY_0, 1): None}])
def test_an_unknown_lag_is_never_0_and_never_in_sync(
    states: Mapping[TopicPartition, PartitionState],
    brokers: tuple[int, ...],
    silent: tuple[int, ...],
    why: str,
    lags: Mapping[tuple[TopicPartition, int], int | None],
) -> None:
    (row,) = rows_of({MY_0: (1,)}, lags, states, brokers, silent)
    assert row == ProgressRow("my_topic", 0, 1, f"Unknown lag: {why}", None, in_sync=False)


def test_a_replica_of_the_isr_whose_broker_is_silent_is_not_called_in_sync() -> None:
    (row,) = rows_of({MY_1: (1,)}, {}, silent=(1,))
    assert row.status == "Unknown lag: broker 1 does not answer"


def test_a_broker_that_is_down_and_hosts_something_is_not_unknown() -> None:
    (row,) = rows_of({MY_1: (0,)}, brokers=(1,))
    assert row.status == "Broker does not host this partition"


@given(
    st.dictionaries(
        st.sampled_from([MY_0, MY_1, MY_42, ASDF_0]),
        st.lists(st.integers(0, 4), min_size=1, unique=True).map(tuple),
        min_size=1,
    ),
    st.dictionaries(
        st.tuples(st.sampled_from([MY_0, MY_1]), st.integers(0, 4)), st.none() | st.integers(0)
    ),
    st.sets(st.integers(0, 4)),
)
def test_one_row_a_replica_and_no_lag_that_nobody_reported(
    target: dict[TopicPartition, tuple[int, ...]],
    lags: dict[tuple[TopicPartition, int], int | None],
    silent: set[int],
) -> None:
    rows = rows_of(target, lags, silent=tuple(silent))
    assert [(row.name, row.broker) for row in rows] == [
        (partition, broker) for partition, brokers in target.items() for broker in brokers
    ]
    for row in rows:
        reported = lags.get((row.name, row.broker))
        assert row.lag_messages in (None, reported)
        assert not (row.in_sync and row.lag_messages is None)
        assert (row.lag_messages is None) == (
            not row.matches or row.status.startswith("Unknown lag: ")
        )
        assert row.matches == (row.status not in UNMATCHED)


# --verify


def verified(
    target: Mapping[TopicPartition, tuple[int, ...]],
    ongoing: Mapping[TopicPartition, OngoingReassignment] | None = None,
) -> tuple[VerifyRow, ...]:
    return verify_rows(ReassignmentPlan(target), STATES, ongoing or {})


@pytest.mark.conforms("kip-179:check-and-clear")
def test_verify_says_what_kafkas_tool_says() -> None:
    ongoing = {MY_1: OngoingReassignment(MY_1, (2, 1), (2,), (1,))}
    assert format_verify(verified({MY_1: (2,), MY_0: (0, 1)}, ongoing)).splitlines() == [
        "Status of partition reassignment:",
        "Reassignment of partition my_topic-0 is completed.",
        "Reassignment of partition my_topic-1 is still in progress.",
    ]
    assert format_verify(verified({MY_0: (1, 0)})).splitlines()[1] == (
        "There is no active reassignment of partition my_topic-0, "
        "but replica set is 0,1 rather than 1,0."
    )


def test_verify_names_what_is_missing() -> None:
    rows = verified({MY_42: (1, 2), ASDF_0: (1,)})
    assert [row.state for row in rows] == [VerifyState.MISSING] * 2
    assert format_verify(rows).splitlines()[1:] == [
        "There is no partition asdf-0 in this cluster, so it cannot be moved to 1.",
        "There is no partition my_topic-42 in this cluster, so it cannot be moved to 1,2.",
    ]


REPLICA_DIRS = [
    (
        ReplicaDirs("/a", "/b"),
        False,
        "Reassignment of replica my_topic-0-1 is still in progress.",
    ),
    (ReplicaDirs("/b"), True, "Reassignment of replica my_topic-0-1 completed successfully."),
    (
        ReplicaDirs("/a", "/c"),
        False,
        "Partition my_topic-0 on broker 1 is being moved to log dir /c instead of /b.",
    ),
    (
        ReplicaDirs("/a"),
        False,
        "Partition my_topic-0 on broker 1 is not being moved from log dir /a to /b.",
    ),
    (
        None,
        False,
        "Partition my_topic-0 is not found in any live log dir on broker 1. "
        "There is likely an offline log directory on the broker.",
    ),
]


@pytest.mark.parametrize(("dirs", "done", "text"), REPLICA_DIRS)
def test_log_directories_in_kafkas_words(dirs: ReplicaDirs | None, done: bool, text: str) -> None:
    plan = ReassignmentPlan({MY_0: (0, 1)}, {(MY_0, 1): "/b"})
    found = {} if dirs is None else {(MY_0, 1): dirs}
    moving = dirs is not None and dirs.future == "/b"
    assert log_dir_rows(plan, found) == (LogDirRow("my_topic", 0, 1, text, done, moving),)


def test_log_directories_of_a_silent_broker_are_unknown() -> None:
    plan = ReassignmentPlan({MY_0: (0, 1)}, {(MY_0, 1): "/b"})
    (row,) = log_dir_rows(plan, {}, silent=(1,))
    assert row.text == "Broker 1 does not answer, so the log dir of my_topic-0 on it is unknown."
    assert not row.done


def test_log_directories_are_sorted_by_broker_as_in_kafkas_tool() -> None:
    plan = ReassignmentPlan(
        {MY_0: (2, 1), MY_1: (1,)}, {(MY_0, 2): "/b", (MY_1, 1): "/b", (MY_0, 1): "/b"}
    )
    rows = log_dir_rows(plan, {})
    assert [(row.broker, row.partition) for row in rows] == [(1, 0), (1, 1), (2, 0)]
    assert format_log_dirs(rows).count("\n") == 2


@pytest.mark.parametrize(
    ("states", "dirs", "astray"),
    [
        ([VerifyState.COMPLETED], [], False),
        ([VerifyState.COMPLETED, VerifyState.IN_PROGRESS], [], False),
        ([VerifyState.DIFFERS], [], True),
        ([VerifyState.MISSING, VerifyState.IN_PROGRESS], [], True),
        ([VerifyState.COMPLETED], [REPLICA_DIRS[0]], False),
        ([VerifyState.COMPLETED], [REPLICA_DIRS[1]], False),
        ([VerifyState.COMPLETED], [REPLICA_DIRS[2]], True),
        ([VerifyState.COMPLETED], [REPLICA_DIRS[3]], True),
        ([VerifyState.COMPLETED], [REPLICA_DIRS[4]], True),
    ],
)
def test_gone_astray_is_what_waiting_does_not_mend(
    states: list[VerifyState], dirs: list[tuple[ReplicaDirs | None, bool, str]], astray: bool
) -> None:
    answer = VerifyAnswer(
        tuple(VerifyRow("my_topic", 0, each, (1,), (2,)) for each in states),
        tuple(
            LogDirRow("my_topic", 0, 1, text, done, one is not None and one.future == "/b")
            for one, done, text in dirs
        ),
    )
    assert is_not_as_planned(answer) is astray


def test_a_replica_whose_move_waits_for_its_turn_is_as_planned() -> None:
    plan = {MY_0: (7,), MY_1: (7,)}
    rows = rows_of(plan, brokers=(0, 1, 7))
    assert [row.status for row in rows] == [NOT_HOSTED, NOT_HOSTED]
    waits, lacks = with_turns(rows, {MY_0})
    assert (waits.status, waits.matches) == ("Waiting: the move has not begun", True)
    assert lacks == rows[1]
    assert progress_report(ProgressRows((waits,))).code == 2
    assert progress_report(ProgressRows((waits, lacks))).code == 1


# What the tool prints, and its exit codes


def test_a_replica_that_is_stuck_says_why_and_what_to_do_on_a_line_of_its_own() -> None:
    rows = (
        ProgressRow("my_topic", 0, 0, "In sync", 0, in_sync=True),
        ProgressRow("my_topic", 0, 1, "Behind: 10456 messages behind", 10456, in_sync=False),
    )
    evidence = StuckEvidence(registered=False, answers=False)
    why = Stuck(MY_0, 1, Cause.BROKER_DOWN, evidence=evidence)
    told = with_causes(rows, {(MY_0, 1): why})
    assert from_document(ProgressRows, progress_report(ProgressRows(told)).document).rows == told
    report = progress_report(ProgressRows(told))
    assert report.code == 2
    assert report.document["rows"][1]["cause"] == "broker_down"
    assert report.text == (
        f"{format_progress(rows)}\n"
        "  Stuck (broker_down): Broker 1 is down: not registered: it is down or fenced. "
        "Start broker 1, or cancel the move and choose another one."
    )


@pytest.mark.conforms("kip-179:progress", "kip-179:progress-exits")
@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        (["In sync"], 0),
        (["In sync", "Behind: 7 messages behind"], 2),
        (["Unknown lag: broker 3 does not answer"], 2),
        (["Behind: 7 messages behind", "Broker does not host this partition"], 1),
        (["Unknown topic"], 1),
        (["Unknown partition"], 1),
        (["Unknown broker"], 1),
    ],
)
def test_progress_reports_its_rows_and_an_exit_code(statuses: list[str], code: int) -> None:
    rows = [
        ProgressRow(
            *("my_topic", 0, 1, text, None),
            in_sync=text == "In sync",
            matches=text not in UNMATCHED,
        )
        for text in statuses
    ]
    report = progress_report(ProgressRows(tuple(rows)))
    assert report.code == code
    assert report.text == format_progress(rows)
    assert json.loads(json.dumps(report.document)) == {
        "rows": [
            {
                "topic": "my_topic",
                "partition": 0,
                "broker": 1,
                "status": text,
                "lag_messages": None,
                "in_sync": text == "In sync",
                "cause": None,
                "reason": "",
                "action": "",
                "matches": text not in UNMATCHED,
            }
            for text in statuses
        ],
        "expected_end": None,
        "forecast_record": None,
    }


def test_progress_says_below_its_table_when_the_plan_will_be_done() -> None:
    rows = (ProgressRow("my_topic", 0, 1, "Behind: 7 messages behind", 7, in_sync=False),)
    noon_ms = 1_760_011_200_000
    waits = (Bottleneck(Resource(ResourceKind.LEADER_THROTTLE, (7,)), 900.0),)
    end = ExpectedEnd(noon_ms, 1, 780.0, 900.0, 1_200.0, bottlenecks=waits)
    report = progress_report(ProgressRows(rows, end))
    done = "Done: 12:15 (12:13-12:20); waits for leader throttle of broker 7"
    assert report.text == f"{format_progress(rows)}\n\n{done}"
    record = ForecastRecord("35 operations of this cluster", 34, 41)
    told = progress_report(ProgressRows(rows, end, record))
    assert told.text == (
        f"{report.text}\nForecasts: right 83 % of 41 forecasts; ranges from 35 operations of this "
        "cluster"
    )
    assert report.document["expected_end"]["p50_s"] == 900.0


def verify_answer(state: VerifyState, **more: Any) -> VerifyAnswer:
    return VerifyAnswer((VerifyRow("my_topic", 0, state, (0,), (0, 1)),), **more)


HEADING = "Status of partition reassignment:\n"
COMPLETED = f"{HEADING}Reassignment of partition my_topic-0 is completed.\n"
MOVING_DIR = LogDirRow(
    "my_topic", 0, 1, "Reassignment of replica r is still in progress.", done=False, moving=True
)
LOST_DIR = LogDirRow("my_topic", 0, 1, "Partition my_topic-0 is lost.", done=False)


@pytest.mark.parametrize(
    ("answer", "code", "text"),
    [
        (verify_answer(VerifyState.COMPLETED), 0, COMPLETED),
        (
            verify_answer(VerifyState.COMPLETED, cleared_brokers=(1, 2), cleared_topics=("a",)),
            0,
            f"{COMPLETED}\nClearing broker-level throttles on brokers 1,2\n"
            "Clearing topic-level throttles on topic a",
        ),
        (
            verify_answer(VerifyState.COMPLETED, active_elsewhere=True),
            0,
            f"{COMPLETED}\nOther partitions still move, so no throttle was changed.",
        ),
        (
            verify_answer(VerifyState.IN_PROGRESS),
            2,
            f"{HEADING}Reassignment of partition my_topic-0 is still in progress.\n",
        ),
        (
            verify_answer(VerifyState.COMPLETED, log_dirs=(MOVING_DIR,)),
            2,
            f"{COMPLETED}{MOVING_DIR.text}",
        ),
        (
            verify_answer(VerifyState.COMPLETED, log_dirs=(LOST_DIR,)),
            1,
            f"{COMPLETED}{LOST_DIR.text}",
        ),
        (
            verify_answer(VerifyState.DIFFERS),
            1,
            f"{HEADING}There is no active reassignment of partition my_topic-0, "
            "but replica set is 0 rather than 0,1.\n",
        ),
    ],
)
def test_verify_reports_in_kafkas_words_and_an_exit_code(
    answer: VerifyAnswer, code: int, text: str
) -> None:
    report = verify_report(answer)
    assert (report.code, report.text) == (code, text)
    assert from_document(VerifyAnswer, report.document) == answer
