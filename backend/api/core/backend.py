"""One backend: a cluster, its sampler, its operations and its events, tied together.

Owned by the process that serves the API; the routes see this object and nothing below it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from msgspec import structs

from kshunt import __version__
from kshunt.backend.access.cluster_keys import ClusterKeys
from kshunt.backend.admin.port.cluster_admin import ClusterAdmin
from kshunt.backend.api.connections.connection_limits import ConnectionLimits, Connections
from kshunt.backend.api.core.answer_values import with_waiting_plan
from kshunt.backend.api.core.event_log import EventLog
from kshunt.backend.api.core.loop_delay import LoopDelay
from kshunt.backend.api.core.presence import EVENT_S, PresenceBoard
from kshunt.backend.api.forwarding.peers import Origin
from kshunt.backend.api.http.answers import entries_of
from kshunt.backend.clock import Clock
from kshunt.backend.domain.backend.webhooks import WebhookStatus
from kshunt.backend.domain.cluster.metadata import ClusterInfo, TopicPartition
from kshunt.backend.domain.forecast.scoring.milestones import Kept
from kshunt.backend.domain.operations.approval import ProposedChange, ShownProposal
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.operations.team import ConnectedSession, Presence
from kshunt.backend.domain.pipeline.delivered import PipelineProcess
from kshunt.backend.domain.replicas.snapshot import Snapshot
from kshunt.backend.errors import ClusterUnreachable, KshuntError
from kshunt.backend.operations.core.context import Context
from kshunt.backend.operations.core.journal_audit import JournalAudit
from kshunt.backend.operations.core.registry import Registry
from kshunt.backend.operations.elections.preferred import Elections
from kshunt.backend.operations.elections.unclean import UncleanElections
from kshunt.backend.operations.engine import Engine
from kshunt.backend.operations.journal.entries import JournalState
from kshunt.backend.operations.journal.port import Journal
from kshunt.backend.operations.journal.second_copy import LOOK_S, SecondCopy
from kshunt.backend.operations.lease.lease import LeaseState, LeaseTimes
from kshunt.backend.operations.lease.lease_manager import BackendIdentity
from kshunt.backend.operations.lease.membership import Membership
from kshunt.backend.operations.operation_control import OperationControl, actions_of
from kshunt.backend.operations.reassignment.cancelling import Cancellations
from kshunt.backend.operations.reassignment.forecast_keeping import ForecastKeeper
from kshunt.backend.operations.reassignment.queries import Queries
from kshunt.backend.operations.reassignment.runner import ReassignmentRunner
from kshunt.backend.operations.reassignment.starting import Reassignments
from kshunt.backend.operations.review.approvals import Approvals
from kshunt.backend.operations.review.claims import Claims
from kshunt.backend.operations.review.previews import Previews
from kshunt.backend.operations.shrink.check import ShrinkChecks
from kshunt.backend.operations.shrink.job_port import RepartitionJob
from kshunt.backend.operations.shrink.job_process import JobSettings, ProcessJob
from kshunt.backend.operations.shrink.requests import Shrinks
from kshunt.backend.operations.shrink.runner import ShrinkRunner
from kshunt.backend.operations.shrink.step import ShrinkTools
from kshunt.backend.operations.state.reassignment_work import ReassignmentWork
from kshunt.backend.operations.throttles.changes import ThrottleChanges
from kshunt.backend.operations.throttles.repair import ThrottleRepair
from kshunt.backend.operations.throttles.sampler_needs import (
    RunningOperations,
    needed_lists,
    paused_partitions,
)
from kshunt.backend.operations.topics.alteration import Alterations
from kshunt.backend.operations.topics.partition_deletion import PartitionDeletions
from kshunt.backend.settings import Settings
from kshunt.backend.telemetry.sampling.calibration_in_use import CalibrationInUse
from kshunt.backend.telemetry.sampling.sampler import Sampler
from kshunt.backend.telemetry.sampling.snapshot_hub import SnapshotHub
from kshunt.backend.telemetry.stuck.diagnosis import OwnOperations

if TYPE_CHECKING:
    from kshunt.backend.admin.kips.backend_placer import BackendPlacer
    from kshunt.backend.telemetry.recording.recorder import RecorderStatus
    from kshunt.backend.telemetry.results.results_reader import Results

log = logging.getLogger(__name__)

FIRST_SNAPSHOT_S = 8.0
"""How long a reader waits for the first snapshot of a cluster that is slow to answer."""
READY_S: Final = 15.0
"""How long a change waits until it is settled which backend acts."""
MOVED_MS: Final = 15_000
"""Samples of its partitions bear an operation's id for this long after its end."""
READING_S_MAX: Final = 8.0
"""Three readings of a shrink's check follow each other, and a client waits half a minute."""
WRITERS: Final = frozenset({LeaseState.WAIT, LeaseState.ACT, LeaseState.PAUSE})
"""Duties of the backend that writes the journal."""


