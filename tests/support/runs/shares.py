"""Which test modules a worker reads before all others.

Pytest rewrites the asserts of a test module when it is first read, and keeps the result on disk.
That takes longer than to read the module. Workers that read all modules at the same time and in the
same order would each rewrite every one of them. So each worker begins with a share of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import accumulate
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.runs import tiers


def read_share(config: pytest.Config, environ: Mapping[str, str]) -> None:
    """Read the share of this worker, where the whole tier is run by several."""
    worker, workers = environ.get("PYTEST_XDIST_WORKER"), environ.get("PYTEST_XDIST_WORKER_COUNT")
    if worker is None or workers is None or config.args_source is pytest.Config.ArgsSource.ARGS:
        return
    modules = {path: path.stat().st_size for path in modules_of(tiers.chosen(config))}
    for path in share(modules, int(worker.removeprefix("gw")), int(workers)):
        # Pytest comes back to a module that cannot be read, and says why.
        with suppress(Exception):
            import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


def share(modules: Mapping[Path, int], place: int, workers: int) -> Sequence[Path]:
    """The modules of one worker, of all with their sizes: neighbours, which import the same."""
    whole = sum(modules.values())
    ends = accumulate(modules.values())
    middles = (end - size / 2 for end, size in zip(ends, modules.values(), strict=True))
    return [
        path
        for path, middle in zip(modules, middles, strict=True)
        if min(int(middle * workers / max(whole, 1)), workers - 1) == place
    ]


def modules_of(tier: str) -> Iterator[Path]:
    """The test modules of a tier, in the order in which pytest collects them."""
    for folder in sorted((ROOT / "tests").iterdir()):
        if folder.is_dir() and not tiers.left_out(folder, tier):
            modules = sorted(folder.rglob("test_*.py"))
            yield from (path for path in modules if not tiers.left_out(path, tier))
