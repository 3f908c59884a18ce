"""Writing owned throttles: a decision is in the journal, then written, read back and confirmed.

Used by whatever changes a throttle that is, or becomes, ours. `Ownership` decides; this acts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from kshunt.backend.admin.port.cluster_admin import ClusterAdmin
from kshunt.backend.admin.port.item_result import ItemResult
from kshunt.backend.domain.text.formatting import listed
from kshunt.backend.error_codes import (
    BROKER_NOT_AVAILABLE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from kshunt.backend.errors import ClusterError, Conflict
from kshunt.backend.operations.core.registry import Registry
from kshunt.backend.operations.core.results import failures
from kshunt.backend.operations.journal.entries import broker_throttle_key, topic_throttle_key
from kshunt.backend.operations.ownership.cells import Lift, ListShare, RateShare
from kshunt.backend.operations.ownership.ownership import (
    NO_SHARES,
    FoundSettings,
    ListCellId,
    Ownership,
    OwnershipStep,
    RateCellId,
    SettingValues,
    Shares,
    found_settings,
    planned,
)
from kshunt.backend.operations.ownership.setting_words import read_words

_Share = TypeVar("_Share", RateShare, ListShare)


@dataclass(frozen=True, slots=True)
class ThrottleWrites:
    """What became of writing throttles."""

    topics: Mapping[str, ItemResult] = field(default_factory=dict)
    brokers: Mapping[int, ItemResult] = field(default_factory=dict)

    @property
    def problems(self) -> tuple[str, ...]:
        """One sentence for each topic and broker that did not take its value."""
        topics = (f"topic {failure}" for failure in failures(self.topics))
        return (*topics, *(f"broker {failure}" for failure in failures(self.brokers)))

    @property
    def holding_up(self) -> tuple[str, ...]:
        """Whose throttle is not there although they are, so that a move would run without it.

        A broker that is down has no traffic to throttle.
        """
        return (
            *(f"topic {topic}" for topic, result in self.topics.items() if not result.ok),
            *(
                f"broker {broker}"
                for broker, result in self.brokers.items()
                if not result.ok and result.error_code != BROKER_NOT_AVAILABLE
            ),
        )


class ThrottleWriter:
    """See the module's text."""

    def __init__(self, admin: ClusterAdmin, registry: Registry, timeout_s: float) -> None:
        self._admin = admin
        self._registry = registry
        self._timeout_s = timeout_s

    async def present(
        self, brokers: Iterable[int] = (), topics: Iterable[str] = ()
    ) -> FoundSettings:
        """What is configured now wherever we own something, and where else it is asked for.

        Raises:
            ClusterUnreachable: the topics' configurations could not be read.
        """
        owned = self._registry.ownership
        of_brokers = sorted({*owned.brokers, *brokers})
        of_topics = sorted({*owned.topics, *topics})
        if not of_brokers and not of_topics:
            return FoundSettings({}, {})
        found = await self._admin.throttles.describe(
            of_brokers, of_topics, timeout_s=self._timeout_s
        )
        return found_settings(found, of_topics)

    async def carry_out(self, writes: SettingValues, present: FoundSettings) -> ThrottleWrites:
        """Write what a step says, lists before rates, read it back, and keep what is known then.

        The step's ownership must be in the journal. Safe to repeat. Each setting is read once
        more right before it is written: what somebody else set since `present` is left as it is.

        Raises:
            NotActive: another backend acts; what was written so far, it finishes or undoes.
            JournalFenced, JournalUnavailable: the same.
            ClusterUnreachable: it could not be read, or not be read back.
        """
        written = ThrottleWrites()
        # Each kind is read right before its own write: that of the lists may take a while.
        for part in (SettingValues(lists=writes.lists), SettingValues(rates=writes.rates)):
            if part:
                right, present = await self._checked(part, present)
                done = await self.write(right, present)
                written = ThrottleWrites(
                    {**written.topics, **done.topics}, {**written.brokers, **done.brokers}
                )
        await self.confirm(written)
        return written

    async def _checked(
        self, writes: SettingValues, present: FoundSettings
    ) -> tuple[SettingValues, FoundSettings]:
        """The writes that are still right by what is read now, and all that is present.

        Kafka has no compare-and-set for configurations. Between the decision and its writing lies
        the journal; after this reading only the request itself is left.
        """
        found = await self._admin.throttles.describe(
            writes.brokers, writes.topics, timeout_s=self._timeout_s
        )
        fresh = found_settings(found, writes.topics)
        return (
            still_right(writes, self._registry.ownership, present, fresh),
            replace(
                present,
                rates={**present.rates, **fresh.rates},
                lists={**present.lists, **fresh.lists},
            ),
        )

    async def write(self, writes: SettingValues, present: FoundSettings) -> ThrottleWrites:
        """Write values, lists before rates; what is not ours needs no more than that.

        Raises:
            NotActive: another backend acts.
        """
        written = ThrottleWrites()
        if writes.lists:
            self._registry.require()
            topics = await self._admin.throttles.alter_replicas(
                writes.port_replicas(present),
                validate_only=False,
                timeout_s=self._timeout_s,
                as_found=True,
            )
            written = replace(written, topics=topics)
        if writes.rates:
            self._registry.require()
            brokers = await self._admin.throttles.alter_rates(
                writes.port_rates(present),
                log_dir_rates=writes.port_log_dir_rates(),
                validate_only=False,
                timeout_s=self._timeout_s,
                as_found=True,
            )
            written = replace(written, brokers=brokers)
        return written

    async def confirm(self, written: ThrottleWrites | None = None) -> FoundSettings:
        """Read back, and keep what is known then."""
        topics = {} if written is None else written.topics
        gone = (t for t, r in topics.items() if r.error_code == UNKNOWN_TOPIC_OR_PARTITION)
        present = replace(await self.present(), gone_topics=frozenset(gone))
        await self._registry.save_ownership(self._registry.ownership.confirm(present))
        return present

    async def read_back(
        self, rates: Iterable[RateCellId], lists: Iterable[ListCellId]
    ) -> tuple[str, ...]:
        """What these settings are now, in words, for the audit; empty where nobody answers."""
        of_rates, of_lists = list(rates), list(lists)
        if not of_rates and not of_lists:
            return ()
        try:
            present = await self.present({b for b, _ in of_rates}, {t for t, _ in of_lists})
        except ClusterError:
            return ()
        return read_words(of_rates, of_lists, present)

    def check_readable(self, brokers: Iterable[int], topics: Iterable[str]) -> None:
        """Stop before a throttle whose record cannot be understood is written over.

        Raises:
            Conflict: the journal has an unreadable record of one of them.
        """
        keys = [
            *(broker_throttle_key(broker) for broker in brokers),
            *(topic_throttle_key(topic) for topic in topics),
        ]
        unreadable = self._registry.known.unreadable
        if found := [key for key in keys if key in unreadable]:
            raise Conflict(
                f"The journal's record {listed(found, 3)} cannot be read: "
                f"{unreadable[found[0]].detail} The owner of the throttle is unknown. Nothing was "
                "changed.",
                advice="Upgrade kshunt, or check the record and remove it if nobody needs it.",
            )


