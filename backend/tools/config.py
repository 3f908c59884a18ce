"""`kshunt config`: what the file and the environment say, and where each value comes from."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from kshunt.backend.addresses import without_secrets
from kshunt.backend.api.client.sending.credential import TOKEN
from kshunt.backend.commandline.cluster_flags import JSON
from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.commandline.nearest import near
from kshunt.backend.commandline.reading import read
from kshunt.backend.commandline.table import Command
from kshunt.backend.config_file import (
    CLIENT_VARIABLES,
    CONTEXT,
    Configuration,
    Setting,
    context_settings,
    load,
    serve_settings,
)
from kshunt.backend.tools.shared.console import run_tool, show_report
from kshunt.backend.tools.shared.output import ToolReport

COMMAND: Final = Command(
    ("config",),
    "Show the configuration in force; flags of a command override it.",
    (JSON,),
)


DEFAULT: Final = "default"
"""The source of a value that nobody has set."""


@dataclass(frozen=True, slots=True)
class OwnFile:
    """A settings file of a part of kshunt: the dashboard's."""

    path: str
    found: bool
    settings: tuple[Setting, ...] = ()
    """Every value, those that the file does not say included."""
    problem: str = ""
    """Why the file cannot be used."""


def main(
    argv: Sequence[str], dashboard: Callable[[Mapping[str, str]], OwnFile] | None = None
) -> int:
    """Run the tool; `dashboard` reads the dashboard's settings."""

    def show(argv: Sequence[str]) -> int:
        options = read(COMMAND, argv)
        if options is None:
            return ExitCode.DONE
        own = None if dashboard is None else dashboard(os.environ)
        return show_report(report(os.environ, own), as_json=options.json)

    return run_tool(COMMAND, show, argv, interrupted="Interrupted.")


def report(environment: Mapping[str, str], dashboard: OwnFile | None = None) -> ToolReport:
    """What is configured.

    Raises:
        ConfigError: the file is wrong, or names a context that is not there.
    """
    found = load(environment)
    chosen = environment.get(CONTEXT, "") or found.context
    meant = context_settings(found, environment)
    serve = serve_settings(found, environment)
    document: dict[str, Any] = {
        "file": str(found.path),
        "found": found.found,
        "context": chosen,
        "contexts": {name: _plain(settings) for name, settings in found.contexts.items()},
        "serve": _plain(serve),
        "client": {name: name in environment for name in (TOKEN, *CLIENT_VARIABLES.values())},
    }
    lines = [*_lines(found, chosen, meant, serve, environment)]
    problems = [*_odd(serve)]
    if dashboard is not None:
        document["dashboard"] = {
            "file": dashboard.path,
            "found": dashboard.found,
            "settings": _plain(dashboard.settings),
        }
        lines += _own_lines("dashboard", dashboard)
        problems += [dashboard.problem] if dashboard.problem else []
    text = "\n".join(lines)
    return ToolReport(text, {**document, "problems": problems}, problems=tuple(problems))


def _odd(serve: Iterable[Setting]) -> Iterator[str]:
    """What `kshunt serve` would refuse to understand."""
    from kshunt.backend.serve.command import flags

    known = flags()
    for setting in serve:
        if setting.name not in known:
            hint = near(setting.name, known, "See kshunt serve --help.")
            yield f"{setting.source}: '{setting.name}' is not an option of kshunt serve. {hint}"


def _plain(settings: Iterable[Setting]) -> dict[str, Any]:
    return {each.name: {"value": _shown(each), "source": each.source} for each in settings}


def _lines(
    found: Configuration,
    chosen: str,
    meant: Sequence[Setting],
    serve: Sequence[Setting],
    environment: Mapping[str, str],
) -> Iterator[str]:
    yield f"file: {found.path}{'' if found.found else ' (not there)'}"
    by = CONTEXT if environment.get(CONTEXT) else "the file"
    yield f"context: {chosen} (by {by})" if chosen else "context: none"
    yield from map(_line, meant)
    if others := [name for name in found.contexts if name != chosen]:
        yield f"other contexts: {', '.join(others)}"
    yield "serve:" if serve else "serve: nothing"
    yield from map(_line, serve)
    for name in (TOKEN, *CLIENT_VARIABLES.values()):
        if name in environment:
            # A token is a secret, and so may be what a command is given.
            yield f"{name} is set"


def _own_lines(name: str, own: OwnFile) -> Iterator[str]:
    state = "" if own.found else " (not there)"
    yield f"{name}: {own.path}{' (cannot be used)' if own.problem else state}"
    yield from map(_line, own.settings)


def _line(setting: Setting) -> str:
    return f"  {setting.name} = {_shown(setting)!r}  ({setting.source})"


def _shown(setting: Setting) -> str | bool | tuple[str, ...]:
    """A value that may be shown: an address of a webhook may be as good as a password, other
    addresses may hold one, and a command may be given one."""
    if setting.name == "token-command":
        program, _, rest = str(setting.value).partition(" ")
        return f"{program} …" if rest else program
    if isinstance(setting.value, bool):
        return setting.value
    shown = _host_only if setting.name == "webhook" else without_secrets
    if isinstance(setting.value, str):
        return shown(setting.value)
    return tuple(map(shown, setting.value))


def _host_only(url: str) -> str:
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.hostname}/…"
    except ValueError:
        return "…"
