"""A topic gets more partitions and another replication factor in the dashboard, on real brokers'
bytes: an embedded cluster behind a backend of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import pytest
from textual.pilot import Pilot

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.shrink.delete_partitions import DeletePartitions
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.errors import BadInput
from kshunt.tui.actions.view_names import PARTITIONS
from kshunt.tui.app import KshuntApp
from kshunt.tui.changes.intents.alter import Present, Wanted, alter_intent, alter_wizard
from kshunt.tui.changes.wizard.intent import TargetCluster
from kshunt.tui.changes.wizard.pages import Step
from kshunt.tui.changes.wizard.screen import WizardScreen
from kshunt.tui.text.glyphs import UNICODE
from tests.support.admin import fresh_name
from tests.support.clients import newest
from tests.support.topics import create_topic, produce
from tests.support.tui.app import frame
from tests.support.waiting import wait_until_async

DEADLINE_S = 60.0
HERE = TargetCluster("c", "h:9")
ORDERS = Present("orders", 6, 2, 4)


# What would be sent, in words


def test_a_topic_that_is_so_already_is_refused() -> None:
    with pytest.raises(BadInput, match="orders already has these partitions and replicas"):
        alter_intent(ORDERS, HERE, Wanted(6, 2), UNICODE)


def test_the_intent_says_before_and_after_and_what_it_costs() -> None:
    grown = alter_intent(ORDERS, HERE, Wanted(8, 2), UNICODE)
    assert grown.touches == (("Topic", "orders"), ("Partitions", "6 → 8"))
    assert grown.effect == "From now on, records with keys go to other partitions."
    more = alter_intent(ORDERS, HERE, Wanted(6, 3, 50_000_000), UNICODE)
    assert dict(more.touches)["Throttle"].startswith("50.0 MB/s, removed")
    assert more.changes == {"orders": "replication factor 2 → 3"}
    assert more.preview is not None
    fewer = alter_intent(ORDERS, HERE, Wanted(6, 1), UNICODE)
    assert fewer.effect == "Replicas are removed, with their data."
    assert "Throttle" not in dict(fewer.touches)


@pytest.mark.parametrize(
    ("field", "typed", "part"),
    [(0, "5", "5 is not from 6"), (0, "x", "Type a number"), (1, "5", "5 is not from 1 to 4")],
)
def test_what_cannot_be_meant_is_refused_as_it_is_typed(field: int, typed: str, part: str) -> None:
    with pytest.raises(BadInput, match=part):
        alter_wizard(HERE, ORDERS, UNICODE).fields[field].parse(typed)


def test_partitions_that_wait_to_be_deleted_are_kept_by_their_number() -> None:
    leaving = replace(ORDERS, read_only=2, going=1)
    wizard = alter_wizard(HERE, leaving, UNICODE)
    assert wizard.fields[0].value == "3"
    assert wizard.fields[0].hint == "3 changes nothing; 5 takes back the deletion"
    assert "2 partitions are read-only until the cluster deletes them." in wizard.goal.lines[0]
    kept = alter_intent(leaving, HERE, Wanted(5, 2), UNICODE)
    assert dict(kept.touches) == {
        "Topic": "orders",
        "Partitions": "3 → 5",
        "No longer deleted": "orders-3, orders-4",
    }
    with pytest.raises(BadInput, match="orders already has these partitions"):
        alter_intent(leaving, HERE, Wanted(3, 2), UNICODE)
    with pytest.raises(BadInput, match="cannot grow before they are deleted") as refused:
        alter_intent(leaving, HERE, Wanted(6, 2), UNICODE)
    assert refused.value.advice == "Type 5 to keep those that can still be read."
    with pytest.raises(BadInput, match="Take back the deletion first"):
        alter_intent(leaving, HERE, Wanted(5, 3), UNICODE)
    assert alter_intent(leaving, HERE, Wanted(3, 3), UNICODE).touches[-1][0] != "No longer deleted"


# By keys, on a cluster


@pytest.fixture(scope="module")
def spec() -> ClusterSpec:
    return ClusterSpec(plain_brokers(4), static={"delete.topic.partition.enable": "true"})


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = fresh_name("altered")
    create_topic(bootstrap, name, [[1, 2], [2, 3], [3, 1]])
    produce(bootstrap, name, 60, 10_000)
    return name


@dataclass
class Dashboard:
    """A running dashboard with the cursor on the topic."""

    app: KshuntApp
    pilot: Pilot[None]

    async def at(self, step: Step) -> WizardScreen:
        def there() -> bool:
            screen = self.app.screen
            return isinstance(screen, WizardScreen) and screen.step is step and screen.ready

        await wait_until_async(there, DEADLINE_S, f"it has come to {step.title}")
        await self.pilot.pause()
        assert isinstance(self.app.screen, WizardScreen)
        return self.app.screen

    async def fill(self, wizard: WizardScreen, place: int, text: str) -> None:
        entry = wizard.input(place)
        await wait_until_async(lambda: entry.has_focus, DEADLINE_S, "the field has the focus")
        entry.value = text
        await self.pilot.press("enter")

    async def alter(self, partitions: int, factor: int, throttle: str) -> str:
        """From the key to the preview; what that says."""
        await self.pilot.press("plus")
        wizard = await self.at(Step.GOAL)
        await self.fill(wizard, 0, str(partitions))
        await self.fill(wizard, 1, str(factor))
        wizard = await self.at(Step.CHOICES)
        await self.fill(wizard, 2, throttle)
        await self.fill(wizard, 3, "room")
        await self.at(Step.PREVIEW)
        return frame(self.app)

    async def agree(self) -> None:
        await self.pilot.press("enter")
        await self.at(Step.CONFIRM)
        await self.pilot.press("y")
        await self.at(Step.WATCH)


@pytest.fixture
async def shown(address: str, topic: str) -> AsyncIterator[Dashboard]:
    app = KshuntApp(address, start_view=PARTITIONS)
    async with app.run_test(size=(120, 40)) as pilot:
        await wait_until_async(lambda: app.store.scene.live, DEADLINE_S, "it is live")
        names = {":": "colon", "-": "minus"}
        await pilot.press("slash", *(names.get(one, one) for one in f"topic:{topic}"), "enter")
        await wait_until_async(
            lambda: (
                f"6 of {len(app.store.facts.rows) if app.store.facts else '?'}: topic:{topic}"
                in frame(app)
            ),
            DEADLINE_S,
            "the topic is listed",
        )
        yield Dashboard(app, pilot)


def replicas_of(client: BackendClient, topic: str) -> list[int]:
    """How many each partition has."""
    (described,) = client.topics.describe([topic], configs=False).topics
    return [len(one.replicas) for one in described.partitions]


async def becomes(client: BackendClient, topic: str, wanted: list[int]) -> None:
    async def so() -> bool:
        return await asyncio.to_thread(replicas_of, client, topic) == wanted

    await wait_until_async(so, DEADLINE_S, f"{topic} has {wanted}")


async def test_without_a_throttle_it_is_one_request(
    shown: Dashboard, client: BackendClient, topic: str
) -> None:
    text = await shown.alter(5, 3, "none")
    assert "partitions 3 → 5, replication factor 2 → 3" in text
    assert replicas_of(client, topic) == [2, 2, 2], "a preview changes nothing"
    await shown.agree()
    await becomes(client, topic, [3] * 5)
    assert newest(client).reason == "room"


async def test_with_a_throttle_every_partition_is_moved_by_an_operation(
    shown: Dashboard, client: BackendClient, topic: str
) -> None:
    await shown.alter(5, 3, "50MB/s")
    await shown.agree()
    await becomes(client, topic, [3] * 5)
    operation = newest(client)
    assert operation.throttle_bytes_per_s == 50_000_000
    assert len(operation.partitions) == 5
    assert "It has 5 partitions." in frame(shown.app)


async def test_another_factor_alone_has_a_preview_of_its_move(
    shown: Dashboard, client: BackendClient, topic: str
) -> None:
    text = await shown.alter(3, 3, "50MB/s")
    assert "Start: touches" in text
    await shown.agree()
    await becomes(client, topic, [3] * 3)
    assert newest(client).throttle_bytes_per_s == 50_000_000


async def test_a_deletion_that_waits_is_taken_back_as_by_the_tool(
    shown: Dashboard, client: BackendClient, topic: str
) -> None:
    def modes() -> list[int]:
        (described,) = client.topics.describe([topic], configs=False).topics
        return [int(one.mode) for one in described.partitions]

    client.shrinks.delete_partitions({topic: DeletePartitions(1, 600_000)})
    assert modes() == [0, 1, 1]

    def leaves() -> bool:
        facts = shown.app.store.facts
        return facts is not None and any(one.topic == topic for one in facts.leaving)

    await wait_until_async(leaves, DEADLINE_S, "the dashboard knows that they leave")
    text = await shown.alter(3, 2, "none")
    assert f"{topic}-1, {topic}-2" in text
    await shown.agree()

    async def stays() -> bool:
        return await asyncio.to_thread(modes) == [0, 0, 0]

    await wait_until_async(stays, DEADLINE_S, "no partition is deleted any more")
    assert newest(client).reason == "room"
