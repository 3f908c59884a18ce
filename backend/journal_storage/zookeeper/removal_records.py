"""KIP-179's removal records in ZooKeeper: which throttles go when the reassignment has ended.

Goals
    Some throttles of ours are to be removed when the reassignment ends. While such a throttle is
    set, its topic or broker is in the seed's znodes. A name that another program has put there
    stays there until its throttle is removed. Whatever has died, no throttle that is named there
    stays set for good.
Constraints
    The seed gives the znodes, `/admin/throttled_replicas_removal` and
    `/admin/throttled_rates_removal`, and no format: here `{"version":1,"topics":[...]}` and
    `{"version":1,"brokers":[...]}`. They say what to remove, and not what was there before: that is
    in the journal's own records.
Algorithm
    The journal commits the znodes together with its records (`changes_for`). While this backend
    acts, `Recovery` follows the seed's "On Controller Failover" for every name that no record of
    the journal explains. While something moves, it does nothing. Else it waits until a name has
    been there for `PATIENCE_S`, so that its writer is not about to begin a reassignment. Then it
    removes the keys, and after them the name. A name that the journal explains is left to the
    engine, which restores what was there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from kshunt.backend.admin.rpc.configs import Changes
from kshunt.backend.admin.zookeeper import cluster_state, config_znodes, znode_layout
from kshunt.backend.admin.zookeeper.session import Create, Delete, Op, Outdated, Put, Session, Znode
from kshunt.backend.clock import Clock
from kshunt.backend.domain.throttles.configs import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
)
from kshunt.backend.domain.throttles.owners import ShareState
from kshunt.backend.errors import Conflict, KshuntError
from kshunt.backend.operations.journal.entries import Body, EntryKind
from kshunt.backend.operations.lease.lease import LeaseState
from kshunt.backend.operations.lease.membership import Membership
from kshunt.backend.operations.ownership.cells import ListShare, RateShare
from kshunt.backend.operations.state.ownership_documents import readable

LOOK_S: Final = 2.0
"""Between two looks at the znodes."""
PATIENCE_S: Final = 15.0
"""Nothing moves for this long before the throttles are removed.

