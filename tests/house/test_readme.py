"""What README and CONTRIBUTING say of keys, commands and tiers is what there is."""

from __future__ import annotations

import re

from kshunt.tui.actions import key_table
from tests.support.paths import ROOT
from tests.support.runs.tiers import SLOW_FOLDERS

README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()


def test_the_key_table_is_the_registrys() -> None:
    keys = README.split("\n## Keys\n")[1].split("\n## ")[0].strip()
    assert keys == key_table().strip()


def test_every_make_target_that_it_names_exists() -> None:
    named = set(re.findall(r"^make ([\w-]+)", README + CONTRIBUTING, re.MULTILINE))
    assert {"demo", "test", "test-all", "check", "coverage", "bench"} <= named
    targets = set(re.findall(r"^([\w-]+):", MAKEFILE, re.MULTILINE))
    assert named <= targets


def test_every_route_that_it_names_is_served() -> None:
    api = ROOT / "backend" / "api"
    folders = (api / "routes", api / "server")
    routes = "".join(path.read_text() for folder in folders for path in folder.glob("*.py"))
    served = set(re.findall(r'"(/v1/[\w/{}-]+)"', routes))
    served |= {route.replace("{operation_id}", "ID") for route in served}
    served |= {route.replace("{topic}", "TOPIC") for route in served}
    named = set(re.findall(r"`?(?:GET|POST) (/v1/[\w/-]+)", README))
    named |= set(re.findall(r", `(/v1/[\w/-]+)", README))
    assert len(named) >= 10
    assert named <= served, named - served


def test_each_folder_of_tests_has_its_line_and_its_tier() -> None:
    tiers_told, places = (
        CONTRIBUTING.split(f"\n## {heading}\n")[1].split("\n## ")[0]
        for heading in ("Tiers of tests", "Where a test lies")
    )
    first_cells = re.findall(r"^\| (`.+?) \|", places, re.MULTILINE)
    told = set(re.findall(r"`([a-z]+)", " ".join(first_cells)))
    assert told == {path.parent.name for path in (ROOT / "tests").glob("*/__init__.py")}
    rows = dict(re.findall(r"^\| (quick|slow) \| (.+?) \|", tiers_told, re.MULTILINE))
    slow = set(re.findall(r"`([a-z]+)`", rows["slow"])) - {"slow"}
    quick = set(re.findall(r"`([a-z]+)`", rows["quick"]))
    assert slow == set(SLOW_FOLDERS)
    assert quick == told - slow - {"bench", "support", "conformance"}
