"""How a client is let in: flags, environment and contexts; files and commands; through tunnels."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from kshunt.backend.access.roles import Role
from kshunt.backend.access.tokens import TokenFile
from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.api.client.sending import credential
from kshunt.backend.api.client.sending.credential import token, token_for
from kshunt.backend.api.client.sending.stdlib_sender import StdlibSender
from kshunt.backend.cli.main import main as kshunt
from kshunt.backend.clock import SystemClock
from kshunt.backend.commandline.reading import UsageError
from kshunt.backend.config_file import CLIENT_VARIABLES, TAKES_CLUSTER, TOKEN_VARIABLES, expanded
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.errors import BackendError, BackendUnreachable, ConfigError
from tests.support.access.certificates import Authority
from tests.support.embedded.background import running
from tests.support.faults.tunnel import tunnel
from tests.support.ports import free_ports
from tests.support.serving import serve_process
from tests.support.tools import Stub
from tests.support.topics import create_topic

NAME = "kshunt.example.org"
SECRET = "not-to-be-shown"


@pytest.fixture(autouse=True)
def own_environment() -> Iterator[None]:
    """Flags go into this process's environment: as it was, afterwards."""
    before = dict(os.environ)
    for variable in (*TOKEN_VARIABLES, *CLIENT_VARIABLES.values()):
        os.environ.pop(variable, None)
    yield
    os.environ.clear()
    os.environ.update(before)


# What overrides what


def test_a_flag_goes_before_the_environment_and_that_before_the_context(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(
        '[contexts.c]\nbackend = "https://a"\ntoken-file = "/c"\nca-file = "/c.pem"\n'
        'tls-server-name = "c.example"\n'
    )
    plain = {"KSHUNT_CONFIG": str(path), "KSHUNT_CONTEXT": "c"}

    def told(*words: str, **environment: str) -> dict[str, str]:
        found = {**plain, **environment}
        assert expanded(["audit", *words], found) == ["audit", "--backend", "https://a"]
        return {name: value for name, value in found.items() if name not in plain}

    of_context = {"KSHUNT_CA_FILE": "/c.pem", "KSHUNT_TLS_SERVER_NAME": "c.example"}
    assert told() == {**of_context, "KSHUNT_TOKEN_FILE": "/c"}
    for variable in TOKEN_VARIABLES:
        assert told(**{variable: "e"}) == {**of_context, variable: "e"}
    environment = dict.fromkeys(TOKEN_VARIABLES, "e")
    assert told("--token-file", "/f", **environment) == {**of_context, "KSHUNT_TOKEN_FILE": "/f"}
    assert told("--token-command=pass show k", **environment) == {
        **of_context,
        "KSHUNT_TOKEN_COMMAND": "pass show k",
    }
    assert told("--ca-file", "/f.pem", "--tls-server-name=f", KSHUNT_CA_FILE="/e") == {
        "KSHUNT_CA_FILE": "/f.pem",
        "KSHUNT_TLS_SERVER_NAME": "f",
        "KSHUNT_TOKEN_FILE": "/c",
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--token", SECRET], "A token must not be a flag"),
        ([f"--token={SECRET}"], "A token must not be a flag"),
        (["--token-file", "/x", "--token-command", "y"], "both give the token"),
        (["--token-file"], "--token-file needs a value"),
        (["--token-command="], "--token-command needs a value"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_not_shown(words: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        expanded(["audit", "--backend", "https://a", *words], {"XDG_CONFIG_HOME": "/none"})
    assert SECRET not in str(caught.value)


def test_without_a_backend_they_mean_nothing() -> None:
    with pytest.raises(UsageError, match="--token-file needs --backend"):
        expanded(
            ["audit", "--bootstrap-server", "b:1", "--token-file", "/x"], {"XDG_CONFIG_HOME": "/"}
        )


@pytest.mark.parametrize("command", sorted(TAKES_CLUSTER - {"serve"}))
def test_every_command_takes_them_and_says_so(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [command] if command else []
    environment = {"XDG_CONFIG_HOME": "/none"}
    flags = ["--backend", "https://a", "--token-file", "/f"]
    assert expanded([*words, *flags], environment) == [*words, *flags[:2]]
    assert environment["KSHUNT_TOKEN_FILE"] == "/f"
    assert kshunt([*words, "--help"]) == 0
    shown = capsys.readouterr().out
    for name in CLIENT_VARIABLES:
        assert f"--{name}" in shown


# Files and commands


def private(path: Path, text: str) -> Path:
    path.touch(0o600)
    path.write_text(text)
    return path


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o620, 0o604, 0o601])
def test_a_file_that_others_can_open_is_refused(tmp_path: Path, mode: int) -> None:
    path = private(tmp_path / "token", SECRET)
    path.chmod(mode)
    os.environ["KSHUNT_TOKEN_FILE"] = str(path)
    with pytest.raises(ConfigError, match=f"open to other users .mode {mode:04o}") as caught:
        token()
    assert "chmod 600" in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_a_file_of_ones_own_is_read(tmp_path: Path, mode: int) -> None:
    path = private(tmp_path / "token", f"  {SECRET}\n")
    path.chmod(mode)
    os.environ["KSHUNT_TOKEN_FILE"] = str(path)
    assert token() == SECRET


def test_a_pipe_is_read() -> None:
    reader, writer = os.pipe()
    os.write(writer, SECRET.encode())
    os.close(writer)
    os.environ["KSHUNT_TOKEN_FILE"] = f"/dev/fd/{reader}"
    assert token() == SECRET
    os.close(reader)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read: No such file"),
        ("", "is empty"),
        ("two words", "holds no token"),
        ("\x00", "holds no token"),
        ("é", "holds no token"),
        ("x" * 50_000, "holds no token"),
    ],
)
def test_a_file_without_a_token_is_said_so(tmp_path: Path, content: str | None, said: str) -> None:
    path = tmp_path / "token"
    if content is not None:
        private(path, content)
    os.environ["KSHUNT_TOKEN_FILE"] = str(path)
    with pytest.raises(ConfigError, match=said):
        token()


def python(code: str) -> str:
    return f"{sys.executable} -c '{code}'"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (python("print()"), "command is empty"),
        (python(f'print("{SECRET} {SECRET}")'), "holds no token"),
        (python(f'print("{SECRET}"); raise SystemExit(3)'), "ended with 3"),
        (python('import os; os.write(1, b"\\xff\\xfe")'), "printed no token"),
        ("/none/keyring lookup", "cannot be run: No such file"),
        (os.devnull, "cannot be run: Permission denied"),
        ("an 'open quote", "cannot be read: No closing quotation"),
        ("   ", "is empty"),
    ],
)
def test_a_command_that_gives_no_token_is_said_so(command: str, said: str) -> None:
    os.environ["KSHUNT_TOKEN_COMMAND"] = command
    with pytest.raises(ConfigError, match=said) as caught:
        token()
    assert SECRET not in str(caught.value)


