"""Lines of the audit: their bodies, their order, what cannot be read, and what a reader sees."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from datetime import timedelta, timezone
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from kshunt.backend.api.request_models.reassignments import CancelRequestModel, ReassignRequestModel
from kshunt.backend.api.schema.audit import AuditEntries, as_json
from kshunt.backend.domain.audit.lines import (
    LISTED_MAX,
    OUTCOME_MAX,
    AuditEntry,
    AuditEvent,
    AuditRow,
    Touched,
    UnreadableAudit,
    audit_key,
    read_line,
    selected,
)
from kshunt.backend.domain.audit.report import (
    as_markdown,
    as_text,
    escaped,
    fitted,
    local_time,
    one_line,
    utc_time,
    width_cells,
)
from kshunt.backend.domain.audit.requester_limits import REASON_MAX, WHO_MAX
from kshunt.backend.domain.backend.journal import UnreadableReason
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.operation import OperationKind
from kshunt.backend.domain.untrusted.json_codec import from_document, to_document
from kshunt.backend.errors import BadInput
from kshunt.backend.operations.audit.lines import CLOCK_SET_MS, NUMBER_MAX, next_number, read_audit
from kshunt.backend.operations.journal.entries import Entry, EntryHeader, JournalState, Unreadable
from kshunt.backend.operations.journal.replay import JournalReplay
from tests.support.access.keys import KEYS

NOW_MS = 1_800_000_000_123
HEADER = EntryHeader("cluster", "one", NOW_MS)
NASTY = (
    "a|b `code` \\| <!-- hide --> <b>x</b> [link](http://x) ![i](j) **bold** _it_ ~~no~~ $x$\n"
    "| new | row | &amp; \r\n# head\x1b[2J\x00\x7f\x9b\u202eesrever\u2066\u200b\u2028"
    "\U000e0041\ufeff\u3164\u2800"
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
topics = st.text("abz._-09", min_size=1, max_size=20)
partitions = st.builds(TopicPartition, topics, st.integers(0, 2**31 - 1))
touched = st.builds(
    Touched.of,
    brokers=st.lists(st.integers(0, 2**31 - 1), max_size=3),
    topics=st.lists(topics, max_size=3),
    partitions=st.lists(partitions, max_size=3),
    throttles=st.lists(texts, max_size=2),
)
entries = st.builds(
    AuditEntry,
    st.integers(1_000_000_000_000, 9_999_999_999_999),
    st.integers(0, 999_999_999),
    st.sampled_from(AuditEvent),
    operation_id=st.text("abc-_019", max_size=64),
    kind=st.sampled_from([*map(str, OperationKind), ""]) | texts,
    who=texts,
    reason=texts,
    touched=touched,
    outcome=texts,
    backend=texts,
)


def line(number: int = 0, **fields: Any) -> AuditEntry:
    given: dict[str, Any] = {
        "operation_id": f"op-{number}",
        "kind": "reassign",
        "who": "ada@bastion",
        "reason": "disk full on 3",
        "touched": Touched.of(brokers=[3, 1], partitions=[TopicPartition("a", 0)]),
        "outcome": "done",
        "backend": "b1",
    }
    return AuditEntry(NOW_MS, number, AuditEvent.ENDED, **(given | fields))


def state_of(*rows: AuditEntry, **unreadable: Unreadable) -> JournalState:
    """What a log holds that these were written to, and what else is there."""
    fold = JournalReplay(HEADER.cluster_id, KEYS)
    for row in rows:
        for record in fold.records({row.key: row.body()}, HEADER):
            fold.take(*record)
    state = fold.state()
    return JournalState(state.entries, {one.key: one for one in unreadable.values()})


def read(entry: Entry) -> AuditRow:
    return read_line(entry.key, entry.body)


def stored(body: Mapping[str, Any], key: str = audit_key(NOW_MS, 0)) -> Entry:
    return Entry(key, json.loads(json.dumps(body)), HEADER)


# --- bodies


@given(st.lists(entries, max_size=3, unique_by=lambda entry: entry.key))
@example([line(touched=Touched.of(brokers=range(99), topics=map(str, range(99))))])
def test_what_was_written_is_read_in_order(written: list[AuditEntry]) -> None:
    expected = tuple(sorted(written, key=lambda entry: (entry.time_ms, entry.number)))
    assert read_audit(state_of(*written)) == expected
    document = json.loads(json.dumps(to_document(AuditEntries.of(expected, "c"))))
    assert from_document(AuditEntries, document).rows() == expected
    assert json.loads(as_json(expected, "c")) == document
    assert document["cluster_id"] == "c"


@given(
    st.lists(partitions, max_size=40),
    st.lists(st.integers(0, 99), max_size=60),
    st.lists(st.text("ab", max_size=2), max_size=40),
)
def test_what_was_touched_is_counted_whole_and_listed_in_part(
    parts: list[TopicPartition], brokers: list[int], throttles: list[str]
) -> None:
    found = Touched.of(brokers=brokers, partitions=parts, throttles=throttles)
    assert found.broker_count == len(set(brokers))
    assert found.partition_count == len(set(parts))
    assert found.topic_count == len({part.topic for part in parts})
    assert found.throttle_count == len(throttles)
    assert found.partitions == tuple(sorted(set(parts))[:LISTED_MAX])
    listed = (found.brokers, found.topics, found.partitions, found.throttles)
    assert max(map(len, listed)) <= LISTED_MAX


def test_what_was_touched_in_words() -> None:
    assert str(Touched()) == ""
    assert Touched().details() == ()
    many = Touched.of(
        brokers=range(25),
        partitions=[TopicPartition("a", 1)],
        throttles=["broker 3 leader rate: none → 50 MB/s"],
    )
    assert str(many) == "25 brokers, 1 topic, 1 partition, 1 throttle"
    brokers, topic, partition, throttle = many.details()
    assert brokers.startswith("25 brokers: 0, 1, 2, ")
    assert brokers.endswith("19 and 5 more")
    assert (topic, partition) == ("1 topic: a", "1 partition: a-1")
    assert throttle == "1 throttle: broker 3 leader rate: none → 50 MB/s"
    assert Touched(partition_count=7).details() == ("7 partitions: 7 more",)


def test_texts_that_are_too_long_or_no_text_are_cut_when_written() -> None:
    long = line(who="w" * 300, reason="r" * 3_000, outcome="o" * 9_000, backend="\ud800b")
    (read,) = read_audit(state_of(long))
    assert isinstance(read, AuditEntry)
    assert (len(read.who), len(read.reason), len(read.outcome)) == (
        WHO_MAX,
        REASON_MAX,
        OUTCOME_MAX,
    )
    assert read.reason.endswith("r…")
    assert read.backend == "?b"
    assert read_audit(state_of(read)) == (read,)


def test_a_place_that_cannot_be_is_refused() -> None:
    for time_ms, number in ((-1, 0), (NOW_MS, -1), (10**13, 0)):
        with pytest.raises(BadInput):
            _ = AuditEntry(time_ms, number, AuditEvent.STARTED).key


def test_the_limits_are_those_of_the_api() -> None:
    for model in (ReassignRequestModel, CancelRequestModel):
        fields = model.model_json_schema()["properties"]
        assert (fields["who"]["maxLength"], fields["reason"]["maxLength"]) == (WHO_MAX, REASON_MAX)
        assert (fields["who"]["default"], fields["reason"]["default"]) == ("", "")


DAMAGES: Mapping[str, Mapping[str, Any]] = {
    "format is not a value that ever existed": {"format": 0},
    "format is not a value that ever": {"format": "1"},
    "event is unknown": {"event": "exploded"},
    "event is unk": {"event": ["ended"]},
    "who is not a text": {"who": None},
    "who is not a text of at most 200": {"who": "w" * 201},
    "reason is not a text": {"reason": "\ud800"},
    "operation_id is not a text": {"operation_id": 3},
    "mood is a field that this kshunt does not know": {"mood": "good"},
    "touched is not a JSON object": {"touched": []},
    "touched.brokers is missing": {"touched": {}},
}


@pytest.mark.parametrize("problem", DAMAGES)
def test_a_body_that_is_not_understood_is_listed_and_says_why(problem: str) -> None:
    found = read(stored({**line().body(), **DAMAGES[problem]}))
    assert isinstance(found, UnreadableAudit)
    assert found.why is UnreadableReason.DAMAGED
    assert problem in found.detail
    assert found.time_ms == NOW_MS


TOUCHED_DAMAGES: Mapping[str, Any] = {
    "brokers": [[True], ["1"], [-1], [2**31], "1", [1] * (LISTED_MAX + 1)],
    "broker_count": [-1, 1.0, True, None, 1],
    "topics": [[1], ["x" * 250], {"a": 1}],
    "partitions": [["a-0"], [["a"]], [["a", "0"]], [[0, "a"]], [["a", 0, 1]]],
    "throttles": [["x"], "x"],
    "colour": ["red"],
}


@pytest.mark.parametrize("name", TOUCHED_DAMAGES)
def test_damage_in_what_was_touched_is_named(name: str) -> None:
    whole = line().body()
    for value in TOUCHED_DAMAGES[name]:
        found = read(stored({**whole, "touched": {**whole["touched"], name: value}}))
        assert isinstance(found, UnreadableAudit), value
        assert f"touched.{name.removesuffix('s')}" in found.detail


@pytest.mark.parametrize("name", line().body())
def test_no_field_may_be_missing(name: str) -> None:
    body = {other: value for other, value in line().body().items() if other != name}
    found = read(stored(body))
    assert isinstance(found, UnreadableAudit)
    assert f"{name} is missing" in found.detail


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*line().body(), "x"]), json_values))
@example({"event": {}})
def test_no_body_breaks_the_reader(fields: dict[str, Any]) -> None:
    for body in (fields, {**line().body(), **fields}):
        found = read(stored(body))
        assert isinstance(found, AuditEntry | UnreadableAudit)
        assert read(stored(body, "audit/x")) == UnreadableAudit(
            "audit/x", None, UnreadableReason.FOREIGN, "Its key is not the key of an audit entry."
        )


def test_a_newer_format_is_newer_whatever_else_it_holds() -> None:
    found = read(stored({"format": 2, "novelty": 1}))
    assert isinstance(found, UnreadableAudit)
    assert found.why is UnreadableReason.NEWER
    assert "upgrade" in found.detail


# --- what cannot be read is listed


BROKEN = Unreadable(
    audit_key(NOW_MS, 1), UnreadableReason.DAMAGED, "Its digest does not match its content."
)
ALIEN = Unreadable("audit/not-a-key", UnreadableReason.FOREIGN, "It has a kind that is not known.")
OTHER = Unreadable("operation/x", UnreadableReason.DAMAGED, "It is not JSON.")


def test_unreadable_entries_stand_among_the_others_and_survive_json() -> None:
    state = state_of(line(0), line(2), a=BROKEN, b=ALIEN, c=OTHER)
    rows = read_audit(state)
    alien = UnreadableAudit(ALIEN.key, None, ALIEN.why, ALIEN.detail)
    broken = UnreadableAudit(BROKEN.key, (NOW_MS, 1), BROKEN.why, BROKEN.detail)
    assert rows == (alien, line(0), broken, line(2))
    assert from_document(AuditEntries, json.loads(as_json(rows, "c"))).rows() == rows


def test_a_client_reads_the_lines_of_a_newer_backend() -> None:
    document = to_document(AuditEntries.of([line(), *read_audit(state_of(a=BROKEN))], "c"))
    document["entries"][0]["novelty"] = 1
    document["entries"][1]["unreadable"] = "haunted"
    first, second = from_document(AuditEntries, document).rows()
    assert isinstance(first, UnreadableAudit)
    assert "novelty" in first.detail
    assert isinstance(second, UnreadableAudit)
    assert second.why is UnreadableReason.NEWER
    document["entries"][0]["key"] = "audit/?"
    assert isinstance(from_document(AuditEntries, document).rows()[0], UnreadableAudit)


def test_filters_keep_what_may_belong() -> None:
    early, late = AuditEntry(NOW_MS - 5, 0, AuditEvent.STARTED, operation_id="x"), line(0)
    rows = read_audit(state_of(early, late, a=BROKEN, b=ALIEN))
    alien, _, _, broken = rows
    assert selected(rows) == rows
    assert selected(rows, since_ms=NOW_MS) == (alien, late, broken)
    assert selected(rows, until_ms=NOW_MS) == (alien, early)
    assert selected(rows, operation_id="x") == (alien, early, broken)
    assert selected(rows, since_ms=NOW_MS + 1) == (alien,)


# --- numbers


@given(
    st.lists(st.integers(-3 * CLOCK_SET_MS, 3 * CLOCK_SET_MS), max_size=12),
    st.lists(st.tuples(st.integers(NOW_MS, NOW_MS + 1), st.integers(0, 3)), max_size=4),
)
def test_keys_never_collide_and_go_back_only_where_the_clock_was_wrong(
    steps: list[int], broken: list[tuple[int, int]]
) -> None:
    holes = {
        f"n{n}": Unreadable(audit_key(*place), UnreadableReason.DAMAGED, "")
        for n, place in enumerate(broken)
    }
    rows: list[AuditEntry] = []
    for step in steps:
        time_ms = NOW_MS + step
        place = next_number(state_of(*rows, **holes), time_ms)
        known = {*broken, *((row.time_ms, row.number) for row in rows)}
        assert place not in known
        assert place > max((p for p in known if p[0] <= time_ms + CLOCK_SET_MS), default=(0, 0))
        assert time_ms <= place[0] <= time_ms + CLOCK_SET_MS + 1
        rows.append(AuditEntry(*place, AuditEvent.STARTED))


def test_numbers_within_a_millisecond_and_beyond() -> None:
    state = state_of(line(0), line(1))
    assert next_number(state, NOW_MS) == (NOW_MS, 2)
    assert next_number(state, NOW_MS - 1) == (NOW_MS, 2)
    assert next_number(state, NOW_MS + 1) == (NOW_MS + 1, 0)
    assert next_number(state, NOW_MS, after=(NOW_MS, 2)) == (NOW_MS, 3)
    full = state_of(line(NUMBER_MAX))
    assert next_number(full, NOW_MS) == (NOW_MS + 1, 0)
    assert next_number(JournalState(), NOW_MS) == (NOW_MS, 0)


# --- words


def seen(text: str) -> bool:
    """Whether a text is one line of characters that all can be seen."""
    unseen = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    return all(unicodedata.category(c) not in unseen for c in text)


def cells_of(markdown: str) -> list[list[str]]:
    """The rows of the document's one table as a reader of Markdown sees them."""
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(markdown)
    rows: list[list[str]] = []
    for before, token in pairwise(tokens):
        if before.type == "tr_open":
            rows.append([])
        if before.type in ("th_open", "td_open"):
            assert {child.type for child in token.children or ()} <= {"text", "text_special"}
            rows[-1].append("".join(child.content for child in token.children or ()))
    return rows