The names are written first, and their writer may be about to begin the reassignment.
"""
TIMEOUT_S: Final = 5.0

LEFT: Final = ShareState.LEFT

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Removal:
    """The names in one of the two znodes, or in both of them."""

    topics: frozenset[str] = frozenset()
    brokers: frozenset[int] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.topics or self.brokers)

    def __str__(self) -> str:
        return ", ".join([*sorted(self.topics), *(f"broker {one}" for one in sorted(self.brokers))])


@dataclass(frozen=True, slots=True)
class FoundRecords:
    """The two znodes as they were read."""

    names: Removal = field(default_factory=Removal)
    versions: Mapping[str, int] = field(default_factory=dict)
    """By path; one that is not there is absent."""
    unreadable: Mapping[str, znode_layout.UnreadableZnode] = field(default_factory=dict)
    """By path."""


def named_by(records: Mapping[str, Body]) -> Removal:
    """Whose throttles go by themselves, by the journal's records of throttles.

    What cannot be understood is named: its throttle may have to go.
    """
    topics, brokers = set(), set()
    for key, body in records.items():
        ownership, _ = readable({key: body})
        shares: list[RateShare | ListShare] = [
            *(share for cell in ownership.rates.values() for share in cell.shares.values()),
            *(share for cell in ownership.lists.values() for share in cell.shares.values()),
        ]
        stays = shares and not any(s.auto_remove and s.state is not LEFT for s in shares)
        kind, _, name = key.rpartition("/")
        if stays:
            continue
        if kind == EntryKind.TOPIC_THROTTLE:
            topics.add(name)
        elif kind == EntryKind.BROKER_THROTTLE:
            brokers.add(int(name))
    return Removal(frozenset(topics), frozenset(brokers))


async def read(session: Session, *, timeout_s: float) -> FoundRecords:
    """What the znodes hold."""
    paths = (znode_layout.TOPICS_REMOVAL, znode_layout.BROKERS_REMOVAL)
    znodes = dict(zip(paths, await session.read_many(paths, timeout_s=timeout_s), strict=True))
    unreadable: dict[str, znode_layout.UnreadableZnode] = {}
    topics = _names(znodes, znode_layout.TOPICS_REMOVAL, "topics", str, unreadable)
    brokers = _names(znodes, znode_layout.BROKERS_REMOVAL, "brokers", int, unreadable)
    versions = {path: znode.version for path, znode in znodes.items() if znode is not None}
    return FoundRecords(Removal(topics, brokers), versions, unreadable)


def _names(
    znodes: Mapping[str, Znode | None],
    path: str,
    field_name: str,
    kind: type[znode_layout.Name],
    unreadable: dict[str, znode_layout.UnreadableZnode],
) -> frozenset[znode_layout.Name]:
    znode = znodes[path]
    if znode is None:
        return frozenset()
    try:
        return frozenset(znode_layout.read_removal(path, field_name, znode.data, kind))
    except znode_layout.UnreadableZnode as error:
        unreadable[path] = error
        return frozenset()


def changes_for(found: FoundRecords, before: Removal, after: Removal) -> list[Op]:
    """What to commit so that the znodes name `after` where they named `before`.

    What else they name stays.

    Raises:
        Conflict: a znode that would change cannot be understood.
    """
    there = found.names
    return [
        *_side(
            found, znode_layout.TOPICS_REMOVAL, "topics", there.topics, before.topics, after.topics
        ),
        *_side(
            *(found, znode_layout.BROKERS_REMOVAL, "brokers"),
            *(there.brokers, before.brokers, after.brokers),
        ),
    ]


def _side(
    found: FoundRecords,
    path: str,
    field_name: str,
    there: frozenset[znode_layout.Name],
    before: frozenset[znode_layout.Name],
    after: frozenset[znode_layout.Name],
) -> list[Op]:
    """What to commit so that one znode names `after` where it named `before`."""
    if path in found.unreadable:
        if before == after:
            return []
        unreadable = found.unreadable[path]
        raise Conflict(unreadable.message, advice=unreadable.advice)
    wanted = (there - before) | after
    if wanted == there and (wanted or path not in found.versions):
        return []
    version = found.versions.get(path)
    text = znode_layout.removal_text(field_name, sorted(wanted))
    if version is None:
        return [Create(path, text)]
    return [Put(path, text, version) if wanted else Delete(path, version)]


class Recovery:
    """See the module's text: `run` is a task next to a backend."""

    def __init__(
        self,
        session: Session,
        membership: Membership,
        clock: Clock,
        explained: Callable[[], Removal],
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`explained`: the names that the journal's records explain."""
        self._session, self._membership, self._clock = session, membership, clock
        self._explained = explained
        self._patience_s = patience_s
        self._since_s: dict[str | int, float] = {}
        """Since when there is such a name, and nothing moves."""
        self._said = ""

    async def run(self) -> None:
        """Look again and again, until cancelled; act only where this backend does."""
        while True:
            try:
                await self.look()
                self._said = ""
            except (KshuntError, Outdated) as error:
                if str(error) != self._said:
                    log.warning("Throttles that ZooKeeper asks to remove: %s", error)
                self._said = str(error)
            await self._clock.wait_s(LOOK_S)

    async def look(self) -> None:
        """Look once, and do what is due.

        Raises:
            Conflict: some keep their throttles.
            KshuntError, Outdated: it could not be seen, or done; the next look tries again.
        """
        found = await read(self._session, timeout_s=TIMEOUT_S)
        names = self._unexplained(found)
        if not names or await self._moves():
            self._since_s = {}
            return
        now_s = self._clock.monotonic_s()
        present: list[str | int] = [*names.topics, *names.brokers]
        self._since_s = {name: self._since_s.get(name, now_s) for name in present}
        due = {n for n, since_s in self._since_s.items() if now_s - since_s >= self._patience_s}
        lease_manager = self._membership.lease_manager
        if lease_manager is None or not due:
            return
        if lease_manager.duty is LeaseState.ACT:
            await self._remove(found, Removal(names.topics & due, names.brokers & due))
        elif lease_manager.duty is not LeaseState.FOLLOW:
            # What is to be done here is a need to act.
            lease_manager.want()

    async def _moves(self) -> bool:
        """By the seed's rule where its znode is there, whatever it names; else by what moves."""
        asked = await self._session.read(znode_layout.REASSIGN, timeout_s=TIMEOUT_S)
        return asked is not None or bool(
            await cluster_state.ongoing(self._session, timeout_s=TIMEOUT_S)
        )

    def _unexplained(self, found: FoundRecords) -> Removal:
        ours = self._explained()
        return Removal(found.names.topics - ours.topics, found.names.brokers - ours.brokers)

    async def _remove(self, found: FoundRecords, due: Removal) -> None:
        """The seed's "Throttle removal": the keys, then the names of what has none any more.

        Raises:
            Conflict: some keep their throttles; the others do not.
        """
        self._membership.guard()
        why = {topic: await self._unset_topic(topic) for topic in sorted(due.topics)}
        why_brokers = {
            broker: await self._unset(config_znodes.broker_entity(broker), _NO_RATES)
            for broker in sorted(due.brokers)
        }
        gone = Removal(
            frozenset(topic for topic in due.topics if not why[topic]),
            frozenset(broker for broker in due.brokers if not why_brokers[broker]),
        )
        if operations := changes_for(found, gone, Removal()):
            await self._session.commit(operations, timeout_s=TIMEOUT_S)
            log.info("Removed the throttles that ZooKeeper asked to remove: %s", gone)
        if problems := [*filter(None, why.values()), *filter(None, why_brokers.values())]:
            raise Conflict(" ".join(problems))

    async def _unset_topic(self, topic: str) -> str:
        if not znode_layout.may_be_topic(topic):
            return ""
        return await self._unset(config_znodes.topic_entity(topic), _NO_LISTS)

    async def _unset(self, entity: str, changes: Changes) -> str:
        """Why it keeps its throttle; empty where it has none any more."""
        if await self._session.read(znode_layout.config_path(entity), timeout_s=TIMEOUT_S) is None:
            # Nothing is made for what was deleted meanwhile.
            return ""
        result = await config_znodes.change(self._session, entity, changes, timeout_s=TIMEOUT_S)
        return "" if result.ok else f"{entity} keeps its throttle: {result.message}"


_NO_LISTS: Final[Changes] = {LEADER_REPLICAS: None, FOLLOWER_REPLICAS: None}
_NO_RATES: Final[Changes] = {LEADER_RATE: None, FOLLOWER_RATE: None}