def test_a_command_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credential, "COMMAND_S", 0.3)
    os.environ["KSHUNT_TOKEN_COMMAND"] = python("import signal; signal.pause()")
    with pytest.raises(ConfigError, match=r"did not end within 0\.3 s"):
        token()


def test_a_command_is_run_without_a_shell(tmp_path: Path) -> None:
    os.environ["KSHUNT_TOKEN_COMMAND"] = f"echo token;touch {tmp_path}/made"
    with pytest.raises(ConfigError, match="holds no token"):
        token()
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://kshunt.example.org", True),
        ("http://127.0.0.1:8095", True),
        ("http://localhost:8095", True),
        ("http://[::1]:8095", True),
        ("http://kshunt.example.org", False),
        ("http://127.0.0.1.example.org", False),
    ],
)
def test_a_token_is_never_sent_in_the_clear(address: str, shown: bool) -> None:
    os.environ["KSHUNT_TOKEN"] = SECRET
    if shown:
        assert token_for(address) == SECRET
        return
    with pytest.raises(ConfigError, match="could read the token"):
        token_for(address)
    del os.environ["KSHUNT_TOKEN"]
    assert token_for(address) == ""


# Refusals in words


@pytest.mark.parametrize(
    ("status", "document", "said"),
    [
        (401, {"detail": "The token is not valid.", "advice": "Give one."}, "not valid. Give one."),
        (401, {"detail": "The token is not valid."}, "Give a valid token by --token-file"),
        (401, ["a proxy's"], "without a reason: is it a kshunt backend?"),
        (403, {"detail": "ada is viewer."}, "ada is viewer. Ask a person who has the role"),
        (403, 5, "is it a kshunt backend?"),
        (407, {}, "A proxy answered"),
        (421, {}, "--tls-server-name"),
        (502, {}, "The backend answered 502."),
    ],
)
def test_a_refusal_says_what_to_do(stub: Stub, status: int, document: object, said: str) -> None:
    stub.says(document, status)
    with BackendClient(stub.address) as client, pytest.raises(BackendError) as caught:
        client.cluster()
    assert said in str(caught.value)
    assert caught.value.status == status
    quick = StdlibSender(stub.address)
    with pytest.raises(BackendError) as same:
        quick.get("/v1/cluster")
    quick.close()
    assert str(same.value) == str(caught.value)


# Tunnels


