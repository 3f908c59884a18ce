"""Rows of a table as plain text: for details, for the clipboard, and for a file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Final

from kshunt.tui.tables.list_table import WIDE
from kshunt.tui.tables.model import Placed, Table

UNKNOWN: Final = "-"
"""What a cell says where there is nothing to say."""


def labelled(table: Table, row: int) -> list[tuple[str, str]]:
    """The name of each column, and what the row has in it."""
    names = [column.name for column in table.columns]
    return list(zip(names, _texts(table, row), strict=True))


def row_line(table: Table, row: int) -> str:
    """One row on one line, without columns that say nothing."""
    return ", ".join(f"{name}: {text}" for name, text in labelled(table, row) if text != UNKNOWN)


def rows_csv(table: Table) -> str:
    """Every row, below the names of the columns (RFC 4180); empty where nothing is known."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(column.name for column in table.columns)
    for row in range(len(table)):
        writer.writerow(text or "" for text in known_texts(table, row))
    return out.getvalue()


def rows_json(table: Table) -> str:
    """A list of every row, by the names of the columns; null where nothing is known."""
    names = [column.name for column in table.columns]
    rows = (dict(zip(names, known_texts(table, row), strict=True)) for row in range(len(table)))
    return "[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]\n"


def known_texts(table: Table, row: int) -> list[str | None]:
    """What the row has in each column; None where nothing is known."""
    return [None if text == UNKNOWN else text for text in _texts(table, row)]


def _texts(table: Table, row: int) -> Sequence[str]:
    placed = [Placed(column, WIDE) for column in table.columns]
    return [" ".join(cell.text.split()) or UNKNOWN for cell in table.cells(row, placed)]
