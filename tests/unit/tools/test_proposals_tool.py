"""`kshunt proposals`: what it prints, what it sends, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from kshunt.backend.commandline.table import Command
from kshunt.backend.config_file import expanded
from kshunt.backend.domain.operations.approval import ProposalState, ShownProposal
from kshunt.backend.errors import AwaitsApproval
from kshunt.backend.tools import proposals as tool
from kshunt.backend.tools.shared.console import run_tool
from tests.support.tools import Stub, Tool, answering, run_with

WAITING = ShownProposal(
    id="1a2b3c4d",
    action="shrink",
    subject="orders",
    summary="shrink orders to 2 partitions",
    state=ProposalState.WAITING,
    who="ada",
    reason="too \x1b[31mmany",
    proposed_ms=1_000,
    expires_ms=2_000,
    actions=("approve", "reject"),
)
DONE = replace(
    WAITING,
    id="5e6f7a8b",
    state=ProposalState.DONE,
    settled_by="bob",
    settled_ms=5_000,
    outcome="1 of 1 done",
    actions=(),
)
CHANGE = {
    "validate_only": False,
    "operation_id": "op-1",
    "results": [{"item": "orders", "error_code": 0, "error_name": "NONE", "message": ""}],
    "notes": [],
}


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[Stub]:
    with answering(tmp_path) as stub:
        stub.says({"proposals": [shown(DONE), shown(WAITING)]})
        yield stub


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Tool:
    return run_with(tool.main, capsys)


def shown(proposal: ShownProposal) -> dict[str, Any]:
    return {**asdict(proposal), "foreseen": [], "actions": list(proposal.actions)}


def test_the_list_says_who_wants_what_and_what_you_may_do(backend: Stub, run: Tool) -> None:
    code, out, _ = run("list", "--backend", backend.address)
    assert code == 0
    assert out.startswith("1a2b3c4d  waiting    shrink orders to 2 partitions"), "it comes first"
    assert "by ada: too" in out
    assert "you may approve or reject it" in out
    assert "by bob 1970-01-01 00:00:05 UTC" in out
    assert "1 of 1 done" in out
    assert "\x1b" not in out
    assert backend.asked == [("GET", "/v1/proposals", None)]


def test_an_empty_list_says_so(backend: Stub, run: Tool) -> None:
    backend.says({"proposals": []})
    assert run("list", "--backend", backend.address)[:2] == (0, "There is no proposal.\n")
    code, out, _ = run("--json", "list", "--backend", backend.address)
    assert (code, json.loads(out)) == (0, {"proposals": []})


def test_what_was_seen_is_what_is_approved(backend: Stub, run: Tool) -> None:
    backend.says({"proposal": shown(DONE), "answer": {**CHANGE, "rollback_plan": None}})
    code, out, _ = run(
        *("approve", "1a2b3c4d", "--backend", backend.address),
        *("--seen", "9f86", "--reason", "looked at the board"),
    )
    assert (code, out) == (0, "Proposal 5e6f7a8b was carried out: 1 of 1 done.\n")
    ((method, path, body),) = backend.asked
    assert (method, path) == ("POST", "/v1/proposals/1a2b3c4d/approve")
    assert (body["preview"], body["reason"]) == ("9f86", "looked at the board")


def test_what_failed_of_it_is_told_by_the_exit_code(backend: Stub, run: Tool) -> None:
    failed = {"item": "orders", "error_code": 42, "error_name": "X", "message": "no"}
    backend.says({"proposal": shown(DONE), "answer": {**CHANGE, "results": [failed]}})
    code, _, err = run("approve", "1a2b3c4d", "--backend", backend.address, "--seen", "9f86")
    assert (code, err) == (1, "1 item failed.\n")


@pytest.mark.parametrize("verb", ["reject", "withdraw"])
def test_the_other_verbs(backend: Stub, run: Tool, verb: str) -> None:
    backend.says(shown(DONE))
    code, out, _ = run(verb, "--reason", "no", "--backend", backend.address, "1a2b3c4d")
    assert (code, "5e6f7a8b was" in out) == (0, True)
    assert backend.asked[0][1] == f"/v1/proposals/1a2b3c4d/{verb}"
    assert backend.asked[0][2]["reason"] == "no"


def test_a_refusal_is_said(backend: Stub, run: Tool) -> None:
    backend.says({"detail": "Another person has to.", "advice": "Ask somebody."}, 409)
    code, _, err = run("approve", "1a2b3c4d", "--backend", backend.address, "--seen", "9f86")
    assert code == 1
    assert "Another person has to. Ask somebody." in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["list"], "name it by --backend"),
        (["list", "--backend", "somewhere"], "not the address of a backend"),
        (["list", "--bootstrap-server", "b:9092"], "Proposals need a shared backend"),
        (["show", "--backend", "unix:/x"], "kshunt proposals show needs ID."),
        (["list", "1a", "--backend", "unix:/x"], "unexpected word '1a'"),
        (["approve", "1a", "--backend", "unix:/x"], "kshunt proposals show 1a"),
        (["reject", "1a", "--backend", "unix:/x"], "--reason"),
        (["reject", "1a", "--reason", " ", "--backend", "unix:/x"], "--reason"),
    ],
)
def test_what_cannot_be_meant(run: Tool, words: list[str], said: str) -> None:
    code, _, err = run(*words)
    assert (code, said in err) == (2, True), err


def test_one_that_is_not_there(backend: Stub, run: Tool) -> None:
    code, _, err = run("show", "ffff", "--backend", backend.address)
    assert (code, "There is no proposal ffff." in err) == (2, True)


def test_what_would_be_refused_is_shown_with_the_reason(backend: Stub, run: Tool) -> None:
    refusal = {"detail": "It would be rejected: broker 1 leads.", "advice": ""}
    backend.on["/v1/proposals/1a2b3c4d/preview"] = (409, refusal)
    code, out, err = run("show", "1a2b3c4d", "--backend", backend.address)
    assert code == 1
    assert "shrink orders to 2 partitions" in out
    assert "approve 1a2b3c4d" not in out
    assert "waits for: It would be rejected: broker 1 leads." in err
    backend.on["/v1/proposals/1a2b3c4d/preview"] = (500, {"detail": "Internal error"})
    assert run("show", "1a2b3c4d", "--backend", backend.address)[:2] == (1, "")


def test_what_is_shown_can_be_approved_by_copying_a_line(backend: Stub, run: Tool) -> None:
    seen = {"lines": ["orders: 4 become 2"], "notes": [], "fingerprint": "9f86", "changed": True}
    backend.on["/v1/proposals/1a2b3c4d/preview"] = (200, seen)
    code, out, _ = run("show", "1a2b3c4d", "--backend", backend.address)
    assert code == 0
    assert "differs from the time when it was proposed" in out
    command = f"kshunt proposals approve 1a2b3c4d --seen 9f86 --backend {backend.address}"
    assert out.endswith(f"To carry that out: {command}\n")


def test_one_that_is_settled_is_shown_without_asking_more(backend: Stub, run: Tool) -> None:
    backend.says({"proposals": [shown(DONE)]})
    code, out, _ = run("show", "5e6f7a8b", "--backend", backend.address)
    assert (code, "approve" in out) == (0, False)
    assert len(backend.asked) == 1


def test_an_action_that_is_none(run: Tool) -> None:
    code, _, err = run("agree", "1a", "--backend", "unix:/x")
    assert code == 2
    assert "'agree' is not an action of kshunt proposals." in err


def test_a_context_names_the_backend(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('context = "prod"\n[contexts.prod]\nbackend = "https://kshunt:8095"\n')
    words = expanded(["proposals", "list"], {"KSHUNT_CONFIG": str(path)})
    assert words == ["proposals", "list", "--backend", "https://kshunt:8095"]


def test_every_tool_says_that_it_takes_two(capsys: pytest.CaptureFixture[str]) -> None:
    def asks(_: object) -> int:
        raise AwaitsApproval("Nothing was changed yet.", advice="Ask bob.", proposal_id="1a2b")

    command = Command(("x",), "")
    assert run_tool(command, asks, [], interrupted="") == 1
    assert capsys.readouterr().err == "Nothing was changed yet. Ask bob.\n"
    assert run_tool(command, asks, ["--json"], interrupted="") == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["title"], error["proposal"]) == ("Awaits approval", "1a2b")
