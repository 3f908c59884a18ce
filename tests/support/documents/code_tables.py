"""Tables in Markdown of what the code knows: states, causes, columns, settings, errors, metrics."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from kshunt.backend import errors
from kshunt.backend.commandline.exit_codes import ExitCode, KafkaExitCode
from kshunt.backend.domain.operations.lifecycle import STEPS, OperationState
from kshunt.backend.domain.pipeline.result_columns import ResultTable
from kshunt.backend.domain.pipeline.roll_up_columns import ALL_TABLES
from kshunt.backend.domain.pipeline.sample_columns import (
    BROKER_SAMPLES,
    FORECAST_SAMPLES,
    REPLICA_SAMPLES,
    SampleColumn,
)
from kshunt.backend.domain.replicas.stuck_causes import CAUSE_TEXTS
from kshunt.backend.embedded.scenario.model import scenario_names
from kshunt.backend.embedded.scenario.reading import load_scenario
from kshunt.backend.errors import KshuntError
from kshunt.backend.limits import Limits
from kshunt.backend.settings import RecordingSettings, SamplerSettings
from tests.support.paths import ROOT
from tests.support.shrink.phase_table import PHASES


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines)


def states_table() -> str:
    """Each state of an operation, and whether it is an end."""
    words = attribute_docstrings(ROOT / "backend/domain/operations/lifecycle.py", "OperationState")
    rows = (
        (f"`{state.value}`", words.get(state.name, ""), "yes" if state.ended else "no")
        for state in OperationState
    )
    return table(("State", "Meaning", "End"), rows)


def steps_table() -> str:
    """`STEPS`, one row a step name."""
    rows = []
    for name in dict.fromkeys(step.name for step in STEPS):
        same = [step for step in STEPS if step.name == name]
        one = same[0]
        sources = ", ".join(step.source.value for step in same)
        cells = (f"`{name}`", sources, one.target.value)
        rows.append((*cells, one.precondition, one.effect, one.observe, one.undo))
    head = ("Step", "From", "To", "Requires", "Effect", "Observed by", "Undone by")
    return table(head, rows)


def phases_table() -> str:
    """`PHASES`, one row a phase."""
    rows = (
        (f"`{one.phase}`", one.precondition, one.effect, one.observe, one.undo, one.resume)
        for one in PHASES
    )
    head = ("Phase", "Requires", "Effect", "Over when", "Undone by", "After a crash")
    return table(head, rows)


def cause_table() -> str:
    """Causes of stuck replicas, in the order in which they are looked for."""
    rows = (
        (
            f"`{cause.key}`",
            about.short,
            about.reason,
            about.action or "Nothing.",
            "yes" if cause.is_stuck else "no",
        )
        for cause, about in CAUSE_TEXTS.items()
    )
    return table(("Cause", "On the screen", "Condition", "Action", "Stuck"), rows)


def scenario_table() -> str:
    """The scenarios that come with kshunt."""
    rows = ((f"`{name}`", load_scenario(name).title) for name in scenario_names())
    return table(("Scenario", "What it shows"), rows)


def result_tables() -> str:
    """The tables of the pipeline's results."""
    return "\n\n".join(_result_table(each) for each in ALL_TABLES)


def _result_table(found: ResultTable) -> str:
    rows = ((f"`{c.name}`", c.type.value, c.unit, c.meaning) for c in found.columns)
    kept = "keep-rates" if found.by_tick else "keep-results"
    return (
        f"## `{found.name}`\n\nOne row is {found.row}. Its hour is that of `{found.hour_of}`. "
        f"`--{kept}` says how long it is kept.\n\n"
        + table(("Column", "Type", "Unit", "Meaning"), rows)
    )


def sample_tables() -> str:
    """The columns of recorded samples."""
    return (
        f"## `replicas`\n\nOne row is a replica and a moment.\n\n{_samples(REPLICA_SAMPLES)}\n\n"
        f"## `brokers`\n\nOne row is a broker and a moment.\n\n{_samples(BROKER_SAMPLES)}\n\n"
        "## `forecasts`\n\nOne row is a forecast of an operation that has ended.\n\n"
        + _samples(FORECAST_SAMPLES)
    )


def _samples(columns: Iterable[SampleColumn]) -> str:
    rows = (
        (f"`{c.name}`", c.type.value, c.unit, "yes" if c.nullable else "no", c.meaning)
        for c in columns
    )
    return table(("Column", "Type", "Unit", "Null", "Meaning"), rows)


def settings_table(values: Limits | SamplerSettings | RecordingSettings) -> str:
    """The fields of a class of limits or settings with their defaults."""
    kind = type(values)
    words = attribute_docstrings(Path(inspect.getfile(kind)), kind.__name__)
    rows = (
        (f"`{name}`", _value(getattr(values, name)), meaning) for name, meaning in words.items()
    )
    return table(("Name", "Value", "Meaning"), rows)


def _value(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case int() | float():
            return f"{value:,}"
        case _:
            return ""


def codes_table(meanings: Mapping[ExitCode, str] | Mapping[KafkaExitCode, str]) -> str:
    """Exit codes."""
    return table(("Code", "Meaning"), ((str(int(code)), text) for code, text in meanings.items()))


def errors_table() -> str:
    """Each error with what an HTTP client sees of it."""
    found = sorted(_errors(KshuntError), key=lambda one: one.__name__)
    rows = (
        (
            f"`{one.__name__}`",
            one.title,
            str(one.http_status),
            "" if one.kafka_code == -1 else str(one.kafka_code),
            "yes" if one.retriable else "no",
            (one.__doc__ or "").splitlines()[0],
        )
        for one in found
    )
    return table(("Error", "Title", "HTTP", "Kafka code", "Retry", "Meaning"), rows)


def _errors(base: type[KshuntError]) -> Iterator[type[KshuntError]]:
    for one in base.__subclasses__():
        if one.__module__ == errors.__name__:
            yield one
            yield from _errors(one)


def metrics_table() -> str:
    """Each metric of `/metrics`: its name on the wire, its labels and its help."""
    tree = ast.parse((ROOT / "backend/api/core/metrics.py").read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    rows = [row for call in calls if (row := _metric(call)) is not None]
    return table(("Metric", "Type", "Label", "Meaning"), sorted(rows))


def _metric(call: ast.Call) -> tuple[str, str, str, str] | None:
    texts = [str(arg.value) for arg in call.args if isinstance(arg, ast.Constant)]
    if not texts or not texts[0].startswith("kshunt_"):
        return None
    name, words, *rest = texts
    match call.func:
        case ast.Name(id="CounterMetricFamily"):
            labels = "`hook`, `result`" if "webhook" in name else "`how`"
            return f"`{name}_total`", "counter", labels, words
        case ast.Name(id="_by"):
            return f"`{name}`", "gauge", f"`{rest[0]}`", words
        case _:
            return f"`{name}`", "gauge", "", words


def attribute_docstrings(path: Path, name: str) -> dict[str, str]:
    """The words below each attribute of a class, on one line, by the attribute."""
    found: dict[str, str] = {}
    body = _class(path, name).body
    for node, after in pairwise(body):
        match node, after:
            case (
                ast.Assign(targets=[ast.Name(id=field)]) | ast.AnnAssign(target=ast.Name(id=field)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[field] = " ".join(text.split())
            case _:
                pass
    return found


def _class(path: Path, name: str) -> ast.ClassDef:
    tree = ast.parse(path.read_text())
    return next(
        node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name
    )
