"""What is shown, and what was made of it: which table replaces another, and how old it all is."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from kshunt.backend.domain.cluster.metadata import Broker
from kshunt.backend.domain.replicas.snapshot import BrokerStatus
from kshunt.tui.actions.view_names import BROKERS, OVERVIEW, PARTITIONS
from kshunt.tui.data.store import Store, TableFailed, TableReady
from kshunt.tui.facts.overview import HomeBuilder
from kshunt.tui.facts.snapshot_facts import Facts, Summary
from kshunt.tui.facts.view_query import Job, Query
from kshunt.tui.tables.model import Order
from tests.support.tui.cluster import incident
from tests.support.tui.tables import facts_of, partitions

FACTS = facts_of(incident())


def ready(view: str, facts: Facts = FACTS, hint: str = "") -> TableReady:
    job = Job(view, Query(), facts.snapshot, (), facts.snapshot.taken_ms)
    return TableReady(job, partitions(facts), facts, Summary(), hint)


def test_a_newer_table_replaces_one_of_its_own_view_alone() -> None:
    table = ready(PARTITIONS)
    assert table.can_replace(ready(PARTITIONS))
    assert not table.can_replace(ready(BROKERS))
    assert not table.can_replace(TableFailed(PARTITIONS, "no memory"))


def test_tables_stay_and_the_job_is_that_of_the_view_in_sight() -> None:
    store = Store(lambda: 0.0)
    store.take_table(ready(PARTITIONS, hint="6 moving"))
    store.take_table(ready(BROKERS))
    assert set(store.tables) == {PARTITIONS, BROKERS}
    assert store.hints == {PARTITIONS: "6 moving", BROKERS: ""}
    assert set(store.jobs) == {BROKERS}
    without = ready(PARTITIONS)
    without.table = None
    before = store.tables[PARTITIONS]
    store.take_table(without)
    assert store.tables[PARTITIONS] is before


def test_the_head_of_the_screen_stays_where_a_view_computes_none() -> None:
    store = Store(lambda: 0.0)
    first = ready(OVERVIEW)
    first.home = HomeBuilder().home(FACTS, first.job, plots=False)
    store.take_table(first)
    store.take_table(ready(BROKERS))
    assert store.home is first.home


def test_what_is_shown_is_as_old_as_its_snapshot_and_what_no_broker_answered() -> None:
    silent = BrokerStatus(Broker(1, "b1", 9092), FACTS.snapshot.taken_ms - 2_500, True)
    snapshot = replace(FACTS.snapshot, brokers={1: silent})
    store = Store(lambda: 12.0)
    assert (store.data_age_s, store.now_ms) == (12.0, 12_000)
    store.scene = replace(store.scene, snapshot=snapshot, received_s=10.0)
    assert (store.age_s, store.data_age_s) == (2.0, 4.5)
    assert store.now_ms == snapshot.taken_ms + 2_000
    store.scene = replace(store.scene, received_s=13.0)
    assert (store.age_s, store.data_age_s) == (0.0, 2.5)


def test_a_table_is_computed_for_what_was_asked_of_its_view() -> None:
    store = Store(lambda: 0.0)
    assert store.job(PARTITIONS, past=False) is None
    store.scene = replace(store.scene, snapshot=FACTS.snapshot)
    store.ask(PARTITIONS, order=Order("lag_bytes"), follow=True)
    job = store.job(PARTITIONS, past=True)
    assert job is not None
    assert (job.view, job.past) == (PARTITIONS, True)
    assert (job.query.order, job.query.follow) == (Order("lag_bytes"), True)
    other = store.job(BROKERS, past=False)
    assert other is not None
    assert other.query == Query()


def test_a_work_that_is_given_a_store_is_described_without_what_is_in_it() -> None:
    """Textual describes each work that it starts, which printed the arrays of the snapshot."""
    store = Store(lambda: 0.0)
    store.take_table(ready(PARTITIONS))
    assert "array(" not in repr(partial(print, store))
    assert "array(" in repr(FACTS.snapshot.replicas)
