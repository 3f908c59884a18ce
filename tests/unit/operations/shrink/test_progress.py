"""How a shrink stands, as an operator is told: its phases, what it waits for, and its groups."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from kshunt.backend.domain.operations.operation import Operation, OperationKind, OperationState
from kshunt.backend.domain.shrink.phases import (
    CutOver,
    GroupShown,
    PhaseShown,
    ShrinkPhase,
    ShrinkRequest,
)
from kshunt.backend.operations.shrink.job_port import JobCommand, JobStatus
from kshunt.backend.operations.shrink.progress import shrink_progress
from kshunt.backend.operations.shrink.step import ShrinkMemory
from kshunt.backend.operations.state.shrink_work import Compared, GroupPlace, ShrinkWork

Phase, State = ShrinkPhase, OperationState
RUNNING = Operation("ab", OperationKind.SHRINK, State.RUNNING, 1, "shrink")
WORK = ShrinkWork(ShrinkRequest("orders", 2, 5_000), 4, "orders-copy")
EQUAL = Compared({0: 1}, {0: 1}, 1, 77)


@dataclass(frozen=True)
class StandingJob:
    """A job that always has the status `stands`."""

    stands: JobStatus

    async def start(self, command: JobCommand) -> None:
        return None

    def status(self) -> JobStatus:
        return self.stands

    async def end(self) -> None:
        return None


def shown(phase: ShrinkPhase, work: ShrinkWork, live: ShrinkMemory | None = None) -> PhaseShown:
    """How one phase of a running shrink is shown."""
    progress = shrink_progress(RUNNING, work, live)
    return next(one for one in progress.phases if one.phase is phase)


@pytest.mark.parametrize("phase", [Phase.COPY, Phase.COPY_REST, Phase.COPY_BACK])
@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (JobStatus(), {}),
        (JobStatus(records_done=3), {}),
        (JobStatus(records_total=3), {}),
        (JobStatus(records_done=0, records_total=3), {"done": 0, "total": 3, "unit": "records"}),
        (
            JobStatus(records_done=30, records_total=80, records_per_s=10.0),
            {"done": 30, "total": 80, "unit": "records", "eta_ms": (4_000, 7_000)},
        ),
    ],
)
def test_a_copy_says_how_far_it_is(
    phase: ShrinkPhase, status: JobStatus, expected: dict[str, Any]
) -> None:
    live = ShrinkMemory(phase, "copies", job=StandingJob(status))
    assert shown(phase, replace(WORK, phase=phase), live) == PhaseShown(
        phase, "now", "copies", **expected
    )


@pytest.mark.parametrize(
    ("quiet_ms", "done", "left_ms"), [(0, 0, 5_000), (1_500, 1_500, 3_500), (9_000, 5_000, 0)]
)
def test_a_delay_is_counted_down(quiet_ms: int, done: int, left_ms: int) -> None:
    live = ShrinkMemory(Phase.QUIESCE, "quiet", quiet_ms=quiet_ms)
    assert shown(Phase.QUIESCE, replace(WORK, phase=Phase.QUIESCE), live) == PhaseShown(
        *(Phase.QUIESCE, "now", "quiet", done, 5_000, "ms", (left_ms, left_ms))
    )


def test_a_delay_of_which_nothing_is_known_yet_has_no_figures() -> None:
    work = replace(WORK, phase=Phase.QUIESCE)
    assert shown(Phase.QUIESCE, work) == PhaseShown(Phase.QUIESCE, "now")


def groups(*done: bool) -> dict[str, GroupPlace]:
    return {f"g{n}": GroupPlace({0: 1}, {0: 1}, n, done=one) for n, one in enumerate(done)}


def test_groups_are_counted_as_they_go_on() -> None:
    work = replace(WORK, phase=Phase.TRANSLATE, groups=groups(True, False, True))
    assert shown(Phase.TRANSLATE, work) == PhaseShown(Phase.TRANSLATE, "now", "", 2, 3, "groups")
    alone = replace(WORK, phase=Phase.TRANSLATE)
    assert shown(Phase.TRANSLATE, alone) == PhaseShown(Phase.TRANSLATE, "now")


def test_each_group_says_whether_it_has_gone_on() -> None:
    live = ShrinkMemory(Phase.TRANSLATE, members={"g1": 2, "other": 1}, read_twice={"other": 5})
    work = replace(WORK, phase=Phase.TRANSLATE, groups=groups(True, False))
    assert shrink_progress(RUNNING, work, live).groups == (
        GroupShown("g0", 0, 0, True),
        GroupShown("g1", 2, 1, False),
    )
    assert shrink_progress(RUNNING, WORK, live).groups == (
        GroupShown("g1", 2, None, False),
        GroupShown("other", 1, 5, False),
    )


@pytest.mark.parametrize(
    ("phase", "changes", "words"),
    [
        (Phase.CHECK, {}, ""),
        (Phase.COPY, {}, "into orders-copy"),
        (Phase.VERIFY, {"verified": EQUAL}, "equal: 1 record"),
        (Phase.VERIFY_REST, {"verified": replace(EQUAL, records=2_000)}, "equal: 2,000 records"),
        (Phase.CONFIRM, {"confirmed": "ada: too many"}, "by ada: too many"),
        (Phase.VERIFY_BACK, {"verified_back": EQUAL}, "equal: 1 record"),
        (
            Phase.VERIFY_BACK,
            {"verified_back": EQUAL, "differs": "one more", "accepted": True},
            "accepted: one more",
        ),
        (Phase.TRANSLATE, {"groups": groups(True, True, False)}, "2 groups"),
        (Phase.TRANSLATE, {"groups": groups(True)}, "1 group"),
    ],
)
def test_what_came_of_a_phase_stays_there(
    phase: ShrinkPhase, changes: dict[str, Any], words: str
) -> None:
    work = replace(WORK, phase=Phase.CLEAN_UP, **changes)
    assert shown(phase, work) == PhaseShown(phase, "done", words)
    assert shown(Phase.CLEAN_UP, work) == PhaseShown(Phase.CLEAN_UP, "now")


def states(operation: Operation, work: ShrinkWork) -> dict[str, str]:
    return {str(one.phase): one.state for one in shrink_progress(operation, work, None).phases}


def test_phases_are_done_under_way_or_ahead() -> None:
    work = replace(WORK, phase=Phase.COPY)
    found = states(RUNNING, work)
    assert [found[phase] for phase in ("check", "quiesce", "copy", "verify", "clean up")] == [
        *("done", "done", "now", "ahead", "ahead")
    ]
    ended = replace(RUNNING, state=State.DONE)
    assert set(states(ended, replace(work, phase=Phase.CLEAN_UP)).values()) == {"done"}


def test_what_is_taken_back_says_where_it_was() -> None:
    lifting = replace(RUNNING, state=State.LIFTING)
    for changes, words in (({"failed": "no Java"}, "no Java"), ({"cancelled": True}, "cancelled")):
        work = replace(WORK, phase=Phase.VERIFY, **changes)
        progress = shrink_progress(lifting, work, ShrinkMemory(words="goes away"))
        found = {one.phase: one for one in progress.phases}
        assert progress.phase is Phase.CLEAN_UP
        assert found[Phase.COPY] == PhaseShown(Phase.COPY, "done", "into orders-copy")
        assert found[Phase.VERIFY] == PhaseShown(Phase.VERIFY, "failed", words)
        assert found[Phase.CONFIRM] == PhaseShown(Phase.CONFIRM, "ahead")
        assert found[Phase.CLEAN_UP] == PhaseShown(Phase.CLEAN_UP, "now", "goes away")
        ended = replace(RUNNING, state=State.FAILED, outcome="over")
        over = shrink_progress(ended, work, None)
        assert over.phases[-1] == PhaseShown(Phase.CLEAN_UP, "done")
        assert (over.words, over.needs) == ("over", "")


@pytest.mark.parametrize(
    ("state", "needs", "words", "needed", "halted"),
    [
        (State.RUNNING, "groups", "waits", "groups", False),
        (State.PAUSING, "groups", "the job ends after its current batch", "", True),
        (State.PAUSED, "producers", "paused; the copied records are kept", "", True),
        (
            State.CANCELLING,
            "operator",
            "the job is being stopped, then all of it is reverted",
            "operator",
            True,
        ),
        (State.LIFTING, "operator", "waits", "operator", False),
        (State.RESUMING, "groups", "waits", "", False),
    ],
)
def test_what_it_waits_for_depends_on_what_somebody_asked_for(
    state: OperationState, needs: str, words: str, needed: str, halted: bool
) -> None:
    live = ShrinkMemory(Phase.SEAL, "waits", needs)
    work = replace(WORK, phase=Phase.SEAL)
    progress = shrink_progress(replace(RUNNING, state=state), work, live)
    assert (progress.words, progress.needs, progress.halted) == (words, needed, halted)


def test_what_a_name_is_typed_for_is_said() -> None:
    work = replace(WORK, phase=Phase.CONFIRM, verified=EQUAL)
    progress = shrink_progress(RUNNING, work, None)
    assert progress.needs == "confirm"
    assert progress.words == "source and copy are equal; type the name orders to continue"
    assert (progress.records, progress.verified_ms) == (1, 77)
    differing = replace(WORK, phase=Phase.VERIFY_BACK, differs="one more")
    words = shrink_progress(RUNNING, differing, None).words
    assert words.startswith(
        "orders differs from the copy; did producers already write to it? one more."
    )
    nothing = shrink_progress(RUNNING, WORK, None)
    assert (nothing.records, nothing.verified_ms, nothing.words) == (None, None, "check")


def test_with_a_new_name_nothing_is_deleted_or_copied_back() -> None:
    request = ShrinkRequest("orders", 2, 0, CutOver.NEW_NAME, "named")
    progress = shrink_progress(RUNNING, ShrinkWork(request, 4, "named"), None)
    assert not {"delete", "create", "copy back", "verify back"} & {
        str(one.phase) for one in progress.phases
    }
