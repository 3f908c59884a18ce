"""`kshunt audit`: who asked for what, when and why, what it touched, and what became of it."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from kshunt.backend.clock import TIMES, time_ms
from kshunt.backend.commandline.cluster_flags import (
    BACKEND_FLAGS,
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    ZK_CONFIG,
    ZOOKEEPER,
    backend_address,
    check_one_cluster,
    check_zk_config,
    cluster_address,
)
from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.commandline.reading import UsageError, read
from kshunt.backend.commandline.table import Command, Flag
from kshunt.backend.commandline.values import path_of
from kshunt.backend.tools.shared.console import (
    check_client_config,
    run_tool,
    show,
    warn_of_zookeeper,
)

if TYPE_CHECKING:
    from kshunt.backend.api.client.audit import AuditClient
    from kshunt.backend.domain.audit.lines import AuditRow
    from kshunt.backend.tools.local.audit import LocalAudit

FORMATS: Final = ("text", "markdown", "json")
SUFFIXES: Final[Mapping[str, str]] = {".md": "markdown", ".json": "json"}
EMPTY: Final = "The journal of this cluster holds no audit entry."
FORCE: Final = "Name another file, or add --force to replace it."
NONE_FOUND: Final = "The journal of this cluster holds no audit entry for that time and operation."

DESCRIPTION: Final = """\
Show the changes that kshunt was asked for: who, when and why, what each affected, and its result.

The entries of all backends are in the cluster's journal. This command asks a running backend. If
there is none, it reads the journal itself. It creates and changes nothing.
"""

EPILOG: Final = """\
The person and the reason are as the caller gave them: --reason of the tools, and KSHUNT_USER or the
user and host. The list also shows entries that cannot be read, even with --operation.
"""

FLAGS: Final = (
    BOOTSTRAP_SERVER,
    *BACKEND_FLAGS,
    COMMAND_CONFIG,
    ZOOKEEPER,
    ZK_CONFIG,
    Flag(
        "since",
        "From this time on: 90s, 30m, 2h or 7d ago, or 2026-11-21, 2026-11-21T20:50, "
        "2026-11-21T20:50:00+01:00 (local time if it has no offset).",
        "TIME",
    ),
    Flag("until", "Before this time, in the same format.", "TIME"),
    Flag("operation", "Only this operation.", "ID"),
    Flag(
        "format",
        "text is one line for each entry, cut to the terminal's width; markdown and json are "
        "complete. The default is the format in the name of --output (.md, .json), or text.",
        "|".join(FORMATS),
        choices=FORMATS,
    ),
    Flag(
        "output",
        "Write this file instead of standard output. An error leaves no incomplete file.",
        "FILE",
    ),
    Flag("verify", "Report whether lines were changed, removed or added since they were written."),
    Flag("force", "Replace the file of --output if it exists."),
)
COMMAND: Final = Command(
    ("audit",),
    DESCRIPTION,
    FLAGS,
    epilog=EPILOG,
    codes={
        ExitCode.DONE: "done, also if there is no entry",
        ExitCode.FAILED: "an error; no file was written; with --verify, also if lines were changed",
    },
)

_TOGETHER: Final = frozenset({"since", "until", "operation", "format", "output"})
_OPERATION_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class AuditOptions(NamedTuple):
    """A command line that has passed every check which needs no cluster."""

    bootstrap_servers: str = ""
    """Or what `Settings.bootstrap_servers` has for ZooKeeper."""
    zookeeper: bool = False
    backend: str = ""
    """Address of a shared backend: unix:/path or http://host:port."""
    command_config: Path | None = None
    """Absolute; with --zookeeper, what --zk-tls-config-file names."""
    since_ms: int | None = None
    until_ms: int | None = None
    operation_id: str = ""
    format: str = "text"
    output: Path | None = None
    """None is for standard output."""
    force: bool = False
    verify: bool = False


AuditReader: TypeAlias = "AuditClient | LocalAudit"
"""Who reads the audit: a backend, or this process."""


def main(argv: Sequence[str]) -> int:
    """Run the tool; its exit code is described in --help."""
    return run_tool(COMMAND, _main, argv, interrupted="Interrupted. Nothing was changed.")


