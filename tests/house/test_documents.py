"""What the documents say of commands, routes, folders and each other is what there is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.documents.http_routes import routes
from tests.support.paths import ROOT
from tests.support.runs.tiers import HOUSE, HOUSE_FOLDER, SLOW_FOLDERS

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
STAND_INS = {"ID": "{operation_id}", "TOPIC": "{topic}"}
"""Words in capitals that a document has in the place of a name in a route."""


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def anchors(path: Path) -> set[str]:
    """What a link to a heading, or to a mark, may end with."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)
    return {*plain, *re.findall(r'<a id="([\w-]+)">', text)}


def broken(document: Path) -> Iterator[str]:
    for link in LINK.findall(document.read_text()):
        if re.match(r"https?:", link):
            continue
        target, _, anchor = link.partition("#")
        path = (document.parent / target).resolve() if target else document
        if not path.exists():
            yield f"{link}: there is no such file"
        elif anchor and anchor not in anchors(path):
            yield f"{link}: there is no such heading"


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_every_link_leads_somewhere(document: Path) -> None:
    assert list(broken(document)) == []


def test_the_index_leads_to_every_page() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    pages = {named(path).removeprefix("docs/") for path in ROOT.glob("docs/**/*.md")}
    pages = {page for page in pages if not page.startswith("decisions/")} - {"index.md"}
    assert pages - set(LINK.findall(index)) == set()


def test_every_picture_is_shown_and_loads_nothing() -> None:
    shown = {link for document in DOCUMENTS for link in LINK.findall(document.read_text())}
    pictures = sorted(ROOT.glob("docs/pictures/*.svg"))
    assert pictures
    for picture in pictures:
        assert any(link.endswith(f"pictures/{picture.name}") for link in shown), picture.name
        addresses = set(re.findall(r"https?://[^\s\"<)]+", picture.read_text()))
        assert addresses <= {"http://www.w3.org/2000/svg", "https://www.textualize.io"}


def test_every_make_target_that_a_document_names_exists() -> None:
    text = "\n".join(document.read_text() for document in DOCUMENTS)
    called = set(re.findall(r"^make ([\w-]+)", text, re.MULTILINE))
    called |= set(re.findall(r"`make ([\w-]+)", text))
    assert {"demo", "test", "test-all", "check", "coverage", "bench"} <= called
    targets = set(re.findall(r"^([\w-]+):", MAKEFILE, re.MULTILINE))
    assert called <= targets


def test_every_route_that_a_document_names_is_served() -> None:
    served = {(method, path) for path, method, _ in routes()}
    text = "\n".join(document.read_text() for document in DOCUMENTS)
    called = re.findall(r"`(GET|POST) (/[\w/{}.-]+)", text)
    assert len(called) > 50
    wrong = {
        (method, path)
        for method, path in called
        if (method, "/".join(STAND_INS.get(part, part) for part in path.split("/"))) not in served
    }
    assert wrong - {("GET", "/openapi.json")} == set()


def test_each_folder_of_tests_has_its_line_and_its_tier() -> None:
    tiers_told, places = (
        CONTRIBUTING.split(f"\n## {heading}\n")[1].split("\n## ")[0]
        for heading in ("Tiers of tests", "Where a test lies")
    )
    first_cells = re.findall(r"^\| (`.+?) \|", places, re.MULTILINE)
    told = set(re.findall(r"`([a-z]+)", " ".join(first_cells)))
    assert told == {path.parent.name for path in (ROOT / "tests").glob("*/__init__.py")}
    rows = dict(re.findall(r"^\| (house|quick|slow) \| (.+?) \|", tiers_told, re.MULTILINE))
    slow = set(re.findall(r"`([a-z]+)`", rows["slow"])) - {"slow"}
    quick = set(re.findall(r"`([a-z]+)`", rows["quick"]))
    assert slow == set(SLOW_FOLDERS)
    assert rows[HOUSE] == f"`{HOUSE_FOLDER}`"
    assert quick == told - slow - {HOUSE_FOLDER, "bench", "support", "conformance"}
