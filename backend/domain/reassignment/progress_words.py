"""How far a plan has come, as it is printed: `--progress` as in KIP-179, `--verify` as in Kafka.

It knows rows alone, and not how they are found: a tool's start-up time counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kshunt.backend.domain.reassignment.answers import (
    LogDirRow,
    ProgressRow,
    VerifyAnswer,
    VerifyRow,
    VerifyState,
)

STILL_IN_PROGRESS: Final = "is still in progress."


def format_progress(rows: Iterable[ProgressRow]) -> str:
    """The table of KIP-179. Its columns have the seed's widths, and grow where an entry needs it.

    The rule is as wide as the columns before the status, and seven more. Under a replica that is
    stuck stands one line more, indented, with the cause and what to do next.
    """
    rows = tuple(rows)
    cells = [("Topic", "Partition", "Broker", "Status")]
    cells += [(row.topic, str(row.partition), str(row.broker), row.status) for row in rows]
    gap = 2
    widths = [
        max(smallest, *(len(cell[column]) + gap for cell in cells))
        for column, smallest in enumerate((11, 11, 8))
    ]
    heading, *lines = [
        "".join(text.ljust(width) for text, width in zip(cell, widths, strict=False)) + cell[-1]
        for cell in cells
    ]
    said = [line + _stuck_line(row) for line, row in zip(lines, rows, strict=True)]
    return "\n".join([heading, "-" * (sum(widths) + 7), *said])


def _stuck_line(row: ProgressRow) -> str:
    return f"\n  Stuck ({row.cause}): {row.reason} {row.action}".rstrip() if row.cause else ""


def format_verify(rows: Iterable[VerifyRow]) -> str:
    """The rows in Kafka's words, under Kafka's heading; a missing partition is called missing."""
    return "\n".join(["Status of partition reassignment:", *map(_verify_text, rows)])


def _verify_text(row: VerifyRow) -> str:
    wanted = ",".join(map(str, row.target))
    match row.state:
        case VerifyState.IN_PROGRESS:
            return f"Reassignment of partition {row.name} {STILL_IN_PROGRESS}"
        case VerifyState.COMPLETED:
            return f"Reassignment of partition {row.name} is completed."
        case VerifyState.MISSING:
            return (
                f"There is no partition {row.name} in this cluster, "
                f"so it cannot be moved to {wanted}."
            )
        case VerifyState.DIFFERS:
            present = ",".join(map(str, row.replicas))
            return (
                f"There is no active reassignment of partition {row.name}, "
                f"but replica set is {present} rather than {wanted}."
            )


def format_log_dirs(rows: Iterable[LogDirRow]) -> str:
    """One line a replica; nothing, and so an empty line when printed, where there are none."""
    return "\n".join(row.text for row in rows)


def is_not_as_planned(answer: VerifyAnswer) -> bool:
    """True where something is not as the plan wants it, and nothing moves it there."""
    return any(
        row.state in (VerifyState.DIFFERS, VerifyState.MISSING) for row in answer.rows
    ) or any(not row.done and not row.moving for row in answer.log_dirs)