def still_right(
    writes: SettingValues, ownership: Ownership, present: FoundSettings, fresh: FoundSettings
) -> SettingValues:
    """The writes without those that somebody else's change has overtaken.

    A rate that is not ours any more is not written over. A list that was changed is written with
    that change in it. What could not be read again is written as it was decided.
    """
    rates = dict(writes.rates)
    for i in writes.rates:
        found, cell = fresh.rates.get(i), ownership.rates.get(i)
        if found is not None and cell is not None and cell.is_foreign(found):
            del rates[i]
    lists = dict(writes.lists)
    for j in writes.lists:
        listed, list_cell = fresh.lists.get(j), ownership.lists.get(j)
        if listed is None or list_cell is None or listed == present.lists.get(j):
            continue
        aim = list_cell.planned(listed)[1]
        if aim is None:
            del lists[j]
        else:
            lists[j] = aim
    return SettingValues(rates, lists)


def become(
    ownership: Ownership,
    operation_id: str,
    shares: Shares,
    present: FoundSettings,
    *,
    auto_remove: bool,
) -> OwnershipStep:
    """The operation's shares become these: what it gives up is lifted, what is new is recorded.

    What the operation gives up while it runs is lifted even where the rest is to stay on. What it
    has left on already stays. A setting whose share stays as it is, is left alone, so that drift
    there is not written over.
    """
    held = shares_held(ownership, operation_id)
    reduced = ownership.reduce(operation_id, shares, present, Lift.GIVEN_UP)
    rates = {i: r for i, r in shares.rates.items() if held.rates.get(i) != r}
    lists = {
        j: pairs - held.lists.get(j, frozenset())
        for j, pairs in shares.lists.items()
        if pairs - held.lists.get(j, frozenset())
    }
    more = reduced.after.record(
        operation_id, Shares(rates, lists), present, auto_remove=auto_remove
    )
    # What is given up and what is new may be of one setting: it is written as both leave it.
    touched = _both(reduced.writes, more.writes)
    return planned(more.after, present, touched.rates, touched.lists)


def left_on(ownership: Ownership, operation_id: str) -> Ownership:
    """The operation's shares stay on when they are lifted."""

    def without_removal(shares: Mapping[str, _Share]) -> dict[str, _Share]:
        return {
            o: replace(share, auto_remove=False) if o == operation_id else share
            for o, share in shares.items()
        }

    return Ownership(
        {
            i: replace(cell, shares=without_removal(cell.shares))
            for i, cell in ownership.rates.items()
        },
        {
            j: replace(cell, shares=without_removal(cell.shares))
            for j, cell in ownership.lists.items()
        },
    )


def shares_held(ownership: Ownership, operation_id: str) -> Shares:
    """What the operation's shares are."""
    rates = {
        i: share.rate_bytes_per_s
        for i, cell in ownership.rates.items()
        if (share := cell.shares.get(operation_id)) is not None
        and cell.holds(operation_id)
        and share.rate_bytes_per_s is not None
    }
    lists = {
        j: cell.shares[operation_id].pairs
        for j, cell in ownership.lists.items()
        if cell.holds(operation_id)
    }
    return Shares(rates, lists) if rates or lists else NO_SHARES


def _both(first: SettingValues, then: SettingValues) -> SettingValues:
    return SettingValues({**first.rates, **then.rates}, {**first.lists, **then.lists})
