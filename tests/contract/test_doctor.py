"""`kshunt doctor` finds nothing wrong with a sound cluster, and changes none."""

from __future__ import annotations

import asyncio

from kshunt.backend.admin.connect import Reached
from kshunt.backend.domain.backend.journal import JOURNAL_TOPIC
from kshunt.backend.settings import Settings
from kshunt.backend.tools.doctor.cluster_checks import check_cluster
from tests.support.admin import TIMEOUT_S
from tests.support.clusters import ContractCluster


def test_a_sound_cluster_has_no_problem(cluster: ContractCluster) -> None:
    findings = check_cluster(Settings(cluster.bootstrap_servers))
    found = {finding.subject: finding for finding in findings}
    assert {f"broker {broker}" for broker in cluster.broker_ids} <= found.keys()
    assert {finding.status for finding in found.values()} == {"ok"}, found
    assert found.keys() >= {"ACLs to look", "ACLs to change", f"journal {JOURNAL_TOPIC}"}


async def test_it_creates_no_topic(cluster: ContractCluster, admin: Reached) -> None:
    before = await admin.cluster.describe(timeout_s=TIMEOUT_S)
    await asyncio.to_thread(check_cluster, Settings(cluster.bootstrap_servers))
    after = await admin.cluster.describe(timeout_s=TIMEOUT_S)
    assert list(after.assignment.topics) == list(before.assignment.topics)
