"""What a phase of a shrink has at hand in one tick."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64decode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kshunt.backend.admin.port.item_result import ItemResult
from kshunt.backend.domain.operations.operation import Operation, OperationState
from kshunt.backend.domain.shrink.offset_maps import Offsets
from kshunt.backend.domain.shrink.phases import ShrinkPhase, after
from kshunt.backend.domain.topics.descriptions import TopicDescription
from kshunt.backend.domain.topics.groups import ConsumerGroup
from kshunt.backend.errors import ClusterUnreachable, Conflict
from kshunt.backend.operations.core.context import Context
from kshunt.backend.operations.shrink.check import ShrinkChecks
from kshunt.backend.operations.shrink.job_port import JobCommand, JobStatus, RepartitionJob
from kshunt.backend.operations.shrink.topic_settings import is_ours
from kshunt.backend.operations.state.shrink_work import ShrinkWork

if TYPE_CHECKING:
    from kshunt.backend.admin.kips.backend_placer import BackendPlacer

PAUSE_S: Final = 5.0
"""Before a job that ended early is started again; it doubles."""
PAUSE_MOST_S: Final = 60.0


@dataclass(eq=False, slots=True)
class LogEnds:
    """How long the log ends of some partitions have stood still, as far as was seen here."""

    ends: Offsets = field(default_factory=dict)
    since_s: float = 0.0
    """By the monotonic clock."""
    moved: tuple[int, ...] = ()
    """Partitions that were written to when they moved last."""

    def still_s(self, ends: Offsets, now_s: float) -> float:
        """Look once more; for how long they have not moved."""
        if ends != self.ends:
            grew = tuple(p for p, at in ends.items() if at != self.ends.get(p, at))
            self.moved = grew or self.moved
            self.ends, self.since_s = ends, now_s
        return now_s - self.since_s


@dataclass(eq=False, slots=True)
class ShrinkMemory:
    """What is known of a shrink here and is not in the journal; it may be lost at any time."""

    phase: ShrinkPhase | None = None
    """The phase that it is of."""
    words: str = ""
    """What it does, or waits for."""
    needs: str = ""
    """See `ShrinkProgress.needs`."""
    ends: LogEnds = field(default_factory=LogEnds)
    quiet_ms: int | None = None
    """For how long nothing was written, while that is waited for."""
    job: RepartitionJob | None = None
    command: JobCommand | None = None
    """What the job was started for."""
    task: asyncio.Task[Any] | None = None
    """What takes longer than a tick."""
    failures: int = 0
    """How often the job ended early, one time after another."""
    again_s: float = 0.0
    """Not before that it is started again."""
    members: Mapping[str, int] = field(default_factory=dict)
    """Members of each group of the topic, by the last look."""
    read_twice: Mapping[str, int] = field(default_factory=dict)
    """Of each group, as its positions were at the last look."""
    read_for: Mapping[str, Offsets] | None = None
    """The positions for which that was found."""
    looked_s: float = float("-inf")
    """When the groups were looked at last."""
    sent: bool = False
    """Whether the deletion of the source was asked for here."""
    done: frozenset[str] = frozenset()
    """Steps of the phase that were seen to hold since this backend took it over."""

    @property
    def status(self) -> JobStatus:
        """How the job goes."""
        return JobStatus() if self.job is None else self.job.status()

    async def let_go(self) -> None:
        """End what runs for it."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
            self.task = None
        await self.end_job()

    async def end_job(self) -> bool:
        """End the job, where there is one; True once it has ended."""
        job, self.job, self.command = self.job, None, None
        if job is not None:
            await job.end()
        return True


@dataclass(frozen=True, slots=True)
class ShrinkTools:
    """What every shrink of a backend works with."""

    context: Context
    checks: ShrinkChecks
    job: Callable[[], RepartitionJob]
    folder: Path
    """Offset maps are kept here."""
    placing: BackendPlacer | None = None
    """Says where the partitions of smaller topics go; None: they are striped."""


