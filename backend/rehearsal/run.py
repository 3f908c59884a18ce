"""A plan at work in a twin, as fast as it can be computed.

Goals
    When it would be finished, and what every broker would have to do for it meanwhile. Which
    replicas would fall behind, and how full disks would become. Or that it would never end, and
    why.

Constraints
    - The moves and their throttle are started as kshunt starts them: by KIP-179's reassignment. It
      sets the rates of every broker that has a part in it, and removes them at its end.
    - Nothing of the cluster itself is touched.

Algorithm
    1. Start the moves in the twin.
    2. Let a second pass, look, and repeat; the longer it takes, the rarer the looks.
    3. End when every partition has moved. Give up where over half of the time so far nothing
       became less, but not within the first two hours, and after `REHEARSED_S_MAX` anyhow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.planning.rehearsal import REHEARSED_S_MAX, Rehearsal
from kshunt.backend.domain.text.formatting import bytes_text, duration_text, listed, many
from kshunt.backend.embedded.controller.throttled_reassign import UNTHROTTLED, reassign_partitions
from kshunt.backend.embedded.core.cluster_core import Core
from kshunt.backend.errors import BadInput
from kshunt.backend.rehearsal.picture import Picture
from kshunt.backend.rehearsal.twin import twin_of
from kshunt.backend.rehearsal.twin_timeline import TimelineRecorder

PATIENCE_S: Final = 3_600.0
"""A move may stand still for a while: it waits for others that pass the same throttle."""


def rehearse(
    picture: Picture,
    targets: Mapping[TopicPartition, Sequence[int]],
    throttle_bytes_per_s: int | None = None,
    *,
    seed: int = 0,
    on_look: Callable[[float], object] | None = None,
) -> Rehearsal:
    """How these moves would go.

    Args:
        picture: The cluster.
        targets: The replicas that partitions are to have. The preferred leader is first.
        throttle_bytes_per_s: What each broker may send, and receive, for them. None for no limit.
        seed: Of what the twin decides by chance. One such choice is a replica's directory.
        on_look: Is given the share of the bytes that are copied, from 0 to 1, with each look.

    Raises:
        BadInput: a move cannot be started there, or there is none; with every refusal.
    """
    core = twin_of(picture, seed)
    _start(core, targets, throttle_bytes_per_s)
    recorder = TimelineRecorder(core, picture, list(targets))
    done_s: dict[TopicPartition, float] = {}
    outstanding = list(targets)
    recorder.look()
    while outstanding := _see(core, outstanding, done_s, recorder.elapsed_s):
        if _given_up(recorder):
            break
        if on_look is not None:
            on_look(_share(recorder))
        core.advance(core.now_ms + recorder.every_ms)
        recorder.look()
    brokers = tuple(sorted(picture.situation.brokers))
    return Rehearsal(
        throttle_bytes_per_s,
        brokers,
        recorder.timeline(brokers),
        done_s,
        None if outstanding else max(done_s.values()),
        _why(core, outstanding, recorder, throttle_bytes_per_s) if outstanding else "",
        tuple(recorder.events),
    )


def _start(
    core: Core, targets: Mapping[TopicPartition, Sequence[int]], throttle: int | None
) -> None:
    if not targets:
        raise BadInput("There is nothing to rehearse: the plan moves no partition.")
    rate = UNTHROTTLED if throttle is None else throttle
    decision = reassign_partitions(core.image, targets, throttle_bytes_per_s=rate)
    refused = [f"{one.item}: {one.message}" for one in decision.results if not one.ok]
    if decision.message is not None:
        refused.append(decision.message)
    if refused:
        raise BadInput(
            f"The plan cannot be rehearsed: the twin rejects {listed(refused, 3)}",
            advice="Nothing was changed. Correct the plan, or take a new picture of the cluster.",
        )
    core.commit(decision)


def _see(
    core: Core,
    outstanding: Sequence[TopicPartition],
    done_s: dict[TopicPartition, float],
    at_s: float,
) -> list[TopicPartition]:
    """Note what has moved; returns what has not."""
    left = []
    for name in outstanding:
        partition = core.image.partition(*name)
        if partition is None or partition.reassigning:
            left.append(name)
        else:
            done_s[name] = at_s
    return left


def _share(recorder: TimelineRecorder) -> float:
    """What is copied of all that was missing at first; new records may take it back."""
    whole = recorder.remaining_at(0)
    return max(1 - recorder.remaining_at(recorder.elapsed_s) / whole, 0.0) if whole else 0.0


def _given_up(recorder: TimelineRecorder) -> bool:
    elapsed_s = recorder.elapsed_s
    if elapsed_s >= REHEARSED_S_MAX:
        return True
    now_bytes = recorder.remaining_at(elapsed_s)
    return elapsed_s >= 2 * PATIENCE_S and now_bytes >= recorder.remaining_at(elapsed_s / 2)


def _why(
    core: Core,
    outstanding: Sequence[TopicPartition],
    recorder: TimelineRecorder,
    throttle_bytes_per_s: int | None,
) -> str:
    elapsed_s, left = recorder.elapsed_s, many(len(outstanding), "partition")
    lacking = dict(recorder.lacking())
    down = sorted(broker for broker in lacking if not core.plane.is_up(broker))
    waits = listed(
        f"broker {broker} ({bytes_text(size)})"
        for broker, size in sorted(lacking.items(), key=lambda one: -one[1])
    )
    missing = f"; bytes are missing on {waits}." if waits else "."
    faster = "Use a higher throttle." if throttle_bytes_per_s is not None else ""
    if elapsed_s >= REHEARSED_S_MAX:
        words = f"The rehearsal was stopped after {duration_text(elapsed_s)}. By then {left} had "
        words += f"not moved{missing} The plan takes longer than that."
        return f"{words} {faster or 'Move fewer partitions in one plan.'}"
    words = f"After {duration_text(elapsed_s)} {left} had not moved, and no fewer bytes were "
    words += f"missing than after {duration_text(elapsed_s / 2)}{missing}"
    if down:
        return f"{words} Down: broker {listed(down)}."
    return (
        f"{words} Producers write at least as fast as replicas copy. Bytes that followers in the "
        f"ISR fetch from listed leaders also count against the throttle (KIP-73). {faster}"
    ).rstrip()
