"""Shrinks for the dashboard's tests: a safety view, a course in each of its phases, and a backend
that starts them and cuts them over.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

from kshunt.backend.domain.operations.operation import (
    Operation,
    OperationDetails,
    OperationKind,
    OperationState,
)
from kshunt.backend.domain.reassignment.answers import ChangeAnswer, Result
from kshunt.backend.domain.shrink.check import (
    CommittedOffset,
    DoomedPartition,
    Finding,
    GroupLag,
    KeyUse,
    PartitionerHits,
    Severity,
    ShrinkCheck,
)
from kshunt.backend.domain.shrink.phases import (
    CutOver,
    GroupShown,
    PhaseShown,
    ShrinkPhase,
    ShrinkProgress,
    phases_of,
)
from kshunt.backend.domain.topics.groups import ActiveProducer, GroupMember
from kshunt.backend.domain.topics.partitioners import KeyPlacing, Partitioner
from kshunt.backend.domain.untrusted.json_codec import to_document
from kshunt.tui.changes.intents.cut_over import CutOverScreen
from kshunt.tui.changes.wizard.pages import Step
from kshunt.tui.changes.wizard.screen import WizardScreen
from tests.support.tui.app import Shown, at_step, focused
from tests.support.tui.backend import Json, Problem, ScriptedBackend
from tests.support.tui.cluster import START_MS

TOPIC = "orders"
COPY = "orders.kshunt-op-1"
THERE = 6
"""Partitions of `orders` in `tests.support.tui.cluster.incident`."""
RECORDS = 2_000_000

SHORT = Finding(
    "retention-short",
    Severity.REFUSE,
    "retention.ms is 20m00s, and the copy takes about 30m00s: records would go before they are"
    " copied.",
    "Set retention.ms to 9000000 or more until the cut-over.",
    insistable=True,
)
MOVING = Finding(
    "reassigning",
    Severity.REFUSE,
    "Partitions 4, 5 of orders are being reassigned.",
    "Wait for the end of the move, or cancel it.",
)
WRITING = Finding(
    "writing",
    Severity.WARN,
    "Written to within 5m00s: partitions 4, 5.",
    "Stop its producers; the shrink waits until its delay has passed without a new record.",
)
ACTIVE = Finding(
    "groups-active",
    Severity.WARN,
    "1 consumer group with members: billing (billing-1@10.0.3.7).",
    "Stop them before the cut-over: kshunt can move only a group without members.",
)
UNREAD = Finding(
    "unread",
    Severity.NOTE,
    "Not read yet on the partitions to remove: billing (1,204), search-indexer (310,000).",
    "Nothing is lost: the records are copied, and the groups continue on the copy.",
)


def doomed(number: int, *, written: int = 0) -> DoomedPartition:
    """A partition that goes."""
    producers = (ActiveProducer(7, 0, START_MS - 4_000),) if written else ()
    return DoomedPartition(
        number=number,
        size_bytes=1_234_000_000 + number * 50_000_000,
        records=333_000 + number,
        log_end_offset=333_000 + number,
        newest_ms=START_MS - 4_000,
        expires_in_ms=14_400_000 if number % 2 else 3_600_000,
        written_meanwhile=written,
        producers=producers,
        open_transaction_at=332_990 if number == 5 else None,
    )


def lag(name: str, unread: int | None, *, members: int = 0) -> GroupLag:
    """A group that has committed all partitions but the last."""
    return GroupLag(
        name=name,
        state="Stable" if members else "Empty",
        kind="classic",
        members=tuple(
            GroupMember(f"m{number}", f"{name}-{number}", "/10.0.3.7") for number in range(members)
        ),
        committed=tuple(CommittedOffset(number, 300_000) for number in range(THERE - 1)),
        unread_doomed=unread,
        unread_all=None if unread is None else unread * 3,
        no_position=(THERE - 1,),
    )


def check_of(
    findings: Collection[Finding] = (WRITING, ACTIVE, UNREAD),
    *,
    wanted: int = 3,
    native: bool = False,
) -> ShrinkCheck:
    """A safety view: three partitions go, two are written to, three groups read."""
    return ShrinkCheck(
        topic=TOPIC,
        current=THERE,
        wanted=wanted,
        checked_ms=START_MS,
        native=native,
        allowed=all(one.severity is not Severity.REFUSE for one in findings),
        partitions=tuple(doomed(n, written=120 * (n > 3)) for n in range(wanted, THERE)),
        groups=(
            lag("billing", 1_204, members=2),
            lag("fraud-detection-scoring-eu", 0),
            lag("search-indexer", 310_000),
        ),
        total_bytes=7_900_000_000,
        total_records=RECORDS,
        copy_bytes=0 if native else 23_700_000_000,
        copy_ms=None if native else 395_000,
        retention_ms=14_400_000,
        keys=KeyUse.ALL,
        sampled=200,
        distinct_keys=140,
        placing=KeyPlacing.ONE,
        partitioners=(
            PartitionerHits(Partitioner.MURMUR2, 140),
            PartitionerHits(Partitioner.CRC32, 21),
            PartitionerHits(Partitioner.FNV1A, 18),
        ),
        partitioner=Partitioner.MURMUR2,
        watched_ms=1_000,
        findings=tuple(findings),
    )


def progress_in(
    phase: ShrinkPhase, *, cut_over: CutOver = CutOver.SAME_NAME, **more: Any
) -> ShrinkProgress:
    """A course that has come so far."""
    phases = phases_of(cut_over)
    place = phases.index(phase)
    verified = place > phases.index(ShrinkPhase.VERIFY)
    found = ShrinkProgress(
        topic=TOPIC,
        current=THERE,
        wanted=3,
        cut_over=cut_over,
        copy=COPY if cut_over is CutOver.SAME_NAME else "orders-v2",
        phase=phase,
        phases=tuple(_shown(one, at, place) for at, one in enumerate(phases)),
        past_no_return=ShrinkPhase.DELETE in phases and place >= phases.index(ShrinkPhase.DELETE),
        groups=(GroupShown("billing", 0, 1_204, False), GroupShown("search", 0, 0, False)),
        records=RECORDS if verified else None,
        verified_ms=START_MS + 60_000 if verified else None,
    )
    return replace(found, **more)


_SAID = {
    ShrinkPhase.CHECK: "nothing refuses it",
    ShrinkPhase.QUIESCE: "no write for 5m00s",
    ShrinkPhase.VERIFY: "2,000,000 records, equal",
}


def _shown(phase: ShrinkPhase, at: int, place: int) -> PhaseShown:
    if at < place:
        return PhaseShown(phase, "done", _SAID.get(phase, ""))
    if at > place:
        return PhaseShown(phase, "ahead")
    if phase is ShrinkPhase.COPY:
        return PhaseShown(phase, "now", "", 900_000, RECORDS, "records", (180_000, 300_000))
    if phase is ShrinkPhase.QUIESCE:
        words = "2 producers still write, the last 8 s ago"
        return PhaseShown(phase, "now", words, 8_000, 300_000, "ms", None)
    return PhaseShown(phase, "now")


def shrink_of(
    progress: ShrinkProgress, actions: tuple[str, ...] = ("pause", "cancel")
) -> Operation:
    """The operation of a course."""
    state = OperationState.RUNNING
    if progress.needs == "confirm":
        actions = ("confirm", *actions)
    return Operation(
        id="op-1",
        kind=OperationKind.SHRINK,
        state=state,
        started_ms=START_MS - 600_000,
        summary=f"shrink {TOPIC} from {THERE} to 3 partitions",
        who="ada@bastion-1",
        reason="too many partitions",
        actions=actions,
        details=OperationDetails(shrink=progress),
    )


def waiting() -> Operation:
    """A shrink that waits for its topic's name."""
    return shrink_of(progress_in(ShrinkPhase.CONFIRM, needs="confirm"))


