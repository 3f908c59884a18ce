"""From a key to an answer: ask what is needed, rehearse, ask once, send, show what came back.

Nothing here touches the store: the tables change when the cluster says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from backend.domain.cluster import TopicPartition
from backend.domain.operation import Operation
from backend.domain.steering import MoveCaps, Preview, ShownDrift, ShownOrphan
from backend.domain.throttle import ReplicaSet, ThrottledRate, ThrottledReplicas, parse_rate
from backend.errors import BackendError, BadInput, KshuntError
from tui import intents, steering
from tui.intents import Intent, Sending, Start, Target
from tui.paths import complete_path, new_audit_file, plan_for, save_text
from tui.screens.confirm import ConfirmScreen
from tui.screens.form import FormField, FormScreen
from tui.screens.result import ErrorScreen, ResultScreen
from tui.store import ConnectionState
from tui.text import rate_text
from tui.who import who_am_i

if TYPE_CHECKING:
    from backend.api.client import BackendClient
    from backend.domain.answers import ChangeAnswer
    from tui.app import KshuntApp
    from tui.tables.facts import Facts

RATE_HINT = "50MB/s, 4MiB/s, 10485760, or none"
LIST_HINT = "partition:broker pairs (0:101,0:102), * for all, or none"
CAPS_HINT = "all, or how many a broker/in the cluster: 5/200, or 5/200 smallest"
EVERY_OPERATION = "all"
CONFLICT: Final = 409
"""The cluster, or who acts for it, is not as it was."""


class Flows:
    """One change at a time, each in a worker of the app."""

    def __init__(self, app: KshuntApp) -> None:
        self._app = app

    # What can be asked for

    def reassign(self) -> None:
        """Start from a JSON file."""
        self._start(self._reassign)

    def cancel(self, partitions: Sequence[TopicPartition] | None) -> None:
        """Cancel the moves of these partitions, or of all."""
        if self._chosen(partitions):
            self._start(lambda facts, target: self._cancel(facts, target, partitions))

    def elect(self, partitions: Sequence[TopicPartition] | None) -> None:
        """Elect the preferred leaders of these partitions, or of all."""

        async def flow(facts: Facts, target: Target) -> None:
            await self._carry_out(lambda: intents.election_intent(facts, target, partitions))

        if self._chosen(partitions):
            self._start(flow)

    def edit_rates(self, brokers: Sequence[int] | None) -> None:
        """Edit the rates of these brokers, or of all."""
        self._start(lambda facts, target: self._edit_rates(facts, target, brokers))

    def edit_lists(self, topic: str) -> None:
        """Edit a topic's throttled replicas."""
        self._start(lambda facts, target: self._edit_lists(facts, target, topic))

    def steer(self, operation: Operation, verb: steering.Verb) -> None:
        """Pause, resume, cancel or undo an operation."""

        async def flow(facts: Facts, target: Target) -> None:
            await self._carry_out(lambda: steering.operation_intent(target, operation, verb))

        self._start(flow)

    def abandon(self, operation: Operation) -> None:
        """End an operation although brokers that are gone for good have its throttle."""
        self._start(lambda facts, target: self._abandon(facts, target, operation))

    def settle(self, drift: Sequence[ShownDrift], *, ours: bool, ask: bool) -> None:
        """Put our throttles back or keep theirs; at once unless it is to be asked for."""

        async def flow(facts: Facts, target: Target) -> None:
            intent = steering.drift_intent(target, drift, self._app.glyphs, ours=ours)
            if ask:
                await self._carry_out(lambda: intent)
            else:
                await self._settle(intent, steering.settled_words(drift, ours=ours))

        self._start(flow)

    def remove_orphans(self, orphans: Sequence[ShownOrphan]) -> None:
        """Take off throttles that no move justifies."""

        async def flow(facts: Facts, target: Target) -> None:
            await self._carry_out(lambda: steering.orphans_intent(target, orphans))

        self._start(flow)

    def adopt(self) -> None:
        """Take over the throttle of moves that somebody else started."""

        async def flow(facts: Facts, target: Target) -> None:
            moves = self._app.store.foreign
            await self._carry_out(lambda: steering.adopt_intent(target, moves))

        self._start(flow)

    def export(self, operation: Operation | None) -> None:
        """Write the audit to a file."""
        self._start(lambda facts, target: self._export(target, operation))

    def _chosen(self, partitions: Sequence[TopicPartition] | None) -> bool:
        """Whether there is anything to act upon; says so if not."""
        if partitions is not None and not partitions:
            self._app.say("There is no partition to act upon here.", "warn")
            return False
        return True

    def _start(self, flow: Callable[[Facts, Target], Coroutine[Any, Any, None]]) -> None:
        app, store = self._app, self._app.store
        if store.facts is None or not store.cluster_id:
            app.say("There is no cluster to change yet.", "warn")
        elif store.connection.state is not ConnectionState.LIVE:
            app.say("The connection is lost: nothing can be sent until it is back.", "bad")
        elif app.changing:
            app.say("A change is under way; wait for its answer.", "warn")
        else:
            target = Target(store.facts.snapshot.cluster_id, store.bootstrap_servers)
            app.run_worker(self._alone(flow(store.facts, target)), group="change")

    async def _alone(self, flow: Coroutine[Any, Any, None]) -> None:
        self._app.changing = True
        try:
            await flow
        finally:
            self._app.changing = False

    # What has to be known first

    async def _reassign(self, facts: Facts, target: Target) -> None:
        fields = [
            FormField(
                "Plan file",
                "",
                "Kafka's reassignment JSON",
                lambda text: plan_for(text, target.cluster_id),
                complete_path,
            ),
            FormField("Throttle", "", f"{RATE_HINT}; lifted when done", _typed_rate),
            FormField("Moves at once", default_caps(), CAPS_HINT, parse_caps),
            FormField("Reason", "", "why, for the audit; may be empty", str.strip),
        ]
        values = await self._form("Start a reassignment", target, fields)
        if values is not None:
            start = Start(*values)
            glyphs = self._app.glyphs
            await self._carry_out(lambda: intents.reassign_intent(facts, target, start, glyphs))

    async def _abandon(self, facts: Facts, target: Target, operation: Operation) -> None:
        gone = [id for id, one in sorted(facts.snapshot.brokers.items()) if one.stale]
        fields = [
            FormField(
                "Brokers that are gone for good",
                ", ".join(map(str, gone)),
                "ids with commas between them; a broker that is up is refused",
                _broker_ids,
            )
        ]
        values = await self._form(f"Abandon operation {operation.id}", target, fields)
        if values is not None:
            (brokers,) = values
            await self._carry_out(lambda: steering.abandon_intent(target, operation, brokers))

    async def _settle(self, intent: Intent, said: str) -> None:
        """Send what needs no question; say what became of it."""
        answer = await self._send(intent)
        if answer is None:
            return
        if answer.failures or answer.notes:
            await self._app.push_screen_wait(ResultScreen(intent, answer, self._app.glyphs))
        else:
            self._app.say(said, "good")

    async def _export(self, target: Target, operation: Operation | None) -> None:
        known = {one.id for one in self._app.store.operations}
        chosen = EVERY_OPERATION if operation is None else operation.id

        def which(text: str) -> str:
            if text.strip() not in {EVERY_OPERATION, *known}:
                raise BadInput(f"There is no operation {text.strip()} here; all is for every one.")
            return text.strip()

        fields = [
            FormField("Operation", chosen, "its id, or all", which),
            FormField(
                "File",
                f"kshunt-audit-{chosen}.md",
                "a new file: .md for Markdown, .json for JSON",
                new_audit_file,
                complete_path,
            ),
        ]
        values = await self._form("Write the audit", target, fields)
        if values is not None:
            await self._write_audit(*values)

    async def _write_audit(self, operation: str, path: Path) -> None:
        app = self._app
        id = "" if operation == EVERY_OPERATION else operation

        def question(client: BackendClient) -> str:
            return client.audit_text("json" if path.suffix == ".json" else "markdown", id)

        try:
            await asyncio.to_thread(save_text, await app.link.ask(question), path)
        except KshuntError as error:
            await app.push_screen_wait(ErrorScreen("Write the audit", error, sent=False))
        else:
            app.say(f"Written: {path}", "good")

    async def _cancel(
        self, facts: Facts, target: Target, partitions: Sequence[TopicPartition] | None
    ) -> None:
        from tui.tables.progress import unstarted

        # What waits for its turn would start after everything else was cancelled.
        waiting = await asyncio.to_thread(unstarted, facts, self._app.store.operations)
        able = waiting.union(facts.moving_partitions)
        chosen = sorted(able if partitions is None else able.intersection(partitions))
        if not chosen:
            self._app.say(_not_moving(partitions, len(able)), "warn")
            return
        await self._carry_out(lambda: intents.cancel_intent(facts, target, chosen))

    async def _edit_rates(
        self, facts: Facts, target: Target, brokers: Sequence[int] | None
    ) -> None:
        ids = sorted(facts.snapshot.brokers) if brokers is None else list(brokers)
        present = facts.snapshot.throttles.rates
        rates = {present[id].rate if id in present else None for id in ids}
        rate = rates.pop() if len(rates) == 1 else None
        fields = [
            FormField(
                "Leader rate (what it sends)",
                typed_back(rate.leader_bytes_per_s) if rate is not None else "",
                RATE_HINT,
                _typed_rate,
            ),
            FormField(
                "Follower rate (what it fetches)",
                typed_back(rate.follower_bytes_per_s) if rate is not None else "",
                RATE_HINT,
                _typed_rate,
            ),
        ]
        who = f"broker {ids[0]}" if len(ids) == 1 else f"all {len(ids)} brokers"
        values = await self._form(f"Throttle of {who}", target, fields)
        if values is not None:
            wanted = ThrottledRate(*values)
            await self._carry_out(
                lambda: intents.rates_intent(
                    facts, target, dict.fromkeys(ids, wanted), self._app.glyphs
                )
            )

    async def _edit_lists(self, facts: Facts, target: Target, topic: str) -> None:
        present = facts.snapshot.throttles.replicas.get(topic, ThrottledReplicas())
        fields = [
            FormField("Leader side", str(present.leaders) or "none", LIST_HINT, ReplicaSet.parse),
            FormField(
                "Follower side", str(present.followers) or "none", LIST_HINT, ReplicaSet.parse
            ),
        ]
        values = await self._form(f"Throttled replicas of {topic}", target, fields)
        if values is not None:
            lists = ThrottledReplicas(*values)
            await self._carry_out(lambda: intents.lists_intent(facts, target, topic, lists))

    async def _form(
        self, title: str, target: Target, fields: Sequence[FormField]
    ) -> tuple[Any, ...] | None:
        where = f"Cluster {target.cluster_id} at {target.bootstrap_servers}"
        return await self._app.push_screen_wait(FormScreen(title, [where], fields))

    # Rehearse, ask, send, show

    async def _carry_out(self, build: Callable[[], Intent]) -> None:
        """Ask until it is agreed to by what the cluster is like, or not at all."""
        app = self._app
        # Thousands of partitions take a while to describe.
        intent = await asyncio.to_thread(build)
        changed = ""
        while True:
            looked = await self._look(intent)
            if looked is None:
                return
            preview, rehearsal = looked
            question = ConfirmScreen(intent, rehearsal, app.glyphs, preview, changed)
            if not await app.push_screen_wait(question):
                app.say("Nothing was changed.")
                return
            agreed = replace(intent, reason=question.reason or intent.reason)
            try:
                answer = await self._sent(agreed, preview)
            except _Stale as stale:
                changed = str(stale)
                continue
            if answer is not None:
                app.view.clear_marks()
                await app.push_screen_wait(ResultScreen(intent, answer, app.glyphs))
            return

    async def _look(self, intent: Intent) -> tuple[Preview | None, ChangeAnswer] | None:
        """What it would touch, and what a rehearsal says; None where that cannot be known."""
        app = self._app
        app.say("Rehearsing; nothing is changed yet.")
        try:
            preview = await self._preview(intent)
            rehearsal = await self._ask(intent, Sending(intent.target, validate_only=True))
        except KshuntError as error:
            app.say("")
            await app.push_screen_wait(ErrorScreen(intent.title, error, sent=False))
            return None
        app.say("")
        return preview, rehearsal

    async def _preview(self, intent: Intent) -> Preview | None:
        ask = intent.preview
        return None if ask is None else await self._app.link.ask(lambda client: ask(client))

    async def _ask(self, intent: Intent, sending: Sending) -> ChangeAnswer:
        def question(client: BackendClient) -> ChangeAnswer:
            return intent.send(client, sending)

        return await self._app.link.ask(question)

    async def _sent(self, intent: Intent, preview: Preview | None) -> ChangeAnswer | None:
        """The answer to a change that was agreed to.

        Raises:
            _Stale: the cluster is not what the preview was made from; nothing was changed.
        """
        try:
            return await self._send(intent, preview.fingerprint if preview is not None else "")
        except BackendError as error:
            if preview is None or not await self._is_stale(intent, preview):
                await self._app.push_screen_wait(ErrorScreen(intent.title, error, sent=True))
                return None
            raise _Stale(error.message) from None

    async def _is_stale(self, intent: Intent, preview: Preview) -> bool:
        """Whether a conflict is about the preview: a new one differs from it."""
        try:
            newer = await self._preview(intent)
        except KshuntError:
            return False
        return newer is not None and newer.fingerprint != preview.fingerprint

    async def _send(self, intent: Intent, fingerprint: str = "") -> ChangeAnswer | None:
        """Send it in earnest.

        Raises:
            BackendError: there is a conflict, and a preview that it may be about.
        """
        app = self._app
        app.say("Sent; waiting.")
        sending = Sending(
            intent.target,
            validate_only=False,
            fingerprint=fingerprint,
            who=who_am_i(),
            reason=intent.reason,
        )
        try:
            answer = await self._ask(intent, sending)
        except KshuntError as error:
            app.say("")
            if fingerprint and isinstance(error, BackendError) and error.status == CONFLICT:
                raise
            await app.push_screen_wait(ErrorScreen(intent.title, error, sent=True))
            return None
        app.say("")
        app.rounds.nudge()
        return answer


