"""Scenarios of `kshunt demo` on an embedded core, forecast while they run as a backend does.

What the head line shows comes from the same forecast, that of everything that moves. No time
passes but the core's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from kshunt.backend.domain.forecast.calibration import shipped_quantiles
from kshunt.backend.domain.replicas.expected_end_values import EVERYTHING
from kshunt.backend.domain.replicas.snapshot import Snapshot
from kshunt.backend.domain.throttles.configs import FOLLOWER_RATE, LEADER_RATE
from kshunt.backend.embedded.scenario.model import (
    Configure,
    PreferredElection,
    Reassign,
    ScenarioEvent,
)
from kshunt.backend.embedded.scenario.reading import load_scenario
from tests.support.embedded.scenarios import Played
from tests.support.forecast.watched_operations import ForecastEye, Look, Watched

LOOK_S: Final = 2.0
"""A backend makes forecasts no oftener."""
GIVEN_UP_S: Final = 5_400.0
RAISED: Final = "60000000"


@dataclass(frozen=True, slots=True)
class Watch:
    """What is watched of a scenario."""

    scenario: str
    acts: tuple[ScenarioEvent, ...] = ()
    """What an operator does there."""

    @property
    def from_s(self) -> float:
        """When the way begins, seconds after the scenario did: with the operator's last act."""
        return max((one.at_s for one in self.acts), default=0.0)


_ALL_RATES: Final = {LEADER_RATE: RAISED, FOLLOWER_RATE: RAISED}
WATCHES: Final[Mapping[str, Watch]] = MappingProxyType(
    {
        "drain": Watch("drain"),
        "rack-loss": Watch("rack-loss"),
        # The scenario's own advice. Before that it never ends.
        "throttle-too-low": Watch(
            "throttle-too-low", (Configure(60.0, _ALL_RATES, brokers=(1, 2, 3, 4, 5)),)
        ),
        # The scenario's own advice is the election. Nothing moves before the operator's move.
        "hot-broker": Watch(
            "hot-broker",
            (
                PreferredElection(60.0),
                Reassign(90.0, drain=(3,), partitions_max=8, throttle_bytes_per_s=60_000_000),
            ),
        ),
        # Without the election copies get what producers and the ISR leave of broker 3's network.
        "hot-broker, no election": Watch(
            "hot-broker",
            (Reassign(60.0, drain=(3,), partitions_max=3, throttle_bytes_per_s=80_000_000),),
        ),
    }
)


@dataclass(frozen=True, slots=True)
class WatchedScenario:
    """How a scenario went, and which ends the forecast named."""

    name: str
    way: Watched
    """From when the operator acted, or from its beginning."""
    before: tuple[Look, ...]
    """Until then."""


def watched_scenario(name: str, seed: int) -> WatchedScenario:
    """Run one of `WATCHES` to its end."""
    watch = WATCHES[name]
    scenario = load_scenario(watch.scenario)
    played = Played(replace(scenario, events=(*scenario.events, *watch.acts)), seed)
    eye, core = ForecastEye(played.core, {}, shipped_quantiles), played.core
    began_ms = core.now_ms
    looks: list[Look] = []
    while played.moving or core.now_ms - began_ms <= watch.from_s * 1000:
        core.advance(core.now_ms + round(LOOK_S * 1000))
        part, made = eye.forecast()
        at_s = (core.now_ms - began_ms) / 1000 - watch.from_s
        if at_s > GIVEN_UP_S:
            break
        looks.append(Look(at_s, _left_bytes(part, looks), made.ends.get(EVERYTHING), made))
    took_s = None if played.moving else (core.now_ms - began_ms) / 1000 - watch.from_s
    return WatchedScenario(
        name,
        Watched(seed, took_s, tuple(look for look in looks if look.at_s >= 0)),
        tuple(look for look in looks if look.at_s < 0),
    )


def watched_scenarios(
    names: Sequence[str], seeds: Sequence[int], processes: int = 1
) -> list[WatchedScenario]:
    """Each of these scenarios with each of these seeds."""
    pairs = [(name, seed) for name in names for seed in seeds]
    if processes == 1:
        return [watched_scenario(*pair) for pair in pairs]
    with ProcessPoolExecutor(processes) as pool:
        return list(pool.map(watched_scenario, *zip(*pairs, strict=True)))


def _left_bytes(part: Snapshot, before: Sequence[Look]) -> int:
    """What new replicas lack; what was lacking before while that is not known of all of them."""
    lags = part.replicas.lag_bytes[part.replicas.adding]
    if (lags < 0).any() and before:
        return before[-1].remaining_bytes
    return int(lags.clip(min=0).sum())
