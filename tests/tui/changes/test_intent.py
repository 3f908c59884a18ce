"""A change before it is asked for: whether it may be sent, and its words in a recording."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kshunt.tui.changes.wizard.intent import NAMES_MOST, Intent, TargetCluster


def never(*_: object) -> Any:
    raise AssertionError("nothing is sent")


INTENT = Intent("Set rates", "Set", TargetCluster("kSh-9xQm", "127.0.0.1:9092"), (), never)


@pytest.mark.parametrize(
    ("read_only", "local", "refused"),
    [(True, False, True), (True, True, False), (False, False, False), (False, True, False)],
)
def test_a_read_only_dashboard_refuses_what_changes_the_cluster_alone(
    read_only: bool, local: bool, refused: bool
) -> None:
    assert replace(INTENT, local=local).is_refused(read_only=read_only) is refused


def test_a_recording_names_what_a_change_touches_up_to_a_number() -> None:
    assert INTENT.words == "Set rates"
    touches = tuple((f"Broker {n}", "leader") for n in range(NAMES_MOST + 2))
    exact = replace(INTENT, touches=touches[:NAMES_MOST]).words
    assert exact.count("broker") == NAMES_MOST
    assert "more" not in exact
    assert replace(INTENT, touches=touches).words == f"{exact[:-1]}; and 2 more)"
