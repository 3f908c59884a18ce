"""`kshunt keys`: the keys that the backends of one cluster share; ids only, never a secret."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from kshunt.backend.access.cluster_keys import (
    KEYS_MAX,
    KEYS_VARIABLE,
    ClusterKeys,
    Key,
    default_path,
    named_path,
    read_keys,
    write_keys,
)
from kshunt.backend.commandline.cluster_flags import JSON
from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.commandline.reading import read
from kshunt.backend.commandline.table import Argument, Command, Flag
from kshunt.backend.errors import BadInput
from kshunt.backend.tools.shared.console import run_tool, show_report
from kshunt.backend.tools.shared.output import ToolReport

EPILOG: Final = """\
The first key signs, and all keys verify. To replace a key without losing an entry:
  1. kshunt keys add          then copy the file to every host of a backend, and restart them
  2. kshunt keys use ID       then copy and restart again; the journal is signed with it
  3. kshunt keys remove OLD   then copy and restart once more
A backend that lacks a key ignores the entries signed with it, so never skip a step.
"""


_FLAGS: Final = (
    Flag("cluster-keys", "The key file.", "FILE", value=Path, variable=KEYS_VARIABLE),
    Flag("cluster-id", "Use the default key file of this cluster.", "ID", default=""),
    JSON,
)
_ID: Final = (Argument("id", "ID", "The id of a key; show prints the ids."),)


def _action(name: str, summary: str, arguments: tuple[Argument, ...] = ()) -> Command:
    return Command(("keys", name), f"{summary.capitalize()}.", _FLAGS, arguments, summary=summary)


COMMAND: Final = Command(
    ("keys",),
    "Show and replace the keys that the backends of a cluster share.",
    _FLAGS,
    actions=(
        _action("show", "list the ids of the keys, and the one that signs"),
        _action("path", "print the path of the file"),
        _action("add", "add a key that only verifies"),
        _action("use", "make a key sign", _ID),
        _action("remove", "remove a key", _ID),
    ),
    epilog=EPILOG,
)


def main(argv: Sequence[str]) -> int:
    """Run the tool."""
    return run_tool(COMMAND, _main, argv, interrupted="Interrupted.")


def _main(argv: Sequence[str]) -> int:
    options = read(COMMAND, argv)
    if options is None:
        return ExitCode.DONE
    path = _path(options)
    if options.action == "path":
        return show_report(ToolReport(str(path), {"path": str(path)}), as_json=options.json)
    before = read_keys(path)
    after = changed(before, options.action, getattr(options, "id", ""))
    if after != before:
        write_keys(path, after)
    return show_report(_report(after), as_json=options.json)


def changed(keys: ClusterKeys, action: str, key_id: str = "") -> ClusterKeys:
    """The keys after an action: `show`, `add`, `use` or `remove`.

    Raises:
        BadInput: there is no such key, there are too many, or it is the only one.
    """
    if action == "show":
        return keys
    if action == "add":
        if len(keys.keys) == KEYS_MAX:
            raise BadInput(
                f"The file has {KEYS_MAX} keys, which is the maximum. Nothing was changed."
            )
        return replace(keys, keys=(*keys.keys, Key.new()))
    chosen = [key for key in keys.keys if key.id == key_id]
    others = tuple(key for key in keys.keys if key.id != key_id)
    if not chosen:
        raise BadInput(f"The file has no key '{key_id}'. Nothing was changed.")
    if action == "use":
        return ClusterKeys((chosen[0], *others))
    if keys.keys[0].id == key_id:
        raise BadInput(
            f"The key {key_id} is the one that signs. Nothing was changed.",
            advice="Make another key sign first: kshunt keys use ID.",
        )
    return ClusterKeys(others)


def _report(keys: ClusterKeys) -> ToolReport:
    rows = [(key.id, "signs" if at == 0 else "verifies") for at, key in enumerate(keys.keys)]
    text = "\n".join(f"{key_id}  {what}" for key_id, what in rows)
    return ToolReport(text, {"keys": [{"id": key_id, "use": what} for key_id, what in rows]})


def _path(options: Namespace) -> Path:
    named = named_path(options.cluster_keys)
    if named is None and not options.cluster_id:
        raise BadInput(
            f"No key file is named: give --cluster-keys, {KEYS_VARIABLE} or --cluster-id."
        )
    return named or default_path(options.cluster_id, os.environ)