@given(st.lists(entries, min_size=1, max_size=2), st.text(max_size=30))
@example([line(reason=NASTY, who=NASTY[:150], outcome=NASTY, operation_id=NASTY)], NASTY)
def test_no_text_breaks_the_table_or_hides_in_it(rows: list[AuditEntry], cluster_id: str) -> None:
    report = as_markdown(rows, cluster_id)
    assert all(seen(text) for text in report.split("\n"))
    table = cells_of(report)
    assert len(table) == len(rows) + 1
    assert {len(cells) for cells in table} == {7}
    for row, cells in zip(rows, table[1:], strict=True):
        assert cells[:2] == [utc_time(row.time_ms), row.event]
        reason = one_line(row.reason).strip()
        if len(reason) <= 100:
            assert cells[4].split() == (reason or "-").split()
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(report)
    assert not {token.type for token in tokens} & {"html_block", "fence", "code_block", "hr"}
    assert sum(token.type == "heading_open" for token in tokens) <= 3


def test_nothing_of_a_nasty_reason_is_lost() -> None:
    (row,) = cells_of(as_markdown([line(reason=NASTY[:90])], "c"))[1:]
    assert row[4] == one_line(NASTY[:90]).strip()
    shown = one_line(NASTY)
    assert "\n" not in shown
    for sign in ("[U+001B]", "[U+0000]", "[U+007F]", "[U+009B]", "[U+202E]", "[U+2066]"):
        assert sign in shown
    for sign in ("[U+200B]", "[U+E0041]", "[U+FEFF]", "[U+3164]", "[U+2800]"):
        assert sign in shown
    assert shown.count("⏎") == 3
    assert one_line("50\u00a0% ☃️ e\u0301 日本") == "50 % ☃️ e\u0301 日本"
    assert escaped("a_b|c`d") == "a\\_b&#124;c&#96;d"


