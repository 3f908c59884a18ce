"""What documents and texts in the code name is there: files, and names in them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from tests.support.paths import ROOT

ARCHITECTURE = ROOT / "docs" / "architecture.md"
WHERE_IS = ROOT / "docs" / "architecture" / "where-is.md"
GLOSSARY = ROOT / "docs" / "glossary.md"
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
ANSWERS_MIN = 25

PLACE = re.compile(
    r"`((?:src|backend|tui|tests|themes|docs|examples)/[\w./-]*)(?::([A-Za-z_][\w.]*))?`"
)
"""A file or a folder, and after a colon what is defined in the file."""
ANSWER = re.compile(r"^\| .+\? \| (.+) \|$", re.MULTILINE)
STAND_INS = frozenset({"backend/PACKAGE"})
"""Places in which a word in capitals stands for any."""


def places(text: str) -> Iterator[tuple[str, str]]:
    for path, name in PLACE.findall(text):
        if path not in STAND_INS:
            yield path, name


def defined(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield prefix + name
            case ast.ClassDef(name=name, body=inner):
                yield prefix + name
                yield from defined(inner, f"{prefix}{name}.")
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield prefix + name
            case _:
                pass


@cache
def names_of(path: Path) -> frozenset[str]:
    return frozenset(defined(ast.parse(path.read_text()).body))


def fault_of(path: str, name: str) -> str:
    """Why a place is none, or nothing."""
    if not (ROOT / path).exists():
        return f"{path} is not there"
    if name and name not in names_of(ROOT / path):
        return f"{path} does not define {name}"
    return ""


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_place_that_a_document_names_is_there(document: Path) -> None:
    found = (fault_of(path, name) for path, name in places(document.read_text()))
    assert [fault for fault in found if fault] == []


@pytest.mark.parametrize(
    "place",
    [
        "`backend/nowhere.py`",
        "`backend/clock.py:nothing`",
        "`backend/clock.py:SystemClock.nothing`",
        "`backend/clock.py:now_ms`",
    ],
)
def test_a_place_that_is_not_there_is_noticed(place: str) -> None:
    [(path, name)] = places(place)
    assert fault_of(path, name)


def test_a_place_that_is_there_is_found() -> None:
    [(path, name)] = places("`backend/clock.py:SystemClock.now_ms`")
    assert fault_of(path, name) == ""


def test_newcomers_questions_are_answered_by_names_in_files() -> None:
    answers = ANSWER.findall(WHERE_IS.read_text())
    assert len(answers) >= ANSWERS_MIN
    assert [answer for answer in answers if not any(name for _, name in places(answer))] == []


def test_every_package_has_its_line() -> None:
    text = ARCHITECTURE.read_text()
    rows = set(re.findall(r"^\| `([\w/]+)/` \|", text, re.MULTILINE))
    there = {
        str(path.parent.relative_to(ROOT))
        for top in ("backend", "tui")
        for path in (ROOT / top).glob("*/__init__.py")
    }
    assert there - rows == set()
    assert [row for row in sorted(rows) if not (ROOT / row).is_dir()] == []


def floors_of(order: str) -> dict[str, int]:
    groups = enumerate(order.split(";"))
    names = ((name, floor) for floor, group in groups for name in re.findall(r"`(\w+)", group))
    return dict(names)


def imports_of(path: Path, package: str) -> Iterator[str]:
    """Of what lies in a package, by its first name there."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{package}."):
            yield (node.module or "").removeprefix(f"{package}.").split(".")[0]


FLOORS = re.findall(
    r"^\| `(backend(?:/\w+)?)/` \| (.+) \|$",
    ARCHITECTURE.read_text().split("### Inside the packages")[1].split("\n## ")[0],
    re.MULTILINE,
)


@pytest.mark.parametrize(("package", "order"), FLOORS, ids=[package for package, _ in FLOORS])
def test_no_import_runs_back_in_a_package(package: str, order: str) -> None:
    floors, back = floors_of(order), []
    shared = {path.stem for path in (ROOT / "backend").glob("*.py")} if package == "backend" else ()
    assert {path.parent.name for path in (ROOT / package).glob("*/__init__.py")} <= set(floors)
    for path in (ROOT / package).rglob("*.py"):
        own = path.relative_to(ROOT / package).parts[0].removesuffix(".py")
        for other in imports_of(path, f"kshunt.{package.replace('/', '.')}"):
            if other in shared or other == own or own not in floors:
                continue
            if floors.get(other, len(floors)) >= floors[own]:
                back.append(f"{path.relative_to(ROOT)} imports {other}")
    assert back == []


def test_the_packages_with_an_order_are_those_that_need_one() -> None:
    needed = {"domain", "admin", "operations", "api", "telemetry", "pipeline", "embedded"}
    assert {package.removeprefix("backend/") for package, _ in FLOORS} == {*needed, "backend"}


def test_the_glossary_is_in_the_order_of_the_alphabet() -> None:
    words = re.findall(r"^- \*\*(.+?)\*\*", GLOSSARY.read_text(), re.MULTILINE)
    assert len(words) == len(set(words)) > 40
    assert words == sorted(words, key=str.casefold)


