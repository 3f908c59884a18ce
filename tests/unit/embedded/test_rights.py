"""Which rights each API of the embedded brokers needs: none less, and none more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kshunt.backend.embedded.handlers.security.rights import GUARDS
from tests.support.embedded.rights import BY_NAME, NOBODY, REFUSALS, RightsCluster, codes, grant
from tests.support.embedded.rights_cases import CASES, Case

FREE = {"ApiVersions", "SaslHandshake", "SaslAuthenticate"}
EVERY = pytest.mark.parametrize(
    ("name", "case"), CASES, ids=[f"{place}-{name}" for place, (name, _) in enumerate(CASES)]
)


def values_of(case: Case, cluster: RightsCluster, version: int) -> Mapping[str, Any]:
    return case.values(cluster, version) if callable(case.values) else case.values


def versions(name: str) -> range:
    api = BY_NAME[name]
    return range(api.min_version, api.max_version + 1)


def test_every_api_needs_rights_and_is_tried_here() -> None:
    handlers = RightsCluster().cluster.servers[1].handlers
    served = {api.name for api in BY_NAME.values() if api.key in handlers}
    assert served - FREE - GUARDS.keys() == set()
    assert GUARDS.keys() - {name for name, _ in CASES} == {"AddPartitionsToTxn"}


@EVERY
def test_a_client_without_rights_is_refused_and_changes_nothing(name: str, case: Case) -> None:
    for version in versions(name):
        cluster = RightsCluster()
        before = cluster.cluster.image.offset
        answer = cluster.ask(name, version, values_of(case, cluster, version))
        found = codes(answer)
        if name == "FindCoordinator" and version == 0:
            assert found == {30}
        else:
            assert found <= case.refused
            says = name != "DescribeLogDirs" or version >= 3
            assert bool(found) == (bool(case.refused) and says)
        assert cluster.cluster.image.offset == before


@EVERY
def test_the_rights_are_enough(name: str, case: Case) -> None:
    for version in versions(name):
        cluster = RightsCluster()
        grant(cluster.cluster, *case.rights)
        rights = REFUSALS if case.rights else set[int]()
        answer = cluster.ask(name, version, values_of(case, cluster, version))
        assert not codes(answer) & rights


@EVERY
def test_each_of_the_rights_is_needed(name: str, case: Case) -> None:
    version = BY_NAME[name].max_version
    for left_out in case.rights:
        cluster = RightsCluster()
        others = [right for right in case.rights if right != left_out]
        if not case.refused or case.refused == {30, 53} or not others:
            continue
        grant(cluster.cluster, *others)
        answer = cluster.ask(name, version, values_of(case, cluster, version))
        assert codes(answer) & REFUSALS, left_out


@EVERY
def test_a_super_user_gets_what_everybody_gets_without_an_authorizer(name: str, case: Case) -> None:
    if name in {"DescribeAcls", "CreateAcls", "DeleteAcls"}:
        return
    for version in versions(name):
        with_it, without = RightsCluster(), RightsCluster(authorizer=False)
        asked = values_of(case, with_it, version)
        answers = [
            cluster.ask_bytes(name, version, asked, principal)
            for cluster, principal in ((with_it, "User:admin"), (without, NOBODY))
        ]
        if name == "DescribeConfigs" and "4" in str(asked):
            continue
        assert answers[0] == answers[1]
