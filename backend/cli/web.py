"""`kshunt web`: the dashboard in a browser."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

from kshunt.backend.addresses import loopback
from kshunt.backend.commandline.cluster_flags import (
    BACKEND_FLAGS,
    CLUSTER_FLAGS,
    check_one_cluster,
)
from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.commandline.reading import UsageError, read
from kshunt.backend.commandline.table import Command, Flag
from kshunt.backend.errors import ConfigError

COMMAND: Final = Command(
    ("web",),
    "Show the dashboard in a browser. The printed address includes the secret to open it.",
    (
        *CLUSTER_FLAGS,
        *BACKEND_FLAGS,
        Flag("listen", "Where to serve.", "HOST:PORT", default="127.0.0.1:8096"),
        Flag("public-url", "The address that browsers use, if it differs.", "URL", default=""),
        Flag("allow-changes", "Let browsers change the cluster."),
    ),
)


def main(argv: Sequence[str]) -> int:
    """Serve until told to stop; the exit code.

    Raises:
        KshuntError: no cluster is named, the address cannot be read, or a package is
            missing.
    """
    options = read(COMMAND, argv)
    if options is None:
        return ExitCode.DONE
    if options.zookeeper is not None or options.zk_tls_config_file is not None:
        raise UsageError("the browser gets its cluster from --bootstrap-server or --backend")
    check_one_cluster(options.given)
    host, port = loopback(options.listen)
    if find_spec("textual_serve") is None:
        raise ConfigError(
            "kshunt web needs textual-serve, which is not installed.",
            advice="Install it: pip install 'kshunt[web]'.",
        )
    from kshunt.tui.web.server import serve

    named = {
        "--bootstrap-server": options.bootstrap_server,
        "--command-config": options.command_config,
        "--backend": options.backend,
    }
    session = [word for flag, value in named.items() if value for word in (flag, str(value))]
    # Recordings here belong to the user of this machine, not to people who open a page.
    session += ["--no-record", "--in-browser"]
    serve(
        session if options.allow_changes else [*session, "--read-only"],
        host,
        port,
        options.public_url,
    )
    return ExitCode.DONE
