"""Every command that README and docs print is run, page by page, on an embedded cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.documents.blocks import PAGES, blocks_of
from tests.support.documents.session import session
from tests.support.paths import ROOT

WITH_COMMANDS = [page for page in PAGES if any(block.runs for block in blocks_of(page))]


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_a_page_work(page: Path) -> None:
    with session() as reader:
        for block in blocks_of(page):
            reader.take(block)
