"""The report of an operation: in words, in both formats, and where there is little to tell."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from html.parser import HTMLParser
from itertools import groupby
from pathlib import Path
from xml.etree import ElementTree

import pyarrow.parquet as pq
import pytest

from kshunt import __version__
from kshunt.backend.cli.report import main
from kshunt.backend.commandline.reading import UsageError
from kshunt.backend.delivered_files.result_files import UnreadableResults
from kshunt.backend.domain.pipeline.result_columns import (
    QUARANTINE_FILES,
    RATES,
    STALLS,
    ResultTable,
)
from kshunt.backend.pipeline.reports.formats import drawn
from kshunt.backend.pipeline.reports.markdown import escaped
from kshunt.backend.pipeline.reports.operation_history import (
    TICK_MS,
    copies_of,
    history_of,
    rows_of,
)
from kshunt.backend.pipeline.reports.operation_results import NoOperation, NoResults, read
from kshunt.backend.pipeline.reports.report_document import report
from kshunt.backend.pipeline.reports.visible_text import visible
from tests.support.pipeline.rates_reference import reference_rates
from tests.support.pipeline.recorded import START_MS, Row, time_of, write
from tests.support.pipeline.reported import OPERATION, TOPIC, arrow, moved, of_tables, write_results

GOLDEN = Path(__file__).with_name("pipeline-report.md")
NOW_MS = START_MS + 3_600_000
END_S = 420
GAP = (
    f'{{"from_ms": {START_MS + 250_000}, "to_ms": {START_MS + 262_000}, "why": "skipped", '
    '"text": "fell behind", "moments": 12}\n{"from_ms": 17953'
)
"""A gap, and a line that a crash has cut off."""


def recorded(
    folder: Path, samples: Sequence[Row], *, only: Iterable[ResultTable] | None = None
) -> Path:
    """A recording with its results."""
    write(folder, samples)
    tables = of_tables(samples, END_S)
    for table in tables if only is None else only:
        write_results(folder / "results", table, tables[table])
    return folder


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An operation that has ended."""
    folder = recorded(tmp_path_factory.mktemp("report"), moved())
    (folder / "gaps.jsonl").write_text(GAP)
    return folder


def markdown(folder: Path, now_ms: float = NOW_MS) -> str:
    document = report(read(OPERATION, folder, folder / "results"), now_ms)
    return drawn(document, ".md").replace(__version__, "VERSION")


def section(text: str, name: str) -> str:
    """What stands under a heading."""
    return text.partition(f"## {name}\n")[2].partition("\n## ")[0].strip()


def test_markdown_says_what_is_to_be_said(done: Path) -> None:
    text = markdown(done)
    if os.environ.get("KSHUNT_REWRITE_FRAMES"):
        GOLDEN.write_text(text, "utf-8")
    assert text == GOLDEN.read_text("utf-8"), f"the report is not as in {GOLDEN.name}"
    assert max(len(line) for line in section(text, "Progress").splitlines()) < 90


