"""A dashboard in a browser: texts are downloaded, and the host's files are out of reach."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kshunt.backend.domain.audit.shown_line import AuditLine
from kshunt.backend.domain.reassignment.plan import parse_plan
from kshunt.backend.errors import BadInput
from kshunt.tui.actions.view_names import OPERATIONS, OVERVIEW
from kshunt.tui.changes.wizard.pages import Step
from kshunt.tui.changes.wizard.screen import WizardScreen
from kshunt.tui.data.files import AUDIT_FORMATS
from kshunt.tui.terminal.downloads import download_name
from tests.support.tui.app import answer_form, at_step, dashboard, go_through
from tests.support.tui.cluster import START_MS, incident, running_move
from tests.support.tui.plans import planning_shown, proposed, until


@pytest.fixture
def delivered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Textual's driver delivers what is offered; the working directory is another folder."""
    folder, here = tmp_path / "delivered", tmp_path / "here"
    folder.mkdir()
    here.mkdir()
    (here / "secrets-of-the-host").mkdir()
    monkeypatch.setenv("XDG_DOWNLOAD_DIR", str(folder))
    monkeypatch.chdir(here)
    return folder


def names(folder: Path) -> list[str]:
    """What is in a folder."""
    return sorted(path.name for path in folder.iterdir())


async def test_the_audit_is_downloaded_and_no_folder_is_listed(
    tmp_path: Path, delivered: Path
) -> None:
    cluster = incident()
    running_move(cluster)
    async with dashboard(
        tmp_path / "s", cluster, read_only=True, in_browser=True, start_view=OPERATIONS
    ) as shown:
        shown.backend.audit = [("op-1", AuditLine(START_MS, "started"))]
        await shown.press("w")
        await answer_form(shown, "op-1", f"{tmp_path}/here/x.md")
        form = await shown.dialog(WizardScreen)
        await shown.until(lambda: "Type a name for the download" in form.hint(1).plain, "refused")
        form.input(1).value = ""
        await shown.pilot.press("tab")
        form.input(1).focus()
        form.input(1).value = "mine.json"
        await shown.pilot.press("enter")
        await at_step(shown, Step.PREVIEW)
        assert "secrets-of-the-host" not in shown.frame()
        await go_through(shown)
        await shown.until(lambda: names(delivered) == ["mine.json"], "it is delivered")
        text = (delivered / "mine.json").read_text()
        assert json.loads(text)["entries"][0]["event"] == "started"
    assert names(tmp_path / "here") == ["secrets-of-the-host"]


async def test_a_plan_is_downloaded_with_its_way_back(tmp_path: Path, delivered: Path) -> None:
    async with planning_shown(tmp_path, start_view=OVERVIEW, in_browser=True) as (shown, planning):
        await proposed(shown)
        await shown.pilot.press("s")
        await until(shown, "the browser downloads both files")
        await shown.pilot.press("enter")
        await shown.until(lambda: len(names(delivered)) == 2, "both are delivered")
        plan, back = (delivered / name for name in names(delivered))
        assert back.name == plan.name.replace(".json", ".rollback.json")
        assert parse_plan(plan.read_text()).replicas == planning.answer.proposal.targets
        assert parse_plan(back.read_text()).replicas == planning.answer.proposal.before
    assert names(tmp_path / "here") == ["secrets-of-the-host"]


@pytest.mark.parametrize("read_only", [True, False])
async def test_no_plan_is_read_from_the_host(tmp_path: Path, *, read_only: bool) -> None:
    async with dashboard(
        tmp_path / "s", incident(), size=(160, 40), in_browser=True, read_only=read_only
    ) as shown:
        await shown.press("r")
        await until(shown, "cannot read files of the host")
        assert not isinstance(shown.app.screen, WizardScreen)


@pytest.mark.parametrize(
    "name", ["", ".md", "../a.md", "/etc/a.md", "a b.md", "a.txt", "a\u202e.md", "x" * 99 + ".md"]
)
def test_names_that_no_download_has_are_refused(name: str) -> None:
    with pytest.raises(BadInput):
        download_name(name, AUDIT_FORMATS)
