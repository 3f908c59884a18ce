"""The exit codes of all commands."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final


class ExitCode(enum.IntEnum):
    """What a command of kshunt ends with."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    UNFINISHED = 3
    INTERRUPTED = 130


class KafkaExitCode(enum.IntEnum):
    """What a command ends with that replaces a tool of Kafka; Kafka has one code for all errors."""

    DONE = 0
    FAILED = 1
    IN_PROGRESS = 2
    INTERRUPTED = 130


MEANINGS: Final[Mapping[ExitCode, str]] = {
    ExitCode.DONE: "done",
    ExitCode.FAILED: "an error; the message says what state things are in now",
    ExitCode.USAGE: "wrong usage; nothing was done",
    ExitCode.UNFINISHED: "done in part: the result does not reach all of the goal",
    ExitCode.INTERRUPTED: "you pressed Ctrl-C",
}
KAFKA_MEANINGS: Final[Mapping[KafkaExitCode, str]] = {
    KafkaExitCode.DONE: "done",
    KafkaExitCode.FAILED: "an error or wrong usage, as in Kafka's tool",
    KafkaExitCode.IN_PROGRESS: "still in progress (kafka-reassign-partitions --verify, --progress)",
    KafkaExitCode.INTERRUPTED: "you pressed Ctrl-C",
}
SHOWN: Final = frozenset({ExitCode.DONE, ExitCode.FAILED, ExitCode.USAGE})
"""Codes of every command; its help shows them, and others where the command has words for them."""
KAFKA_SHOWN: Final = frozenset({KafkaExitCode.DONE, KafkaExitCode.FAILED})
