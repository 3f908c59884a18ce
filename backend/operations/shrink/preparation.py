"""The phases of a shrink up to the typed name: what they write can all be taken back."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any, Final

from kshunt.backend.domain.cluster.metadata import NO_BROKER
from kshunt.backend.domain.operations.operation import OperationState
from kshunt.backend.domain.shrink.offset_maps import Offsets
from kshunt.backend.domain.shrink.phases import ShrinkPhase
from kshunt.backend.domain.text.formatting import duration_text, listed, many
from kshunt.backend.domain.topics.descriptions import TopicDescription
from kshunt.backend.domain.topics.groups import ConsumerGroup
from kshunt.backend.domain.topics.partitioners import Partitioner
from kshunt.backend.error_codes import TOPIC_ALREADY_EXISTS
from kshunt.backend.errors import Conflict
from kshunt.backend.operations.shrink.job_port import JobCommand, JobStatus
from kshunt.backend.operations.shrink.offset_maps import map_is_there, places, stamp
from kshunt.backend.operations.shrink.step import ShrinkStep, checked
from kshunt.backend.operations.shrink.topic_settings import (
    HOLD,
    copy_settings,
    cuts_for,
    needed_in_force,
    placed,
    same_topic,
    to_hold,
)
from kshunt.backend.operations.state.shrink_work import Compared

SMALL_RECORDS: Final = 10_000
"""What is left is copied after the seal, when it is no more than this."""
ROUNDS_MAX: Final = 5
"""So often it is copied up to the ends of the moment: a writer that is quicker is sealed first."""
LOOK_S: Final = 10.0
"""Groups are looked at so often, while somebody is waited for."""


async def check(step: ShrinkStep) -> None:
    """Look once more whether anything forbids it, now that it is written down."""
    request = step.work.request
    step.wait("kshunt checks the topic, its clients and the disks")
    found = await step.behind(
        "check",
        lambda: step.tools.checks.check(
            request.topic, request.total_count, partitioner=request.partitioner
        ),
    )
    if found is None:
        return
    refusals = found.refusals(request.insisted)
    source = await step.described(request.topic)
    if refusals or source is None:
        words = "; ".join(one.words for one in refusals) or (
            f"{request.topic} does not exist any more"
        )
        await step.move(OperationState.FAILED, f"{words} Nothing was changed.", failed=words)
        return
    copy = await step.described(step.work.copy)
    if copy is not None:
        words = f"there is already a topic {step.work.copy}"
        await step.move(OperationState.FAILED, f"{words}. Nothing was changed.", failed=words)
        return
    await step.move(
        OperationState.RUNNING,
        current=len(source.partitions),
        source_id=source.topic_id,
        phase=ShrinkPhase.QUIESCE,
    )


# Until nobody writes


async def quiesce(step: ShrinkStep) -> None:
    """Wait until the partitions that go have not been written for the delay."""
    request = step.work.request
    if request.write_block and "blocked" not in step.live.done:
        await _block(step)
        step.live.done |= {"blocked"}
    await step.source()
    found = await step.context.admin.records.offsets(request.topic, timeout_s=step.timeout_s)
    doomed = {p: one.end for p, one in found.offsets.items() if p >= request.total_count}
    if len(doomed) < step.work.current - request.total_count:
        step.wait("the log ends of the partitions to remove are unknown: a leader does not answer")
        return
    still_s = step.live.ends.still_s(doomed, step.now_s)
    step.live.quiet_ms = round(still_s * 1000)
    if step.live.quiet_ms >= request.delay_ms:
        await step.enter()
        return
    words = f"no record for {duration_text(step.live.quiet_ms / 1000)} of "
    words += duration_text(request.delay_ms / 1000)
    if not step.live.ends.moved:
        step.wait(words)
        return
    names = listed(step.live.ends.moved, 8)
    step.wait(f"{words}; last written: partition {names}{await _who(step)}", "producers")


async def _block(step: ShrinkStep) -> None:
    admin, work = step.context.admin, step.work
    block = await admin.write_blocks.describe(work.topic, timeout_s=step.timeout_s)
    if work.blocked_before is None:
        await step.put(blocked_before=block.present)
    if not block.present:
        outcome = await admin.write_blocks.create(work.topic, timeout_s=step.timeout_s)
        checked(f"Blocking writes to {work.topic}", outcome)
        block = await admin.write_blocks.describe(work.topic, timeout_s=step.timeout_s)
    if block.may_write is False:
        raise Conflict(
            "With the write block only super users can write, and kshunt is not one: it could "
            f"not copy {work.topic} back."
        )


async def _who(step: ShrinkStep) -> str:
    """The producers that wrote lately, as far as leaders tell."""
    topic, since_ms = step.work.topic, step.context.clock.now_ms() - (step.live.quiet_ms or 0)
    found = await step.context.admin.records.producers(topic, timeout_s=step.timeout_s)
    names = {
        one.producer_id: one.transactional_id or f"producer {one.producer_id}"
        for number, producers in found.producers.items()
        if number >= step.work.request.total_count
        for one in producers
        if one.last_ms >= since_ms - 1_000
    }
    return f", by {listed(names.values(), 3)}" if names else ""


# Copying


async def copy(step: ShrinkStep) -> None:
    """Copy up to the ends of the moment, again until what is left is small."""
    if step.work.overrides is None and not await _decide(step):
        return
    if "held" not in step.live.done:
        if not await _hold(step):
            return
        step.live.done |= {"held"}
    if "created" not in step.live.done:
        if not await _create(step):
            return
        step.live.done |= {"created"}
    if step.work.until is None:
        await step.put(until=await step.ends(step.work.topic), rounds=step.work.rounds + 1)
    status = await step.run(copying(step))
    if status is None:
        copying_words(step)
    elif status.ended == "failed":
        await step.fail(status.words)
    else:
        await _copied(step)


async def _decide(step: ShrinkStep) -> bool:
    """Read what there is before anything of ours, and write down what will be made of it.

    False while it is not known where the copy goes.
    """
    admin, work, timeout_s = step.context.admin, step.work, step.timeout_s
    source = await step.source()
    assignment = await assigned(step, work.copy, source.replication_factor, step.operation.id)
    if assignment is None:
        return False
    overrides = await admin.configs.overrides(work.topic, timeout_s=timeout_s)
    configs = await admin.configs.describe(work.topic, timeout_s=timeout_s)
    if overrides is None or configs is None:
        raise Conflict(f"{work.topic} does not exist any more: somebody deleted it.")
    ends = await step.ends(work.topic)
    groups = [one.committed for one in await step.groups() if one.committed]
    await step.put(
        overrides=dict(overrides),
        in_force=needed_in_force({one.name: one.value for one in configs if one.value is not None}),
        assignment=assignment,
        cuts=cuts_for(groups, ends),
    )
    return True


async def assigned(
    step: ShrinkStep, topic: str, replicas: int, seed: str
) -> tuple[tuple[int, ...], ...] | None:
    """Replicas of each partition of a smaller topic; None while a placer is asked.

    Raises:
        BadInput: there are fewer brokers than replicas.
        InvalidReplicationFactor, ReplicaPlacementFailed: the placer does not place it.
        ClusterUnreachable, BrokerUnreachable: the cluster did not answer in time.
    """
    count, placing, timeout_s = step.work.request.total_count, step.tools.placing, step.timeout_s
    if placing is None:
        state = await step.context.admin.cluster.describe((), timeout_s=timeout_s)
        return placed(topic, count, replicas, state.brokers, seed)
    step.wait(f"the placer {placing.name} is choosing brokers for {topic}")
    found: tuple[tuple[int, ...], ...] | None = await step.behind(
        "placer", lambda: placing.new_topic(topic, count, replicas, timeout_s=timeout_s)
    )
    return found


async def _hold(step: ShrinkStep) -> bool:
    """Let the source keep every record; whether each of its leaders does."""
    work, admin = step.work, step.context.admin
    source = await step.source()
    found = await admin.configs.overrides(work.topic, timeout_s=step.timeout_s) or {}
    if changes := to_hold(found):
        outcome = await admin.configs.alter(work.topic, changes, timeout_s=step.timeout_s)
        checked(f"Keeping the records of {work.topic}", outcome)
    if await settings_in_force(step, source, HOLD):
        return True
    step.wait("brokers are learning that the source keeps its records")
    return False


async def settings_in_force(
    step: ShrinkStep, topic: TopicDescription, wanted: Mapping[str, str]
) -> bool:
    """Whether every leader of a topic says that these settings are in force."""
    leaders = sorted({one.leader for one in topic.partitions})
    if NO_BROKER in leaders:
        return False
    found = await step.context.admin.configs.in_force(
        topic.name, sorted(wanted), leaders, timeout_s=step.timeout_s
    )
    return all(found.get(leader) == dict(wanted) for leader in leaders)


async def _create(step: ShrinkStep) -> bool:
    """Create the copy's topic; whether every broker knows it."""
    work = step.work
    found = await step.described(work.copy)
    if found is None and work.copy_id:
        raise Conflict(f"{work.copy} does not exist any more: somebody deleted it.")
    if found is None:
        await create(step, work.copy, copy_settings(work))
        return False
    if not await is_ours(step, found, work.copy_id, copy_settings(work)):
        raise Conflict(f"{work.copy} was created by somebody else.")
    if not await known(step, found):
        return False
    await step.put(copy_id=found.topic_id)
    return True