class Page(HTMLParser):
    """Elements, attributes and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_html_is_a_page_by_itself_on_which_no_name_is_markup(done: Path) -> None:
    text = drawn(report(read(OPERATION, done, done / "results"), NOW_MS), ".html")
    page = Page(text)
    assert not page.tags & {"b", "script", "link", "img", "iframe", "a"}
    assert not [name for name in page.attributes if name.startswith("on") or name == "href"]
    assert "default-src 'none'" in text
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert any(TOPIC in data for data in page.text)
    plots = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(plots) == 3
    for plot in plots:
        picture = ElementTree.fromstring(plot)
        assert picture.find("title") is not None
        drawn_points = [one.get("points") for one in picture.iter("polyline")]
        assert all(points and "nan" not in points for points in drawn_points)
    # Both formats are of one document.
    for words in ("all 4 copies are in the ISR", "brokers 4, 5 may fetch 40.0 MB/s each"):
        assert any(words in data for data in page.text)
        assert words in markdown(done)


def test_names_have_no_effect_and_hide_nothing() -> None:
    assert escaped("a|b_c<script>\n# d\x1b[2J") == r"a&#124;b\_c&lt;script&gt; \# d\[U+001B\]\[2J"
    assert visible("x\u202ey\u200bz") == "x[U+202E]y[U+200B]z"


# While it runs, and where something lacks


def test_of_one_that_runs_it_says_what_is_open_and_what_to_do(tmp_path: Path) -> None:
    samples = moved(until_s=300)
    write(tmp_path, samples)
    tables = dict(of_tables(samples, 10_000))
    tables[STALLS] = [row | {"open": True} for row in tables[STALLS]]
    for table, rows in tables.items():
        write_results(tmp_path / "results", table, rows)
    text = markdown(tmp_path, START_MS + 400_000)
    assert "0 of 4 copies in the ISR, 2.19 GB left, as of 2026-11-22 03:04:55 UTC (1m45s" in text
    todo = section(text, "What is left to do")
    assert "2 copies at a standstill" in todo
    assert "Start the broker, or cancel the move" in todo
    assert "raise from 40.0 MB/s to 60.0 MB/s" in todo
    assert "none of them can be judged" in section(text, "Forecasts of the end")


def test_copies_that_are_no_longer_seen_are_told_from_those_under_way(tmp_path: Path) -> None:
    samples = moved()
    last = samples[-1]["at"]
    rids = (101, 103)
    gone = [row for row in samples if row["rid"] not in rids or (last - row["at"]).seconds > 400]
    text = markdown(recorded(tmp_path, gone, only=[RATES]))
    assert "over: 2 of 4 copies in the ISR; the others were last seen at" in text
    assert section(text, "What is left to do").startswith("Nothing")


def test_tables_that_were_not_made_are_said_to_be_missing(tmp_path: Path) -> None:
    text = markdown(recorded(tmp_path, moved(), only=[RATES]))
    for name in ("Stalls", "Forecasts of the end", "Effect of the throttles"):
        assert "was not made" in section(text, name)
    assert section(text, "Gaps and data quality") == "The recorder noted no gap in that time."


def test_files_that_were_set_aside_are_named(tmp_path: Path) -> None:
    folder = recorded(tmp_path, moved(), only=[RATES])
    assert "set aside" not in markdown(folder)
    at = time_of(START_MS)
    line = {"start": at, "of": "replicas", "file": "replicas/x", "fault": "empty", "found": at}
    files = [line | {"detail": "", "size_bytes": 0, "file": f"replicas/{n:02}"} for n in range(12)]
    write_results(folder / "results", QUARANTINE_FILES, files)
    text = section(markdown(folder), "Gaps and data quality")
    assert "12 files of samples set aside; all results lack their rows:" in text
    assert "replicas/00: it is empty" in text
    assert "and 2 more files" in text


def test_an_operation_that_copied_nothing_is_told_so(tmp_path: Path) -> None:
    still = [row | {"in_isr": True, "adding": False} for row in moved(until_s=60)]
    text = markdown(recorded(tmp_path, still, only=[RATES]))
    assert "None of its replicas needed a copy" in text


def test_without_results_it_says_which_command_makes_them(tmp_path: Path) -> None:
    write(tmp_path, moved(until_s=60))
    with pytest.raises(NoResults) as failed:
        read(OPERATION, tmp_path, tmp_path / "results")
    assert failed.value.advice == (
        f"Make them: kshunt pipeline backfill --samples {tmp_path} "
        "--from 2026-11-22T03:00:00+00:00 --to 2026-11-22T04:00:00+00:00"
    )


def test_an_unknown_operation_is_answered_with_those_that_are_known(done: Path) -> None:
    with pytest.raises(NoOperation) as failed:
        read("op-0000", done, done / "results")
    assert OPERATION in failed.value.advice


def test_a_file_that_is_none_is_named(done: Path, tmp_path: Path) -> None:
    shutil.copytree(done, tmp_path / "copy")
    (path,) = (tmp_path / "copy" / "results" / "rates").rglob("*.parquet")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(UnreadableResults, match=path.name):
        read(OPERATION, tmp_path / "copy", tmp_path / "copy" / "results")


def test_what_another_operation_does_later_with_the_same_partitions_is_left_out(
    tmp_path: Path,
) -> None:
    samples = [
        row if row["at"].minute < 8 else row | {"operation_id": "later", "adding": True}
        for row in moved()
    ]
    text = markdown(recorded(tmp_path, samples, only=[RATES]))
    assert "Last arrival**: 2026-11-22 03:07:00 UTC" in text


# The command


def test_the_command_writes_a_file_and_loads_no_spark(done: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    command = f"main([{OPERATION!r}, '--samples', {str(done)!r}"
    code = (
        "import sys; from kshunt.backend.cli.report import main; "
        f"assert {command}, '--to', {str(target)!r}]) == 0; assert 'pyspark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    assert target.read_text("utf-8").startswith("<!doctype html>")


def test_a_target_of_another_kind_is_wrong_usage(done: Path) -> None:
    with pytest.raises(UsageError, match=r"must end in \.md or \.html"):
        main([OPERATION, "--samples", str(done), "--to", "report.pdf"])


# Computation


def test_course_and_copies_are_those_of_loops_over_rows() -> None:
    rates = reference_rates(moved())
    rows = rows_of(arrow(RATES.columns, rates))
    copies = copies_of(rows)
    history = history_of(rows, copies)
    by_rid: Mapping[int, list[Row]] = {
        rid: list(some) for rid, some in groupby(rates, key=lambda row: row["rid"])
    }
    added = {rid: some for rid, some in by_rid.items() if any(row["adding"] for row in some)}
    assert set(rows.rid[copies.row].tolist()) == set(added)
    for place, row in enumerate(copies.row.tolist()):
        some = added[int(rows.rid[row])]
        arrived = next(one["at"] for one in some if one["in_isr"])
        assert copies.arrived_ms[place] == arrived.timestamp() * 1000
        copied = [one for one in some if not one["in_isr"] or one["at"] == arrived]
        assert copies.bytes[place] == sum(one["copied_bytes"] or 0 for one in copied)
    # All that was copied is under the line of the rate.
    assert history.rate_bytes_per_s.sum() * TICK_MS / 1000 == pytest.approx(copies.bytes.sum())
    for at_ms, remaining in zip(history.at_ms, history.remaining_bytes, strict=True):
        seen = [
            [one for one in some if one["at"].timestamp() * 1000 < at_ms][-1]
            for some in added.values()
        ]
        left = [one["remaining_bytes"] for one in seen if not one["in_isr"]]
        assert remaining == pytest.approx(sum(left), abs=1)
    assert history.arrived[-1] == len(copies) == 4


def test_results_are_read_as_the_pipeline_writes_them(done: Path) -> None:
    (path,) = (done / "results" / "rates").rglob("*.parquet")
    assert pq.read_schema(path).names == list(RATES.names)
