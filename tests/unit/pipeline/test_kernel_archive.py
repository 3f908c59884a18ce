"""What goes to Spark's workers is whole: they have numpy and pyarrow, and no kshunt."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from kshunt.backend.pipeline.spark.kernel_archive import kernels

IMPORTS_ALL = """
import importlib, pkgutil, sys
archive = sys.argv[1]
sys.path = [archive, *(p for p in sys.path if "kshunt" not in p)]
sys.meta_path = [one for one in sys.meta_path if "editable" not in repr(one).lower()]
from kshunt.backend.pipeline import kernels
names = [one.name for one in pkgutil.iter_modules(kernels.__path__, f"{kernels.__name__}.")]
for name in names:
    importlib.import_module(name)
assert len(names) > 5, names
foreign = [m.__file__ for n, m in sys.modules.items() if n.partition(".")[0] == "kshunt"
           and not (m.__file__ or archive).startswith(archive)]
assert not foreign, foreign
"""


def test_every_kernel_can_be_imported_from_the_archive_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-c", IMPORTS_ALL, str(kernels(tmp_path))]
    done = subprocess.run(
        command, env={"PATH": ""}, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
