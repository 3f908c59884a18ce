"""The `kshunt` command: it finds the command that is named, and runs it.

Every heavy import is inside its own command (`backend/cli/commands.py`), and what all commands need
is loaded after the question for the version is answered.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from kshunt import __version__
from kshunt.backend.cli.commands import COMMANDS, DASHBOARD, SESSIONS, summaries


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    name = words[0] if words and not words[0].startswith("-") else ""
    if "--version" in words and (not name or name in COMMANDS):
        sys.stdout.write(f"kshunt {__version__}\n")
        return 0
    return _run(name, words)


def _run(name: str, words: Sequence[str]) -> int:
    from kshunt.backend.commandline.exit_codes import ExitCode, KafkaExitCode
    from kshunt.backend.commandline.reading import HELP_WORDS, UsageError, usage_lines
    from kshunt.backend.config_file import expanded
    from kshunt.backend.errors import KshuntError

    listed = COMMANDS.get(name, DASHBOARD)
    try:
        if name and name not in COMMANDS:
            raise _unknown(name)
        if name in SESSIONS and not HELP_WORDS & set(words):
            from kshunt.backend.cli.session import Session

            return Session(words, os.environ).run()
        arguments = expanded(words, os.environ)
        return listed.main()(arguments[1:] if name else arguments)
    except UsageError as error:
        prog = f"kshunt {name}" if name in COMMANDS else "kshunt"
        sys.stderr.write(f"{usage_lines(error, prog)}\n")
        return KafkaExitCode.FAILED if listed.kafka else ExitCode.USAGE
    except KshuntError as error:
        sys.stderr.write(f"kshunt: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader closed our output. Python must not complain when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.FAILED


def _unknown(name: str) -> Exception:
    from kshunt.backend.commandline.help_text import listing
    from kshunt.backend.commandline.nearest import nearest
    from kshunt.backend.commandline.reading import UsageError

    hint = nearest(name, list(COMMANDS))
    said = f" Did you mean '{hint}'?" if hint else ""
    return UsageError(
        f"'{name}' is not a command of kshunt.{said}", advice=listing("commands", summaries())
    )