@dataclass
class Shrinking:
    """What a backend answers around shrinks."""

    backend: ScriptedBackend
    check: ShrinkCheck = field(default_factory=check_of)
    support: str = "unsupported"
    refuses: Problem | None = None
    """Answers a start that is rehearsed, or asked for."""

    def __post_init__(self) -> None:
        self.backend.scripted |= {
            "/v1/topics/deletion": lambda _: {"support": self.support},
            f"/v1/topics/{TOPIC}/shrink": self._shrink,
            "/v1/topics/delete-partitions": self._delete,
            "/v1/operations/op-1/confirm": self._confirm,
        }

    def show(self, operation: Operation) -> None:
        """Tell the dashboard of an operation."""
        self.backend.cluster.operations[operation.id] = operation
        self.backend.announce(operation)

    def _shrink(self, body: Json) -> Json:
        if "total_count" not in body:
            return to_document(self.check)
        if self.refuses is not None:
            raise self.refuses
        if body["validate_only"]:
            return self._answer(None, validate_only=True)
        self.show(shrink_of(progress_in(ShrinkPhase.QUIESCE)))
        return self._answer("op-1")

    def _answer(self, id: str | None, *, validate_only: bool = False) -> Json:
        results = (Result(TOPIC, 0, "NONE", "6 partitions become 3"),)
        return to_document(ChangeAnswer(validate_only, id, results))

    def _delete(self, body: Json) -> Json:
        return {
            "validate_only": body["validate_only"],
            "operation_id": None if body["validate_only"] else "op-9",
            "partitions": [
                {
                    "topic": TOPIC,
                    "partition": number,
                    "mode": 1,
                    "mode_name": "ReadOnly",
                    "error_code": 0,
                    "error_name": "NONE",
                    "message": "",
                }
                for number in range(3, THERE)
            ],
            "notes": [],
        }

    def _confirm(self, body: Json) -> Json:
        operation = self.backend.cluster.operations["op-1"]
        if "confirm" not in operation.actions:
            raise Problem(
                409,
                "Operation op-1 does not wait for a name.",
                "Look at it.",
            )
        if body["typed"] != TOPIC:
            raise Problem(422, f"'{body['typed']}' is not {TOPIC}.")
        self.show(shrink_of(progress_in(ShrinkPhase.SEAL)))
        return self._answer("op-1")


