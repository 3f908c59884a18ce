"""Jars that Spark loads: each is compared with a digest before Spark sees it.

Goals
    A jar that was replaced, on the way from a repository or in its folder, is not run.
Constraints
    The project knows the jars that its tests use. Operators use others too: of another Spark, or
    of their own repository.
Algorithm
    A jar must have the digest that is here, or in `SHA256SUMS` of its folder, which
    `sha256sum *.jar` writes. Where both name it, both count. One that neither names is refused, and
    so is a folder, or a file in it, that others can write.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kshunt.backend.errors import ConfigError
from kshunt.backend.secret_files import refuse_writable

SUMS: Final = "SHA256SUMS"
KNOWN: Final[Mapping[str, str]] = {
    "commons-pool2-2.12.1.jar": (
        "5273c8bc8c0dca2211175c0d27efbd7228efae99689aac001a8e1ef8e872e9ef"
    ),
    "kafka-clients-3.9.1.jar": ("7568b998572d256f0b7bc0afdc1b7a2588b8b08415c62ce314c864a6851ae9d9"),
    "spark-sql-kafka-0-10_2.13-4.2.0.jar": (
        "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705"
    ),
    "spark-token-provider-kafka-0-10_2.13-4.0.0.jar": (
        "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767"
    ),
}
"""SHA-256 by file name: Spark's Kafka connector and what it needs in addition to PySpark's own
jars, as Maven Central has them."""
_LINE: Final = re.compile(r"([0-9a-f]{64})[ \t]+\*?(\S+)")


def check_jars(folder: Path) -> None:
    """Compare every jar of a folder with its digest.

    Raises:
        ConfigError: one is another file than it has to be, nobody says what it has to be, or
            others can write it.
    """
    stated = _stated(folder)
    for jar in sorted(folder.glob("*.jar")):
        refuse_writable(jar, "The jar")
        wanted = {digests[jar.name] for digests in (KNOWN, stated) if jar.name in digests}
        if not wanted:
            raise ConfigError(
                f"There is no digest for {jar}; kshunt does not load it.",
                advice=f"Check that it is the right file, then run: cd {folder} && sha256sum "
                f"*.jar > {SUMS}",
            )
        found = _digest(jar)
        if wanted != {found}:
            raise ConfigError(
                f"{jar} does not have the expected digest (SHA-256 {found}); kshunt does not load "
                "it.",
                advice="Download it again from Maven Central.",
            )


def _stated(folder: Path) -> Mapping[str, str]:
    """What the operator says of the jars.

    Raises:
        ConfigError: others can write it, or a line of it says nothing.
    """
    path = folder / SUMS
    if not path.exists():
        return {}
    refuse_writable(path, "The file of digests")
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise ConfigError(f"{path} cannot be read.") from None
    found = {match[2]: match[1] for line in lines if (match := _LINE.fullmatch(line.strip()))}
    if len(found) < len([line for line in lines if line.strip()]):
        raise ConfigError(f"{path} has a line that is not a digest.", advice="Write it again.")
    return found


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from None
