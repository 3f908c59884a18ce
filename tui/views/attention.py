"""What an operator should look at, the most urgent first: one list for the overview and for `!`.

The head of every screen shows the first of what is wrong; the list has that first, in its order.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.operations.lifecycle import OperationState
from kshunt.backend.domain.operations.operation import OperationKind
from kshunt.backend.domain.text.formatting import listed, many
from kshunt.tui.actions import key_of, view_key
from kshunt.tui.actions.view_names import BROKERS, OPERATIONS, PARTITIONS, THROTTLES
from kshunt.tui.data.team import awaits_me, words_of
from kshunt.tui.facts.row_keys import ListRowKey, RateRowKey
from kshunt.tui.feed.polled_facts import BACKEND_STATUS, DRIFT, ORPHANS, OWNED, PIPELINE, PROPOSALS
from kshunt.tui.tables.targets import FIX, Item, ScreenTarget

if TYPE_CHECKING:
    from kshunt.backend.domain.backend.backend_status import BackendStatus
    from kshunt.backend.domain.cluster.failed_requests import FailedRequest
    from kshunt.backend.domain.operations.operation import Operation
    from kshunt.backend.domain.throttles.owners import ShownDrift
    from kshunt.tui.data.store import Store

OUT_OF_SYNC: Final = "-insync -adding"
"""A filter: replicas that should be in sync and are not."""
SILENT_EACH: Final = 3
"""More brokers than that are said to be silent in one sentence."""


def wrong(store: Store) -> tuple[Item, ...]:
    """One sentence for each thing that is wrong: the beginning of `attention`."""
    scene = store.scene
    found = _proposed(store)
    found += [_drift(one) for one in sorted(scene.answer(DRIFT), key=lambda one: one.id)]
    found += _shrinking(scene.operations)
    found += _paused(scene.operations)
    found += _late(store)
    found += _offline(store)
    found += _down(store)
    if store.summary is not None:
        known = () if scene.snapshot is None else scene.snapshot.brokers
        found += unread(store.summary.failed_requests, known)
        if store.summary.stuck:
            from kshunt.tui.facts.stuck_words import stuck_sentence

            target = ScreenTarget(PARTITIONS, filter_text="stuck", mends=_rates_mend(store))
            found.append(Item(stuck_sentence(store.summary.stuck), "bad", target, "stuck"))
    found += _leaving(store, PartitionMode.READ_ONLY)
    if (backend_status := scene.answer(BACKEND_STATUS)) is not None:
        found += _status(backend_status)
    found += _orphans(store)
    if (pipeline := scene.answer(PIPELINE)) is not None:
        from kshunt.tui.views.pipeline_alerts import pipeline_alerts

        found += pipeline_alerts(pipeline, store.now_ms)
    found += [
        Item(f"{about[:1].upper()}{about[1:]} could not be read: {why}", id=f"unanswered {about}")
        for about, why in scene.unanswered.items()
    ]
    found += [Item(store.recording, id="recording")] if store.recording else []
    return tuple(found)


def _rates_mend(store: Store) -> str:
    """The action that sets the rates which the diagnosis worked out; empty where it has none."""
    from kshunt.tui.facts.moves.needed_rates import needed_rates

    snapshot = store.scene.snapshot
    return FIX if snapshot is not None and needed_rates(snapshot) else ""


def _proposed(store: Store) -> list[Item]:
    """Proposed changes that wait for the approval of this operator, until they expire."""
    target = ScreenTarget(OPERATIONS, mends="proposals")
    return [
        Item(words_of(one, store.now_ms, key_of("proposals")), "warn", target, f"proposal {one.id}")
        for one in awaits_me(store.scene.answer(PROPOSALS))
    ]


def attention(store: Store) -> tuple[Item, ...]:
    """Everything that an operator should look at: what is wrong, and what should be known."""
    found = list(wrong(store))
    scene, summary, home = store.scene, store.summary, store.home
    waits = home is not None and home.held
    if summary is not None and summary.never > summary.stuck_replicas and not waits:
        never = many(summary.never - summary.stuck_replicas, "replica")
        target = ScreenTarget(PARTITIONS, filter_text="eta:never", mends=_rates_mend(store))
        found.append(Item(f"{never} will not arrive at this rate.", "bad", target, "never"))
    if home is not None and home.health.under_replicated:
        target = ScreenTarget(PARTITIONS, filter_text=OUT_OF_SYNC)
        text = f"{home.health.under_replicated_words}."
        found.append(Item(text, "warn", target, "under-replicated"))
    if store.foreign:
        found.append(_foreign(store))
    found += _leaving(store, PartitionMode.NONE)
    if summary is not None and not summary.moving_partitions and summary.misled_partitions:
        led = many(summary.misled_partitions, "partition")
        target = ScreenTarget(PARTITIONS, filter_text="misled", mends="elect")
        found.append(Item(f"{led} not led by the preferred replica.", "", target, "misled"))
    if (backend_status := scene.answer(BACKEND_STATUS)) is not None:
        # Last: it stays true all the time, and an operator can do nothing about it.
        found += [
            Item(f"ZooKeeper does not support {what}: {why}.", "dim", id=f"not supported {what}")
            for what, why in backend_status.not_offered
        ]
    return tuple(found)


def _leaving(store: Store, mode: PartitionMode) -> list[Item]:
    """Partitions that are about to be deleted, or are being deleted, no matter who asked for it."""
    scene, summary = store.scene, store.summary
    if summary is None or not summary.leaving or scene.snapshot is None:
        return []
    from kshunt.tui.facts.leaving_partitions import leaving_items

    found = [one for one in summary.leaving if one.mode is mode]
    return list(leaving_items(found, scene.snapshot.taken_ms, scene.operations))


def _foreign(store: Store) -> Item:
    """Moves that no operation here owns, and whether what throttles them stays on."""
    from kshunt.tui.facts.foreign_throttles import foreign_throttles_left, left_words

    scene = store.scene
    throttles = scene.snapshot.throttles if scene.snapshot is not None else None
    left = foreign_throttles_left(scene.operations, throttles, scene.answer(OWNED))
    text = f"{many(store.foreign, 'move')} of others: {left_words(left)}."
    if left.nothing:
        return Item(text, "", ScreenTarget(THROTTLES), "foreign")
    return Item(text, "warn", ScreenTarget(THROTTLES, mends="adopt"), "foreign")


def _drift(one: ShownDrift) -> Item:
    from kshunt.tui.facts.drift_words import drift_words, owner_words

    key = RateRowKey(one.broker) if one.broker is not None else ListRowKey(one.topic or "")
    text = f"Drift: {drift_words(one)} ({owner_words(one.operations)})."
    return Item(
        text, "warn", ScreenTarget(THROTTLES, key, mends="reapply"), f"drift {one.setting} {key}"
    )


def _shrinking(operations: Sequence[Operation]) -> list[Item]:
    """Shrinks that wait for somebody."""
    from kshunt.tui.facts.shrink_phases import needs_words, waits_for_name

    found = []
    for one in operations:
        progress = None if one.state.ended else one.details.shrink
        if progress is None or not progress.needs or one.state is OperationState.PAUSED:
            continue
        mends = "confirm_shrink" if waits_for_name(one) else ""
        text = f"Shrink of {progress.topic} waits {needs_words(progress)}"
        if mends:
            keys = f"{view_key(OPERATIONS)}, then {key_of(mends)}"
            text = f"Shrink of {progress.topic} waits until you type its name: {keys}."
        target = ScreenTarget(OPERATIONS, one.id, mends=mends)
        found.append(Item(text, "warn", target, f"shrink {one.id}"))
    return found


def _paused(operations: Sequence[Operation]) -> list[Item]:
    """Said before what stands still because of it."""
    return [
        Item(
            f"Operation {one.id} is paused"
            f"{'' if one.kind is OperationKind.SHRINK else ', its copies are held'}:"
            f" {view_key(OPERATIONS)}, then {key_of('pause')}, resumes it.",
            "warn",
            ScreenTarget(OPERATIONS, one.id, mends="pause"),
            f"paused {one.id}",
        )
        for one in operations
        if one.state is OperationState.PAUSED
    ]


def _late(store: Store) -> list[Item]:
    """Operations that miss their deadlines, with the throttle that would do."""
    snapshot = store.scene.snapshot
    if snapshot is None:
        return []
    from kshunt.backend.domain.forecast.end_words import deadline_text

    found = []
    for one in store.scene.operations:
        end = snapshot.expected_ends.get(one.id)
        if (
            one.state.ended
            or end is None
            or end.deadline is None
            or end.deadline.holds is not False
        ):
            continue
        text = f"Operation {one.id} {deadline_text(end, store.now_ms)}."
        target = ScreenTarget(OPERATIONS, one.id)
        found.append(Item(text, "bad", target, f"deadline {one.id}"))
    return found


def _offline(store: Store) -> list[Item]:
    """Partitions that nobody can write to."""
    found = []
    if store.summary is not None and store.summary.leaderless_partitions:
        count = many(store.summary.leaderless_partitions, "partition")
        target = ScreenTarget(PARTITIONS, filter_text="offline")
        found.append(Item(f"{count} without a leader: offline.", "bad", target, "leaderless"))
    if store.home is not None and store.home.health.under_min_isr:
        count = many(store.home.health.under_min_isr, "partition")
        target = ScreenTarget(PARTITIONS, filter_text=OUT_OF_SYNC)
        text = f"{count} under min-ISR: producers with acks=all are rejected."
        found.append(Item(text, "bad", target, "min-ISR"))
    return found


def _down(store: Store) -> list[Item]:
    """Brokers that the cluster does not know any more; what was asked of them is told apart."""
    home, summary = store.home, store.summary
    if home is None or summary is None:
        return []
    asked = {one.broker for one in summary.failed_requests}
    down = [broker for broker in home.health.down if broker not in asked]
    if not down:
        return []
    who = f"Broker {down[0]} is" if len(down) == 1 else f"Brokers {listed(down)} are"
    return [Item(f"{who} down.", "bad", ScreenTarget(BROKERS, down[0]), "down")]


def unread(failed: Sequence[FailedRequest], known: Collection[int]) -> list[Item]:
    """What could not be read, one each; of many brokers that are silent, one for all.

    `known` are the brokers that have a row.
    """
    late = {one.broker for one in failed if one.waited_s is not None}
    silent = sorted(broker for broker in late if broker is not None)
    if len(silent) <= SILENT_EACH:
        return [_unread_item(one, known) for one in failed]
    brokers = listed(silent)
    words = f"{len(silent):,} brokers did not answer in time: {brokers}."
    rest = [one for one in failed if one.waited_s is None or one.broker is None]
    others = [_unread_item(one, known) for one in rest]
    return [Item(words, "bad", ScreenTarget(BROKERS, silent[0]), "silent"), *others]


def _unread_item(one: FailedRequest, known: Collection[int]) -> Item:
    """What could not be read; of a broker, where it was asked."""
    if one.broker is None:
        return Item(one.message, "warn")
    tone = "bad" if one.broker in known else "warn"
    return Item(one.message, tone, ScreenTarget(BROKERS, one.broker))


def _orphans(store: Store) -> list[Item]:
    """While moves run, lists name what has arrived already until somebody verifies."""
    orphans = store.scene.answer(ORPHANS)
    if not orphans or (store.summary is not None and store.summary.moving_partitions):
        return []
    count = many(len(orphans), "orphan throttle")
    text = f"{count}: {view_key(THROTTLES)} shows them, {key_of('remove_orphans')} removes."
    return [Item(text, "warn", ScreenTarget(THROTTLES, mends="remove_orphans"), "orphans")]


def _status(backend_status: BackendStatus) -> list[Item]:
    target = ScreenTarget(OPERATIONS)
    return [
        *(Item(text[:1].upper() + text[1:], "warn", target) for text in backend_status.remarks),
        *(
            Item(f"Journal entry ignored: {entry}", "warn", target)
            for entry in backend_status.unreadable
        ),
    ]
