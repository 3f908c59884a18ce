"""One cluster is named, by one of the ways."""

from __future__ import annotations

import pytest

from kshunt.backend.commandline.cluster_flags import check_one_cluster
from kshunt.backend.commandline.reading import UsageError

EITHER = "give either --bootstrap-server, --backend or --context"


@pytest.mark.parametrize("way", ["bootstrap-server", "backend", "zookeeper"])
def test_one_way_will_do_if_it_has_a_value(way: str) -> None:
    check_one_cluster({way: "h:1"})
    with pytest.raises(UsageError, match=f"--{way} needs a value"):
        check_one_cluster({way: " "})


def test_several_are_refused_and_none_where_one_is_needed() -> None:
    for may_lack in (False, True):
        with pytest.raises(UsageError, match=EITHER):
            check_one_cluster({"backend": "unix:/x", "zookeeper": "h:1"}, may_lack=may_lack)
    with pytest.raises(UsageError, match=EITHER):
        check_one_cluster({})
    check_one_cluster({}, may_lack=True)


@pytest.mark.parametrize("way", ["bootstrap-server", "zookeeper"])
def test_client_properties_are_for_brokers_that_are_named(way: str) -> None:
    check_one_cluster({way: "h:1", "command-config": "f"})


@pytest.mark.parametrize("given", [{"backend": "unix:/x"}, {}])
def test_client_properties_that_nothing_reads_are_refused(given: dict[str, str]) -> None:
    check_one_cluster(given, may_lack=True)
    with pytest.raises(UsageError, match="--command-config needs --bootstrap-server") as refused:
        check_one_cluster({**given, "command-config": "f"}, may_lack=True)
    assert "Leave out --command-config" in refused.value.advice
