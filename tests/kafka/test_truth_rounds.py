"""What kshunt reports is true: rounds of edits, refusals and faults on real brokers.

`KSHUNT_TRUTH_ROUNDS=100` plays a hundred, `KSHUNT_TRUTH_SEED` names the first; `-s` prints each.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import pytest

from tests.support.brokers.launcher import RealKafka
from tests.support.faults.small_disk import small_disk
from tests.support.faults.truth_ground import DISK_MB, OVERRIDES, SMALL_DISK_OF, Ground
from tests.support.faults.truth_rounds import Round, first_seed, rounds_wanted

pytestmark = [pytest.mark.kafka, pytest.mark.own_brokers, pytest.mark.slow]


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    folder = tmp_path_factory.mktemp("rounds")
    with RealKafka(3, OVERRIDES, sasl=True) as kafka:
        disk = kafka.log_dirs(SMALL_DISK_OF)[1]
        with small_disk(kafka, SMALL_DISK_OF, disk, folder / "kept", megabytes=DISK_MB):
            ground = Ground(kafka, folder)
            yield ground
            ground.close()


def test_no_wrong_state_and_no_untrue_line(brokers: Ground) -> None:
    amiss: dict[int, list[str]] = {}
    began_s = time.monotonic()
    seeds = range(first_seed(), first_seed() + rounds_wanted(3))
    for seed in seeds:
        one = Round(brokers, seed)
        if found := one.run():
            amiss[seed] = [*found, f"story: {one.log}"]
        took_s = time.monotonic() - began_s
        words = f"round {seed} ({took_s:.0f} s): {', '.join(one.log)}"
        sys.stdout.write(f"{words}: {found or 'as it must be'}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{len(seeds)} rounds, {len(amiss)} with problems\n")
    assert amiss == {}