async def create(step: ShrinkStep, topic: str, settings: Mapping[str, str]) -> None:
    """Create a smaller topic; it is looked at in another tick."""
    assignment = dict(enumerate(step.work.assignment))
    step.wait(f"{topic} is being created")
    outcome = await step.context.admin.topics.create(
        topic, assignment, settings, validate_only=False, timeout_s=step.timeout_s
    )
    if outcome.error_code != TOPIC_ALREADY_EXISTS:
        checked(f"Creating {topic}", outcome)


async def is_ours(
    step: ShrinkStep, found: TopicDescription, topic_id: str, settings: Mapping[str, str]
) -> bool:
    """Whether a topic is the one that we created.

    Before its id is in the journal, that is one that has the replicas and settings which are.
    """
    if topic_id:
        return found.topic_id == topic_id
    if not same_topic(step.work.assignment, [one.replicas for one in found.partitions]):
        return False
    has = await step.context.admin.configs.overrides(found.name, timeout_s=step.timeout_s) or {}
    return all(has.get(key) == value for key, value in settings.items())


async def known(step: ShrinkStep, topic: TopicDescription) -> bool:
    """Whether a topic has leaders, and every broker knows it."""
    brokers = await step.context.admin.topics.known(topic.name, timeout_s=step.timeout_s)
    lead = all(one.leader != NO_BROKER for one in topic.partitions)
    count = len(topic.partitions)
    if lead and all(one is not None and one.partitions == count for one in brokers.values()):
        return True
    step.wait(f"brokers are learning of {topic.name}")
    return False


