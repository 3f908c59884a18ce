"""Tables of the code in Markdown, as the README has them."""

from __future__ import annotations

from kshunt.backend.domain.operations.lifecycle import STEPS
from kshunt.backend.domain.pipeline.result_columns import TABLES, ResultTable
from kshunt.backend.domain.replicas.stuck_causes import CAUSE_TEXTS
from tests.support.shrink.phase_table import PHASES


def steps_table() -> str:
    """`STEPS` as a Markdown table, one row a step name; the README's own."""
    lines = [
        "| step | from | to | requires | does | is seen by | is undone by |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(step.name for step in STEPS):
        same = [step for step in STEPS if step.name == name]
        one = same[0]
        sources = ", ".join(step.source.value for step in same)
        cells = (name, sources, one.target.value)
        words = (one.precondition, one.effect, one.observe, one.undo)
        lines.append("| " + " | ".join((*cells, *words)) + " |")
    return "\n".join(lines)


def phases_table() -> str:
    """`PHASES` as a Markdown table, one row a phase."""
    lines = [
        "| phase | requires | does | is seen by | is undone by | goes on after a crash |",
        "|---|---|---|---|---|---|",
    ]
    for one in PHASES:
        cells = (one.phase, one.precondition, one.effect, one.observe, one.undo, one.resume)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cause_table() -> str:
    """The README's table of causes, in Markdown, in the order in which they are looked for."""
    lines = ["| cause | what is so | what to do |", "|---|---|---|"]
    lines += [
        f"| `{cause.key}` | {about.reason} | {about.action or 'nothing'} |"
        for cause, about in CAUSE_TEXTS.items()
    ]
    return "\n".join(lines)


def tables_markdown() -> str:
    """The README's tables of results, in Markdown."""
    return "\n\n".join(_table_markdown(table) for table in TABLES)


def _table_markdown(table: ResultTable) -> str:
    lines = [
        f"**`{table.name}`**: one row is {table.row}; it lies under the hour of `{table.hour_of}`.",
        "",
        "| column | type | unit | meaning |",
        "|---|---|---|---|",
    ]
    lines += [f"| `{c.name}` | {c.type.value} | {c.unit} | {c.meaning} |" for c in table.columns]
    return "\n".join(lines)
