"""The dashboards that one `kshunt` shows, one cluster after another.

Goals
    From the dashboard of one cluster an operator opens another one. Nothing of the old one is used
    for the new one: no link, no token, no mark, no filter.
Constraints
    What the operator has forbidden stays forbidden: `--read-only` and `--no-record` hold for all
    clusters of a session. A cluster that was named on the command line and cannot be opened ends
    the command, because scripts depend on it.
Algorithm
    A choice is a command line. The dashboard notes the wish for one and ends, which closes its
    link. The session restores the environment as the shell gave it, and runs that command line.
    If it fails, the chooser opens again and says why.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kshunt.backend.cli import dashboard, demo_command
from kshunt.backend.cli.recent import recent, recent_path, remember
from kshunt.backend.commandline.cluster_flags import BACKEND_FLAGS, CLUSTER_FLAGS
from kshunt.backend.commandline.reading import UsageError, read
from kshunt.backend.config_file import Configuration, Setting, context_of, expanded, load
from kshunt.backend.errors import KshuntError
from kshunt.backend.local_sockets import runtime_dir

if TYPE_CHECKING:
    from kshunt.tui.shell.contexts import ClusterChoice

DEMO: Final = ("demo",)
CONTEXT: Final = "--context"
NO_MOUSE: Final = f"--{dashboard.NO_MOUSE.name}"
STAYS: Final = ("--read-only", "--no-record", NO_MOUSE)
"""What holds for every cluster of a session."""
_NAMES: Final = ("bootstrap-server", "zookeeper", "backend")
_ANSWERED: Final = (*_NAMES, "in-browser", "command-config")
"""With one of these no cluster is chosen from a list: properties are for brokers that are named."""
_CLUSTER: Final = frozenset(flag.name for flag in (*CLUSTER_FLAGS, *BACKEND_FLAGS)) - {"context"}
_FILES: Final = frozenset({"command-config", "zk-tls-config-file", "token-file", "ca-file"})
ASKED_S: Final = 2.0
"""How long a backend may take to say which cluster it serves; then it is listed without that."""


class Session:
    """See the module's text. It is the `kshunt.tui.shell.contexts.Contexts` of its dashboards."""

    def __init__(self, words: Sequence[str], environment: MutableMapping[str, str]) -> None:
        """`words`: the first command line, without `kshunt`; `environment` is this process's."""
        self.present: tuple[str, ...] | None = None
        self.failure = ""
        self._words = tuple(words)
        self._environment = environment
        self._given = dict(environment)
        self._stays = tuple(word for word in STAYS if word in words)
        self._wanted: ClusterChoice | None = None

    def run(self) -> int:
        """Show dashboards until the operator leaves; the exit code.

        Raises:
            KshuntError: the first command line cannot be used.
        """
        code = self._show(self._words, checked=False)
        while (choice := self._wanted) is not None:
            self._wanted, self.failure = None, ""
            try:
                sys.stderr.write(f"Opening {choice.title} ...\n")
                code = self._show(choice.command, checked=True)
            except KshuntError as error:
                code = self._failed(choice, str(error))
            except KeyboardInterrupt:
                code = self._failed(choice, "You interrupted it.")
        return code

    def _failed(self, choice: ClusterChoice, why: str) -> int:
        self.failure = f"{choice.title} was not opened. {why}"
        return self._choose()

    def _show(self, words: tuple[str, ...], *, checked: bool) -> int:
        self._restore()
        self.present = None
        if words[:1] == DEMO:
            self.present = words
            # The demo writes no recording, and its cluster is there to be changed.
            stays = [NO_MOUSE] if NO_MOUSE in {*self._stays} - {*words} else []
            arguments = [*expanded(words, self._environment)[1:], *stays]
            return demo_command.main(arguments, self)
        with_rest = [*words, *(word for word in self._stays if word not in words)]
        arguments = expanded(with_rest, self._environment)
        if self._names_none(arguments):
            return self._choose()
        name = self._name(words)
        self.present = self._kept(words)
        code = dashboard.main(arguments, self, name, checked=checked)
        self._remember()
        return code

    def _remember(self) -> None:
        """Remember a cluster that flags name. A browser belongs to somebody else."""
        if (flags := self._flags_shown) and "--in-browser" not in self._words:
            remember(recent_path(self._environment), flags)

    @property
    def _flags_shown(self) -> tuple[str, ...]:
        """The flags that named what is shown; empty where a context or the demo did."""
        words = self.present or ()
        return () if words[:1] in ((), DEMO, (CONTEXT,)) else words

    def _restore(self) -> None:
        """The environment as the shell gave it: the token of one cluster is not for another one."""
        for variable in self._environment.keys() - self._given.keys():
            del self._environment[variable]
        self._environment.update(self._given)

    def _names_none(self, arguments: Sequence[str]) -> bool:
        """Whether no cluster is named, and there is somebody to ask."""
        from kshunt.tui.terminal.signals import not_terminals

        options = read(dashboard.COMMAND, arguments)
        if options is None or any(name in options.given for name in _ANSWERED):
            return False
        return not not_terminals()

    def _choose(self) -> int:
        from kshunt.tui.__main__ import choose

        self.present = None
        return choose(self, mouse=NO_MOUSE not in self._stays)

    def _name(self, words: Sequence[str]) -> str:
        """What the operator calls the cluster: its context, or one that names the same cluster."""
        found = load(self._environment)
        if name := context_of(words, self._environment):
            return name
        typed = _reached(_given(words))
        same = (name for name in found.contexts if _reached(_values(found, name)) == typed)
        return next(same, "") if typed else ""

    def _kept(self, words: Sequence[str]) -> tuple[str, ...]:
        """The words that open the same cluster again."""
        if name := context_of(words, self._environment):
            return (CONTEXT, name)
        given = _given(words)
        return tuple(
            f"--{name}={Path(value).absolute() if name in _FILES else value}"
            for name, value in given.items()
            if name in _CLUSTER
        )

    # What can be opened

    def open(self, choice: ClusterChoice) -> None:
        """Note the wish."""
        self._wanted = choice

    def known(self) -> Sequence[ClusterChoice]:
        """What files say."""
        return [*self._contexts(), *self._recent(), _demo()]

    def looked_up(self) -> Sequence[ClusterChoice]:
        """The same with the backends that run."""
        from kshunt.backend.cli.running import private_sockets, running

        found = running(runtime_dir(), ASKED_S)
        listed = []
        reached = set()
        for choice in self.known():
            sockets = private_sockets(self._flags_of(choice.command))
            listed.append(_with_answer(choice, bool(sockets & found.keys())))
            reached |= sockets
        rest = [_backend(path, said) for path, said in found.items() if path not in reached]
        return [*listed, *rest]

    def _contexts(self) -> Iterator[ClusterChoice]:
        from kshunt.tui.shell.contexts import ClusterChoice, Origin

        found = self._configuration()
        contexts = {} if found is None else found.contexts
        for name, settings in contexts.items():
            values = _as_flags(settings)
            yield ClusterChoice(Origin.CONTEXT, name, _shown(values), (CONTEXT, name))

    def _recent(self) -> Iterator[ClusterChoice]:
        from kshunt.tui.shell.contexts import ClusterChoice, Origin

        found = self._configuration()
        contexts = {} if found is None else found.contexts
        known = {_reached(_as_flags(settings)) for settings in contexts.values()}
        shown, before = self._flags_shown, recent(recent_path(self._given))
        opened = [shown, *(words for words in before if words != shown)] if shown else before
        for words in opened:
            with suppress(UsageError):
                values = _given(words)
                if _reached(values) not in known:
                    yield ClusterChoice(Origin.RECENT, _shown(values), "", words)

    def _configuration(self) -> Configuration | None:
        """The configuration; None where it cannot be used, which commands say that need it."""
        with suppress(KshuntError):
            return load(self._given)
        return None

    def _flags_of(self, words: Sequence[str]) -> Mapping[str, str]:
        """The flags that a choice stands for."""
        found = self._configuration()
        if words[:1] == (CONTEXT,) and found is not None:
            return _values(found, words[1])
        return {} if words[:1] == DEMO else _given(words)


