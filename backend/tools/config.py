"""`kshunt config`: what the file and the environment say, and where each value comes from."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
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


def main(argv: Sequence[str]) -> int:
    """Run the tool."""
    return run_tool(COMMAND, _main, argv, interrupted="Interrupted.")


def _main(argv: Sequence[str]) -> int:
    options = read(COMMAND, argv)
    if options is None:
        return ExitCode.DONE
    return show_report(report(os.environ), as_json=options.json)


def report(environment: Mapping[str, str]) -> ToolReport:
    """What is configured.

    Raises:
        ConfigError: the file is wrong, or names a context that is not there.
    """
    found = load(environment)
    chosen = environment.get(CONTEXT, "") or found.context
    meant = context_settings(found, environment)
    serve = serve_settings(found, environment)
    document = {
        "file": str(found.path),
        "found": found.found,
        "context": chosen,
        "contexts": {name: _plain(settings) for name, settings in found.contexts.items()},
        "serve": _plain(serve),
        "client": {name: name in environment for name in (TOKEN, *CLIENT_VARIABLES.values())},
    }
    text = "\n".join(_lines(found, chosen, meant, serve, environment))
    problems = tuple(_odd(serve))
    return ToolReport(text, {**document, "problems": list(problems)}, problems=problems)


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
