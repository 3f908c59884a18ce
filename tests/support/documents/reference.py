"""The pages of docs/reference: each is made from the code, by one function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from kshunt.backend.cli.commands import COMMANDS
from kshunt.backend.commandline.exit_codes import KAFKA_MEANINGS, MEANINGS
from kshunt.backend.domain.text.formatting import listed
from kshunt.backend.limits import LIMITS
from kshunt.backend.settings import RecordingSettings, SamplerSettings
from kshunt.tui.actions import key_table
from tests.support.documents import code_tables
from tests.support.documents.command_help import help_pages
from tests.support.documents.http_routes import routes_table
from tests.support.paths import ROOT

FOLDER: Final = ROOT / "docs" / "reference"
COMMAND: Final = "python -m tests.support.documents"
NOTE: Final = f"<!-- `{COMMAND}` makes this page from the code. Do not edit it. -->"


def pages() -> Iterator[tuple[Path, str]]:
    """Each page's file, and what belongs into it."""
    for name, make in _PAGES.items():
        yield FOLDER / name, f"{make().strip()}\n"


def _page(title: str, introduction: str, *parts: str) -> str:
    return "\n\n".join((f"# {title}", NOTE, introduction.strip(), *parts))


def _keys() -> str:
    return _page(
        "Keys",
        """
Press `?` in the dashboard for the keys of the view that you see.
Press `:` to find an action by its name.
[The settings file](../screens.md#settings) gives an action other keys.
""",
        key_table(),
    )


def _stuck_causes() -> str:
    return _page(
        "Stuck causes",
        """
kshunt names one cause for each replica that does not come nearer to its leader.
It looks for the causes in the order of this table, and names the first one that holds.
A replica counts as stuck if somebody must act before it can arrive.
The first column is the value of `cause` in the API and in samples.
[Troubleshooting](../troubleshooting.md#a-replica-is-stuck) says where the dashboard shows it.
""",
        code_tables.cause_table(),
    )


def _operation_states() -> str:
    return _page(
        "Operation states",
        """
An operation is one change that kshunt makes to the cluster. Its state is in the journal.
A state says what was begun. What holds is observed in the cluster.
""",
        "## States",
        code_tables.states_table(),
        "## Steps",
        """\
These are all legal steps between states.
A backend writes a step to the journal before it does the effect.
After a crash another backend repeats the effect and continues.""",
        code_tables.steps_table(),
    )


def _shrink_phases() -> str:
    return _page(
        "Shrink phases",
        """
A shrink on Apache Kafka goes through these phases. Each phase is in the journal before its effect.
[The task page](../tasks/shrink.md) says what you do in each of them.
""",
        code_tables.phases_table(),
    )


def _result_tables() -> str:
    return _page(
        "Result tables",
        """
`kshunt pipeline` makes these tables from recorded samples, as Parquet. Times are in UTC.
Null means unknown or not applicable. It never means zero.
[The page about the pipeline](../operating/pipeline.md) says how they are made.
""",
        code_tables.result_tables(),
    )


def _sample_columns() -> str:
    return _page(
        "Sample columns",
        """
A backend with `--samples` or `--samples-topic` records these columns.
[The page about samples](../operating/samples.md) says where the files are and which of them count.
""",
        code_tables.sample_tables(),
    )


def _limits() -> str:
    return _page(
        "Limits and intervals",
        """
These values are constants of the code (`backend/limits.py` and `backend/settings.py`).
Units are the end of a name: `_s` is seconds.
""",
        "## Limits",
        code_tables.settings_table(LIMITS),
        "## How often the cluster is asked",
        code_tables.settings_table(SamplerSettings()),
        "## How samples are recorded",
        code_tables.settings_table(RecordingSettings()),
    )


def _command_line() -> str:
    return _page(
        "Command line",
        """
This is what each command prints with `--help`.
[Settings](../operating/settings.md) says how a file or a variable gives a flag.
""",
        help_pages(),
    )


def _exit_codes() -> str:
    return _page(
        "Exit codes",
        """
Each command ends with one of these codes. `kshunt help exit-codes` prints them too.
[The command line](command-line.md) says what a code means for a command of its own.
""",
        "## Commands of kshunt",
        code_tables.codes_table(MEANINGS),
        "## Kafka's tools",
        f"These are {listed(f'`{n}`' for n, one in COMMANDS.items() if one.kafka)}.\n"
        "They keep Kafka's words for a wrong command line, and its code.",
        code_tables.codes_table(KAFKA_MEANINGS),
    )


def _http_routes() -> str:
    return _page(
        "HTTP routes",
        """
`GET /openapi.json` describes each request and answer in full.
A role may do all that the roles before it may: `viewer`, `operator`, `admin`.
[The page about the API](../operating/http-api.md) explains what the routes have in common.
""",
        routes_table(),
    )


def _errors() -> str:
    return _page(
        "Errors",
        """
An error of a whole request is a problem document (RFC 9457) with this title and HTTP status.
It says what happened, what state the cluster is in, and what to do.
Results of single items have Kafka's own codes.
A request that may be retried can succeed if you send it again.
""",
        code_tables.errors_table(),
    )


def _metrics() -> str:
    return _page(
        "Metrics",
        """
`GET /metrics` has these metrics in Prometheus' text format. It needs the role `viewer`.
Metrics of the cluster appear once the backend has seen it.
[The page about metrics](../operating/metrics.md) has a scrape configuration and alerts.
""",
        code_tables.metrics_table(),
    )


def _scenarios() -> str:
    return _page(
        "Scenarios",
        """
A scenario is a cluster with topics, traffic and events. `kshunt demo --scenario NAME` plays one.
[The page about the embedded cluster](../embedded-cluster.md) says how to write your own.
""",
        code_tables.scenario_table(),
    )


_PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "command-line.md": _command_line,
    "errors.md": _errors,
    "exit-codes.md": _exit_codes,
    "http-routes.md": _http_routes,
    "keys.md": _keys,
    "limits.md": _limits,
    "metrics.md": _metrics,
    "operation-states.md": _operation_states,
    "result-tables.md": _result_tables,
    "sample-columns.md": _sample_columns,
    "scenarios.md": _scenarios,
    "shrink-phases.md": _shrink_phases,
    "stuck-causes.md": _stuck_causes,
}