def _main(argv: Sequence[str]) -> int:
    words = read(COMMAND, argv)
    if words is None:
        return ExitCode.DONE
    options = parse_options(words.given, time.time_ns() // 1_000_000)
    if options.zookeeper:
        warn_of_zookeeper()
    check_client_config(options.command_config)
    if options.output is not None:
        from kshunt.backend.tools.shared.new_files import check_target

        check_target(options.output, force=options.force, advice=FORCE)
    with _open(options) as reader:
        if options.verify:
            return _verified(*reader.verify())
        cluster_id, rows = reader.rows(
            since_ms=options.since_ms,
            until_ms=options.until_ms,
            operation_id=options.operation_id,
        )
    _deliver(options, cluster_id, rows)
    return ExitCode.DONE


def _verified(lines: int, problems: Sequence[str]) -> int:
    _show("\n".join([*problems, f"Verified lines: {lines}. Problems: {len(problems)}."]))
    return ExitCode.FAILED if problems else ExitCode.DONE


def _deliver(options: AuditOptions, cluster_id: str, rows: Sequence[AuditRow]) -> None:
    text = _rendered(options, cluster_id, rows)
    if options.output is None:
        _show(text)
    else:
        from kshunt.backend.tools.shared.new_files import write_file

        write_file(options.output, f"{text.rstrip()}\n", force=options.force, advice=FORCE)
        _show(f"Entries written to {options.output}: {len(rows)}.")


def _rendered(options: AuditOptions, cluster_id: str, rows: Sequence[AuditRow]) -> str:
    from kshunt.backend.api.schema.audit import as_json
    from kshunt.backend.domain.audit.report import as_markdown, as_text

    if options.format == "json":
        return as_json(rows, cluster_id)
    if options.format == "markdown":
        return as_markdown(rows, cluster_id).rstrip()
    on_terminal = options.output is None and sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if on_terminal else None
    chosen = (options.since_ms, options.until_ms, options.operation_id) != (None, None, "")
    return as_text(rows, width=width) or (NONE_FOUND if chosen else EMPTY)


def _show(text: str) -> None:
    """Print, also where the terminal's encoding lacks a character."""
    encoding = sys.stdout.encoding or "utf-8"
    show(text.encode(encoding, "backslashreplace").decode(encoding), sys.stdout)


# Flags


def parse_options(given: Mapping[str, str], now_ms: int) -> AuditOptions:
    """Check what was given.

    Raises:
        UsageError: flags are missing, do not go together, or have a value that cannot be meant.
    """
    _check_source(given)
    if "verify" in given and (odd := _TOGETHER & given.keys()):
        raise UsageError(f"--verify checks every line, without --{min(odd)}")
    if "force" in given and "output" not in given:
        raise UsageError("--force needs --output")
    target = given.get("output")
    since_ms, until_ms = (_time_ms(given, name, now_ms) for name in ("since", "until"))
    if since_ms is not None and until_ms is not None and since_ms >= until_ms:
        raise UsageError("--since must be before --until")
    return AuditOptions(
        bootstrap_servers=cluster_address(given),
        zookeeper="zookeeper" in given,
        backend=backend_address(given),
        command_config=path_of(given, ZK_CONFIG.name) or path_of(given, "command-config"),
        since_ms=since_ms,
        until_ms=until_ms,
        operation_id=_operation_id(given),
        format=_format(given),
        output=None if target is None else Path(target),
        force="force" in given,
        verify="verify" in given,
    )


def _check_source(given: Mapping[str, str]) -> None:
    """Exactly one of the ways to name a cluster."""
    check_one_cluster(given)
    check_zk_config(given, "command-config")
    for name in ("output", "operation"):
        if not given.get(name, "x").strip():
            raise UsageError(f"--{name} needs a value.")


def _time_ms(given: Mapping[str, str], name: str, now_ms: int) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    try:
        return time_ms(text, now_ms)
    except ValueError:
        raise UsageError(f"--{name} '{text}' is not a time: {TIMES}") from None


def _operation_id(given: Mapping[str, str]) -> str:
    text = given.get("operation", "")
    if text and not _OPERATION_ID.fullmatch(text):
        raise UsageError(f"--operation '{text}' is not the id of an operation")
    return text


def _format(given: Mapping[str, str]) -> str:
    return given.get("format") or SUFFIXES.get(Path(given.get("output", "")).suffix, "text")


# The way to the journal


@contextmanager
def _open(options: AuditOptions) -> Iterator[AuditReader]:
    """The backend that the options name, the private one if it runs, or else this process.

    Raises:
        BackendUnreachable: the backend that the options name does not answer.
        ClusterUnreachable: no backend runs, and no broker answers this process.
    """
    from kshunt.backend.local_sockets import running_backend

    address = running_backend(options.backend, options.bootstrap_servers, options.command_config)
    if address:
        from kshunt.backend.api.client.backend_client import BackendClient

        with BackendClient(address) as client:
            yield client.audit
        return
    from kshunt.backend.settings import Settings
    from kshunt.backend.tools.local.audit import LocalAudit
    from kshunt.backend.tools.local.cluster import LocalCluster

    settings = Settings(options.bootstrap_servers, options.command_config)
    with closing(LocalCluster(settings)) as cluster:
        yield LocalAudit(cluster)
