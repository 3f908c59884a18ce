"""`y` copies a row, `E` writes the table or the screen to a file."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kshunt.backend.domain.text.formatting import (
    bytes_text,
    count_text,
    message_rate_text,
    moment_text,
    rate_text,
)
from kshunt.tui.dialogs.form import FormPart
from kshunt.tui.dialogs.save_file import SaveFileScreen
from kshunt.tui.tables.list_table import WIDE, ListColumn, ListTable
from kshunt.tui.tables.model import Cell, Column, Placed, Unit
from kshunt.tui.tables.parquet import rows_parquet
from kshunt.tui.tables.row_texts import row_line, rows_csv, rows_json
from kshunt.tui.views.topics.columns import skew_text
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


def unknown(word: str | None) -> bool:
    """Whether a cell says nothing, or that nothing is known."""
    return word in (None, "?", "held")


def says(word: str, value: float, unit: Unit) -> bool:
    """Whether a cell's text says the same as a figure."""
    shown = word.lstrip(">").split(" of ")[0]
    match unit:
        case Unit.ID:
            return shown.rstrip("*") == str(value)
        case Unit.COUNT:
            # Of two figures the first one.
            return shown.replace("-", "/").split("/")[0].split(" ")[0] == count_text(int(value))
        case Unit.BYTES:
            return shown.startswith(bytes_text(int(value)))
        case Unit.RATE if math.isinf(value):
            return shown == "none"
        case Unit.RATE:
            return shown.split(" ", 1)[-1] == rate_text(value) or shown == rate_text(value)
        case Unit.MESSAGE_RATE:
            return shown == message_rate_text(value)
        case Unit.SECONDS:
            return math.isinf(value) or shown.split("-")[0][:1].isdigit() or shown.startswith("≈")
        case Unit.SHARE:
            return shown.split(" ")[-1] in (f"{value:.0%}", f"{int(value * 100)}%")
        case Unit.TIMES:
            return shown == skew_text(value)
    return moment_text(int(value)).removesuffix(" UTC") == shown


TABLES = {
    "replicas": ("2", "f"),
    "topics of replicas": ("2", "g"),
    "brokers": ("3",),
    "who feeds whom": ("3", "m"),
    "throttles": ("4",),
    "operations": ("5",),
    "topics": ("7",),
}


@pytest.mark.parametrize("keys", TABLES.values(), ids=TABLES)
async def test_parquet_has_in_figures_what_json_has_in_words(
    shown: Shown, tmp_path: Path, keys: tuple[str, ...]
) -> None:
    await shown.press(*keys)
    table = shown.grid.table
    assert table is not None
    await exported(shown, tmp_path / "a.json")
    await exported(shown, tmp_path / "a.parquet")
    words = json.loads((tmp_path / "a.json").read_text("utf-8"))
    found = pq.read_table(tmp_path / "a.parquet")
    assert found.num_rows == len(words) > 0
    assert found.column_names == [column.name for column in table.columns]
    for column in table.columns:
        field = found.schema.field(column.name)
        values = found.column(column.name).to_pylist()
        texts = [row[column.name] for row in words]
        if column.unit is None:
            assert (field.type, values) == (pa.string(), texts)
            continue
        assert field.metadata == {b"unit": column.unit.value.encode()}
        assert field.type == (pa.int64() if column.unit.whole else pa.float64())
        for text, value in zip(texts, values, strict=True):
            if value is None:
                assert unknown(text), (column.name, text)
            elif unknown(text) or text == ".":
                assert value == 0 or text != ".", (column.name, text, value)
            else:
                assert says(text, value, column.unit), (column.name, text, value)


def numbers(*values: float | None, unit: Unit) -> ListTable[float | None]:
    """A table of one column."""
    column = Column("it", "It", 4, unit=unit)
    field = ListColumn(column, lambda row, width: Cell(str(row)), lambda row: row)
    return ListTable((field,), dict(enumerate(values)))


@pytest.mark.parametrize(
    ("unit", "values", "read"),
    [
        (Unit.BYTES, (2**53 + 1, 0, -1, None), [2**53 + 1, 0, None, None]),
        (Unit.RATE, (1.5, -2.0, math.inf, math.nan), [1.5, -2.0, math.inf, None]),
        (Unit.COUNT, (), []),
    ],
)
def test_what_is_not_known_is_null_and_every_digit_is_kept(
    unit: Unit, values: tuple[float | None, ...], read: list[float | None]
) -> None:
    found = pq.read_table(io.BytesIO(rows_parquet(numbers(*values, unit=unit))))
    assert found.column("It").to_pylist() == read
    assert found.schema.field("It").type == (pa.int64() if unit.whole else pa.float64())


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
        ("2", "a.pdf", "must end in .csv or .json or .parquet or .txt or .svg"),
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
