"""docs/conformance.md and docs/kip-differences.md, from the statements and the tests' marks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.conformance.statements import SEEDS, Difference, Statement, Status

DOCS: Final = Path(__file__).parent.parent.parent / "docs"
CONFORMANCE: Final = DOCS / "conformance.md"
DIFFERENCES: Final = DOCS / "kip-differences.md"
COMMAND: Final = "python -m tests.conformance"


def conformance(statements: Sequence[Statement], tests: Mapping[str, Sequence[str]]) -> str:
    """The list of statements, by seed and section."""
    counts = Counter(one.status for one in statements)
    states = ", ".join(f"{counts[state]} {state}" for state in Status if counts[state])
    head = f"""# Conformance to the KIPs

kshunt implements five Kafka Improvement Proposals (KIPs), which the project calls its seeds.
This list has every statement of theirs that demands something.
For each it names the code that does it and the tests that check it.
There are {len(statements)} statements: {states}.
[The table of differences](kip-differences.md) explains those that differ.

The list is generated from `tests/conformance/*.toml` and from the `conforms` marks of the tests.
Do not edit it. Run `{COMMAND}` after a change.
"""
    parts = [part for seed in SEEDS for part in _seed(seed, statements, tests)]
    return "\n".join([head, *parts])


def _seed(
    seed: str, statements: Sequence[Statement], tests: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    ours = [one for one in statements if one.seed == seed]
    yield f"## {SEEDS[seed]}\n"
    for section in dict.fromkeys(one.section for one in ours):
        yield f"### {section}\n"
        yield "| statement | the seed says | status | where | tests |\n|---|---|---|---|---|"
        for one in (one for one in ours if one.section == section):
            yield _row(one, tests.get(one.id, ()))
        yield ""


def _row(one: Statement, tests: Sequence[str]) -> str:
    name = one.id.partition(":")[2]
    status = str(one.status)
    if one.difference:
        status = f"[{status}](kip-differences.md#{one.difference})"
    if one.why:
        status += f": {one.why}"
    where = "<br>".join(f"`{place}`" for place in one.where)
    named = "<br>".join(f"`{test}`" for test in tests)
    return "| " + " | ".join((f"`{name}`", _cell(one.says), status, where, named)) + " |"


def table(differences: Sequence[Difference]) -> str:
    """The table of differences."""
    head = f"""# Where kshunt differs from the KIPs, and why

The KIPs are drafts, some contradict themselves, and Apache Kafka shipped only one of them.
This table lists every place where kshunt does something else than they say.
[The list of statements](conformance.md) has the rest.

The table is generated from `tests/conformance/differences.toml`.
A test checks that everything in its last column exists. Run `{COMMAND}` after a change.

| KIP | the KIP says | kshunt does | why | see |
|---|---|---|---|---|
"""
    return head + "".join(f"{_difference(one)}\n" for one in differences)


def _difference(one: Difference) -> str:
    where = f'<a id="{one.id}"></a>{one.seed}, {one.section}'
    names = "<br>".join(f"`{name.partition(' ')[2]}`" for name in one.names)
    cells = (where, _cell(one.says), _cell(one.does), _cell(one.why), names)
    return "| " + " | ".join(cells) + " |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
