"""How many examples Hypothesis makes up: few where someone waits, many in continuous integration.

`pytest --hypothesis-profile full` makes the same number as there. The header of a run prints its
seed; `--hypothesis-seed` plays the same examples again.
"""

from __future__ import annotations

import random
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

from tests.support.waiting import in_ci

FULL: Final = "full"
QUICK: Final = "quick"
FULL_EXAMPLES: Final = 60
QUICK_EXAMPLES: Final = 15
LEAST_EXAMPLES: Final = 5

# An example may take as long as it takes, and so may its making: a busy machine is no defect.
_PATIENT: Final = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(FULL, _PATIENT, max_examples=FULL_EXAMPLES)
settings.register_profile(QUICK, _PATIENT, max_examples=QUICK_EXAMPLES)


def choose(config: pytest.Config) -> None:
    """Set profile and seed, unless the command line names them."""
    if config.option.hypothesis_profile is None:
        config.option.hypothesis_profile = FULL if in_ci() else QUICK
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(random.SystemRandom().randrange(10**6))


def header(config: pytest.Config) -> str:
    """Profile and seed of this run, as options that repeat it."""
    option = config.option
    return (
        f"examples: --hypothesis-profile {option.hypothesis_profile} "
        f"--hypothesis-seed {option.hypothesis_seed}"
    )


def many(full: int) -> int:
    """How many examples to make up where `full` are wanted in continuous integration."""
    share = settings().max_examples / FULL_EXAMPLES
    return min(full, max(LEAST_EXAMPLES, round(full * share)))
