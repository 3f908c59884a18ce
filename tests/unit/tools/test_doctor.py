"""`kshunt doctor`: each thing that is missing has a line with what to do; nothing is changed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.settings import Settings
from kshunt.backend.tools.doctor import cluster_checks, command, installation
from kshunt.backend.tools.doctor.findings import Finding, report
from kshunt.backend.tools.doctor.installation import samples_folder
from tests.support.client_properties import PLAIN
from tests.support.embedded.background import Running, running
from tests.support.embedded.rights import AUTHORIZED, allow
from tests.support.embedded.users import USERS
from tests.support.tools import Stub, Tool, run_with

LOOK = ("DESCRIBE cluster", "DESCRIBE_CONFIGS cluster")
CHANGE = (*LOOK, "ALTER cluster", "ALTER_CONFIGS cluster", "DESCRIBE topic *")


@pytest.fixture
def tool(capsys: pytest.CaptureFixture[str]) -> Tool:
    return run_with(lambda arguments: command.main(arguments, tuple), capsys)


@pytest.fixture(scope="module")
def guarded() -> Iterator[Running]:
    """Two brokers; alice may look, bob may change but not use the journal."""
    acls = [allow(right, "User:alice") for right in LOOK]
    acls += [allow(right, "User:bob") for right in CHANGE]
    spec = ClusterSpec(plain_brokers(2), static=AUTHORIZED, users=USERS, acls=tuple(acls))
    with running(spec) as handle:
        yield handle


def logged_in(cluster: Running, name: str, folder: Path) -> Settings:
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN} required username="{name}" password="{USERS[name]}";',
    }
    path = folder / f"{name}.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return Settings(cluster.bootstrap_servers, path)


def statuses(findings: list[Finding]) -> Mapping[str, str]:
    return {finding.subject: finding.status for finding in findings}


def test_a_principal_that_may_only_look_learns_which_acls_a_change_needs(
    guarded: Running, tmp_path: Path
) -> None:
    found = cluster_checks.check_cluster(logged_in(guarded, "alice", tmp_path))
    assert statuses(found) == {
        "broker 1": "ok",
        "broker 2": "ok",
        "ACLs to look": "ok",
        "ACLs to change": "warning",
        "journal __kshunt_journal": "warning",
    }
    (change,) = [one for one in found if one.subject == "ACLs to change"]
    assert change.message == "ALTER, ALTER_CONFIGS on the cluster: missing."
    assert "quick start" in change.advice


def test_a_principal_with_the_acls_of_a_change_has_no_warning(
    guarded: Running, tmp_path: Path
) -> None:
    found = cluster_checks.check_cluster(logged_in(guarded, "bob", tmp_path))
    assert set(statuses(found).values()) == {"ok"}
    assert "does not exist yet" in found[-1].message


def test_a_wrong_password_is_the_one_finding(guarded: Running, tmp_path: Path) -> None:
    settings = logged_in(guarded, "alice", tmp_path)
    assert settings.command_config is not None
    text = settings.command_config.read_text()
    settings.command_config.write_text(text.replace(USERS["alice"], "wrong"))
    (finding,) = cluster_checks.check_cluster(settings)
    assert (finding.subject, finding.status) == ("cluster", "problem")
    assert "wrong" not in finding.message


def test_a_broker_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_checks, "TIMEOUT_S", 1.0)
    with running(ClusterSpec(plain_brokers(3))) as cluster:
        cluster.call(lambda running_cluster: running_cluster.stall_broker(2))
        found = cluster_checks.check_cluster(Settings(cluster.bootstrap_servers))
        cluster.call(lambda running_cluster: running_cluster.resume_broker(2))
    assert [one.subject for one in found if one.status == "problem"] == ["broker 2"]
    assert statuses(found)["broker 3"] == "ok"


def test_a_cluster_that_does_not_answer_is_a_problem(tool: Tool) -> None:
    code, out, _ = tool("--bootstrap-server", "127.0.0.1:1")
    assert code == 1
    assert "FAIL cluster: No broker answered" in out


def test_without_a_cluster_it_says_how_to_name_one(tool: Tool) -> None:
    code, out, _ = tool()
    assert code == 0
    assert "?    cluster: No cluster is named" in out
    assert "→ Name one: --bootstrap-server" in out


def test_a_backend_tells_its_own_checks(tool: Tool, stub: Stub) -> None:
    checks = [
        {"name": "cluster", "ok": True, "words": "3 of 3 brokers answer"},
        {"name": "changes", "ok": False, "words": "rejected: the journal cannot be used"},
    ]
    stub.says({"ready": False, "checks": checks}, 503)
    code, out, _ = tool("--backend", stub.address, "--json")
    document: dict[str, Any] = json.loads(out)
    found = {one["subject"]: one for one in document["findings"]}
    assert (code, document["ok"]) == (1, False)
    assert found["backend"]["status"] == "ok"
    assert found["backend's cluster"]["message"] == "3 of 3 brokers answer"
    assert found["backend's changes"]["status"] == "problem"


def test_another_server_is_not_taken_for_a_backend(tool: Tool, stub: Stub) -> None:
    stub.says(["welcome"])
    code, out, _ = tool("--backend", stub.address)
    assert code == 1
    assert "not as a kshunt backend" in out


@pytest.mark.parametrize(
    "words",
    [
        ("--backend", "unix:/x", "--bootstrap-server", "a:1"),
        ("--zookeeper", "a:1"),
        ("--zk-tls-config-file", "a"),
        ("--bogus",),
        ("stray",),
    ],
)
def test_flags_that_make_no_sense_end_with_2(tool: Tool, words: tuple[str, ...]) -> None:
    assert tool(*words)[0] == 2


def test_the_folder_of_samples_has_to_be_there_and_writable(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert samples_folder(tmp_path).status in ("ok", "warning")
    assert samples_folder(tmp_path / "absent").advice == f"mkdir -p {tmp_path / 'absent'}"
    assert not (tmp_path / "absent").exists()
    assert samples_folder(file).message == f"{file} is not a folder."


def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert installation.needed_packages().status == "ok"
    wanted = ["no-such-package>=2,<3", 'unused>=1; extra == "web"']
    monkeypatch.setattr(installation, "requires", lambda _: wanted)
    found = installation.needed_packages()
    assert (found.status, found.advice) == ("problem", "Install them: pip install no-such-package")


def test_kshunt_is_loaded_from_one_place() -> None:
    assert installation.own_modules().status == "ok"


def test_the_exit_code_counts_problems_and_no_warnings() -> None:
    warning = Finding("a", "warning", "It is slow.", "Wait.")
    assert report([warning]).code == 0
    assert report([warning]).text == "warn a: It is slow.\n     → Wait."
    assert report([warning, Finding("b", "problem", "It is down.")]).code == 1