@pytest.mark.parametrize("record", DECISIONS, ids=lambda path: path.name)
def test_a_decision_says_why_what_and_what_follows(record: Path) -> None:
    headings = re.findall(r"^## (.+)$", record.read_text(), re.MULTILINE)
    assert headings == ["Context", "Decision", "Consequence"]


def test_the_map_leads_to_every_decision() -> None:
    linked = set(re.findall(r"\(decisions/([\w-]+\.md)\)", ARCHITECTURE.read_text()))
    assert linked == {path.name for path in DECISIONS}


# What texts in the code name

REFERENCE = re.compile(r"\bkshunt\.(?:backend|tui)(?:\.[A-Za-z]\w*)+")
MEMBER = re.compile(r"`([A-Z]\w*)\.([a-z_]\w*)(?:\([^`]*\))?`")
CODE = sorted(path for top in ("backend", "tui", "tests") for path in (ROOT / top).rglob("*.py"))
KAFKAS = frozenset({("Topic", "validate"), ("Authorizer", "authorizeByResourceType")})
"""Methods of Kafka's own classes that have a name of ours."""


def module_file(parts: list[str]) -> Path | None:
    """Where the module of `kshunt.backend.…` is."""
    path = ROOT.joinpath(*parts[1:])
    return next(
        (one for one in (path / "__init__.py", path.with_suffix(".py")) if one.exists()), None
    )


@cache
def names_in(path: Path) -> frozenset[str]:
    """What can be had of a module: what it defines, and what it imports."""
    body = ast.parse(path.read_text()).body
    imports = (node for node in body if isinstance(node, ast.ImportFrom))
    return names_of(path) | {alias.asname or alias.name for one in imports for alias in one.names}


def is_reference(reference: str) -> bool:
    """Whether there is such a module, or such a name in one."""
    parts = reference.split(".")
    for place in range(len(parts), 1, -1):
        if path := module_file(parts[:place]):
            name = ".".join(parts[place:])
            return not name or name in names_in(path)
    return False


@dataclass
class Members:
    """The members and the bases of the classes with the same name."""

    own: set[str] = field(default_factory=set)
    bases: set[str] = field(default_factory=set)


@cache
def classes() -> dict[str, Members]:
    found: dict[str, Members] = {}
    for path in CODE:
        nodes = list(ast.walk(ast.parse(path.read_text())))
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                members = found.setdefault(node.name, Members())
                members.own.update(defined(node.body))
                members.bases.update(ast.unparse(base).partition("[")[0] for base in node.bases)
                members.own.update(
                    inner.attr
                    for inner in ast.walk(node)
                    if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store)
                )
    return found


def is_member(name: str, member: str) -> bool:
    """Whether a class of ours has such a member; a class of others may have any."""
    if name in ("ABC", "Protocol", "Generic", "NamedTuple", "object"):
        return False
    known = classes().get(name)
    return known is None or member in known.own or any(is_member(b, member) for b in known.bases)


@pytest.mark.parametrize("top", ["backend", "tui", "tests"])
def test_a_name_that_is_written_in_the_code_is_there(top: str) -> None:
    dead = []
    for path in (path for path in CODE if path.is_relative_to(ROOT / top)):
        text = path.read_text()
        found = [one for one in REFERENCE.findall(text) if not is_reference(one)]
        pairs = [pair for pair in MEMBER.findall(text) if pair not in KAFKAS]
        found += [".".join(pair) for pair in pairs if not is_member(*pair)]
        dead += [f"{path.relative_to(ROOT)} names {one}" for one in found]
    assert dead == []


def test_a_dead_name_is_noticed() -> None:
    assert not is_reference("kshunt.backend.clock." + "Nothing")
    assert not is_reference("kshunt.backend." + "nowhere.SystemClock")
    assert is_reference("kshunt.backend.clock.SystemClock.now_ms")
    assert is_reference("kshunt.tui.actions.view_key")
    assert is_member("SystemClock", "now_ms")
    assert not is_member("SystemClock", "nothing")


# The map


WORD = re.compile(r"`([a-z][a-z_]*)(?:/|\.py)?`")
OTHER_WORDS = frozenset({"file", "kshunt", "layers", "make", "themes", "y"})
"""Words of the map that are neither a folder, a file, nor a name in a file that it describes."""


def test_a_bare_name_of_the_map_is_a_folder_or_a_file() -> None:
    """Or a subject of the port: the map writes `admin.topics` as `topics`."""
    tops = [ROOT / top for top in ("backend", "tui", "tests")]
    there = {path.stem for top in tops for path in top.rglob("*") if path.suffix in ("", ".py")}
    port = names_of(ROOT / "backend/admin/port/cluster_admin.py")
    subjects = {name.removeprefix("ClusterAdmin.") for name in port}
    named = set(WORD.findall(ARCHITECTURE.read_text()))
    assert named - there - subjects - OTHER_WORDS == set()