# Keys


async def choose_orders(shown: Shown) -> None:
    """Put the cursor of the partitions view on the topic."""
    await shown.press("slash")
    await shown.write(TOPIC)
    await shown.press("enter")


async def fill(shown: Shown, count: str = "3", *choices: str) -> WizardScreen:
    """From the key to the preview; the choices that are not named stay as they are."""
    await shown.press("minus")
    wizard = await at_step(shown, Step.GOAL)
    wizard.input(0).value = count
    await shown.pilot.press("enter")
    await focused(shown, wizard.input(1))
    await shown.pilot.press("enter")
    await at_step(shown, Step.CHOICES)
    return await choose(shown, wizard, *choices)


async def choose(shown: Shown, wizard: WizardScreen, *choices: str) -> WizardScreen:
    """Fill in the choices and continue to the preview."""
    for place in range(2, 7):
        await focused(shown, wizard.input(place))
        if place - 2 < len(choices):
            wizard.input(place).value = choices[place - 2]
        await shown.pilot.press("enter")
    return await at_step(shown, Step.PREVIEW)


async def until(shown: Shown, words: str) -> None:
    """Wait for words on the screen."""
    await shown.until(lambda: words in shown.frame(), f"'{words}' is shown")


async def to_the_name(shown: Shown, shrinking: Shrinking) -> CutOverScreen:
    """To the dialogue in which a name is typed."""
    shrinking.show(waiting())
    await shown.press("5")
    await until(shown, "O confirm")
    await shown.press("O")
    screen = await shown.dialog(CutOverScreen)
    assert isinstance(screen, CutOverScreen)
    await until(shown, "Type orders to confirm")
    return screen