def test_a_long_text_is_folded_out_below_the_table() -> None:
    long = "because " * 100
    report = as_markdown([line(reason=long), line(1, reason="x", outcome=long)], "c_1")
    assert (
        "- Cluster: c\\_1\n- Span: 2027-01-15T08:00:00.123Z to 2027-01-15T08:00:00.123Z" in report
    )
    assert "- Entries: 2, and 0 that cannot be read" in report
    first, second = cells_of(report)[1:]
    assert first[4].endswith("… (text 1)")
    assert second[6].endswith("… (text 2)")
    assert len(first[4]) < 120
    assert first[5] == "2 brokers: 1, 3; 1 topic: a; 1 partition: a-0"
    many = line(touched=Touched.of(brokers=range(90), topics="a"))
    (row,) = cells_of(as_markdown([many], "c"))[1:]
    assert row[5] == "90 brokers, 1 topic (text 1)"
    assert "- **Text 1**: 90 brokers: 0, 1, 2, " in as_markdown([many], "c")
    assert f"- **Text 1**: {long.strip()}" in report
    assert f"- **Text 2**: {long} (backend b1)" in report


def test_unreadable_entries_have_a_section_of_their_own() -> None:
    rows = read_audit(state_of(line(), a=BROKEN, b=ALIEN))
    report = as_markdown(rows, "c")
    assert "- Entries: 1, and 2 that cannot be read" in report
    assert "- unknown time, audit/not-a-key, foreign: It has a kind" in report
    assert f"- {utc_time(NOW_MS)}, {BROKEN.key}, damaged: Its digest" in report
    assert as_markdown([], "c").endswith("- Entries: 0, and 0 that cannot be read\n\nNo entries.\n")
    assert "- Span: none" in as_markdown([], "c")


