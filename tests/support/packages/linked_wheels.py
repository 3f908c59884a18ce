"""Wheels of the packages that are installed here, so that a test installs them without a network.

Goals
    An installer reads each package's own metadata, so it resolves what a user's would resolve.
Constraints
    Nothing is copied: Spark alone has 400 MB.
Algorithm
    A wheel has the metadata, and a `.pth` file that names a folder of its own. There a link leads
    to each module of that package in this environment. So a package that nobody asks for cannot be
    imported.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path
from zipfile import ZipFile

OWN = "kshunt"
WHEEL = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
LOCKED = re.compile(r"(?P<name>[a-z0-9_.-]+)==(?P<version>[^\s;\\]+)(?P<marker>[^\\\n]*)")


@dataclass(frozen=True, slots=True)
class LinkedWheels:
    """A folder of wheels, for `--find-links`."""

    folder: Path
    digests: dict[tuple[str, str], str]
    """SHA-256 by normal name and version."""

    def lock(self, text: str) -> str:
        """A lock file with the same packages and versions, and the hashes of these wheels."""
        entries = []
        for found in map(LOCKED.match, re.split(r"\n(?=\S)", text.strip())):
            assert found is not None
            # A package for another system has no wheel here, and its marker leaves it out.
            digest = self.digests.get((found["name"], found["version"]), "0" * 64)
            marker = found["marker"].rstrip()
            line = f"{found['name']}=={found['version']}{marker} --hash=sha256:{digest}"
            entries.append(line)
        return "\n".join(entries) + "\n"


def linked_wheels(folder: Path) -> LinkedWheels:
    """Wheels of everything that is installed here, but for kshunt."""
    wheels = LinkedWheels(folder / "wheels", {})
    wheels.folder.mkdir(parents=True)
    for distribution in distributions():
        name = re.sub(r"[-_.]+", "-", distribution.name).lower()
        if name != OWN and (name, distribution.version) not in wheels.digests:
            links = _links(distribution, folder / "links" / name)
            path = _wheel(distribution, name.replace("-", "_"), links, wheels.folder)
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            wheels.digests[name, distribution.version] = digest
    return wheels


def _links(distribution: Distribution, folder: Path) -> Path:
    """A folder with links to the modules of a package."""
    folder.mkdir(parents=True)
    for entry in {file.parts[0] for file in distribution.files or ()}:
        if entry not in ("..", "__pycache__") and not entry.endswith((".dist-info", ".pth")):
            (folder / entry).symlink_to(Path(str(distribution.locate_file(entry))))
    return folder


def _wheel(distribution: Distribution, name: str, links: Path, folder: Path) -> Path:
    about = f"{name}-{distribution.version}.dist-info"
    path = folder / f"{name}-{distribution.version}-py3-none-any.whl"
    files = {
        f"{name}.links.pth": f"{links}\n",
        f"{about}/METADATA": distribution.read_text("METADATA") or "",
        f"{about}/WHEEL": WHEEL,
    }
    if points := distribution.read_text("entry_points.txt"):
        files[f"{about}/entry_points.txt"] = points
    record = "".join(f"{file},,\n" for file in (*files, f"{about}/RECORD"))
    with ZipFile(path, "w") as wheel:
        for file, text in {**files, f"{about}/RECORD": record}.items():
            wheel.writestr(file, text)
    return path
