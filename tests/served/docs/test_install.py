"""The manual's ways to install kshunt, each as it is printed, without a network.

Packages come from this environment: `tests.support.packages.linked_wheels` says how. pipx is not
part of it, and `uv tool` does what the manual says that pipx does.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from kshunt import __version__
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from tests.support.documents.blocks import Block
from tests.support.documents.image import Image
from tests.support.documents.printed import lines, printed_blocks
from tests.support.documents.session import Session, session_on
from tests.support.embedded.background import running
from tests.support.packages.linked_wheels import LinkedWheels, linked_wheels
from tests.support.paths import ROOT
from tests.support.ports import free_ports

PAGES = ("README.md", "docs/quick-start.md", "docs/operating/pipeline.md")
CHECKS = "command -v kshunt\nkshunt --version\nkshunt demo --list\n"
"""What a reader tries next."""
FILES = ("pyproject.toml", "README.md", "LICENSE", "requirements.lock", ".gitignore")
FOLDERS = ("src", "backend", "tui", "themes", "examples")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> LinkedWheels:
    return linked_wheels(tmp_path_factory.mktemp("wheels"))


def check_out(folder: Path, wheels: LinkedWheels) -> None:
    """What a build reads of the repository."""
    unread = shutil.ignore_patterns("__pycache__")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=unread)
    for name in FILES:
        shutil.copy(ROOT / name, folder / name)
    lock = folder / "requirements.lock"
    lock.write_text(wheels.lock(lock.read_text()))


@contextmanager
def checkout(wheels: LinkedWheels) -> Iterator[Session]:
    """A reader in a checkout, with python3, pipx and uv, and without kshunt."""
    variables = {
        **{"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels.folder), "PYTHONPATH": ""},
        # Modules are run a few times each, and pip reads this setting the other way round.
        **{"PIP_CONFIG_FILE": "/dev/null", "PIP_NO_CACHE_DIR": "1", "PIP_NO_COMPILE": "no"},
        **{"UV_OFFLINE": "1", "UV_NO_CONFIG": "1", "UV_FIND_LINKS": str(wheels.folder)},
        "UV_PYTHON_DOWNLOADS": "never",
    }
    with session_on("", "", {}, variables) as reader:
        programs = reader.folder / "bin"
        variables["UV_TOOL_BIN_DIR"] = str(programs)
        (programs / "kshunt").unlink()
        base = Path(sys.executable).resolve()
        variables["UV_PYTHON"] = str(base)
        (programs / "python3").symlink_to(base)
        (programs / "python").symlink_to(base)
        uv = Path(sys.executable).with_name("uv")
        (programs / "uv").symlink_to(uv)
        (programs / "pipx").write_text(f'#!/bin/sh\nexec {uv} tool "$@" --force\n')
        (programs / "pipx").chmod(0o755)
        check_out(reader.folder / "work", wheels)
        yield reader


def blocks(page: str, *, image: bool) -> list[Block]:
    found = printed_blocks(page, __file__)
    return [block for block in found if block.text.startswith("docker ") is image]


@pytest.mark.parametrize("page", PAGES)
def test_each_way_to_install_it_works(page: str, wheels: LinkedWheels) -> None:
    with checkout(wheels) as reader:
        for block in blocks(page, image=False):
            before = len(reader.said)
            reader.run(replace(block, text=block.text + CHECKS))
            said = reader.said[before:]
            assert f"\n{reader.folder}/" in said
            assert __version__ in said
            assert "throttle-too-low" in said
            assert "does not have an extra" not in said
            assert ("pyspark==" in said) is ("pipeline" in block.text)
            (reader.folder / "bin" / "kshunt").unlink(missing_ok=True)


def test_the_image_serves_what_its_configuration_says(wheels: LinkedWheels) -> None:
    [block] = blocks("README.md", image=True)
    [command] = lines(block)
    with (
        checkout(wheels) as reader,
        running(ClusterSpec(plain_brokers(1))) as cluster,
        Image(command, reader.folder, reader.environment) as image,
    ):
        image.build()
        assert image.started("--version") == f"kshunt {__version__}\n"
        port = free_ports(1)[0]
        image.configure(
            f'[serve]\nbootstrap-server = "{cluster.bootstrap_servers}"\n'
            f'listen = "127.0.0.1:{port}"\n'
        )
        image.serve()
        image.check_health({"8095": str(port)})
