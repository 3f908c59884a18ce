"""What the head line of `kshunt demo` says of a move, and how it goes.

    python -m tests.bench.bench_scenario_forecast [--runs 5] [--seed N] [SCENARIO ...]

runs scenarios on embedded cores, each with fresh seeds. It prints what was forecast at some points
of the way next to the truth, and whether the number left the range that it first had. In
`throttle-too-low` an operator raises the throttle after a minute. In `hot-broker` one moves
partitions away from the broker, with and without the election that the scenario advises.
The way begins then. Five runs of each take about eight minutes of a processor.
"""

from __future__ import annotations

import argparse
from random import Random, SystemRandom

import pytest

from tests.support.forecast.scenario_scores import as_text
from tests.support.forecast.watched_scenarios import WATCHES, watched_scenarios

PROCESSES = 2


def report(name: str, seeds: list[int]) -> str:
    """Run a scenario with each of these seeds; a table."""
    return as_text(name, watched_scenarios([name], seeds, PROCESSES))


@pytest.mark.bench
@pytest.mark.parametrize("name", sorted(WATCHES))
def test_forecasts_of_a_scenario(name: str) -> None:
    print(f"\n{report(name, SystemRandom().sample(range(10**6), 2))}")


def main() -> None:
    """Run scenarios, and print how forecasts of them turned out."""
    parser = argparse.ArgumentParser(description="Score the forecasts of scenarios.")
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", default=[])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seed", type=int, help="of the seeds; fresh ones where it is not given")
    options = parser.parse_args()
    if unknown := set(options.scenarios) - WATCHES.keys():
        parser.error(f"choose from {', '.join(WATCHES)}, not {', '.join(sorted(unknown))}")
    dice = SystemRandom() if options.seed is None else Random(options.seed)
    seeds = dice.sample(range(10**6), options.runs)
    for name in options.scenarios or WATCHES:
        print(report(name, seeds), flush=True)


if __name__ == "__main__":
    main()