@dataclass(frozen=True)
class Far:
    """A backend over TLS whose certificate is for another name, and a socket of another one."""

    port: int
    socket: Path
    ca: Path
    token: Path

    def flags(self, port: int) -> list[str]:
        return [
            *("--backend", f"https://localhost:{port}", "--ca-file", str(self.ca)),
            *("--token-file", str(self.token)),
        ]


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Far]:
    folder = tmp_path_factory.mktemp("far")
    authority, tokens = Authority(), TokenFile(folder / "tokens.json", SystemClock())
    certificate, key = authority.issue(NAME).write(folder)
    text = tokens.create("ada", Role.OPERATOR)[1]
    port, socket = free_ports(1)[0], folder / "k.sock"
    with running(ClusterSpec(brokers=plain_brokers(3))) as cluster:
        create_topic(cluster.bootstrap_servers, "orders", [[1, 2], [2, 3]])
        with (
            serve_process(
                *(cluster.bootstrap_servers, folder / "tls", "--listen", f"127.0.0.1:{port}"),
                *("--tokens", str(folder / "tokens.json")),
                *("--tls-certificate", str(certificate), "--tls-key", str(key)),
            ),
            serve_process(cluster.bootstrap_servers, socket),
        ):
            token_file = private(folder / "token", text)
            yield Far(port, socket, authority.file(folder), token_file)


COMMANDS = (
    ("audit",),
    ("kafka-topics", "--list"),
    ("kafka-reassign-partitions", "--list"),
    ("plan", "leaders"),
    ("proposals", "list"),
)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_through_a_tunnel_each_tool_finds_the_name_that_it_is_told(
    far: Far, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with tunnel(("127.0.0.1", far.port)) as port:
        code = kshunt([*words, *far.flags(port), "--tls-server-name", NAME])
    out, err = capsys.readouterr()
    assert code == 0, err
    assert out


def test_through_a_tunnel_another_name_is_not_believed(
    far: Far, capsys: pytest.CaptureFixture[str]
) -> None:
    with tunnel(("127.0.0.1", far.port)) as port:
        for words in (["audit"], ["kafka-reassign-partitions", "--list"]):
            assert kshunt([*words, *far.flags(port)]) == 1
            said = capsys.readouterr().err
            assert "certificate of https://localhost:" in said
            assert "in the certificate by --tls-server-name" in said
        assert kshunt(["audit", *far.flags(port), "--tls-server-name", "other.example.org"]) == 1
        assert "certificate" in capsys.readouterr().err
        assert kshunt(["audit", *far.flags(port), "--tls-server-name", "no name!"]) == 1
        assert "is not a server name" in capsys.readouterr().err


def test_a_token_that_is_not_valid_is_said_with_what_to_do(
    far: Far, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = private(tmp_path / "wrong", f"kshunt_{'0' * 12}_{'A' * 43}")
    with tunnel(("127.0.0.1", far.port)) as port:
        flags = [*far.flags(port)[:-1], str(wrong), "--tls-server-name", NAME]
        assert kshunt(["audit", *flags]) == 1
    said = capsys.readouterr().err
    assert "not valid" in said
    assert "--token-file" in said
    assert "A" * 43 not in said


def test_streams_go_through_a_tunnel(far: Far) -> None:
    os.environ["KSHUNT_TOKEN_COMMAND"] = f"cat {far.token}"
    os.environ["KSHUNT_CA_FILE"] = str(far.ca)
    os.environ["KSHUNT_TLS_SERVER_NAME"] = NAME
    with (
        tunnel(("127.0.0.1", far.port)) as port,
        BackendClient(f"https://localhost:{port}") as client,
    ):
        snapshots = client.snapshots()
        assert next(snapshots).topics
        snapshots.close()
    with pytest.raises(BackendUnreachable), BackendClient(f"https://localhost:{port}") as client:
        client.cluster()


def test_a_tunnel_may_lead_to_a_socket(far: Far, capsys: pytest.CaptureFixture[str]) -> None:
    with tunnel(far.socket) as port:
        for words in COMMANDS[:4]:
            code = kshunt([*words, "--backend", f"http://localhost:{port}"])
            assert code == 0, capsys.readouterr().err


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "kshunt"}, 200),
        ({"host": "rebound.example.org"}, 403),
        ({"host": "10.0.0.7:80"}, 403),
        ({"origin": "https://example.org"}, 403),
    ],
)
def test_a_web_page_does_not_come_through_a_tunnel_to_a_socket(
    far: Far, headers: dict[str, str], status: int
) -> None:
    with tunnel(far.socket) as port:
        answer = httpx.get(f"http://localhost:{port}/v1/cluster", headers=headers)
    assert answer.status_code == status
