"""What workers of Spark need of kshunt: its kernels go with the session, so it is not installed
there.

Workers need numpy and pyarrow of their own, and the Python that `PYSPARK_PYTHON` names.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import kshunt
from kshunt.backend.files import make_folder, replace_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHIPPED: Final = (
    "__init__.py",
    "backend/__init__.py",
    "backend/error_codes.py",
    "backend/errors.py",
    "backend/clock.py",
    "backend/domain/**/*.py",
    "backend/pipeline/__init__.py",
    "backend/pipeline/kernels/*.py",
)
_AT: Final = (2020, 1, 1, 0, 0, 0)
"""The time of every file in the archive, so that the same files make the same archive."""


def ship_kernels(session: SparkSession, cache: Path) -> None:
    """Let the workers of a session import `kshunt.backend.pipeline.kernels`."""
    session.addArtifacts(str(kernels(cache)), pyfile=True)


def kernels(cache: Path) -> Path:
    """An archive of the kernels and what they import, in a folder of archives."""
    content = _archive()
    path = cache / f"kernels-{hashlib.sha256(content).hexdigest()[:16]}.zip"
    if not path.exists():
        make_folder(cache)
        replace_file(path, content)
    return path


def _archive() -> bytes:
    root = Path(kshunt.__file__).parent
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in _files(root):
            about = zipfile.ZipInfo(str(path.relative_to(root.parent)), _AT)
            archive.writestr(about, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return out.getvalue()


def _files(root: Path) -> Iterator[Path]:
    for pattern in _SHIPPED:
        yield from sorted(root.glob(pattern))