def copying(step: ShrinkStep, until: Offsets | None = None) -> JobCommand:
    """The job that copies the source."""
    work = step.work
    return JobCommand(
        source=work.topic,
        target=work.copy,
        operation=step.job_name(),
        folder=step.folder(),
        until=work.until if until is None else until,
        cuts=work.cuts,
        keyless=work.request.keyless,
        partitioner=work.request.partitioner or Partitioner.MURMUR2,
    )


def copying_words(step: ShrinkStep) -> None:
    """Say how a copy goes, unless something else is to be said."""
    status = step.live.status
    if not status.running:
        return
    if status.records_done is None or status.records_total is None:
        step.wait("the job is starting")
        return
    left = max(0, status.records_total - status.records_done)
    step.wait(f"{many(left, 'record')} left to copy")


async def _copied(step: ShrinkStep) -> None:
    """Continue with the verification, or copy what came meanwhile."""
    until = step.work.until or {}
    ends = await step.ends(step.work.topic)
    left = sum(max(0, at - until.get(p, 0)) for p, at in ends.items())
    if left > SMALL_RECORDS and step.work.rounds < ROUNDS_MAX:
        await step.put(until=ends, rounds=step.work.rounds + 1)
        step.wait(f"{many(left, 'record')} arrived in the meantime, and are copied too")
        return
    await step.enter()


