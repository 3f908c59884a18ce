"""Which columns a table has at a width, and how wide each is: what goes first, what comes last."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshunt.tui.actions.view_names import BROKERS
from kshunt.tui.tables.column_choice import OWN_COLUMNS, ColumnChoice
from kshunt.tui.tables.model import NATURAL, Table, fit_columns
from kshunt.tui.views.brokers.matrix import place_table
from kshunt.tui.views.brokers.table import broker_table
from kshunt.tui.views.operations.table import operation_table
from kshunt.tui.views.partitions.group_table import group_table
from kshunt.tui.views.throttles.table import throttle_table
from kshunt.tui.views.topics.table import topic_table
from tests.support.tui.app import dashboard
from tests.support.tui.cluster import ScriptedCluster, incident, running_move
from tests.support.tui.tables import facts_of, partitions

FACTS = facts_of(incident())
PARTITIONS = {
    40: "topic:18 partition:4 broker:4 status:11",
    60: "topic:17 partition:4 broker:4 status:11 lag_bytes:6 rate:6 eta:6",
    80: "topic:18 partition:4 broker:4 role:8 status:11 lag_messages:5 lag_bytes:6 rate:6 eta:6 "
    "throttled:3",
    100: "topic:35 partition:4 broker:7 role:8 status:11 lag_messages:5 lag_bytes:6 rate:6 eta:6 "
    "throttled:3",
    120: "topic:38 partition:4 broker:7 role:8 status:11 lag_messages:5 lag_bytes:9 rate:10 "
    "eta:16 throttled:3",
    160: "topic:35 partition:4 broker:7 role:8 status:33 lag_messages:10 lag_bytes:9 rate:10 "
    "eta:16 throttled:3 size:8 age:6",
    200: "topic:58 partition:4 broker:7 role:8 status:33 lag_messages:10 lag_bytes:9 rate:10 "
    "eta:16 throttled:3 size:8 age:6 leader:6 message_rate:9",
    260: "topic:80 partition:4 broker:7 role:8 status:33 lag_messages:10 lag_bytes:9 rate:10 "
    "eta:16 throttled:3 size:8 age:6 leader:6 message_rate:9",
}
GROUPS = {
    40: "group:12 lag_bytes:7 eta:13 stuck:5",
    60: "group:12 moving:5 behind:6 lag_bytes:7 rate:6 eta:13 stuck:5",
    80: "group:19 partitions:5 replicas:6 moving:5 behind:6 lag_bytes:7 rate:6 eta:13 stuck:5",
    100: "group:39 partitions:5 replicas:6 moving:5 behind:6 lag_bytes:7 rate:6 eta:13 stuck:5",
    120: "group:39 partitions:5 replicas:6 moving:5 behind:6 lag_bytes:10 rate:10 eta:26 stuck:5",
    160: "group:62 partitions:10 replicas:8 moving:6 behind:6 lag_bytes:10 rate:10 eta:26 stuck:5 "
    "size:8",
    260: "group:80 partitions:10 replicas:8 moving:6 behind:6 lag_bytes:10 rate:10 eta:26 stuck:5 "
    "size:8",
}
PLACES = {
    40: "partition:15 on 1:4 on 2:4 on 3:4 on 4:4 on 5:4",
    80: "partition:55 on 1:4 on 2:4 on 3:4 on 4:4 on 5:4",
    160: "partition:60 on 1:4 on 2:4 on 3:4 on 4:4 on 5:4",
}


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (partitions(FACTS), PARTITIONS),
        (group_table(FACTS, (), NATURAL, False, "topic"), GROUPS),
        (place_table(FACTS, NATURAL), PLACES),
    ],
    ids=["partitions", "groups", "places"],
)
def test_the_room_goes_to_what_matters_most(table: Table, expected: dict[int, str]) -> None:
    for width, words in expected.items():
        placed = fit_columns(table.columns, width)
        assert " ".join(f"{column.key}:{room}" for column, room in placed) == words, width


CHOSEN = [
    # What is hidden gives its room to others.
    (80, ("-role",), "topic:27 partition:4 broker:4 status:11 lag_messages:5 lag_bytes:6"),
    (80, ("-role", "-status"), "topic:36 partition:4 broker:7 lag_messages:5 lag_bytes:6"),
    # Columns that wait for a wide terminal come where enough others are hidden.
    (
        100,
        ("-role", "-status", "-lag_messages", "-throttled"),
        "topic:40 partition:4 broker:7 lag_bytes:9 rate:10 eta:16 size:8",
    ),
    # What comes first takes the room of what is worth least.
    (80, ("size",), "topic:19 partition:4 broker:4 role:8 status:11 lag_bytes:6 rate:6 eta:6 size"),
    (60, ("role",), "topic:15 partition:4 broker:4 role:8 status:11 lag_bytes:6 eta:6"),
    # What says which row it is stays, whatever the choice and the width.
    (40, ("size", "leader", "message_rate"), "topic:14 partition:4 broker:4 size:8 leader:6"),
    (80, ("-topic", "-broker"), "topic:18 partition:4 broker:4 role:8 status:11 lag_messages:5"),
    (80, ("-nosuch", "none"), "topic:18 partition:4 broker:4 role:8 status:11 lag_messages:5"),
]


@pytest.mark.parametrize(("width", "words", "expected"), CHOSEN)
def test_a_choice_changes_what_is_shown(width: int, words: tuple[str, ...], expected: str) -> None:
    columns = ColumnChoice.of_words(words).of(partitions(FACTS).columns)
    shown = " ".join(f"{column.key}:{room}" for column, room in fit_columns(columns, width))
    assert shown.startswith(expected), shown


def test_every_table_keeps_what_says_which_row_it_is() -> None:
    operation = running_move(incident())
    tables: tuple[tuple[tuple[str, ...], Table], ...] = (
        (("topic", "partition", "broker"), partitions(FACTS)),
        (("group",), group_table(FACTS, (), NATURAL, False, "topic")),
        (("group",), topic_table(FACTS, (), NATURAL)),
        (("broker",), broker_table(FACTS, NATURAL)),
        (("what",), throttle_table(FACTS, NATURAL)),
        (("summary",), operation_table(FACTS, (operation,), 0, NATURAL)),
    )
    for expected, table in tables:
        nothing = ColumnChoice(hidden=tuple(column.key for column in table.columns))
        assert tuple(column.key for column in nothing.of(table.columns)) == expected


def test_a_choice_is_changed_a_column_at_a_time() -> None:
    choice = OWN_COLUMNS.hiding("role").putting_first("size").hiding("status")
    assert choice.words == ("size", "-role", "-status")
    assert choice.putting_first("role").words == ("size", "role", "-status")
    assert choice.hiding("size").words == ("-role", "-status", "-size")
    assert choice.showing("size").showing("role").showing("status") == OWN_COLUMNS
    assert ColumnChoice.of_words(choice.words) == choice


WORDY = "connection refused, and then refused again by each of its addresses"


async def test_nothing_is_cut_while_blanks_stand_beside_it(tmp_path: Path) -> None:
    cluster = ScriptedCluster.of(3, {"orders": 4})
    cluster.down = {3: WORDY}
    async with dashboard(tmp_path / "s", cluster, size=(170, 30), start_view=BROKERS) as shown:
        shown.time.now += 60
        await shown.publish(60.0)
        assert WORDY in shown.frame()


async def test_a_column_is_as_wide_as_its_longest_text_and_never_shrinks(tmp_path: Path) -> None:
    name = "payments.transactions.settled.in.full"
    cluster = ScriptedCluster.of(3, {"orders": 4, name: 4})
    async with dashboard(tmp_path / "s", cluster, size=(200, 30)) as shown:

        def second_column() -> int:
            return next(line for line in shown.lines() if " Topic " in line).index(" Part ")

        before = second_column()
        assert len(name) <= before <= len(name) + 4
        await shown.press("slash")
        await shown.write("orders")
        await shown.press("enter")
        assert name not in shown.frame()
        assert second_column() == before