@dataclass(eq=False, slots=True)
class ShrinkStep:
    """One operation in one tick."""

    tools: ShrinkTools
    operation: Operation
    work: ShrinkWork
    live: ShrinkMemory

    @property
    def context(self) -> Context:
        """The cluster, and what is remembered."""
        return self.tools.context

    @property
    def timeout_s(self) -> float:
        """For one call."""
        return self.context.timeout_s

    @property
    def now_s(self) -> float:
        """Monotonic time."""
        return self.context.clock.monotonic_s()

    def wait(self, words: str, needs: str = "") -> None:
        """Say what it waits for."""
        self.live.words, self.live.needs = words, needs

    # Writing

    async def put(self, **changes: Any) -> None:
        """Write what is decided, before its effect.

        Raises:
            NotActive, JournalFenced, JournalUnavailable: it was not written; nothing may be done.
        """
        work = replace(self.work, **changes)
        if work != self.work:
            await self.context.registry.put(self.operation, shrink=work)
            self.work = work
        self.context.registry.require()

    async def enter(self, phase: ShrinkPhase | None = None, **changes: Any) -> None:
        """Go into a phase; None for the one that follows."""
        into = phase or after(self.work.phase, self.work.request.cut_over)
        await self.put(phase=into, **changes)

    async def move(self, state: OperationState, words: str = "", **changes: Any) -> None:
        """Go into another state of an operation.

        Raises:
            Conflict: the step is not legal.
        """
        work = replace(self.work, **changes)
        operation = self.context.to(self.operation, state, words)
        await self.context.registry.put(operation, shrink=work)
        self.operation, self.work = operation, work
        self.context.registry.require()

    async def fail(self, words: str) -> None:
        """It comes to nothing, and all of it is taken back."""
        await self.move(OperationState.LIFTING, words, failed=words)

    # Reading

    async def described(self, topic: str) -> TopicDescription | None:
        """A topic; None where there is none."""
        found = await self.context.admin.topics.describe(
            [topic], configs=False, min_isr=False, timeout_s=self.timeout_s
        )
        return next((one for one in found.topics if one.name == topic), None)

    async def source(self) -> TopicDescription:
        """The source.

        Raises:
            Conflict: it is gone, or another topic has its name.
        """
        found = await self.described(self.work.topic)
        if found is None:
            raise Conflict(f"{self.work.topic} does not exist any more: somebody deleted it.")
        if self.work.source_id and found.topic_id != self.work.source_id:
            raise Conflict(f"{self.work.topic} was deleted and created again by somebody else.")
        if len(found.partitions) != self.work.current:
            raise Conflict(
                f"{self.work.topic} has {len(found.partitions)} partitions, but had "
                f"{self.work.current} when the shrink began."
            )
        return found

    async def ends(self, topic: str) -> Offsets:
        """Up to where every partition can be read by who waits for transactions.

        Raises:
            ClusterUnreachable: not every leader said so.
        """
        found = await self.context.admin.records.offsets(topic, timeout_s=self.timeout_s)
        if found.unread or not found.offsets:
            why = next(iter(found.unread.values()), "there was no answer")
            raise ClusterUnreachable(f"The log ends of {topic} are unknown: {why}")
        return {p: one.stable_end for p, one in sorted(found.offsets.items())}

    async def groups(self) -> tuple[ConsumerGroup, ...]:
        """The consumer groups of the source, without those of jobs.

        Raises:
            ClusterUnreachable: not all that there may be are known.
        """
        found = await self.context.admin.groups.of_topic(self.work.topic, timeout_s=self.timeout_s)
        if found.unread:
            what, why = next(iter(found.unread.items()))
            raise ClusterUnreachable(f"Not all of its consumer groups are known: {what}: {why}")
        groups = tuple(one for one in found.groups if not is_ours(one.name))
        self.live.members = {one.name: len(one.members) or int(one.active) for one in groups}
        self.live.looked_s = self.now_s
        return groups

    # Jobs

    def job_name(self, *, back: bool = False) -> str:
        """The name under which a job continues."""
        return f"{self.operation.id}-back" if back else self.operation.id

    def folder(self, *, back: bool = False) -> Path:
        """Of a job."""
        return self.tools.folder / f"shrink-{self.job_name(back=back)}"

    async def run(self, command: JobCommand) -> JobStatus | None:
        """Have a job run to its end; how it ended, or None while it has not.

        It is run again where that may help, if only after somebody repairs what is named.
        """
        live = self.live
        if live.command != command:
            await live.end_job()
            if self.now_s < live.again_s:
                return None
            live.job, live.command = self.tools.job(), command
            await live.job.start(command)
        status = live.status
        if status.ended is None:
            return None
        await live.end_job()
        if status.ended == "complete":
            live.failures = 0
            return status
        live.failures += 1
        live.again_s = self.now_s + min(PAUSE_S * 2 ** (live.failures - 1), PAUSE_MOST_S)
        # A comparison that cannot be made has found nothing; what was copied is kept for it.
        goes_on = status.retriable or self.work.past_no_return or command.verify
        if status.ended == "failed" and not goes_on:
            return status
        why = status.words or "somebody else stopped it"
        self.wait(f"the job starts again in a moment: {why}", _help(status))
        return None

    async def behind(self, what: str, call: Callable[[], Awaitable[Any]]) -> Any:
        """Have something done that takes longer than a tick; None while it is not.

        Raises:
            KshuntError: it was not done.
        """
        live = self.live
        if live.task is not None and live.task.get_name() != what:
            live.task.cancel()
            await asyncio.gather(live.task, return_exceptions=True)
            live.task = None
        if live.task is None:
            live.task = asyncio.ensure_future(call())
            live.task.set_name(what)
        if not live.task.done():
            return None
        task, live.task = live.task, None
        return task.result()


def _help(status: JobStatus) -> str:
    """Whose help it needs, where the same again may not succeed."""
    return "operator" if status.ended == "failed" and not status.retriable else ""


def checked(what: str, outcome: ItemResult) -> None:
    """Return only where something was done.

    Raises:
        Refused: the cluster refuses it.
        ClusterUnreachable: it may succeed if it is repeated.
    """
    if outcome.ok:
        return
    words = f"{what}: {outcome.error_name}"
    words += f": {outcome.message}" if outcome.message else ""
    if outcome.retriable:
        raise ClusterUnreachable(words)
    raise Refused(words, outcome.error_code)


def topic_id_digits(topic_id: str) -> str:
    """Kafka's notation of a topic's id as the 32 digits that requests take; empty for none."""
    return urlsafe_b64decode(f"{topic_id}==").hex() if topic_id else ""


class Refused(Conflict):
    """The cluster refuses what a shrink has to do."""

    def __init__(self, words: str, code: int) -> None:
        super().__init__(words)
        self.code = code
