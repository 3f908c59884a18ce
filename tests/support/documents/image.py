"""What `docker build` and `docker run` do with the Dockerfile, in a folder instead of an image.

Constraints
    Nothing is isolated: user, base image and the root of the file system are this machine's.
    So `useradd` and `USER` are left out, and every other instruction is run or checked.
Algorithm
    Paths of the image are those of a folder, which has only what `COPY` brought. All stages share
    that folder.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.waiting import wait_until

DEADLINE_S = 240.0
STOP_DEADLINE_S = 30.0
NEEDS_ROOT = "useradd "
ROOTS = re.compile(r"(?<![\w./}])/(src|opt|home|etc/kshunt)\b")
KNOWN = {
    *("ARG", "FROM", "COPY", "RUN", "USER", "ENV", "WORKDIR"),
    *("EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"),
}


class Image:
    """An image in a folder, and the one process that it may run."""

    def __init__(self, command: str, folder: Path, environment: Mapping[str, str]) -> None:
        """`command` is the `docker build`, whose paths are below `work` of the folder."""
        self._work, self._root = folder / "work", folder / "image"
        self._environment = dict(environment)
        self._words = shlex.split(command)
        file = self._words[self._words.index("-f") + 1]
        self._instructions = instructions((self._work / file).read_text())
        self._entry: list[str] = []
        self._usual: list[str] = []
        self._health: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._log = folder / "image.log"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(STOP_DEADLINE_S)

    def build(self) -> None:
        """Do what each instruction says.

        Raises:
            AssertionError: one of them is unknown or cannot be done.
        """
        assert self._words[:2] == ["docker", "build"]
        assert self._words[-1] == "."
        argument, _, base = self._words[self._words.index("--build-arg") + 1].partition("=")
        assert base
        assert ("ARG", argument) in self._instructions
        for verb, rest in self._instructions:
            assert verb in KNOWN, verb
            match verb:
                case "FROM":
                    assert rest.split(" AS ")[0] == f"${{{argument}}}"
                case "COPY":
                    self._copy(rest.split())
                case "RUN" if not rest.startswith(NEEDS_ROOT):
                    self._check(["/bin/sh", "-euc", self._placed(rest)])
                case "ENV":
                    self._set(rest)
                case "ENTRYPOINT":
                    self._entry = json.loads(rest)
                case "CMD":
                    self._usual = json.loads(rest)
                case "HEALTHCHECK":
                    self._health = json.loads(rest.removeprefix("CMD "))

    def configure(self, text: str) -> None:
        """Mount this as the configuration."""
        path = Path(self._environment["KSHUNT_CONFIG"])
        path.parent.mkdir(parents=True)
        path.write_text(text)
        path.chmod(0o600)

    def started(self, *words: str) -> str:
        """What the image says if it is started with these words."""
        return self._check([*self._entry, *words])

    def serve(self) -> None:
        """Start it without words, and wait until it serves."""
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*self._entry, *self._usual],
                cwd="/",
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        process = self._process

        def serves() -> bool:
            assert process.poll() is None, self._log.read_text()
            return "kshunt serves" in self._log.read_text()

        wait_until(serves, DEADLINE_S, "the image serves")

    def check_health(self, names: Mapping[str, str]) -> None:
        """Ask as the health check does, on ports of this machine.

        Raises:
            AssertionError: it is not healthy.
        """
        words = " ".join(self._health)
        assert all(name in words for name in names)
        for name, own in names.items():
            self._health = [word.replace(name, own) for word in self._health]
        self._check(self._health)

    def _placed(self, text: str) -> str:
        return ROOTS.sub(lambda found: f"{self._root}{found[0]}", text)

    def _copy(self, words: list[str]) -> None:
        if words[0].startswith("--from="):
            # Both stages are this folder, so it is there already.
            assert Path(self._placed(words[1])).exists()
            return
        *sources, target = words
        place = Path(self._placed(target))
        for source in sources:
            path = self._work / source
            if path.is_dir():
                shutil.copytree(path, place, symlinks=True)
            else:
                place.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, place / path.name)

    def _set(self, text: str) -> None:
        for word in shlex.split(text):
            name, _, value = word.partition("=")
            value = self._placed(value).replace("$PATH", self._environment["PATH"])
            self._environment[name] = value

    def _check(self, words: list[str]) -> str:
        done = subprocess.run(
            words,
            cwd="/",
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=DEADLINE_S,
        )
        assert done.returncode == 0, f"{words}\n{done.stdout}"
        return done.stdout


def instructions(text: str) -> list[tuple[str, str]]:
    """Each instruction of a Dockerfile: its verb, and the rest in one line."""
    code = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    whole = re.sub(r"\s*\\\n\s*", " ", code)
    found = (line.partition(" ") for line in whole.splitlines() if line.strip())
    return [(verb, rest.strip()) for verb, _, rest in found]