EndedForecasts: TypeAlias = Callable[[], Mapping[str, Kept]]
"""What was forecast of operations that ended, by id."""
Moving: TypeAlias = Callable[[], Mapping[TopicPartition, str]]
"""Which operation of ours moves a partition."""


class RunningRecorder(Protocol):
    """`kshunt.backend.telemetry.recording.recorder.SampleRecorder`, which loads what not every
    backend needs."""

    @property
    def status(self) -> RecorderStatus:
        """How it goes."""
        ...

    async def run(self) -> None:
        """Record until cancelled."""
        ...


def _work_folder() -> Path:
    """Where a user's programs keep what they can make again."""
    named = os.environ.get("XDG_CACHE_HOME")
    return (Path(named) if named else Path.home() / ".cache") / "kshunt"


@dataclass(eq=False)
class Backend:
    """See the module's text; `start` and `stop` bracket its life."""

    settings: Settings
    admin: ClusterAdmin
    clock: Clock
    open_journal: Callable[[str, str], Journal]
    """Reaches the cluster's journal, given its id and ours."""
    address: str = ""
    """Where its API can be reached, for other backends of the cluster."""
    terms: LeaseTimes | None = None
    """The lease's times; None: those that every backend of a cluster has."""
    record: Callable[[SnapshotHub, Moving, EndedForecasts], RunningRecorder] | None = None
    """Makes what records samples; None: they are not recorded."""
    results: Results | None = None
    """What the data pipeline delivers; None: nobody said where that is."""
    pipeline_process: Callable[[], PipelineProcess | None] = lambda: None
    """How the pipeline that this backend runs goes; None: it runs none."""
    repartition: Callable[[], RepartitionJob] | None = None
    """Makes the jobs that copy a topic's records; None: processes of ours with Spark here."""
    work_folder: Path | None = None
    """Where offset maps of shrinks are kept; None: in the user's cache folder."""
    placing: BackendPlacer | None = None
    """Places what this backend proposes and creates; None: as Kafka does (KIP-660)."""
    keys: ClusterKeys = field(default_factory=ClusterKeys.new)
    """What the backends of the cluster share; by default this one has keys of its own."""
    demands_credentials: bool = False
    """Whether its API lets in nobody without a credential, for other backends of the cluster."""
    peers: frozenset[Origin] = frozenset()
    """The addresses of other backends that `--peers` names."""
    recording: RunningRecorder | None = field(init=False, default=None)
    listeners: list[Callable[[Operation], None]] = field(init=False, default_factory=list)
    """The backend calls each with every operation that is new or different, as it is shown."""
    hooks: Callable[[], tuple[WebhookStatus, ...]] = field(init=False, default=tuple)
    """How the webhooks go that are told what changes here."""
    stopping: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    """Set once this backend was told to stop: no client may be sent here any more."""
    ending: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    """Set once streams must end."""
    connections: Connections = field(
        init=False, default_factory=lambda: Connections(ConnectionLimits.here())
    )
    """Those of its clients."""
    loop_delay: LoopDelay = field(init=False)
    """How long its event loop was held up."""
    hub: SnapshotHub = field(init=False)
    events: EventLog = field(init=False)
    registry: Registry = field(init=False)
    claims: Claims = field(init=False)
    approvals: Approvals = field(init=False)
    presence: PresenceBoard = field(init=False)
    membership: Membership = field(init=False)
    queries: Queries = field(init=False)
    engine: Engine = field(init=False)
    reassignments: Reassignments = field(init=False)
    operation_control: OperationControl = field(init=False)
    throttles: ThrottleChanges = field(init=False)
    throttle_repair: ThrottleRepair = field(init=False)
    journal_audit: JournalAudit = field(init=False)
    second_copy: SecondCopy = field(init=False)
    cluster_id: str = field(init=False, default="")
    """Empty before the cluster has said it."""
    previews: Previews = field(init=False)
    alterations: Alterations = field(init=False)
    deletions: PartitionDeletions = field(init=False)
    shrink_checks: ShrinkChecks = field(init=False)
    shrink_runner: ShrinkRunner = field(init=False)
    shrinks: Shrinks = field(init=False)
    elections: Elections = field(init=False)
    unclean: UncleanElections = field(init=False)
    calibration: CalibrationInUse = field(init=False)
    sampler: Sampler = field(init=False)
    _forecast_keeper: ForecastKeeper = field(init=False)
    _inherited: tuple[str, ...] = field(init=False, default=())
    """Operations that another backend left unfinished and that are not looked at yet."""
    _writes: bool = field(init=False, default=False)
    """True while the journal says what this backend wrote itself."""
    _tasks: list[asyncio.Task[None]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        admin, clock, timeout_s = self.admin, self.clock, self.settings.request_timeout_s
        me = BackendIdentity.here(f"kshunt-{secrets.token_hex(4)}", self.address, clock.now_ms())
        self.hub, self.events = SnapshotHub(), EventLog(clock.now_ms())
        self.loop_delay = LoopDelay(clock)
        self.membership = Membership(
            self._cluster_id, self.open_journal, me, clock, self._duty_is, self.terms
        )
        self.registry = Registry(
            clock, self._operation_changed, self.membership, me.backend, self._proposal_changed
        )
        self.second_copy = SecondCopy(self.keys, clock)
        self.claims = Claims(self.registry, clock)
        self.approvals = Approvals(self.registry, clock, self.settings.two_person)
        self.presence = PresenceBoard(clock, self._present_changed)
        self.queries = Queries(
            *(admin, clock, lambda: self.registry.ownership),
            timeout_s=timeout_s,
            placing=self.placing,
        )
        context = Context(admin, self.registry, clock, timeout_s, lambda: self.hub.latest)
        self.shrink_checks = ShrinkChecks(admin, clock, timeout_s=min(timeout_s, READING_S_MAX))
        folder = self.work_folder or _work_folder()
        tools = ShrinkTools(context, self.shrink_checks, self._job, folder, self.placing)
        self.shrink_runner = ShrinkRunner(tools, self._tell)
        self.shrinks = Shrinks(context, self.shrink_checks)
        runner, cancellations = ReassignmentRunner(context), Cancellations(context)
        self.engine = Engine(context, runner, cancellations, self.shrink_runner)
        self._forecast_keeper = ForecastKeeper(context)
        self.reassignments = Reassignments(context, runner, cancellations)
        self.operation_control = OperationControl(context, self.reassignments, runner, self.shrinks)
        self.throttles = ThrottleChanges(context)
        self.throttle_repair = ThrottleRepair(context)
        self.journal_audit = JournalAudit(self.registry, clock, lambda: self.membership.repairs)
        self.previews = Previews(context)
        self.alterations = Alterations(context)
        self.deletions = PartitionDeletions(context)
        self.elections = Elections(admin, self.registry, timeout_s, clock)
        self.unclean = UncleanElections(admin, self.registry, clock, timeout_s)
        running = RunningOperations(self.registry)
        self.calibration = CalibrationInUse(
            self.settings.calibration, lambda: self.registry.known.forecasts
        )
        self.sampler = Sampler(
            admin,
            clock,
            self.settings.sampler,
            self.hub,
            lambda: OwnOperations(
                needed_lists(self.registry.ownership),
                paused_partitions(self.registry),
                running(),
            ),
            self.calibration.quantiles,
        )

    async def start(self) -> None:
        """Begin to sample, to be one of the cluster's backends, and to act."""
        self.membership.me = replace(
            self.membership.me,
            address=self.address,
            demands_credentials=self.demands_credentials,
            two_person=tuple(sorted(self.settings.two_person.guarded)),
            key_id=self.keys.keys[0].id,
        )
        self._tasks = [
            asyncio.create_task(self.sampler.run(), name="sampler"),
            asyncio.create_task(self.membership.run(), name="membership"),
            asyncio.create_task(self._watch(), name="operations"),
            asyncio.create_task(self._look_round(), name="presence"),
            asyncio.create_task(self._save_copies(), name="copies"),
            asyncio.create_task(self.loop_delay.run(), name="loop delay"),
        ]
        if self.record is not None:
            self.recording = self.record(self.hub, self._moving, self._ended_forecasts)
            self._tasks.append(asyncio.create_task(self.recording.run(), name="recorder"))
        for task in self._tasks:
            task.add_done_callback(_look)

    async def stop(self) -> None:
        """End the tasks, leave the lease to others, and release the cluster's connections."""
        for task in self._tasks:
            task.cancel()
        # One that has failed is no reason to keep the lease from others.
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.shrink_runner.let_go()
        if self.results is not None:
            await asyncio.to_thread(self.results.stop)
        await self.membership.release()
        await self.admin.close()

    @property
    def busy(self) -> bool:
        """True while this backend has to see an operation to its end."""
        return self.membership.duty in WRITERS and self.engine.busy

    async def ready(self) -> None:
        """Return once this backend may change the cluster.

        Raises:
            NotActive: another backend acts, or who acts was not settled in time.
            JournalUnusable, NotAuthorized: the journal needs an operator's help.
        """
        await self.membership.ready(READY_S)
        await self._recover()
        await self.registry.resolve()

    async def _recover(self) -> None:
        """Close what another backend left; what this one has begun since is not meant."""
        inherited, self._inherited = self._inherited, ()
        try:
            await self.engine.recover(inherited)
        except BaseException:
            self._inherited = inherited
            raise

    async def _watch(self) -> None:
        """Advance the operations with each snapshot, or each sweep where none comes."""
        version = 0
        while True:
            # `wait_for` of Python 3.11 may swallow a cancellation, and `stop` would wait for ever.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.settings.sampler.sweep_s):
                    version = (await self.hub.newer_than(version)).version
            if self.membership.duty is LeaseState.ACT:
                await self._act()
            elif self.membership.duty not in WRITERS:
                await self.shrink_runner.let_go()

    async def _act(self) -> None:
        # The edge of the engine: what fails in one tick must not end all that come after it.
        try:
            await self._recover()
            await self.engine.tick()
            await self._forecast_keeper.look()
            await self.approvals.tidy()
            await self.journal_audit.tell()
        except KshuntError as error:
            log.info("A tick of the engine changed nothing: %s", error)
        except Exception:
            log.exception("A tick of the engine failed")

    def _duty_is(self, duty: LeaseState, state: JournalState) -> None:
        """Take over what the journal says, unless it says what this backend wrote itself."""
        if duty not in WRITERS:
            self._writes = False
            self.registry.load(state)
        elif not self._writes:
            self._writes = True
            self.registry.load(state)
            self.second_copy.opened(state, self.cluster_id)
            self._inherited = self.registry.unfinished
            self.sampler.nudge()

    async def _cluster_id(self) -> str:
        self.cluster_id = await self.queries.cluster_id()
        return self.cluster_id

    async def _save_copies(self) -> None:
        """Keep on this host what must survive the journal."""
        while True:
            await self.clock.wait_s(LOOK_S)
            if self.membership.duty is LeaseState.ACT:
                await self.second_copy.save(self.membership.state)

    def _moving(self) -> dict[TopicPartition, str]:
        """Which operation of ours moves a partition, or has just done so; any thread may ask."""
        known, since_ms = self.registry.known, self.clock.now_ms() - MOVED_MS
        return {
            partition: operation.id
            for operation in known.operations.values()
            if operation.id in known.works
            and (operation.ended_ms is None or operation.ended_ms >= since_ms)
            for partition in known.works[operation.id].started - known.works[operation.id].refused
        }

    def _ended_forecasts(self) -> dict[str, Kept]:
        """What was forecast of operations that ended; any thread may ask."""
        known = self.registry.known
        ended = (one.id for one in known.operations.values() if one.state.ended)
        return {id: known.forecasts[id] for id in ended if id in known.forecasts}

    def shown(self, operation: Operation) -> Operation:
        """An operation with what is known of it; a large one takes a while.

        It says what can be done with the operation now, the target replicas of partitions that
        wait, and what people said about it.
        """
        work = self.registry.work(operation.id)
        return with_waiting_plan(self._summed(operation, work), work)

    def _summed(self, operation: Operation, work: ReassignmentWork | None) -> Operation:
        """As `shown`, but what waits is only counted."""
        team = self.registry.team(operation.id)
        kept = self.registry.forecasts(operation.id)
        operation = replace(operation, claim=team.claim, notes=team.notes, forecasts=kept)
        shrink = self.registry.shrink(operation.id)
        actions = self._offered(actions_of(operation, work, shrink))
        if shrink is not None:
            progress = self.shrink_runner.progress(operation, shrink)
            details = structs.replace(operation.details, shrink=progress)
            return replace(operation, actions=actions, details=details)
        waiting = 0 if work is None or operation.state.ended else len(work.waiting)
        return replace(operation, actions=actions, waiting=waiting)

    def _offered(self, actions: tuple[str, ...]) -> tuple[str, ...]:
        """Those that this way to the cluster can do."""
        return tuple(action for action in actions if action not in self.admin.not_offered)

    def _operation_changed(self, operation: Operation) -> None:
        self._tell(operation)
        self.sampler.nudge()

    def _tell(self, operation: Operation) -> None:
        work = self.registry.work(operation.id)
        summed = self._summed(operation, work)

        def shown() -> Operation:
            return with_waiting_plan(summed, work)

        entries = len(summed.partitions) + entries_of(summed.details)
        self.events.publish("operation", shown, of=operation.id, entries=entries)
        for listener in self.listeners:
            listener(summed)

    def _proposal_changed(self, proposal: ProposedChange) -> None:
        # What one may do with it is another thing for each reader, who asks for the list.
        shown = ShownProposal.of(proposal, proposal.proposer, self.clock.now_ms())
        self.events.publish("proposal", lambda: replace(shown, actions=()), of=proposal.id)

    def _present_changed(self, present: tuple[ConnectedSession, ...]) -> None:
        self.events.publish("presence", lambda: Presence(present), of="all")

    async def _look_round(self) -> None:
        """Notice who has fallen silent."""
        while True:
            await self.clock.wait_s(EVENT_S)
            self.presence.tell()

    def _job(self) -> RepartitionJob:
        """What copies or compares two topics once."""
        if self.repartition is not None:
            return self.repartition()
        settings = self.settings
        return ProcessJob(JobSettings(settings.bootstrap_servers, settings.command_config))

    async def snapshot(self) -> Snapshot:
        """The newest snapshot, waiting a little for the first.

        Raises:
            ClusterUnreachable: there is none yet.
        """
        try:
            return await asyncio.wait_for(self.hub.newer_than(0), FIRST_SNAPSHOT_S)
        except TimeoutError:
            raise ClusterUnreachable(
                f"The cluster at {self.settings.bootstrap_servers} has not answered yet.",
                advice="The backend keeps trying; look again.",
            ) from None

    async def cluster_info(self) -> ClusterInfo:
        """Which cluster this is.

        Raises:
            ClusterUnreachable: it has not answered yet.
        """
        snapshot = await self.snapshot()
        rows = snapshot.replicas
        moving = rows.adding | rows.removing
        partitions = set(zip(rows.topic_index[moving], rows.partition[moving], strict=True))
        return ClusterInfo(
            cluster_id=snapshot.cluster_id,
            bootstrap_servers=self.settings.bootstrap_servers,
            controller=snapshot.controller,
            brokers=sum(not status.stale for status in snapshot.brokers.values()),
            topics=len(snapshot.topics),
            replicas=len(rows),
            moving_partitions=len(partitions),
            sampled_ms=snapshot.taken_ms,
            backend_pid=os.getpid(),
            backend_version=__version__,
        )


def _look(task: asyncio.Task[None]) -> None:
    """Say that a part of the backend has failed, when it does."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.critical("A part of this backend has failed: %s", task.get_name(), exc_info=error)
