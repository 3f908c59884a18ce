"""The command that a preview copies makes the same change: in a shell, on an embedded cluster."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from textual.pilot import Pilot

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.operations.operation import Operation, OperationKind, OperationState
from kshunt.backend.domain.reassignment.move_caps import MoveCaps
from kshunt.backend.domain.reassignment.plan import format_plan, parse_plan
from kshunt.backend.domain.throttles.configs import ReplicaSet, ThrottledRate, ThrottledReplicas
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.tui.actions.view_names import OPERATIONS
from kshunt.tui.app import KshuntApp
from kshunt.tui.changes.wizard.command_line import NO_COMMAND
from kshunt.tui.changes.wizard.confirm import ConfirmScreen
from kshunt.tui.changes.wizard.pages import Step
from kshunt.tui.changes.wizard.screen import WizardScreen
from kshunt.tui.facts.pending_rates import typed_rate
from tests.support.admin import fresh_name
from tests.support.clients import newest, operation_of
from tests.support.paths import ROOT
from tests.support.topics import create_topic, produce
from tests.support.tui.app import dashboard, frame
from tests.support.tui.cluster import incident
from tests.support.waiting import wait_until_async

DEADLINE_S = 60.0
SLOW = 20_000
"""Bytes a second: moves under it last longer than a test."""
REASON = 'it\'s "slow" & $HOME; `x`'


@pytest.fixture(scope="module")
def spec() -> ClusterSpec:
    return ClusterSpec(plain_brokers(4), static={"delete.topic.partition.enable": "true"})


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = fresh_name("copied")
    create_topic(bootstrap, name, [[1, 2], [2, 3], [3, 1]])
    return name


@dataclass
class Dashboard:
    """A running dashboard, and a shell that knows `kshunt`."""

    app: KshuntApp
    pilot: Pilot[None]
    folder: Path

    async def until(self, condition: Callable[[], object], what: str) -> None:
        await wait_until_async(condition, DEADLINE_S, what)
        await self.pilot.pause()

    async def knows(self, topic: str) -> None:
        """Wait for a snapshot that has the topic."""

        def known() -> bool:
            facts = self.app.store.facts
            return facts is not None and topic in facts.snapshot.topics

        await self.until(known, f"{topic} is seen")

    async def fill(self, *texts: str) -> None:
        """Fill in the wizard that opens, up to its preview."""
        await self.until(lambda: isinstance(self.app.screen, WizardScreen), "it is open")
        wizard = self.app.screen
        assert isinstance(wizard, WizardScreen)
        for place, text in enumerate(texts):
            await self.until(lambda at=place: wizard.input(at).has_focus, f"field {place}")  # type: ignore[misc]
            wizard.input(place).value = text
            await self.pilot.press("enter")
        await self.until(lambda: wizard.step is Step.PREVIEW and wizard.ready, "the preview")

    async def copied(self) -> str:
        """The command of the preview in sight, which is left without a change."""
        await self.until(lambda: isinstance(self.app.screen, WizardScreen | ConfirmScreen), "asked")
        await self.pilot.press("C")
        await self.until(lambda: self.app.clipboard, "it is copied")
        await self.until(lambda: "OSC 52" in frame(self.app), "and said")
        await self.leave()
        return self.app.clipboard

    async def leave(self) -> None:
        """Close what is open."""
        while self.app.screen is not self.app.view:
            await self.pilot.press("escape")
        await self.until(lambda: not self.app.changing, "it is over")

    async def run(self, command: str) -> str:
        """Run a command in a shell; what it says."""
        environment = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"}
        environment["PYTHONPATH"] = str(ROOT / "src")
        shell = await asyncio.create_subprocess_exec(
            "sh",
            "-c",
            command,
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await shell.communicate()
        assert shell.returncode == 0, said.decode()
        return said.decode()


def make_shim(folder: Path) -> None:
    """Let a shell find `kshunt` in the folder."""
    shim = folder / "kshunt"
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} -m kshunt "$@"\n')
    shim.chmod(0o755)


@pytest.fixture
async def shown(address: str, topic: str, tmp_path: Path) -> AsyncIterator[Dashboard]:
    make_shim(tmp_path)
    app = KshuntApp(address, start_view=OPERATIONS)
    async with app.run_test(size=(120, 40)) as pilot:
        found = Dashboard(app, pilot, tmp_path)
        await found.knows(topic)
        yield found


async def test_rates_of_brokers(shown: Dashboard, client: BackendClient) -> None:
    same, other = ThrottledRate(50_000_000, 50_000_000), ThrottledRate(26_214_400, None)
    shown.app.workflows.set_rates({1: same, 2: same, 3: other}, lambda: None)
    command = await shown.copied()
    assert "--rate 1,2=50MB/s --leader-rate 3=26.2144MB/s --follower-rate 3=none" in command
    assert "broker 3: would be set" in await shown.run(f"{command} --validate-only")
    assert not any(one.rate.leader_bytes_per_s for one in client.throttles.list().rates.values())
    said = await shown.run(command)
    assert "broker 3: set" in said
    rates = client.throttles.list().rates
    assert {id: rates[id].rate for id in (1, 2, 3)} == {1: same, 2: same, 3: other}, said
    nothing = ThrottledRate(None, None)
    await shown.until(
        lambda: shown.app.store.facts and 3 in shown.app.store.facts.snapshot.throttles.rates,
        "they are seen",
    )
    shown.app._clipboard = ""
    shown.app.workflows.set_rates(dict.fromkeys((1, 2, 3), nothing), lambda: None)
    await shown.run(await shown.copied())
    left = client.throttles.list().rates
    assert all(id not in left or left[id].rate == nothing for id in (1, 2, 3))


async def test_a_broker_that_there_is_not_fails_alone(
    shown: Dashboard, client: BackendClient
) -> None:
    command = f"kshunt throttles set-rates --backend {shown.app.address} --rate 1,99=5MB/s"
    said = await shown.run(f"{command} || test $? = 1")
    assert "broker 1: " in said
    assert "broker 99: " in said
    assert "failed" in said
    assert "99: set" not in said
    await shown.run(f"kshunt throttles set-rates --backend {shown.app.address} --rate 1=none")


async def test_throttled_replicas_of_a_topic(
    shown: Dashboard, client: BackendClient, topic: str
) -> None:
    shown.app.workflows.edit_lists(topic)
    await shown.fill("0:1,1:2", "*")
    await shown.run(await shown.copied())
    lists = client.throttles.list().replicas[topic]
    leaders = ReplicaSet(frozenset({(0, 1), (1, 2)}))
    assert lists == ThrottledReplicas(leaders, ReplicaSet(everything=True))


async def moved(client: BackendClient, topic: str, replicas: dict[int, list[int]]) -> None:
    """Move partitions, without a preview, and wait for the end."""
    plan = {TopicPartition(topic, one): target for one, target in replicas.items()}
    client.reassignments.start(parse_plan(format_plan(plan)))

    async def there() -> bool:
        (found,) = (await asyncio.to_thread(client.topics.describe, [topic], configs=False)).topics
        now = {at: list(one.replicas) for at, one in enumerate(found.partitions)}
        return all(now[one] == target for one, target in replicas.items())

    await wait_until_async(there, DEADLINE_S, "it has moved")


def leaders_of(client: BackendClient, topic: str) -> list[int]:
    (found,) = client.topics.describe([topic], configs=False).topics
    return [one.leader for one in found.partitions]


@pytest.mark.parametrize("every", [False, True])
async def test_an_election(
    shown: Dashboard, client: BackendClient, topic: str, every: bool
) -> None:
    await moved(client, topic, {0: [2, 1], 1: [3, 2], 2: [1, 3]})
    assert leaders_of(client, topic) == [1, 2, 3], "the former leaders lead on"
    await shown.until(
        lambda: shown.app.store.facts and shown.app.store.facts.summary.misled_partitions >= 3,
        "it is seen",
    )
    chosen = None if every else [TopicPartition(topic, 0), TopicPartition(topic, 2)]
    shown.app.workflows.elect(chosen)
    await shown.fill()
    command = await shown.copied()
    assert leaders_of(client, topic) == [1, 2, 3], "a copy changes nothing"
    await shown.run(command)
    assert leaders_of(client, topic) == ([2, 3, 1] if every else [2, 2, 1])


async def test_a_move_and_its_cancel(
    shown: Dashboard, client: BackendClient, bootstrap: str, topic: str
) -> None:
    produce(bootstrap, topic, 200, 200_000)
    plan = {TopicPartition(topic, 0): (4, 2), TopicPartition(topic, 1): (4, 3)}
    path = shown.folder / "plan.json"
    path.write_text(format_plan(plan))
    shown.app.workflows.reassign()
    await shown.fill(str(path), typed_rate(SLOW), "1/7 smallest", REASON)
    command = await shown.copied()
    assert f'"cluster_id":"{shown.app.store.scene.cluster_id}"' in command
    assert "--parallel-moves '1/7 smallest'" in command
    await shown.run(command)
    operation = newest(client)
    assert operation.state is OperationState.RUNNING
    assert operation.partitions == tuple(plan)
    assert operation.throttle_bytes_per_s == SLOW
    assert operation.reason == REASON
    await shown.until(
        lambda: shown.app.store.facts and shown.app.store.facts.summary.moving_partitions,
        "it moves",
    )
    shown.app._clipboard = ""
    shown.app.workflows.cancel(list(plan))
    command = await shown.copied()
    assert newest(client).state is OperationState.RUNNING
    await shown.run(command)

    async def cancelled() -> bool:
        return await asyncio.to_thread(lambda: not client.reassignments.list())

    await wait_until_async(cancelled, DEADLINE_S, "nothing moves")
    (found,) = client.topics.describe([topic], configs=False).topics
    assert [set(one.replicas) for one in found.partitions] == [{1, 2}, {2, 3}, {3, 1}]


@pytest.mark.parametrize("by_command", [True, False])
async def test_the_cancel_of_an_operation_ends_it_as_the_key_does(
    shown: Dashboard, client: BackendClient, bootstrap: str, topic: str, by_command: bool
) -> None:
    """One of its partitions moves, and the others wait for their turn: all of them return."""
    produce(bootstrap, topic, 200, 200_000)
    plan = {TopicPartition(topic, at): (4, at + 2 if at < 2 else 1) for at in range(3)}
    answer = client.reassignments.start(
        parse_plan(format_plan(plan)), throttle_bytes_per_s=SLOW, caps=MoveCaps(1, 1)
    )

    def seen() -> Operation | None:
        store = shown.app.store
        known = {one.id: one for one in store.scene.operations}
        one = known.get(answer.operation_id or "")
        moves = store.facts is not None and store.facts.summary.moving_partitions == 1
        return one if one is not None and one.waiting == 2 and moves else None

    await shown.until(seen, "one moves and two wait")
    found = seen()
    assert found is not None
    shown.app.workflows.steer(found, "cancel")
    if by_command:
        command = await shown.copied()
        assert operation_of(client, answer).state is OperationState.RUNNING
        await shown.run(command)
    else:
        await shown.until(lambda: isinstance(shown.app.screen, ConfirmScreen), "asked")
        await shown.pilot.press("y")

    async def ended() -> bool:
        return (await asyncio.to_thread(operation_of, client, answer)).state.ended

    await wait_until_async(ended, DEADLINE_S, "the operation has ended")
    await shown.leave()
    one = operation_of(client, answer)
    assert one.state is OperationState.CANCELLED
    assert one.outcome == "0 of 3 where the plan wants them, 3 cancelled, throttle removed"
    assert newest(client).kind is OperationKind.CANCEL
    (described,) = client.topics.describe([topic], configs=False).topics
    assert [set(one.replicas) for one in described.partitions] == [{1, 2}, {2, 3}, {3, 1}]


def modes_of(client: BackendClient, topic: str) -> list[PartitionMode]:
    (found,) = client.topics.describe([topic], configs=False).topics
    return [one.mode for one in found.partitions]


async def test_more_partitions(shown: Dashboard, client: BackendClient, topic: str) -> None:
    shown.app.workflows.alter(topic)
    await shown.fill("5", "2", "none", REASON)
    command = await shown.copied()
    assert len(leaders_of(client, topic)) == 3, "a copy changes nothing"
    await shown.run(command)
    assert len(leaders_of(client, topic)) == 5
    assert newest(client).reason == REASON


async def test_another_replication_factor_has_no_command(shown: Dashboard, topic: str) -> None:
    shown.app.workflows.alter(topic)
    await shown.fill("5", "3", "none", "")
    assert "C copies" not in frame(shown.app)
    await shown.pilot.press("C")
    await shown.until(lambda: NO_COMMAND in frame(shown.app), "it is said")
    await shown.leave()
    assert not shown.app.clipboard


async def test_fewer_partitions_and_those_that_leave_are_kept(
    shown: Dashboard, client: BackendClient, topic: str
) -> None:
    writable, leaves = PartitionMode.READ_WRITE, PartitionMode.READ_ONLY
    shown.app.workflows.shrink(topic)
    await shown.fill("1", "10m", "none", REASON)
    assert "Enter asks for the name, w adds a reason, C copies the command" in frame(shown.app)
    command = await shown.copied()
    assert "--delete-partitions-delay 600000" in command
    assert modes_of(client, topic) == [writable] * 3, "a copy changes nothing"
    await shown.run(command)
    assert modes_of(client, topic) == [writable, leaves, leaves]
    assert newest(client).reason == REASON
    await shown.until(
        lambda: (
            shown.app.store.facts
            and any(one.topic == topic for one in shown.app.store.facts.leaving)
        ),
        "the dashboard knows that they leave",
    )
    shown.app._clipboard = ""
    shown.app.workflows.alter(topic)
    await shown.fill("2", "2", "none", "")
    await shown.run(await shown.copied())
    assert modes_of(client, topic) == [writable, writable, leaves]


# What is sent, in full


async def test_the_command_sends_what_the_dashboard_sends(tmp_path: Path) -> None:
    """Each field that says what is changed; a preview and the name of a cluster are guards, and
    Kafka's tools have their own patience."""
    guards = ("preview", "cluster_id", "timeout_ms")
    path = tmp_path / "plan.json"
    path.write_text(format_plan({TopicPartition("orders", 3): (1, 2, 5)}))
    async with dashboard(tmp_path / "s", incident()) as scripted:
        shown = Dashboard(scripted.app, scripted.pilot, tmp_path)
        make_shim(tmp_path)
        flows = scripted.app.workflows
        asks: tuple[tuple[Callable[[], None], tuple[str, ...] | None], ...] = (
            (lambda: flows.set_rates({2: ThrottledRate(10**7, None)}, lambda: None), None),
            (lambda: flows.edit_lists("orders"), ("none", "*")),
            (lambda: flows.elect([TopicPartition("audit-log", 1)]), ()),
            (flows.reassign, (str(path), "50MB/s", "3/9", "why not")),
        )
        for ask, texts in asks:
            ask()
            if texts is not None:
                await shown.fill(*texts)
            command = await shown.copied()
            await shown.run(command)
            sent_by_command = scripted.backend.changes[-1]
            scripted.app._clipboard = ""
            ask()
            if texts is not None:
                await shown.fill(*texts)
            else:
                await scripted.dialog(ConfirmScreen)
            before = len(scripted.backend.changes)
            await scripted.pilot.press("y")
            await shown.until(lambda: len(scripted.backend.changes) > before, "it is sent")  # noqa: B023
            await shown.leave()
            pairs = [sent_by_command, scripted.backend.changes[-1]]
            for _, body in pairs:
                for name in guards:
                    body.pop(name, None)
                body.get("plan", {}).pop("cluster_id", None)
            assert pairs[0] == pairs[1]