EAST = timezone(timedelta(hours=5, minutes=45))


def test_a_terminal_gets_a_line_an_entry_in_its_own_time() -> None:
    rows: list[AuditRow] = [
        *read_audit(state_of(line(), a=BROKEN, b=ALIEN)),
        AuditEntry(NOW_MS + 1, 0, AuditEvent.DRIFT_FOUND),
    ]
    alien, first, broken, second = as_text(rows, zone=EAST).split("\n")
    assert first == (
        "2027-01-15 13:45:00+05:45  ended        ada@bastion  reassign op-0 · 2 brokers, "
        "1 topic, 1 partition · “disk full on 3” · done"
    )
    assert alien.startswith("unknown time               unreadable entry audit/not-a-key: foreign")
    assert broken.startswith("2027-01-15 13:45:00+05:45  unreadable entry audit/18000000")
    assert second == "2027-01-15 13:45:00+05:45  drift_found  -"
    assert as_text([]) == ""
    assert local_time(NOW_MS, EAST) == "2027-01-15 13:45:00+05:45"


@given(st.lists(entries, max_size=2), st.integers(0, 120))
@example([line(reason=NASTY, who=NASTY, outcome=NASTY, kind=NASTY)], 80)
@example([line(reason="日本語" * 40, who="日本語" * 9)], 81)
def test_a_line_never_leaves_the_terminal(rows: list[AuditEntry], width: int) -> None:
    whole = as_text(rows).split("\n") if rows else []
    cut = as_text(rows, width=width).split("\n") if rows else []
    assert len(whole) == len(cut) == len(rows)
    for full, short in zip(whole, cut, strict=True):
        assert seen(full)
        assert width_cells(short) <= width
        assert short == full or short.endswith("…") or width == 0


def test_what_is_cut_is_marked() -> None:
    assert fitted("日本語", 5) == "日本…"
    assert fitted("日本語", 4) == "日…"
    assert fitted("abc", 3) == "abc"
    assert fitted("e\u0301e\u0301e\u0301", 2) == "e\u0301…"
