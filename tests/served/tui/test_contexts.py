"""`kshunt` in a terminal: choose a cluster, change to another one, and one that fails."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from kshunt.backend.domain.cluster.metadata import TopicPartition
from tests.support.terminal import Terminal, terminal
from tests.support.tui.backend import ScriptedBackend
from tests.support.tui.cluster import ScriptedCluster, incident
from tests.support.tui.screen import Emulator

DEADLINE_S = 60.0
SIZE = (100, 30)


def cluster_with(topic: str) -> ScriptedCluster:
    cluster = incident()
    moving = cluster.partitions.pop(TopicPartition("orders", 0))
    cluster.partitions[TopicPartition(topic, 0)] = moving
    return cluster


def shows(shown: Terminal, screen: Emulator, condition: Callable[[str], bool], what: str) -> str:
    """What is on the screen, once the condition holds."""
    fed = getattr(screen, "fed", 0)
    for _ in range(int(DEADLINE_S / 0.1)):
        screen.write(shown.written[fed:].decode("utf-8", "ignore"))
        fed = screen.fed = len(shown.written)  # type: ignore[attr-defined]
        if condition(screen.text()):
            return screen.text()
        shown.written += shown.take(0.1) or b""
    raise AssertionError(f"not shown: {what}\n{screen.text()}")


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
    screen = Emulator(*SIZE)
    with terminal([sys.executable, "-m", "kshunt"], environ, SIZE) as shown:
        shows(shown, screen, lambda text: "Enter opens, Esc leaves" in text, "the chooser")
        shown.press(b"\r")
        shows(shown, screen, lambda text: " kshunt  first " in text, "the first cluster")
        shown.press(b"2")
        shows(shown, screen, lambda text: "apples" in text, "a topic of the first cluster")
        shown.press(b"\x0f")
        shows(shown, screen, lambda text: "first   shown now" in text, "where it is")
        shows(shown, screen, lambda text: "Enter opens, Esc closes" in text, "all are listed")
        shown.press(b"j\r")
        shows(shown, screen, lambda text: " kshunt  second " in text, "the second cluster")
        shown.press(b"2")
        text = shows(shown, screen, lambda text: "pears" in text, "a topic of the second cluster")
        assert "apples" not in text
        assert "first" not in text
        shown.press(b"\x0f")
        shows(shown, screen, lambda text: "Enter opens, Esc closes" in text, "the chooser again")
        shown.press(b"j\r")
        failed = "third was not opened. No backend answers"
        shows(shown, screen, lambda text: failed in text, "why the third one failed")
        text = shows(shown, screen, lambda text: "Enter opens, Esc leaves" in text, "the list")
        assert "pears" not in text, text
        shown.press(b"\x1b")
        assert shown.ended(DEADLINE_S) == 0


async def test_from_one_cluster_to_another(tmp_path: Path) -> None:
    async with (
        ScriptedBackend(tmp_path / "a", cluster_with("apples")),
        ScriptedBackend(tmp_path / "b", cluster_with("pears")),
    ):
        await asyncio.to_thread(run, tmp_path)
