"""What is in sight, written to a file: the table, or the screen as text or as a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from kshunt.backend.domain.text.formatting import many
from kshunt.tui.data.files import complete_path, deliver, new_file
from kshunt.tui.dialogs.form import FormField
from kshunt.tui.dialogs.save_file import SaveFileScreen
from kshunt.tui.tables.model import Table
from kshunt.tui.tables.parquet import rows_parquet
from kshunt.tui.tables.row_texts import rows_csv, rows_json
from kshunt.tui.terminal.downloads import Downloads, download_name
from kshunt.tui.text.picture import portable


def export_screen(
    name: str, table: Table | None, screen: Sequence[str], svg: str, downloads: Downloads | None
) -> SaveFileScreen:
    """Asks where to write; what the name ends in is the format.

    Args:
        name: the proposed name. It has no ending.
        table: the table of the view. It has all rows. None: there is no table.
        screen: the lines of the screen.
        svg: the screen as Textual draws it.
        downloads: of a dashboard in a browser.
    """
    formats: dict[str, Callable[[], str | bytes]] = {}
    if table is not None:
        formats = {
            ".csv": partial(rows_csv, table),
            ".json": partial(rows_json, table),
            ".parquet": partial(rows_parquet, table),
        }
    formats |= {".txt": lambda: "\n".join(screen), ".svg": lambda: portable(svg)}
    lines = ["The screen: .txt as text, .svg as a picture."]
    if table is not None:
        rows = many(len(table), "row")
        lines.insert(0, f"The table ({rows}): .csv or .json in words, .parquet in figures.")
    endings = tuple(formats)
    proposed = f"{name}{endings[0]}"
    if downloads is not None:
        hint = "what it ends in is the format"
        named = partial(download_name, endings=endings)
        field = FormField("Download", proposed, hint, named)
        keys = "Enter downloads it, Esc downloads nothing"
    else:
        hint = "a new file; what it ends in is the format"
        parse = partial(new_file, formats=endings)
        field = FormField("File", proposed, hint, parse, complete_path, reads=True)
        keys = "Enter writes it, Tab completes, Esc writes nothing"
    write = partial(_write, formats, downloads)
    return SaveFileScreen("Export", tuple(lines), field, write, keys=keys)


def _write(
    formats: Mapping[str, Callable[[], str | bytes]], downloads: Downloads | None, path: Path
) -> None:
    """Make the file's content and write it.

    Raises:
        BadInput: the file is there already, or cannot be written.
    """
    deliver(formats[path.suffix](), path, downloads)