class _Stale(Exception):
    """The cluster has changed since the preview that was agreed to."""


def _not_moving(partitions: Sequence[TopicPartition] | None, moving: int) -> str:
    if not moving:
        return "Nothing moves."
    what = "it does" if partitions is not None and len(partitions) == 1 else "they do"
    return f"Nothing to cancel here: {what} not move. C cancels all {moving:,} that do."


def _typed_rate(text: str) -> int | None:
    if not text.strip():
        raise BadInput("Type a rate, or none for no throttle.")
    return parse_rate(text)


def default_caps() -> str:
    """The backend's own caps, as an operator types them."""
    from backend.api.client_steering import DEFAULT_CAPS

    return f"{DEFAULT_CAPS.per_broker}/{DEFAULT_CAPS.in_cluster}"


def parse_caps(text: str) -> MoveCaps | None:
    """`all` is None; `5/200` is 5 moves a broker and 200 in the cluster.

    Raises:
        BadInput: it is neither.
    """
    limits, *order = text.split() or ["all"]
    if limits == "all" and not order:
        return None
    parts = limits.split("/")
    numbers = [int(part) for part in parts if part.isascii() and part.isdigit()]
    if len(parts) != 2 or len(numbers) != 2 or order not in ([], ["smallest"]):
        raise BadInput(f"'{text.strip()}' is not all, nor a cap such as 5/200.")
    if not (1 <= numbers[0] <= 10_000 and 1 <= numbers[1] <= 200_000):
        raise BadInput("A cap is at least 1; 10000 a broker and 200000 in the cluster at most.")
    return MoveCaps(numbers[0], numbers[1], smallest_first=bool(order))


def _broker_ids(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isascii() and part.isdigit() for part in parts):
        raise BadInput("Type the ids of the brokers, with commas between them.")
    return tuple(sorted({int(part) for part in parts}))


def typed_back(rate_bytes_per_s: int | None) -> str:
    """A rate as an operator would type it, exactly: `25MB/s`, or all its digits."""
    if rate_bytes_per_s is None:
        return rate_text(None)
    for size, unit in ((10**9, "GB/s"), (10**6, "MB/s"), (10**3, "kB/s")):
        if rate_bytes_per_s and rate_bytes_per_s % size == 0:
            return f"{rate_bytes_per_s // size}{unit}"
    return str(rate_bytes_per_s)
