"""The phases of a shrink from the seal on: the source is closed, replaced, and its groups follow.

kshunt looks again at what speaks against the deletion right before it deletes the source. From then
on nothing is taken back, and each phase repeats what it has to do until it holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from kshunt.backend.domain.cluster.columns import PartitionColumns
from kshunt.backend.domain.operations.operation import OperationState
from kshunt.backend.domain.shrink.offset_maps import Offsets
from kshunt.backend.domain.shrink.phases import ShrinkPhase
from kshunt.backend.domain.text.formatting import listed, many
from kshunt.backend.domain.topics.descriptions import TopicDescription
from kshunt.backend.domain.topics.groups import OffsetsRead
from kshunt.backend.error_codes import (
    INVALID_REPLICA_ASSIGNMENT,
    NON_EMPTY_GROUP,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from kshunt.backend.errors import ClusterUnreachable
from kshunt.backend.operations.shrink.job_port import JobCommand
from kshunt.backend.operations.shrink.offset_maps import finals, map_is_there, places
from kshunt.backend.operations.shrink.preparation import (
    active,
    assigned,
    compared,
    copying,
    copying_words,
    create,
    difference,
    is_ours,
    known,
    outcome_of,
    settings_in_force,
    verifying,
)
from kshunt.backend.operations.shrink.step import Refused, ShrinkStep, checked, topic_id_digits
from kshunt.backend.operations.shrink.topic_settings import OUR_GROUPS, SEAL, final_settings
from kshunt.backend.operations.state.shrink_work import GroupPlace

STILL_S: Final = 2.0
"""For this long the ends of a sealed topic must not move."""
GONE: Final = frozenset({UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID})
BUSY: Final = frozenset({UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS, NON_EMPTY_GROUP})
"""The group has members."""
GROUPS_AT_ONCE: Final = 20


# The seal


async def seal(step: ShrinkStep) -> None:
    """Refuse every producer, once nobody reads; until the ends stand still."""
    work, admin = step.work, step.context.admin
    source = await step.source()
    if names := active(await step.groups()):
        step.wait(f"these groups have members, stop them: {names}", "groups")
        return
    found = await admin.configs.overrides(work.topic, timeout_s=step.timeout_s) or {}
    if changes := {key: value for key, value in SEAL.items() if found.get(key) != value}:
        step.context.registry.require()
        outcome = await admin.configs.alter(work.topic, changes, timeout_s=step.timeout_s)
        checked(f"Sealing {work.topic}", outcome)
    if not await settings_in_force(step, source, SEAL):
        step.wait("brokers are learning that the source accepts no records")
        return
    ends = await _final_ends(step, source)
    if ends is None:
        return
    if step.live.ends.still_s(ends, step.now_s) < STILL_S:
        step.wait("the source is sealed; kshunt waits until its log ends do not change")
        return
    await step.enter(sealed=ends, until=ends)


async def _final_ends(step: ShrinkStep, source: TopicDescription) -> Offsets | None:
    """The ends of the source; None while a transaction is open, or a record not replicated."""
    found = await step.context.admin.records.offsets(source.name, timeout_s=step.timeout_s)
    if len(found.offsets) < len(source.partitions):
        step.wait("the log ends of the source are unknown: a leader does not answer")
        return None
    if busy := [p for p, one in sorted(found.offsets.items()) if one.stable_end < one.end]:
        step.wait(f"a transaction is open on partition {listed(busy, 8)}", "producers")
        return None
    if late := await _not_replicated(step, source, found):
        step.wait(f"the last records of partition {listed(late, 8)} are being replicated")
        return None
    return {p: one.end for p, one in sorted(found.offsets.items())}


async def _not_replicated(
    step: ShrinkStep, source: TopicDescription, found: OffsetsRead
) -> tuple[int, ...]:
    """Partitions whose leader has records that no consumer sees yet."""
    late = []
    for leader in sorted({one.leader for one in source.partitions}):
        numbers = np.array([p.number for p in source.partitions if p.leader == leader], np.int32)
        asked = PartitionColumns((source.name,), np.zeros(len(numbers), np.int32), numbers)
        ends = await step.context.admin.logs.end_offsets(leader, asked, timeout_s=step.timeout_s)
        late += [
            int(number)
            for number, end in zip(numbers, ends.log_end_offset, strict=True)
            if int(end) != found.offsets[int(number)].end
        ]
    return tuple(sorted(late))


# What came after the verification


async def copy_rest(step: ShrinkStep) -> None:
    """Copy what was written since, if anything was."""
    work = step.work
    if work.verified is not None and work.verified.positions == work.sealed:
        await step.enter()
        return
    status = await step.run(copying(step, work.sealed))
    if status is None:
        copying_words(step)
    elif status.ended == "failed":
        await step.fail(status.words)
    else:
        await step.enter()


async def verify_rest(step: ShrinkStep) -> None:
    """Compare all of both topics, and settle where each group continues."""
    work = step.work
    verified = work.verified
    whole = verified is not None and verified.positions == work.sealed
    if whole and verified is not None and map_is_there(step.folder(), verified):
        if not await _as_sealed(step):
            return
        if not await settings_in_force(step, await step.source(), SEAL):
            await _seal_anew(step)
        elif (groups := await _placed(step)) is not None:
            await step.enter(groups=groups)
            if work.same_name:
                # Immediately: while groups are where they were a moment ago.
                await delete(step)
        return
    found = await compared(step, verifying(step))
    if found is None:
        return
    if found.positions != work.sealed:
        await step.fail("the job compared other offsets than those of the sealed source")
        return
    await step.put(verified=found)


async def _as_sealed(step: ShrinkStep) -> bool:
    """Whether the source ends where it ended when it was sealed; else it is sealed anew."""
    topic = step.work.topic
    found = await step.context.admin.records.offsets(topic, timeout_s=step.timeout_s)
    if len(found.offsets) < step.work.current:
        raise ClusterUnreachable(f"The log ends of {topic} are unknown.")
    if {p: one.end for p, one in found.offsets.items()} == step.work.sealed:
        return True
    await _seal_anew(step)
    return False


async def _seal_anew(step: ShrinkStep) -> None:
    step.wait("new records arrived, or the seal was removed; kshunt seals the source again")
    await step.enter(ShrinkPhase.SEAL, sealed=None, groups={})


async def _placed(step: ShrinkStep) -> Mapping[str, GroupPlace] | None:
    """Where each group continues in the copy; None while that is not known, or a group reads."""
    groups, verified = await step.groups(), step.work.verified
    assert verified is not None
    if names := active(groups):
        step.wait(f"these groups have members, stop them: {names}", "groups")
        return None
    committed = {one.name: one.committed for one in groups if one.committed}
    if {name: place.committed for name, place in step.work.groups.items()} == committed:
        return step.work.groups
    step.wait("looking up the offsets from which consumer groups continue")
    folder, ends = step.folder(), verified.ends
    found: Mapping[str, GroupPlace] | None = await step.behind(
        f"places {sorted(committed.items())}",
        lambda: asyncio.to_thread(places, folder, committed, ends),
    )
    return found


# The point of no return


async def delete(step: ShrinkStep) -> None:
    """Delete the source, and no other topic of its name; until no broker knows it.

    Groups are not looked at any more: their positions go with the source.
    """
    work, admin = step.work, step.context.admin
    found = await step.described(work.topic)
    if found is None:
        brokers = await admin.topics.known(work.topic, timeout_s=step.timeout_s)
        if all(one is not None and not one.partitions for one in brokers.values()):
            await step.enter()
        else:
            step.wait("brokers are learning that the source is deleted")
    elif not await _is_source(step, found):
        step.wait(
            f"somebody created {work.topic} again (auto.create.topics.enable?); the operation "
            f"continues when that topic is deleted; every record is in {work.copy}",
            "operator",
        )
    elif step.live.sent or await _as_sealed(step):
        # What comes by then is not looked at: a topic that goes gives odd answers.
        step.live.sent = True
        step.wait("the source is being deleted")
        outcome = await admin.topics.delete(
            work.topic, topic_id=topic_id_digits(work.source_id), timeout_s=step.timeout_s
        )
        if outcome.error_code in GONE:
            return
        try:
            checked(f"Deleting {work.topic}", outcome)
        except Refused as refused:
            # By the cluster's own word nothing was deleted.
            await step.fail(str(refused))


async def _is_source(step: ShrinkStep, found: TopicDescription) -> bool:
    work = step.work
    if work.source_id:
        return found.topic_id == work.source_id
    has = await step.context.admin.configs.overrides(found.name, timeout_s=step.timeout_s) or {}
    sealed = all(has.get(key) == value for key, value in SEAL.items())
    return sealed and len(found.partitions) == work.current


async def create_anew(step: ShrinkStep) -> None:
    """Create the topic with fewer partitions, of the same name and settings."""
    work, admin = step.work, step.context.admin
    found = await step.described(work.topic)
    if found is None and work.final_id:
        raise Refused(f"{work.topic} does not exist any more: somebody deleted it", 3)
    if found is None:
        # So the job does not take what a producer writes first for the work of another job.
        group = OUR_GROUPS + step.job_name(back=True)
        starts = dict.fromkeys(range(work.request.total_count), 0)
        outcome = await admin.groups.alter_offsets(
            group, work.copy, starts, timeout_s=step.timeout_s
        )
        checked(f"Setting the first offset of {group}", outcome)
        await _create_anew(step)
    elif not await is_ours(step, found, work.final_id, final_settings(work)):
        step.wait(
            f"somebody created {work.topic} again (auto.create.topics.enable?); the operation "
            f"continues when that topic is deleted; every record is in {work.copy}",
            "operator",
        )
    elif await known(step, found):
        await step.enter(final_id=found.topic_id)


async def _create_anew(step: ShrinkStep) -> None:
    work = step.work
    try:
        await create(step, work.topic, final_settings(work))
    except Refused as refused:
        if refused.code != INVALID_REPLICA_ASSIGNMENT:
            raise
        # A broker has left the cluster since.
        state = await step.context.admin.cluster.describe((), timeout_s=step.timeout_s)
        seed = f"{step.operation.id}-{sorted(state.brokers)}"
        assignment = await assigned(step, work.topic, len(work.assignment[0]), seed)
        if assignment is not None:
            await step.put(assignment=assignment)


def _back(step: ShrinkStep, *, verify: bool = False) -> JobCommand:
    work = step.work
    assert work.verified is not None
    return JobCommand(
        source=work.copy,
        target=work.topic,
        operation=step.job_name(back=True),
        folder=step.folder(back=True),
        verify=verify,
        until=None if verify else work.verified.ends,
        strip_header=True,
    )


async def copy_back(step: ShrinkStep) -> None:
    """Copy everything into the topic that was created anew."""
    status = await step.run(_back(step))
    if status is None:
        copying_words(step)
    elif status.ended == "complete":
        await step.enter()


async def verify_back(step: ShrinkStep) -> None:
    """Compare copy and final topic; where they differ, somebody has to agree."""
    work = step.work
    seen = work.verified_back
    if seen is not None and map_is_there(step.folder(back=True), seen):
        if not work.differs or work.accepted:
            await step.enter()
        return
    command = _back(step, verify=True)
    status = await step.run(command)
    if status is None or status.ended != "complete" or status.verified is None:
        if step.live.status.running:
            step.wait(f"{work.copy} and {work.topic} are compared")
        return
    equal = bool(status.verified["equal"])
    words = "" if equal else difference(status)
    await step.put(verified_back=outcome_of(step, command, status), differs=words)


# The groups


async def translate(step: ShrinkStep) -> None:
    """Commit where each group continues; wait for a group that has members."""
    work = step.work
    if any(place.final is None for place in work.groups.values()):
        await _finals(step)
        return
    pending = [name for name, place in work.groups.items() if not place.done]
    if not pending:
        await step.move(OperationState.LIFTING, phase=ShrinkPhase.CLEAN_UP)
        return
    found = await step.context.admin.groups.of_topic(work.final, timeout_s=step.timeout_s)
    there = {one.name: one for one in found.groups}
    step.live.members = {
        **step.live.members,
        **{name: len(one.members) or int(one.active) for name, one in there.items()},
    }
    reading = {name for name in pending if name in there and there[name].active}
    ready = [name for name in pending if name not in reading][:GROUPS_AT_ONCE]
    # What was committed without an answer, and may have been read on from since.
    done = {
        name
        for name in pending
        if work.groups[name].asked
        and name in there
        and _was_moved(there[name].committed, work.groups[name])
    }
    await _commit(step, done, [name for name in ready if name not in done], reading - done)


def _was_moved(committed: Offsets, place: GroupPlace) -> bool:
    """Whether a group is where it was to continue, or further.

    A coordinator that was down while the source was deleted may still know the positions in that.
    """
    wanted = place.final or {}
    former = {p: at for p, at in place.committed.items() if p in committed}
    if committed == former and committed != wanted:
        return False
    return bool(committed) and all(committed.get(p, -1) >= at for p, at in wanted.items())


async def _commit(step: ShrinkStep, done: set[str], moving: list[str], busy: set[str]) -> None:
    work, admin = step.work, step.context.admin
    asked = {name: replace(work.groups[name], asked=True) for name in moving}
    await step.put(groups={**work.groups, **asked})
    for name in moving:
        final = work.groups[name].final or {}
        outcome = await admin.groups.alter_offsets(
            name, work.final, final, timeout_s=step.timeout_s
        )
        if outcome.error_code in BUSY:
            busy.add(name)
        else:
            checked(f"Moving group {name}", outcome)
            done.add(name)
    places = dict(step.work.groups)
    for name in done:
        places[name] = replace(places[name], done=True)
    # What was refused was not committed.
    for name in busy & asked.keys():
        places[name] = replace(places[name], asked=False)
    await step.put(groups=places)
    if busy:
        names = listed(sorted(busy), 4)
        step.wait(f"these groups have members, stop them: {names}", "groups")
    else:
        step.wait(f"{many(len(done), 'consumer group')} moved")


async def _finals(step: ShrinkStep) -> None:
    """Find where the groups continue in the final topic."""
    work = step.work
    if not work.same_name:
        await step.put(groups={n: replace(p, final=p.copied) for n, p in work.groups.items()})
        return
    folder = step.folder(back=True)
    if work.verified_back is None or not map_is_there(folder, work.verified_back):
        # Another machine has the map, so it is made here once more.
        await step.enter(ShrinkPhase.VERIFY_BACK)
        return
    known_places, ends = work.groups, work.verified_back.ends
    step.wait("looking up the offsets from which consumer groups continue")
    found = await step.behind(
        "finals", lambda: asyncio.to_thread(finals, folder, known_places, ends)
    )
    if found is not None:
        await step.put(groups=found)
