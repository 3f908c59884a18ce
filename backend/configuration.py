"""Settings from a file and the environment, as the flags that they stand for.

Goals
    What an operator types every day is typed once: named clusters, and how a backend is served.
    Whoever asks sees where each value comes from.
Constraints
    A flag goes before the environment, and the environment before the file. Every command has one
    reader of flags, which checks them; nothing here is checked a second time.
Algorithm
    The file is TOML, `~/.config/kshunt/config.toml`, or what `KSHUNT_CONFIG` names:

        context = "prod"                  # unless --context or KSHUNT_CONTEXT says otherwise

        [contexts.prod]
        bootstrap-server = "broker1:9092,broker2:9092"
        command-config = "/etc/kshunt/prod.properties"

        [contexts.shared]
        backend = "https://kshunt.example.org:8095"
        token-file = "/run/secrets/kshunt"
        ca-file = "/etc/kshunt/ca.pem"

        [serve]
        listen = "0.0.0.0:8095"
        tokens = "/etc/kshunt/tokens.json"

    1. A command that names neither a cluster nor a backend gets the flags of the context.
    2. `serve` gets those of `[serve]`, and of variables such as `KSHUNT_SERVE_LISTEN`; but not one
       that a tool or the demo has started for itself (`--linger`, `--from-stdin`).
    3. What has no flag (tokens and certificates of a client) goes into the variables that mean it,
       unless they are set.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from backend.errors import ConfigError

FILE: Final = "KSHUNT_CONFIG"
CONTEXT: Final = "KSHUNT_CONTEXT"
SERVE_PREFIX: Final = "KSHUNT_SERVE_"

CLUSTER_FLAGS: Final = ("bootstrap-server", "backend", "command-config")
"""What a context may say by flags."""
CLIENT_VARIABLES: Final[Mapping[str, str]] = {
    "token-file": "KSHUNT_TOKEN_FILE",
    "token-command": "KSHUNT_TOKEN_COMMAND",
    "ca-file": "KSHUNT_CA_FILE",
}
"""What a context may say besides, and the variables that mean it."""
TAKES_CLUSTER: Final = frozenset(
    {
        *("", "audit", "kafka-preferred-replica-election", "kafka-reassign-partitions"),
        *("kafka-topics", "plan", "serve", "web"),
    }
)
"""Commands that a context names a cluster for; the dashboard has no name."""
_NAMES_ONE: Final = ("--bootstrap-server", "--backend", "--picture", "--zookeeper", "--from-stdin")
_OWN: Final = frozenset({"--linger", "--from-stdin"})
_ABOUT: Final = frozenset({"-h", "--help", "--version"})
_KEY: Final = re.compile(r"[a-z][a-z0-9-]{0,49}")


@dataclass(frozen=True, slots=True)
class Setting:
    """One value, and who says it."""

    name: str
    """Of the flag, without dashes, or of the variable."""
    value: str | bool | tuple[str, ...]
    """A switch is True or False; a flag that may come several times, all of them."""
    source: str

    def flags(self) -> list[str]:
        """The words of a command line that mean it."""
        flag = f"--{self.name}"
        if isinstance(self.value, bool):
            return [flag] if self.value else []
        values = (self.value,) if isinstance(self.value, str) else self.value
        return [word for value in values for word in (flag, value)]


@dataclass(frozen=True, slots=True)
class Configuration:
    """The file."""

    path: Path
    found: bool
    context: str
    """The one that is meant where nobody says otherwise; empty for none."""
    contexts: Mapping[str, tuple[Setting, ...]]
    serve: tuple[Setting, ...]


def path_of(environment: Mapping[str, str]) -> Path:
    """Where the file is, whether or not it is there."""
    if named := environment.get(FILE, ""):
        return Path(named)
    base = environment.get("XDG_CONFIG_HOME", "")
    folder = Path(base) if base.startswith("/") else Path.home() / ".config"
    return folder / "kshunt" / "config.toml"


def load(environment: Mapping[str, str]) -> Configuration:
    """The file, or an empty one where there is none.

    Raises:
        ConfigError: it is named and not there, cannot be read, is no TOML, or says what nobody
            understands.
    """
    path = path_of(environment)
    try:
        with path.open("rb") as file:
            content = file.read()
    except FileNotFoundError:
        if FILE in environment:
            raise ConfigError(f"{FILE} names {path}, which is not there.") from None
        return Configuration(path, False, "", {}, ())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from None
    # Loaded where there is a file only.
    import tomllib

    try:
        document = tomllib.loads(content.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} is no TOML: {error}.") from None
    return _configuration(path, document)


def _configuration(path: Path, document: Mapping[str, Any]) -> Configuration:
    if odd := sorted(document.keys() - {"context", "contexts", "serve"}):
        raise ConfigError(f"{path}: nobody understands '{odd[0]}'.")
    tables = document.get("contexts", {})
    chosen = document.get("context", "")
    if not isinstance(tables, dict) or not isinstance(chosen, str):
        raise ConfigError(f"{path}: context is a name, and [contexts.NAME] are tables.")
    known = {*CLUSTER_FLAGS, *CLIENT_VARIABLES}
    contexts = {
        name: tuple(_settings(path, f"contexts.{name}", table, known))
        for name, table in tables.items()
    }
    if chosen and chosen not in contexts:
        raise ConfigError(f"{path}: there is no [contexts.{chosen}], which `context` names.")
    serve = tuple(_settings(path, "serve", document.get("serve", {}), None))
    return Configuration(path, True, chosen, contexts, serve)


def _settings(path: Path, where: str, table: Any, known: set[str] | None) -> Iterator[Setting]:
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: [{where}] is no table.")
    for name, value in table.items():
        if not _KEY.fullmatch(name) or (known is not None and name not in known):
            raise ConfigError(f"{path}: nobody understands '{name}' in [{where}].")
        yield Setting(name, _value(path, f"{where}.{name}", value), f"{path} [{where}]")


def _value(path: Path, where: str, value: Any) -> str | bool | tuple[str, ...]:
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return tuple(value)
    raise ConfigError(
        f"{path}: {where} is neither text, a number, true, false nor a list of texts."
    )


# What they come to


def expanded(arguments: Sequence[str], environment: MutableMapping[str, str]) -> list[str]:
    """The command line with all that the environment and the file say; `environment` gets what has
    no flag.

    Raises:
        ConfigError: the file is wrong, or there is no such context.
    """
    words, named = _without_context(arguments)
    command = words[0] if words and not words[0].startswith("-") else ""
    if command not in TAKES_CLUSTER or _ABOUT & set(words):
        if named is not None:
            raise ConfigError(f"--context says nothing to kshunt {command}.")
        return list(words)
    found = load(environment)
    added: list[str] = []
    if command == "serve" and not _OWN & set(words):
        for setting in serve_settings(found, environment):
            if not _given(words, setting.name):
                added += setting.flags()
    if not any(_given([*words, *added], name.removeprefix("--")) for name in _NAMES_ONE):
        for setting in context_settings(found, environment, named):
            variable = CLIENT_VARIABLES.get(setting.name)
            if variable is not None:
                environment.setdefault(variable, str(setting.value))
            elif not _given(words, setting.name) and (command, setting.name) != (
                "serve",
                "backend",
            ):
                added += setting.flags()
    elif named is not None:
        raise ConfigError("--context goes with neither --bootstrap-server nor --backend.")
    return [*words, *added]


def serve_settings(found: Configuration, environment: Mapping[str, str]) -> tuple[Setting, ...]:
    """What the environment and the file say of `serve`, the environment before the file."""
    spoken = {setting.name: setting for setting in (*found.serve, *_variables(environment))}
    return tuple(spoken.values())


def context_settings(
    found: Configuration, environment: Mapping[str, str], named: str | None = None
) -> tuple[Setting, ...]:
    """What the context says that is meant; nothing where none is.

    Raises:
        ConfigError: there is none of that name.
    """
    name = named if named is not None else environment.get(CONTEXT, "") or found.context
    if not name:
        return ()
    if name not in found.contexts:
        known = ", ".join(found.contexts) or "none"
        raise ConfigError(
            f"There is no context '{name}' in {found.path}.", advice=f"Contexts there: {known}."
        )
    return found.contexts[name]


def _variables(environment: Mapping[str, str]) -> Iterator[Setting]:
    for variable, value in environment.items():
        if variable.startswith(SERVE_PREFIX) and value:
            name = variable.removeprefix(SERVE_PREFIX).lower().replace("_", "-")
            meant: str | bool = value
            if value.lower() in ("true", "false"):
                meant = value.lower() == "true"
            yield Setting(name, meant, variable)


def _given(words: Sequence[str], name: str) -> bool:
    return any(word == f"--{name}" or word.startswith(f"--{name}=") for word in words)


def _without_context(arguments: Sequence[str]) -> tuple[list[str], str | None]:
    words, named = [], None
    rest = iter(arguments)
    for word in rest:
        if word == "--context":
            named = next(rest, None)
            if not named:
                raise ConfigError("--context needs a name.")
        elif word.startswith("--context="):
            named = word.removeprefix("--context=")
        else:
            words.append(word)
    return words, named