def _given(words: Sequence[str]) -> Mapping[str, str]:
    """The flags of a command line of the dashboard, as they were typed."""
    options = read(dashboard.COMMAND, words)
    given: Mapping[str, str] = {} if options is None else options.given
    return given


def _values(found: Configuration, name: str) -> Mapping[str, str]:
    return _as_flags(found.contexts.get(name, ()))


def _as_flags(settings: Sequence[Setting]) -> Mapping[str, str]:
    return {setting.name: str(setting.value) for setting in settings}


def _reached(given: Mapping[str, str]) -> tuple[str, ...]:
    """What two ways to name a cluster have in common if they mean the same one."""
    for name in _NAMES:
        if name in given:
            return (name, *sorted(part.strip() for part in given[name].split(",")))
    return ()


def _shown(given: Mapping[str, str]) -> str:
    """How a cluster is reached, without secrets."""
    from kshunt.backend.addresses import without_secrets

    for name in _NAMES:
        if name in given:
            return without_secrets(given[name])
    return ""


def _demo() -> ClusterChoice:
    from kshunt.tui.shell.contexts import ClusterChoice, Origin

    return ClusterChoice(Origin.DEMO, "demo", "a cluster in memory", DEMO)


def _backend(path: Path, said: str) -> ClusterChoice:
    from kshunt.tui.shell.contexts import ClusterChoice, Origin

    words = (f"--backend=unix:{path}",)
    title = said or path.stem
    return ClusterChoice(Origin.RUNNING, title, f"unix:{path}", words, answers=True)


def _with_answer(choice: ClusterChoice, answers: bool) -> ClusterChoice:
    from dataclasses import replace

    return replace(choice, answers=answers)
