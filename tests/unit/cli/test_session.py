"""Which clusters can be opened, and what one cluster of a session leaves to the next one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kshunt.backend.cli import dashboard, demo_command
from kshunt.backend.cli.recent import KEPT, recent, recent_path, remember
from kshunt.backend.cli.session import Session
from kshunt.backend.errors import BackendUnreachable, KshuntError
from kshunt.tui.shell.contexts import ClusterChoice, Contexts, Origin

CONFIG = """
[contexts.prod]
bootstrap-server = "b1:9092,b2:9092"
token-file = "/run/secrets/prod"

[contexts.staging]
backend = "https://kshunt.example.org:8095"
"""


class Shown:
    """In place of dashboards: what each was started with, and what is wished for in it."""

    def __init__(self, wishes: Sequence[str]) -> None:
        self.wishes = list(wishes)
        self.started: list[tuple[list[str], str, Mapping[str, str]]] = []
        self.failures: list[str] = []
        self.broken: set[str] = set()
        self.mouse: list[bool] = []
        """Whether the chooser, or the demo, may take it."""

    def dashboard(self, argv: Sequence[str], contexts: Contexts, name: str, **_: Any) -> int:
        self.started.append((list(argv), name, dict(os.environ)))
        if name in self.broken:
            raise BackendUnreachable(f"{name} does not answer.")
        return self.wish(contexts, mouse="--no-mouse" not in argv)

    def wish(self, contexts: Contexts, *, mouse: bool = True) -> int:
        self.failures.append(contexts.failure)
        self.mouse.append(mouse)
        if self.wishes:
            title = self.wishes.pop(0)
            contexts.open(next(one for one in contexts.known() if one.title == title))
        return 0


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration, and folders of its own."""
    (tmp_path / "run").mkdir(mode=0o700)
    for variable, folder in (
        ("XDG_CONFIG_HOME", "config"),
        ("XDG_STATE_HOME", "state"),
        ("XDG_RUNTIME_DIR", "run"),
    ):
        monkeypatch.setenv(variable, str(tmp_path / folder))
    for variable in ("KSHUNT_CONFIG", "KSHUNT_CONTEXT", "KSHUNT_TOKEN_FILE", "KSHUNT_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "config" / "kshunt").mkdir(parents=True)
    (tmp_path / "config" / "kshunt" / "config.toml").write_text(CONFIG)
    return tmp_path


def session_of(monkeypatch: pytest.MonkeyPatch, words: Sequence[str], *wishes: str) -> Shown:
    """Run a session to its end."""
    shown = Shown(wishes)
    run(monkeypatch, words, shown)
    return shown


def run(monkeypatch: pytest.MonkeyPatch, words: Sequence[str], shown: Shown) -> int:
    monkeypatch.setattr(dashboard, "main", shown.dashboard)
    monkeypatch.setattr(
        demo_command, "main", lambda argv, own: shown.wish(own, mouse="--no-mouse" not in argv)
    )
    monkeypatch.setattr("kshunt.tui.__main__.choose", shown.wish)
    monkeypatch.setattr("kshunt.tui.terminal.signals.not_terminals", lambda: [])
    return Session(words, os.environ).run()


def test_a_token_of_one_cluster_is_not_shown_to_the_next(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = session_of(monkeypatch, ["--context", "prod"], "staging", "prod")
    tokens = [environ.get("KSHUNT_TOKEN_FILE") for _, _, environ in shown.started]
    assert tokens == ["/run/secrets/prod", None, "/run/secrets/prod"]
    assert [name for _, name, _ in shown.started] == ["prod", "staging", "prod"]


def test_a_token_that_was_typed_is_not_shown_to_the_next(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = ["--backend", "https://a.example.org", "--token-file", "/typed"]
    shown = session_of(monkeypatch, typed, "staging")
    tokens = [environ.get("KSHUNT_TOKEN_FILE") for _, _, environ in shown.started]
    assert tokens == ["/typed", None]


def test_what_was_forbidden_stays_forbidden(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["--context", "prod", "--read-only", "--no-record"]
    shown = session_of(monkeypatch, words, "demo", "staging")
    assert len(shown.started) == 2
    assert all({"--read-only", "--no-record"} <= set(argv) for argv, _, _ in shown.started)


def test_the_mouse_stays_with_the_terminal_for_the_whole_session(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = session_of(monkeypatch, ["--no-mouse"], "demo", "prod")
    assert shown.mouse[:2] == [False, False], "the chooser, then the demo"
    assert all("--no-mouse" in argv for argv, _, _ in shown.started)
    assert session_of(monkeypatch, [], "demo").mouse == [True, True]
    assert session_of(monkeypatch, ["demo", "--no-mouse"]).mouse == [False]


def test_a_failure_leads_back_to_the_chooser(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = Shown(["staging", "prod"])
    shown.broken = {"staging"}
    assert run(monkeypatch, [], shown) == 0
    chooser, again, opened = shown.failures
    assert (chooser, opened) == ("", "")
    assert again.startswith("staging was not opened. staging does not answer.")


def test_a_cluster_of_the_command_line_that_fails_ends_it(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = Shown([])
    shown.broken = {"prod"}
    with pytest.raises(KshuntError, match="prod does not answer"):
        run(monkeypatch, ["--context", "prod"], shown)


def test_flags_that_mean_a_context_have_its_name(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = session_of(monkeypatch, ["--bootstrap-server", "b2:9092, b1:9092"])
    assert [name for _, name, _ in shown.started] == ["prod"]


def test_choices(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session_of(
        monkeypatch, ["--bootstrap-server", "other:9092", "--command-config", "c.properties"]
    )
    session_of(monkeypatch, ["--bootstrap-server", "b1:9092,b2:9092"])
    config = Path("c.properties").absolute()
    words = ("--bootstrap-server=other:9092", f"--command-config={config}")
    assert list(Session([], os.environ).known()) == [
        ClusterChoice(Origin.CONTEXT, "prod", "b1:9092,b2:9092", ("--context", "prod")),
        ClusterChoice(
            Origin.CONTEXT, "staging", "https://kshunt.example.org:8095", ("--context", "staging")
        ),
        # The second one is the context `prod`.
        ClusterChoice(Origin.RECENT, "other:9092", "", words),
        ClusterChoice(Origin.DEMO, "demo", "a cluster in memory", ("demo",)),
    ]


def test_what_is_shown_is_listed_before_it_is_remembered(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ("--bootstrap-server=other:9092",)
    listed: list[ClusterChoice] = []

    def look(_: Sequence[str], contexts: Contexts, *__: Any, **___: Any) -> int:
        listed.extend(one for one in contexts.known() if one.command == contexts.present)
        assert recent(recent_path(os.environ)) == ()
        return 0

    monkeypatch.setattr(dashboard, "main", look)
    assert Session(flags, os.environ).run() == 0
    assert listed == [ClusterChoice(Origin.RECENT, "other:9092", "", flags)]
    assert recent(recent_path(os.environ)) == (flags,)


def test_a_browser_leaves_nothing(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session_of(monkeypatch, ["--bootstrap-server", "other:9092", "--in-browser"])
    assert recent(recent_path(os.environ)) == ()


def test_a_configuration_that_cannot_be_read_leaves_the_others(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session([], os.environ)
    (environment / "config" / "kshunt" / "config.toml").write_text("[contexts")
    assert [one.title for one in session.known()] == ["demo"]


def test_recent_clusters_are_bounded_and_the_last_one_is_first(tmp_path: Path) -> None:
    path = recent_path({"XDG_STATE_HOME": str(tmp_path)})
    for number in (*range(KEPT + 3), 5):
        remember(path, [f"--backend=unix:/{number}"])
    found = [words[0].rpartition("/")[2] for words in recent(path)]
    assert found == ["5", "12", "11", "10", "9", "8", "7", "6", "4", "3"]
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("content", ["", "{", '{"a": 1}', "[1]", "[[]]", '[["--x", 1]]'])
def test_a_damaged_file_of_recent_clusters_is_ignored(tmp_path: Path, content: str) -> None:
    path = tmp_path / "recent.json"
    path.write_text(content)
    assert recent(path) == ()


def test_client_properties_alone_open_no_list_that_would_ignore_them(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = session_of(monkeypatch, ["--command-config", "f"])
    assert [argv for argv, _, _ in shown.started] == [["--command-config", "f"]]
