"""`kshunt` in a terminal: choose a cluster, change to another one, and one that fails."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from kshunt.backend.domain.cluster.metadata import TopicPartition
from tests.support.tui.backend import ScriptedBackend
from tests.support.tui.cluster import ScriptedCluster, incident
from tests.support.tui.emulated_terminal import emulated

DEADLINE_S = 60.0
SIZE = (100, 30)
ENTER, ESCAPE, CTRL_O = b"\r", b"\x1b", b"\x0f"


def cluster_with(topic: str) -> ScriptedCluster:
    cluster = incident()
    moving = cluster.partitions.pop(TopicPartition("orders", 0))
    cluster.partitions[TopicPartition(topic, 0)] = moving
    return cluster


def run(folder: Path) -> None:
    """A session in a terminal, from the chooser over two clusters and one that fails."""
    config = folder / "config.toml"
    config.write_text(
        f'[contexts.first]\nbackend = "unix:{folder}/a"\n'
        f'[contexts.second]\nbackend = "unix:{folder}/b"\n'
        f'[contexts.third]\nbackend = "unix:{folder}/none"\n'
    )
    run_folder = folder / "run"
    run_folder.mkdir(mode=0o700)
    environ = {name: str(folder) for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME")}
    environ |= {"KSHUNT_CONFIG": str(config), "XDG_RUNTIME_DIR": str(run_folder)}
    environ |= {"KSHUNT_CONTEXT": "", "KSHUNT_TOKEN_FILE": ""}
    with emulated([sys.executable, "-m", "kshunt"], environ, SIZE) as shown:
        shown.until("Enter opens, Esc leaves", DEADLINE_S)
        shown.press(ENTER)
        shown.until(" kshunt  first ", DEADLINE_S)
        shown.write("7")
        shown.until("apples", DEADLINE_S)
        shown.press(CTRL_O)
        shown.until("first   shown now", DEADLINE_S)
        shown.until("Enter opens, Esc closes", DEADLINE_S)
        shown.press(b"j", ENTER)
        shown.until(" kshunt  second ", DEADLINE_S)
        shown.write("7")
        text = shown.until("pears", DEADLINE_S)
        assert "apples" not in text
        assert "first" not in text
        shown.press(CTRL_O)
        shown.until("Enter opens, Esc closes", DEADLINE_S)
        shown.press(b"j", ENTER)
        shown.until(r"third was not opened\. No backend answers", DEADLINE_S)
        text = shown.until("Enter opens, Esc leaves", DEADLINE_S)
        assert "pears" not in text, text
        shown.press(ESCAPE)
        assert shown.program.ended(DEADLINE_S) == 0


async def test_from_one_cluster_to_another(tmp_path: Path) -> None:
    async with (
        ScriptedBackend(tmp_path / "a", cluster_with("apples")),
        ScriptedBackend(tmp_path / "b", cluster_with("pears")),
    ):
        await asyncio.to_thread(run, tmp_path)
