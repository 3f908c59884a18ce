"""What the README says of keys and commands is what the program does."""

from __future__ import annotations

import re

from tests.support.paths import ROOT
from tui.actions import key_table

README = (ROOT / "README.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()


def test_the_key_table_is_the_registrys() -> None:
    keys = README.split("\n## Keys\n")[1].split("\n## ")[0].strip()
    assert keys == key_table().strip()


def test_every_make_target_that_it_names_exists() -> None:
    named = set(re.findall(r"^make (\w+)", README, re.MULTILINE))
    assert {"demo", "test", "check", "bench"} <= named
    targets = set(re.findall(r"^([\w-]+):", MAKEFILE, re.MULTILINE))
    assert named <= targets


def test_every_route_that_it_names_is_served() -> None:
    api = ROOT / "backend" / "api"
    names = tuple(path.stem for path in sorted(api.glob("*.py")))
    routes = "".join((api / f"{name}.py").read_text() for name in names)
    served = set(re.findall(r'"(/v1/[\w/{}-]+)"', routes))
    served |= {route.replace("{operation_id}", "ID") for route in served}
    served |= {route.replace("{topic}", "TOPIC") for route in served}
    named = set(re.findall(r"`?(?:GET|POST) (/v1/[\w/-]+)", README))
    named |= set(re.findall(r", `(/v1/[\w/-]+)", README))
    assert len(named) >= 10
    assert named <= served, named - served
