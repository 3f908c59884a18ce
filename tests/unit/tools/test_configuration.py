"""Settings from a file and the environment: what overrides what, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kshunt.backend.addresses import without_secrets
from kshunt.backend.cli import config as whole_config
from kshunt.backend.commandline.reading import UsageError
from kshunt.backend.config_file import expanded
from kshunt.backend.errors import ConfigError
from kshunt.backend.tools import config
from tests.support.paths import ROOT
from tests.support.tools import run_with

FILE = """
context = "prod"

[contexts.prod]
bootstrap-server = "broker1:9092,broker2:9092"
command-config = "/etc/kshunt/prod.properties"

[contexts.shared]
backend = "https://kshunt.example.org:8095"
token-file = "/run/secrets/kshunt"
ca-file = "/etc/kshunt/ca.pem"

[serve]
listen = "0.0.0.0:8095"
keep-samples = 3
pipeline = true
oidc-role = ["oncall=operator", "owner=admin"]
"""
PROD = [
    *("--bootstrap-server", "broker1:9092,broker2:9092"),
    *("--command-config", "/etc/kshunt/prod.properties"),
]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "config.toml"
    path.write_text(FILE)
    return {"KSHUNT_CONFIG": str(path)}


@pytest.mark.parametrize(
    ("words", "added"),
    [
        ([], PROD),
        (["plan", "leaders"], PROD),
        (["kafka-topics", "--list"], PROD),
        (["--context", "shared"], ["--backend", "https://kshunt.example.org:8095"]),
        (["audit", "--context=shared"], ["--backend", "https://kshunt.example.org:8095"]),
        (["--backend", "unix:/x"], []),
        (["--bootstrap-server=b:1"], []),
        (["plan", "leaders", "--picture", "x"], []),
        (["demo"], []),
        (["kafka-topics", "--help"], []),
        (["serve", "--linger", "--bootstrap-server", "b:1"], []),
    ],
)
def test_a_context_names_the_cluster_unless_a_flag_does(
    environment: dict[str, str], words: list[str], added: list[str]
) -> None:
    plain = [word for word in words if not word.startswith("--context") and word != "shared"]
    assert expanded(words, environment) == [*plain, *added]


def test_the_environment_chooses_another_context(environment: dict[str, str]) -> None:
    environment["KSHUNT_CONTEXT"] = "shared"
    assert expanded(["audit"], environment)[1:] == ["--backend", "https://kshunt.example.org:8095"]
    assert environment["KSHUNT_TOKEN_FILE"] == "/run/secrets/kshunt"
    assert environment["KSHUNT_CA_FILE"] == "/etc/kshunt/ca.pem"


def test_what_is_set_in_the_environment_stays(environment: dict[str, str]) -> None:
    environment |= {"KSHUNT_CONTEXT": "shared", "KSHUNT_TOKEN_FILE": "/mine"}
    expanded([], environment)
    assert environment["KSHUNT_TOKEN_FILE"] == "/mine"


def test_flags_go_before_the_environment_and_that_before_the_file(
    environment: dict[str, str],
) -> None:
    environment |= {
        "KSHUNT_SERVE_LISTEN": "127.0.0.1:1",
        "KSHUNT_SERVE_KEEP_SAMPLES": "9",
        "KSHUNT_SERVE_PIPELINE": "false",
    }
    found = expanded(["serve", "--keep-samples", "1"], environment)
    assert found == [
        *("serve", "--keep-samples", "1", "--listen", "127.0.0.1:1"),
        *("--oidc-role", "oncall=operator", "--oidc-role", "owner=admin"),
        *PROD,
    ]


def test_without_a_file_nothing_is_added(tmp_path: Path) -> None:
    assert expanded(["plan", "leaders"], {"XDG_CONFIG_HOME": str(tmp_path)}) == ["plan", "leaders"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("context = ", "is not valid TOML"),
        ("\xff", "is not valid TOML"),
        ("contexts = 3", "must be tables"),
        ('context = "gone"', r"\[contexts.gone\], which does not exist"),
        ("[contexts]\nx = 3", "is not a table"),
        ('[contexts.a]\npassword = "x"', r"unknown key 'password' .* The keys are: backend, "),
        ('[contexts.a]\ntokenfile = "x"', "Did you mean 'token-file'"),
        ('colour = "red"', "unknown key 'colour'. The keys are: context, contexts, serve"),
        ("[server]\nlisten = 1", "Did you mean 'serve'"),
        ("[serve]\nlisten = {a = 1}", "must be text"),
        ("[serve]\nUPPER = 1", "unknown key 'UPPER'"),
        ("serve = 3", "is not a table"),
    ],
)
def test_a_file_that_nobody_understands_is_refused(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(ConfigError, match=said):
        expanded([], {"KSHUNT_CONFIG": str(path)})


def test_what_is_named_and_not_there_is_refused(
    environment: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="which does not exist"):
        expanded([], {"KSHUNT_CONFIG": str(tmp_path / "none")})
    with pytest.raises(ConfigError, match="There is no context 'dev'"):
        expanded(["--context", "dev"], environment)
    with pytest.raises(UsageError, match="needs a name"):
        expanded(["--context"], environment)
    with pytest.raises(UsageError, match="cannot be used with"):
        expanded(["--context", "prod", "--backend", "unix:/x"], environment)
    with pytest.raises(UsageError, match="has no effect on kshunt demo"):
        expanded(["demo", "--context", "prod"], environment)


def refused(*words: str, **environment: str) -> str:
    """What a command says that nobody understands."""
    done = subprocess.run(
        [sys.executable, "-m", "kshunt", *words],
        env={
            "PATH": "",
            "PYTHONPATH": str(ROOT / "src"),
            "XDG_CONFIG_HOME": "/none",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 2
    return done.stderr


def test_a_flag_that_is_none_is_named_with_where_it_stands_and_not_with_what_it_holds(
    tmp_path: Path,
) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[serve]\nbootstrap-server = "b:1"\nwebhoook = "https://a/hidden"\n')
    said = refused("serve", KSHUNT_CONFIG=str(path))
    assert f"--webhoook. Did you mean '--webhook'?\n{path} [serve] has it." in said
    assert "hidden" not in said
    said = refused("serve", "--bootstrap-server", "b:1", KSHUNT_SERVE_TOKNES="x")
    assert "--toknes. Did you mean '--tokens'?\nKSHUNT_SERVE_TOKNES has it." in said
    said = refused("serve", "--bootstrap-server", "b:1", "--nonsense=hidden", "more")
    assert "unknown option --nonsense.\nRun 'kshunt serve --help' for every option." in said
    assert "hidden" not in said
    assert "unexpected word 'more'" in refused("serve", "--bootstrap-server", "b:1", "more")


@pytest.mark.parametrize("command", ["", "serve", "web", "proposals"])
def test_a_context_does_not_go_before_a_flag_that_is_cut_short(
    environment: dict[str, str], command: str
) -> None:
    words = [command] * bool(command) + ["list"] * (command == "proposals")
    assert "--bootstrap" in refused(*words, "--bootstrap", "dev:9092", **environment)


def test_what_is_empty_says_nothing(environment: dict[str, str], tmp_path: Path) -> None:
    environment |= {"KSHUNT_CONTEXT": "shared", "KSHUNT_TOKEN_FILE": "", "KSHUNT_CA_FILE": ""}
    expanded(["audit"], environment)
    assert environment["KSHUNT_TOKEN_FILE"] == "/run/secrets/kshunt"
    assert environment["KSHUNT_CA_FILE"] == "/etc/kshunt/ca.pem"
    nothing = {"KSHUNT_CONFIG": "", "XDG_CONFIG_HOME": str(tmp_path / "none")}
    assert expanded(["audit"], nothing) == ["audit"]


def test_of_a_webhook_config_shows_the_host_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.toml"
    hooks = ["https://u:secret@hooks.example.org/secret?x=secret", "https://[secret"]
    path.write_text(f"[serve]\nwebhook = {json.dumps(hooks)}\n")
    monkeypatch.setenv("KSHUNT_CONFIG", str(path))
    run = run_with(config.main, capsys)
    assert "webhook = ('https://hooks.example.org/…', '…')" in run()[1]
    monkeypatch.setenv("KSHUNT_SERVE_WEBHOOK", "https://hooks.example.org/secret")
    for shown in (run()[1], run("--json")[1]):
        assert "hooks.example.org" in shown
        assert "secret" not in shown.replace("webhook-secret-file", "")


def test_config_shows_no_password_of_an_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(
        'context = "a"\n[contexts.a]\nbackend = "https://ada:hidden@kshunt:1/?token=hidden"\n'
        '[contexts.b]\nbootstrap-server = "ada:hidden@b1:9092,b2:9092"\n'
        '[serve]\npipeline-master = "sc://u:hidden@spark:15002/;token=hidden;user_id=me"\n'
        'oidc-keys = "https://id.example.org/keys?key=hidden&v=2"\n'
    )
    monkeypatch.setenv("KSHUNT_CONFIG", str(path))
    run = run_with(config.main, capsys)
    text, document = run()[1], run("--json")[1]
    assert "hidden" not in text + document
    assert "backend = 'https://…@kshunt:1/?token=…'" in text
    assert json.loads(document)["contexts"]["b"]["bootstrap-server"]["value"] == "…@b1:9092,b2:9092"
    assert "sc://…@spark:15002/;token=…;user_id=…" in text


@pytest.mark.parametrize(
    "text",
    [
        *("broker1:9092,broker2:9092", "unix:/run/kshunt.sock", "https://kshunt:8095"),
        *("/etc/kshunt/a@b.properties", "local[*]", "zk1:2181,zk2:2181/kafka", "[::1]:9092"),
    ],
)
def test_an_address_without_secrets_is_shown_as_it_is(text: str) -> None:
    assert without_secrets(text) == text


def test_config_names_what_serve_would_refuse_and_hides_what_a_command_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(
        'context = "a"\n[contexts.a]\nbackend = "https://a"\ntoken-command = "vault -t secret"\n'
        '[serve]\nlissten = "127.0.0.1:1"\n'
    )
    monkeypatch.setenv("KSHUNT_CONFIG", str(path))
    run = run_with(config.main, capsys)
    _, text, problems = run()
    assert "token-command = 'vault …'" in text
    assert "'lissten' is not an option of kshunt serve. Did you mean 'listen'?" in problems
    document = run("--json")[1]
    assert len(json.loads(document)["problems"]) == 1
    assert "secret" not in text + document


def test_config_shows_each_value_with_its_source(
    environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("KSHUNT_SERVE_LISTEN", "127.0.0.1:1")
    monkeypatch.setenv("KSHUNT_TOKEN", "kshunt_secret")
    run = run_with(config.main, capsys)
    code, text, _ = run()
    assert code == 0
    assert "context: prod (by the file)" in text
    assert "  listen = '127.0.0.1:1'  (KSHUNT_SERVE_LISTEN)" in text
    assert "  keep-samples = '3'" in text
    assert "other contexts: shared" in text
    assert "KSHUNT_TOKEN is set" in text
    assert "kshunt_secret" not in text
    found = json.loads(run("--json")[1])
    assert found["serve"]["listen"]["source"] == "KSHUNT_SERVE_LISTEN"
    assert found["client"]["KSHUNT_TOKEN"] is True


def test_config_shows_the_dashboards_own_file(
    environment: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KSHUNT_CONFIG", environment["KSHUNT_CONFIG"])
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("KSHUNT_SETTINGS", raising=False)
    path = tmp_path / "kshunt" / "dashboard.toml"
    run = run_with(whole_config.main, capsys)
    code, text, _ = run()
    assert code == 0
    assert f"dashboard: {path} (not there)" in text
    assert "  start_view = 'overview'  (default)" in text
    path.parent.mkdir()
    path.write_text(
        'theme = "mono"\nbell = true\n[keys]\nfollow = "J"\n[sort]\npartitions = ["-lag_bytes"]\n'
    )
    text = run()[1]
    assert f"dashboard: {path}\n" in text
    for line in (
        f"theme = 'mono'  ({path})",
        f"bell = True  ({path})",
        "read_only = False  (default)",
        f"keys.follow = ('J',)  ({path})",
        f"sort.partitions = ('-lag_bytes',)  ({path})",
    ):
        assert f"  {line}\n" in f"{text}\n"
    found = json.loads(run("--json")[1])["dashboard"]
    assert (found["file"], found["found"]) == (str(path), True)
    assert found["settings"]["theme"] == {"value": "mono", "source": str(path)}
    path.write_text("theme = 3\n")
    _, text, problems = run()
    assert f"dashboard: {path} (cannot be used)" in text
    assert "theme must be a text in quotes" in problems
