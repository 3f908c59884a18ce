"""Commands as a page prints them, for tests that run them on more than an embedded cluster.

A block of such commands says `run-by="tests/…"`. `tests/house/test_blocks.py` reads that test: it
has to ask for the page's blocks, or for each command of the block.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from tests.support.documents.blocks import Block, blocks_of
from tests.support.paths import ROOT


def printed_blocks(page: str, test: str) -> list[Block]:
    """The blocks of a page that say that this test's file runs them; at least one."""
    name = str(Path(test).relative_to(ROOT))
    found = [block for block in blocks_of(ROOT / page) if block.run_by == name]
    assert found, f"no block of {page} says that {name} runs it"
    return found


def printed(page: str, beginning: str, names: Mapping[str, object]) -> list[str]:
    """The words after `kshunt` of a page's command that begins so, with the test's own names.

    Raises:
        AssertionError: there is not exactly one such command, or it lacks one of the names.
    """
    command = one_command([c for block in blocks_of(ROOT / page) for c in lines(block)], beginning)
    for name, own in names.items():
        assert name in command, f"{name} is not in {command}"
        command = command.replace(name, shlex.quote(str(own)))
    program, *words = shlex.split(command, comments=True)
    assert program == "kshunt"
    return words


def lines(block: Block) -> list[str]:
    """Each command of a block in one line."""
    return [re.sub(r"\s*\\\n\s*", " ", command).strip() for command in block.commands()]


def one_command(commands: list[str], beginning: str) -> str:
    """The command that is this, or else the only one that begins so.

    Raises:
        AssertionError: there is none, or there are several.
    """
    if beginning in commands:
        return beginning
    [found] = [command for command in commands if command.startswith(beginning)]
    return found
