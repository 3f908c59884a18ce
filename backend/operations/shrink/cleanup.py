"""The end of a shrink: what only it needed goes, whether it came to its end or is taken back.

Constraints
    The copy is deleted only while another topic is seen to hold every record: the source with the
    id from before, or the final topic that was found equal. What somebody else changed meanwhile
    stays as it is.
"""

from __future__ import annotations

import asyncio
import shutil

from kshunt.backend.domain.operations.operation import OperationState
from kshunt.backend.domain.text.formatting import many
from kshunt.backend.domain.topics.descriptions import TopicDescription
from kshunt.backend.error_codes import GROUP_ID_NOT_FOUND
from kshunt.backend.errors import Conflict
from kshunt.backend.operations.shrink.cut_over import GONE
from kshunt.backend.operations.shrink.preparation import is_ours
from kshunt.backend.operations.shrink.step import ShrinkStep, checked, topic_id_digits
from kshunt.backend.operations.shrink.topic_settings import (
    OUR_GROUPS,
    SEALED,
    Changes,
    copy_settings,
    to_end_with,
    to_release,
)


async def clean_up(step: ShrinkStep) -> None:
    """Take away what only the shrink needed, and end it."""
    step.wait("kshunt is removing what only the shrink needed")
    # Once: a tick that only ends the job would say nothing of what hindered the one before.
    if "ended" not in step.live.done:
        if await step.behind("end", step.live.end_job) is None:
            return
        step.live.done |= {"ended"}
    work = step.work
    remains = await (_roll_back(step) if work.rolled_back else _finish(step))
    await _unblock(step)
    names = [OUR_GROUPS + step.job_name(back=back) for back in (False, True)]
    found = await step.context.admin.groups.delete(names, timeout_s=step.timeout_s)
    for name, outcome in found.items():
        if outcome.error_code != GROUP_ID_NOT_FOUND:
            checked(f"Deleting group {name}", outcome)
    for back in (False, True):
        await asyncio.to_thread(shutil.rmtree, step.folder(back=back), ignore_errors=True)
    state = OperationState.DONE
    if work.rolled_back:
        state = OperationState.CANCELLED if work.cancelled else OperationState.FAILED
    await step.move(state, _outcome(step, remains))


def _outcome(step: ShrinkStep, remains: str) -> str:
    work = step.work
    if work.rolled_back:
        words = work.failed or "cancelled"
        return f"{words}; {remains or 'all of it was reverted'}"
    records = "" if work.verified is None else f", {many(work.verified.records, 'record')}"
    words = f"{work.final} has {many(work.request.total_count, 'partition')}{records}"
    moved = sum(place.done for place in work.groups.values())
    words += f"; {many(moved, 'consumer group')} moved" if work.groups else ""
    return f"{words}; {remains}" if remains else words


async def _finish(step: ShrinkStep) -> str:
    """Give the final topic the source's settings, and delete the copy; what is kept, in words."""
    work = step.work
    final = await step.described(work.final)
    wanted_id = work.final_id if work.same_name else work.copy_id
    if final is None or (wanted_id and final.topic_id != wanted_id):
        return f"{work.final} does not exist any more; nothing else was changed"
    found = await step.context.admin.configs.overrides(work.final, timeout_s=step.timeout_s) or {}
    await _alter(step, work.final, to_end_with(work, found))
    if not work.same_name:
        source = await _source_there(step)
        if source is not None:
            await _release(step, sealed=True)
        return f"{work.topic} stays, and accepts no records ({SEALED})"
    if work.accepted:
        return f"{work.copy} stays, because {work.topic} differs from it"
    await _delete_copy(step)
    return ""


async def _roll_back(step: ShrinkStep) -> str:
    """Let everything be as it was before; what cannot be, in words."""
    work = step.work
    source = await _source_there(step)
    if source is None:
        copy = await step.described(work.copy) if work.assignment else None
        return f"{work.topic} does not exist any more" + (
            f"; {work.copy} was kept" if copy is not None else ""
        )
    if work.overrides is not None:
        await _release(step, sealed=False)
    if work.assignment:
        await _delete_copy(step)
    return ""


async def _source_there(step: ShrinkStep) -> TopicDescription | None:
    """The source, if it is the one that there was."""
    found = await step.described(step.work.topic)
    if found is None or (step.work.source_id and found.topic_id != step.work.source_id):
        return None
    return found


async def _release(step: ShrinkStep, *, sealed: bool) -> None:
    work = step.work
    found = await step.context.admin.configs.overrides(work.topic, timeout_s=step.timeout_s) or {}
    await _alter(step, work.topic, to_release(work, found, sealed=sealed))


async def _alter(step: ShrinkStep, topic: str, changes: Changes) -> None:
    if not changes:
        return
    outcome = await step.context.admin.configs.alter(topic, changes, timeout_s=step.timeout_s)
    checked(f"Restoring the settings of {topic}", outcome)


async def _delete_copy(step: ShrinkStep) -> None:
    """Delete the copy, if it is ours."""
    work = step.work
    found = await step.described(work.copy)
    if found is None or not await is_ours(step, found, work.copy_id, copy_settings(work)):
        return
    outcome = await step.context.admin.topics.delete(
        work.copy, topic_id=topic_id_digits(found.topic_id), timeout_s=step.timeout_s
    )
    if outcome.error_code not in GONE:
        checked(f"Deleting {work.copy}", outcome)
    if await step.described(work.copy) is not None:
        raise StillThere(f"{work.copy} is being deleted.")


class StillThere(Conflict):
    """What goes is not gone yet."""

    retriable = True


async def _unblock(step: ShrinkStep) -> None:
    work = step.work
    if work.request.write_block and work.blocked_before is False:
        outcome = await step.context.admin.write_blocks.delete(work.topic, timeout_s=step.timeout_s)
        checked(f"Allowing writes to {work.topic} again", outcome)
