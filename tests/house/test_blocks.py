"""Every block of code of README and docs is parsed or run, or says why not.

`tests/served/docs` runs what a shell gets, or the test that the block names does. Here the rest is
read as kshunt reads it.
"""

from __future__ import annotations

import ast
import json
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from kshunt.backend.admin.security.client_properties import load_client_config
from kshunt.backend.config_file import load, serve_settings
from kshunt.backend.domain.reassignment.plan import parse_plan
from kshunt.backend.embedded.scenario.reading import read_scenario
from kshunt.backend.serve.command import flags
from kshunt.tui.actions.registry import ACTIONS
from kshunt.tui.settings import parse_settings
from tests.support.access.certificates import Authority
from tests.support.documents.blocks import (
    DATA,
    OPTIONS,
    PAGES,
    SHELL,
    SHOWN,
    Block,
    all_blocks,
    blocks_of,
)
from tests.support.documents.printed import lines, one_command
from tests.support.paths import ROOT

BLOCKS = all_blocks()
NOT_RUN: Counter[tuple[str, str]] = Counter()
"""How many blocks of each page no test runs, and why. A new one has to be written here."""


def place(block: Block) -> str:
    return block.place


def test_every_block_says_what_it_is() -> None:
    languages = {SHELL, *DATA, *SHOWN}
    assert [block.place for block in BLOCKS if block.language not in languages] == []
    assert [block.place for block in BLOCKS if not block.options.keys() <= set(OPTIONS)] == []
    assert sum(block.runs for block in BLOCKS) > 40


def test_every_fence_is_a_block() -> None:
    for page in PAGES:
        fences = [line for line in page.read_text().splitlines() if line.startswith("```")]
        assert len(fences) == 2 * len(blocks_of(page)), page


def test_what_no_test_runs_is_listed_with_its_reason() -> None:
    found = Counter(
        (str(block.page.relative_to(ROOT)), block.options["not-run"])
        for block in BLOCKS
        if "not-run" in block.options
    )
    assert found == NOT_RUN


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.run_by is not None], ids=place)
def test_a_test_that_a_block_names_runs_all_of_it(block: Block) -> None:
    assert block.run_by is not None
    page = str(block.page.relative_to(ROOT))
    whole, single = _asked(ROOT / block.run_by)
    if page in whole:
        return
    commands = [line for one in blocks_of(block.page) for line in lines(one)]
    run = {one_command(commands, beginning) for at, beginning in single if at == page}
    assert set(lines(block)) <= run


def _asked(test: Path) -> tuple[set[str], set[tuple[str, str]]]:
    """Pages whose blocks a test runs, and beginnings of single commands with their page."""
    tree = ast.parse(test.read_text())
    names = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    whole: set[str] = set()
    single: set[tuple[str, str]] = set()
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            continue
        if node.func.id == "printed_blocks":
            whole |= set(_texts(node.args[0], names)) or set(_texts(names["PAGES"], names))
        elif node.func.id == "printed":
            [page], [beginning] = (_texts(one, names) for one in node.args[:2])
            single.add((page, beginning))
    return whole, single


def _texts(node: ast.expr, names: Mapping[str, ast.expr]) -> list[str]:
    """The text of an expression, or those of a tuple; names are those of the same file."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.Name(id=name) if name in names:
            return _texts(names[name], names)
        case ast.Tuple(elts=parts):
            return [text for part in parts for text in _texts(part, names)]
        case ast.JoinedStr(values=parts):
            return ["".join(text for part in parts for text in _texts(part, names))]
        case ast.FormattedValue(value=value):
            return _texts(value, names)
    return []


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "toml"], ids=place)
def test_toml_is_what_kshunt_reads(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / Path(block.options["title"]).name
    path.write_text(block.text)
    path.chmod(0o600)
    match path.name:
        case "config.toml":
            found = load({"KSHUNT_CONFIG": str(path)})
            assert found.contexts
            assert {one.name for one in serve_settings(found, {})} <= flags()
        case "dashboard.toml":
            assert parse_settings(block.text).keys.keys() <= {action.name for action in ACTIONS}
        case _:
            assert read_scenario(path).brokers
    assert tomllib.loads(block.text)


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "properties"], ids=place)
def test_properties_are_what_kshunt_reads(block: Block, tmp_path: Path) -> None:
    path = tmp_path / block.options["title"]
    authority = Authority().file(tmp_path)
    path.write_text(block.text.replace("/etc/kshunt/ca.pem", str(authority)))
    path.chmod(0o600)
    if path.name.startswith("client"):
        assert load_client_config(path)
    else:
        assert "=" in block.text


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language in ("json", "yaml")], ids=place)
def test_json_and_yaml_are_that(block: Block) -> None:
    found = json.loads(block.text) if block.language == "json" else yaml.safe_load(block.text)
    assert isinstance(found, dict)
    if block.options.get("title") == "plan.json":
        assert parse_plan(block.text).replicas
