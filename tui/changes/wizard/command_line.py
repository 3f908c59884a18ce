"""The command of the shell that makes the same change, to be copied from a preview.

Only what is pure is here: `kshunt.tui.changes.wizard.copy_command` knows the clipboard and files.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

STDIN = "/dev/stdin"
NO_COMMAND = "No kshunt command makes this change."


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A command, without what names the cluster."""

    words: tuple[str, ...]
    """After `kshunt`."""
    document: str = ""
    """JSON that the command reads from a file, on one line; empty where it reads none."""
    file_flag: str = ""
    """The flag that names the file."""

    def text(self, cluster: Sequence[str], reason: str, file: str = "") -> str:
        """The command as a POSIX shell takes it.

        Args:
            cluster: the flags that name the cluster.
            reason: why, for the audit; may be empty.
            file: where the document is; empty: the command gets it through a pipe.
        """
        command = self.without_document(cluster, reason, file)
        if not self.document or file:
            return command
        return f"printf %s {shlex.quote(self.document)} | {command}"

    def without_document(self, cluster: Sequence[str], reason: str, file: str = "") -> str:
        """The same without what comes through the pipe, which may be long."""
        words = ["kshunt", *self.words, *cluster]
        if self.file_flag:
            words += [f"--{self.file_flag}", file or STDIN]
        if reason:
            words += ["--reason", reason]
        return shlex.join(words)


def partitions_command(topic: str, partitions: int, *more: str) -> CommandLine:
    """The command that gives a topic more partitions, or fewer, or keeps those that leave."""
    return CommandLine(
        ("kafka-topics", "--alter", "--topic", topic, "--partitions", str(partitions), *more)
    )
