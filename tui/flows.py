"""From a key to an answer: ask what is needed, rehearse, ask once, send, show what came back.

Nothing here touches the store: the tables change when the cluster says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from backend.domain.cluster import TopicPartition
from backend.domain.throttle import ReplicaSet, ThrottledRate, ThrottledReplicas, parse_rate
from backend.errors import BadInput, KshuntError
from tui import intents
from tui.intents import Intent, Target
from tui.paths import complete_path, plan_for
from tui.screens.confirm import ConfirmScreen
from tui.screens.form import FormField, FormScreen
from tui.screens.result import ErrorScreen, ResultScreen
from tui.store import ConnectionState
from tui.text import rate_text

if TYPE_CHECKING:
    from backend.domain.answers import ChangeAnswer
    from tui.app import KshuntApp
    from tui.tables.facts import Facts

RATE_HINT = "50MB/s, 4MiB/s, 10485760, or none"
LIST_HINT = "partition:broker pairs (0:101,0:102), * for all, or none"


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
        ]
        values = await self._form("Start a reassignment", target, fields)
        if values is not None:
            plan, throttle = values
            glyphs = self._app.glyphs
            await self._carry_out(
                lambda: intents.reassign_intent(facts, target, plan, throttle, glyphs)
            )

    async def _cancel(
        self, facts: Facts, target: Target, partitions: Sequence[TopicPartition] | None
    ) -> None:
        moving = set(facts.moving_partitions)
        chosen = sorted(moving if partitions is None else moving.intersection(partitions))
        if not chosen:
            self._app.say(_not_moving(partitions, len(moving)), "warn")
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
        app = self._app
        # Thousands of partitions take a while to describe.
        intent = await asyncio.to_thread(build)
        rehearsal = await self._send(intent, validate_only=True)
        if rehearsal is None:
            return
        agreed = await app.push_screen_wait(ConfirmScreen(intent, rehearsal, app.glyphs))
        if not agreed:
            app.say("Nothing was changed.")
            return
        answer = await self._send(intent, validate_only=False)
        if answer is not None:
            app.view.grid.clear_marks()
            await app.push_screen_wait(ResultScreen(intent, answer, app.glyphs))

    async def _send(self, intent: Intent, *, validate_only: bool) -> ChangeAnswer | None:
        app = self._app
        app.say("Rehearsing; nothing is changed yet." if validate_only else "Sent; waiting.")
        try:
            answer = await app.link.ask(lambda client: intent.send(client, validate_only))
        except KshuntError as error:
            app.say("")
            await app.push_screen_wait(ErrorScreen(intent.title, error, sent=not validate_only))
            return None
        app.say("")
        return answer


def _not_moving(partitions: Sequence[TopicPartition] | None, moving: int) -> str:
    if not moving:
        return "Nothing moves."
    what = "it does" if partitions is not None and len(partitions) == 1 else "they do"
    return f"Nothing to cancel here: {what} not move. C cancels all {moving:,} that do."


def _typed_rate(text: str) -> int | None:
    if not text.strip():
        raise BadInput("Type a rate, or none for no throttle.")
    return parse_rate(text)


def typed_back(rate_bytes_per_s: int | None) -> str:
    """A rate as an operator would type it, exactly: `25MB/s`, or all its digits."""
    if rate_bytes_per_s is None:
        return rate_text(None)
    for size, unit in ((10**9, "GB/s"), (10**6, "MB/s"), (10**3, "kB/s")):
        if rate_bytes_per_s and rate_bytes_per_s % size == 0:
            return f"{rate_bytes_per_s // size}{unit}"
    return str(rate_bytes_per_s)
