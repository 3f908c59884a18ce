"""Which tests run here, in what order, and what they find around them."""

import atexit
import gc
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

# What is imported and collected stays; to look for garbage in it takes a tenth of the time.
gc.disable()

# Before they are imported: a failure tells what an assertion in them compared.
pytest.register_assert_rewrite("tests.support")

from kshunt.backend.access.cluster_keys import KEYS_VARIABLE, write_keys
from tests.support.access.keys import KEYS
from tests.support.brokers.java import missing_reason
from tests.support.paths import ROOT
from tests.support.runs import examples, groups, shares, tiers
from tests.support.waiting import require

# A dashboard that a test starts records what it sees: not into the home of the user of the tests,
# and reads no settings of theirs.
_HOME = tempfile.mkdtemp(prefix="kshunt-tests-")
os.environ["XDG_STATE_HOME"] = _HOME
os.environ["XDG_CONFIG_HOME"] = _HOME
atexit.register(shutil.rmtree, _HOME, ignore_errors=True)
# Ends are told by the reader's clock, and golden frames have one.
os.environ["TZ"] = "UTC"
time.tzset()
# Placers of tests lie in the project's folder, and no process takes one from where it starts.
_NAMED = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(_NAMED))
# Journals that tests open by themselves and backends that they start share clusters, and so keys.
os.environ[KEYS_VARIABLE] = f"{_HOME}/cluster.keys"
write_keys(Path(_HOME, "cluster.keys"), KEYS)


@pytest.hookimpl(tryfirst=True)  # Hypothesis reads its options in a hook of the same name.
def pytest_configure(config: pytest.Config) -> None:
    """How many examples there are; a worker is told by the process that started it."""
    examples.choose(config)


def pytest_report_header(config: pytest.Config) -> str:
    """What repeats the examples of this run."""
    return examples.header(config)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--tier`, see `tests.support.runs.tiers`."""
    parser.addoption(tiers.OPTION, choices=tiers.TIERS, default=None)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave folders of another tier unread."""
    return tiers.left_out(collection_path, tiers.chosen(config)) or None


def pytest_collection(session: pytest.Session) -> None:
    """Let each worker begin with modules of its own; pytest collects all of them afterwards."""
    shares.read_share(session.config, os.environ)


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in a hook of the same name.
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave benchmarks to `-m bench`, and what is of another tier; keep together what shares."""
    if "bench" not in str(config.option.markexpr):
        tier = tiers.chosen(config)
        _deselect(
            config,
            items,
            lambda item: (
                item.get_closest_marker("bench") is not None
                or not (tiers.is_of(item, tier) or tiers.is_lost(item))
            ),
        )
    for item in items:
        item.add_marker(pytest.mark.xdist_group(groups.group_of(item)))
    if getattr(config.option, "loadgroup", False):
        items.sort(key=groups.rank_of)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave modules and tests out of later collections of garbage: a quarter of the time else."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 10, 5)
    gc.enable()


def pytest_unconfigure() -> None:
    """Let the interpreter free what was left out: DuckDB reports as leaks what it does not free."""
    gc.unfreeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Stop a real-broker test before its fixtures where there can be no broker."""
    if tiers.is_lost(item):
        pytest.fail("the slow tier does not read this module: it names no mark of a slow test")
    if item.get_closest_marker("kafka") is not None:
        require(missing_reason())


def _deselect(
    config: pytest.Config, items: list[pytest.Item], unwanted: Callable[[pytest.Item], bool]
) -> None:
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        (left_out if unwanted(item) else kept).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept
