"""The manual as a site: it builds without a warning, and loads nothing from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from tests.support.paths import ROOT
from tests.support.waiting import require

DEADLINE_S = 120.0


def test_the_site_is_whole_and_needs_nobody_else(tmp_path: Path) -> None:
    require(None if find_spec("mkdocs") else "mkdocs is not installed")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert built.returncode == 0, built.stderr
    pages = {path: path.read_text() for path in tmp_path.rglob("*.html")}
    assert len(pages) > 40
    for path, text in pages.items():
        loaded = re.findall(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"(https?:[^\"]*)", text)
        assert not loaded, path.name
        assert "```" not in text, f"{path.name} has a fence that was not understood"
    styles = "".join(path.read_text() for path in tmp_path.rglob("*.css"))
    assert "url(http" not in styles
