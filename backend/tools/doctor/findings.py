"""What one check of `kshunt doctor` found, and all of them as text or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final, Literal, TypeAlias

from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.tools.shared.output import ToolReport

Status: TypeAlias = Literal["ok", "warning", "problem", "unknown"]
MARKS: Final[dict[Status, str]] = {
    "ok": "ok",
    "warning": "warn",
    "problem": "FAIL",
    "unknown": "?",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    subject: str
    """What was looked at: `broker 3`, `terminal`."""
    status: Status
    """`problem`: kshunt cannot do its work. `warning`: a part of it does not work, or will not."""
    message: str
    advice: str = ""
    """What to do; empty where nothing has to be done."""


def report(findings: Sequence[Finding]) -> ToolReport:
    """All findings; the exit code is 1 if one of them is a problem."""
    failed = any(finding.status == "problem" for finding in findings)
    return ToolReport(
        "\n".join(line for finding in findings for line in _lines(finding)),
        {"ok": not failed, "findings": [asdict(finding) for finding in findings]},
        ExitCode.FAILED if failed else ExitCode.DONE,
    )


def _lines(finding: Finding) -> list[str]:
    first = f"{MARKS[finding.status]:<5}{finding.subject}: {finding.message}"
    return [first, f"{'':5}→ {finding.advice}"] if finding.advice else [first]