# Verifying


async def verify(step: ShrinkStep) -> None:
    """Compare source and copy."""
    found = await compared(step, verifying(step))
    if found is not None:
        await step.enter(verified=found)


def verifying(step: ShrinkStep) -> JobCommand:
    """The job that compares source and copy."""
    work, folder = step.work, step.folder()
    return JobCommand(work.topic, work.copy, step.job_name(), folder, verify=True)


async def compared(step: ShrinkStep, command: JobCommand) -> Compared | None:
    """What a comparison found; None while it has not ended, or where it has put an end to all."""
    status = await step.run(command)
    if status is None:
        if step.live.status.running:
            step.wait(f"{command.source} and {command.target} are compared")
        return None
    if status.verified is None:
        await step.fail("the verification gave no result")
        return None
    if not status.verified["equal"]:
        await step.fail(difference(status))
        return None
    return outcome_of(step, command, status)


def outcome_of(step: ShrinkStep, command: JobCommand, status: JobStatus) -> Compared:
    """What a comparison says, for the journal."""
    said = status.verified or {}
    found = Compared(
        _numbers(said["positions"]),
        _numbers(said["target_ends"]),
        int(said["source_records"]),
        step.context.clock.now_ms(),
    )
    stamp(command.folder, found)
    return found


def _numbers(offsets: Mapping[Any, Any]) -> Offsets:
    return {int(p): int(at) for p, at in sorted(offsets.items(), key=lambda one: int(one[0]))}


def difference(status: JobStatus) -> str:
    """How two topics differ, with the buckets of keys."""
    found = status.verified or {}
    buckets = [one["bucket"] for one in found.get("differing", ())]
    parts = [
        f"{found.get('source_records'):,} records in the first, "
        f"{found.get('target_records'):,} in the second",
        f"buckets of keys that differ: {listed(buckets, 8)}" if buckets else "",
        *(f"{found[key]:,} {key}" for key in ("misordered", "foreign") if found.get(key)),
        *(
            f"{key}: {listed(found[key], 3)}"
            for key in ("missing", "surplus", "doubled")
            if found.get(key)
        ),
    ]
    return "the topics are NOT equal: " + "; ".join(part for part in parts if part)


# Until somebody agrees


async def confirm(step: ShrinkStep) -> None:
    """Wait for the topic's name, and show meanwhile what it means for each group."""
    work, live = step.work, step.live
    if work.confirmed:
        await step.enter()
        return
    if step.now_s - live.looked_s >= LOOK_S:
        await step.source()
        groups = {one.name: one.committed for one in await step.groups() if one.committed}
        verified = work.verified
        there = verified is not None and map_is_there(step.folder(), verified)
        if groups != live.read_for and there:
            live.read_for, live.read_twice = groups, {}
    await _foresee(step)


async def _foresee(step: ShrinkStep) -> None:
    """How much each group would read again, if it continued from where it is now."""
    live, verified = step.live, step.work.verified
    if live.read_for is None or verified is None or live.read_twice.keys() == live.read_for.keys():
        return
    committed, folder = live.read_for, step.folder()
    found = await step.behind(
        "read twice", lambda: asyncio.to_thread(places, folder, committed, verified.ends)
    )
    if found is not None:
        live.read_twice = {name: place.read_twice for name, place in found.items()}


def active(groups: Collection[ConsumerGroup]) -> str:
    """The names of groups that have members; empty where none has."""
    return listed([one.name for one in groups if one.active], 4)
