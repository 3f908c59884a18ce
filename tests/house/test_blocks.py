"""Every block of code of README and docs is parsed or run, or says why not.

`tests/served/docs` runs what a shell gets. Here the rest is read as kshunt reads it.
"""

from __future__ import annotations

import json
import tomllib
from collections import Counter
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
from tests.support.paths import ROOT

BLOCKS = all_blocks()
NOT_RUN = Counter(
    {
        ("README.md", "installs packages"): 3,
        ("README.md", "needs a container"): 1,
        ("docs/operating/pipeline.md", "installs packages"): 1,
        ("docs/operating/pipeline.md", "needs Java"): 5,
        ("docs/operating/reports.md", "needs results"): 1,
        ("docs/operating/security.md", "needs another host"): 2,
        ("docs/operating/zookeeper.md", "needs ZooKeeper"): 1,
        ("docs/quick-start.md", "installs packages"): 2,
        ("docs/quick-start.md", "needs brokers with TLS"): 1,
    }
)
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
