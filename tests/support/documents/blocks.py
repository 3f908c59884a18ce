"""Blocks of code of the documents, and what a test does with each of them.

A block says after its language what is special about it, as in ```` ```sh exits="0 2" ````:

- `title`: the file that the block is; commands of the same page find it under that name.
- `run-by`: the test that runs it, if it needs more than an embedded cluster.
- `not-run`: why no test runs it.
- `exits`: the exit codes that its last command may have, instead of 0.
- `acls`: it is a list of ACLs, which a test of its own gives to a principal.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.paths import ROOT

SHELL: Final = "sh"
DATA: Final = ("toml", "properties", "json", "yaml")
SHOWN: Final = ("text",)
"""What nothing can be done with."""
OPTIONS: Final = ("title", "run-by", "not-run", "exits", "acls")
PAGES: Final = tuple(
    sorted(
        path
        for path in (ROOT / "README.md", *ROOT.glob("docs/**/*.md"))
        if "decisions" not in path.parts
    )
)
_BLOCK: Final = re.compile(
    r"^(?P<fence>```+)(?P<language>[\w-]*)(?P<options>[^\n`]*)\n(?P<text>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)
_OPTION: Final = re.compile(r'([\w-]+)="([^"]*)"')


@dataclass(frozen=True, slots=True)
class Block:
    """One block of a page."""

    page: Path
    line: int
    language: str
    options: Mapping[str, str]
    text: str
    section: int
    """How many headings of the second level are above it."""

    @property
    def place(self) -> str:
        """For people: `docs/faq.md:12`."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def runs(self) -> bool:
        """Whether the session of its page runs it."""
        others = {"not-run", "run-by", "acls"}
        return self.language == SHELL and not others & self.options.keys()

    @property
    def run_by(self) -> str | None:
        """The file of the test that runs it instead; None if there is none."""
        return self.options.get("run-by")

    @property
    def exits(self) -> set[int]:
        """The exit codes that its last command may have."""
        return {int(code) for code in self.options.get("exits", "0").split()}

    def commands(self) -> Iterator[str]:
        """Each command, with the lines that continue it."""
        command = ""
        for line in self.text.splitlines():
            command = f"{command}{line}\n"
            if _whole(command):
                yield command
                command = ""


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page, in their order."""
    text = page.read_text("utf-8")
    return [
        Block(
            page,
            text.count("\n", 0, found.start()) + 1,
            found["language"],
            dict(_OPTION.findall(found["options"])),
            found["text"],
            len(re.findall(r"^## ", text[: found.start()], re.MULTILINE)),
        )
        for found in _BLOCK.finditer(text)
    ]


def all_blocks() -> list[Block]:
    """The blocks of every page."""
    return [block for page in PAGES for block in blocks_of(page)]


def _whole(command: str) -> bool:
    """Whether nothing of a command is missing yet."""
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return False
    return not command.rstrip().endswith("\\")
