"""`y` copies a row, `E` writes the table or the screen to a file."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kshunt.tui.dialogs.form import FormPart
from kshunt.tui.dialogs.save_file import SaveFileScreen
from kshunt.tui.tables.list_table import ListColumn, ListTable
from kshunt.tui.tables.model import Cell, Column, Placed
from kshunt.tui.tables.row_texts import WIDE, row_line, rows_csv, rows_json
from tests.support.tui.app import Shown


@dataclass(frozen=True)
class Row:
    name: str
    lag: str


def name_cell(row: Row, width: int) -> Cell:
    return Cell(row.name[:width])


def lag_cell(row: Row, width: int) -> Cell:
    return Cell(row.lag)


def table_of(*rows: Row) -> ListTable[Row]:
    columns = (
        ListColumn(Column("name", "Partition", 9), name_cell, str),
        ListColumn(Column("lag", "Lag", 5), lag_cell, str),
    )
    return ListTable(columns, {row.name: row for row in rows})


ODD = table_of(Row("a,b-0", "1.50 GB"), Row('say "hi"', ""), Row("x" * 150, " -  "), Row("é", "∞"))


def test_a_table_as_csv_can_be_read_again() -> None:
    assert list(csv.reader(io.StringIO(rows_csv(ODD)))) == [
        ["Partition", "Lag"],
        ["a,b-0", "1.50 GB"],
        ['say "hi"', ""],
        ["x" * 150, ""],
        ["é", "∞"],
    ]


def test_a_table_as_json_says_null_where_nothing_is_known() -> None:
    assert json.loads(rows_json(ODD)) == [
        {"Partition": "a,b-0", "Lag": "1.50 GB"},
        {"Partition": 'say "hi"', "Lag": None},
        {"Partition": "x" * 150, "Lag": None},
        {"Partition": "é", "Lag": "∞"},
    ]
    assert json.loads(rows_json(table_of())) == []


def test_a_row_is_one_line_without_what_is_not_known() -> None:
    assert row_line(ODD, 0) == "Partition: a,b-0, Lag: 1.50 GB"
    assert row_line(ODD, 1) == 'Partition: say "hi"'


async def test_the_row_under_the_cursor_is_copied(shown: Shown) -> None:
    for view in "23457":
        await shown.press(view)
        await shown.press("j", "y")
        table, key = shown.grid.table, shown.grid.cursor_key
        assert table is not None
        row = table.row_of(key)
        assert row is not None
        placed = [Placed(column, WIDE) for column in table.columns]
        assert table.cells(row, placed)[0].text.strip() in shown.app.clipboard
        assert "\n" not in shown.app.clipboard
        assert shown.said.startswith("Copied, if your terminal takes it (OSC 52): ")


async def exported(shown: Shown, path: Path) -> None:
    """Export what is in sight to a file."""
    await shown.pilot.press("E")
    dialog = await shown.dialog(SaveFileScreen)
    dialog.query_one(FormPart).input(0).value = str(path)
    await shown.pilot.press("enter")
    await shown.until(lambda: path.exists(), "it is written")
    await shown.closed()


async def test_every_row_of_a_table_is_written(shown: Shown, tmp_path: Path) -> None:
    for view in "23457":
        await shown.press(view)
        table = shown.grid.table
        assert table is not None
        path = tmp_path / f"{view}.csv"
        await exported(shown, path)
        assert str(path) in shown.said
        header, *rows = csv.reader(io.StringIO(path.read_text("utf-8")))
        assert header == [column.name for column in table.columns]
        assert len(rows) == len(table) > 0
        await exported(shown, path.with_suffix(".json"))
        assert len(json.loads(path.with_suffix(".json").read_text("utf-8"))) == len(rows)


async def test_the_screen_is_written_without_the_question(shown: Shown, tmp_path: Path) -> None:
    for view in "126":
        await shown.press(view)
        before = shown.frame()
        path = tmp_path / f"{view}.txt"
        await exported(shown, path)
        assert path.read_text("utf-8").rstrip("\n") == before.rstrip("\n")
    await exported(shown, tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text("utf-8")
    assert ElementTree.fromstring(text).tag.endswith("svg")
    assert "@font-face" not in text


@pytest.mark.parametrize(
    ("view", "name", "said"),
    [
        ("2", "a.pdf", "must end in .csv or .json or .txt or .svg"),
        ("1", "a.csv", "must end in .txt or .svg"),
        ("2", "there.csv", "exists; it is not replaced"),
        ("2", "nowhere/a.csv", "There is no folder"),
        ("2", "", "must end in"),
    ],
)
async def test_a_name_that_cannot_be_used_is_said_and_nothing_is_written(
    shown: Shown, tmp_path: Path, view: str, name: str, said: str
) -> None:
    (tmp_path / "there.csv").write_text("before")
    await shown.press(view)
    await shown.pilot.press("E")
    dialog = await shown.dialog(SaveFileScreen)
    form = dialog.query_one(FormPart)
    form.input(0).value = str(tmp_path / name) if name else ""
    await shown.pilot.press("enter")
    await shown.until(lambda: said in form.hint(0).plain, "it is said")
    assert (tmp_path / "there.csv").read_text() == "before"
    await shown.pilot.press("escape")
    await shown.closed()
    assert not any((tmp_path / name).exists() for name in ("a.pdf", "a.csv", "nowhere"))


async def test_the_proposed_name_says_view_and_time(shown: Shown) -> None:
    await shown.press("3")
    await shown.pilot.press("E")
    dialog = await shown.dialog(SaveFileScreen)
    value = dialog.query_one(FormPart).input(0).value
    assert value.startswith("kshunt-brokers-2")
    assert value.endswith("Z.csv")
