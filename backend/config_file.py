"""Settings from a file and the environment, as the flags that they stand for.

Goals
    What an operator types every day is typed once: named clusters, and how a backend is served.
    `kshunt config` says where each value comes from.
Constraints
    A flag overrides the environment, and the environment overrides the file. Every command has one
    reader of flags, which checks them; nothing here is checked a second time.
Algorithm
    The file is TOML, `~/.config/kshunt/config.toml`, or what `KSHUNT_CONFIG` names. `kshunt help
    configuration` prints an example.

    1. A command that names neither a cluster nor a backend gets the flags of the context.
    2. `serve` gets those of `[serve]`, and of variables such as `KSHUNT_SERVE_LISTEN`; but not one
       that a tool or the demo has started for itself (`--linger`, `--from-stdin`).
    3. What a client shows and believes (its token, authorities) goes into the variables that mean
       it: by flag whatever they say, by the context unless they are set. So every command that
       takes `--backend` takes these flags, and has no code for them.
    4. `webhooks` gets what `[serve]` and the variables say of webhooks.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from kshunt.backend.commandline.cluster_flags import CLIENT_FLAGS
from kshunt.backend.commandline.nearest import near
from kshunt.backend.commandline.reading import UsageError
from kshunt.backend.errors import ConfigError

FILE: Final = "KSHUNT_CONFIG"
CONTEXT: Final = "KSHUNT_CONTEXT"
WEBHOOK_FLAGS: Final = ("webhook", "webhook-file", "webhook-secret-file", "webhook-ca")
SERVE_PREFIX: Final = "KSHUNT_SERVE_"

CLUSTER_FLAGS: Final = ("bootstrap-server", "backend", "command-config")
"""What a context may say by flags."""
CLIENT_VARIABLES: Final[Mapping[str, str]] = {one.name: one.variable for one in CLIENT_FLAGS}
"""Flags of a client, which a context and `--backend` take too, with the variables for them."""
TOKEN_VARIABLES: Final = ("KSHUNT_TOKEN", "KSHUNT_TOKEN_FILE", "KSHUNT_TOKEN_COMMAND")
"""The first of these that is set counts, so code that sets one removes the others."""
TAKES_CLUSTER: Final = frozenset(
    {
        *("", "audit", "doctor", "kafka-preferred-replica-election", "kafka-reassign-partitions"),
        *("kafka-topics", "plan", "proposals", "report", "serve", "throttles", "web"),
    }
)
"""Commands that a context names a cluster for; the dashboard has no name."""
_NAMES_ONE: Final = ("--bootstrap-server", "--backend", "--picture", "--zookeeper", "--from-stdin")
_SAME: Final[Mapping[str, tuple[str, ...]]] = {"command-config": ("admin.config",)}
"""Other names of a flag, which one of Kafka's tools has."""
_OWN: Final = frozenset({"--linger", "--from-stdin"})
_ABOUT: Final = frozenset({"-h", "--help", "--version"})
_KEY: Final = re.compile(r"[a-z][a-z0-9-]{0,49}")


class Setting(NamedTuple):
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


class Configuration(NamedTuple):
    """The file."""

    path: Path
    found: bool
    context: str
    """The context of a command that names none; empty if there is none."""
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
        if environment.get(FILE):
            raise ConfigError(f"{FILE} names {path}, which does not exist.") from None
        return Configuration(path, False, "", {}, ())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from None
    # Loaded where there is a file only.
    import tomllib

    from kshunt.backend.secret_files import refuse_writable

    # It names commands that are run, and backends that are believed.
    refuse_writable(path, "The configuration")

    try:
        document = tomllib.loads(content.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}.") from None
    return _configuration(path, document)


def _configuration(path: Path, document: Mapping[str, Any]) -> Configuration:
    known_tables = {"context", "contexts", "serve"}
    if odd := sorted(document.keys() - known_tables):
        raise ConfigError(f"{path}: unknown key '{odd[0]}'.", advice=near(odd[0], known_tables))
    tables = document.get("contexts", {})
    chosen = document.get("context", "")
    if not isinstance(tables, dict) or not isinstance(chosen, str):
        raise ConfigError(f"{path}: context must be a name, and [contexts.NAME] must be tables.")
    known = {*CLUSTER_FLAGS, *CLIENT_VARIABLES}
    contexts = {
        name: tuple(_settings(path, f"contexts.{name}", table, known))
        for name, table in tables.items()
    }
    if chosen and chosen not in contexts:
        raise ConfigError(f"{path}: `context` names [contexts.{chosen}], which does not exist.")
    serve = tuple(_settings(path, "serve", document.get("serve", {}), None))
    return Configuration(path, True, chosen, contexts, serve)


def _settings(path: Path, where: str, table: Any, known: set[str] | None) -> Iterator[Setting]:
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: [{where}] is not a table.")
    for name, value in table.items():
        if not _KEY.fullmatch(name) or (known is not None and name not in known):
            advice = "See kshunt serve --help." if known is None else near(name, known)
            raise ConfigError(f"{path}: unknown key '{name}' in [{where}].", advice=advice)
        yield Setting(name, _value(path, f"{where}.{name}", value), f"{path} [{where}]")


def _value(path: Path, where: str, value: Any) -> str | bool | tuple[str, ...]:
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return tuple(value)
    raise ConfigError(f"{path}: {where} must be text, a number, true, false or a list of texts.")


# What they come to


def expanded(arguments: Sequence[str], environment: MutableMapping[str, str]) -> list[str]:
    """The command line with all that the environment and the file say; `environment` gets what has
    no flag.

    Raises:
        ConfigError: the file is wrong, or there is no such context.
    """
    words, given = _without(arguments, ("context",))
    named = given.get("context")
    command = words[0] if words and not words[0].startswith("-") else ""
    if command == "webhooks" and not _ABOUT & set(words):
        return _with_webhooks(words, environment)
    if command not in TAKES_CLUSTER or _ABOUT & set(words):
        if named is not None:
            raise UsageError(f"--context has no effect on kshunt {command}.")
        return list(words)
    shown: dict[str, str] = {}
    if command != "serve":
        words, shown = _without(words, tuple(CLIENT_VARIABLES))
        _refuse_token(words)
        _show(shown, environment)
    found = load(environment)
    added: list[str] = []
    defaults: dict[str, str] = {}
    if command == "serve" and not _OWN & set(words):
        for setting in serve_settings(found, environment):
            if not _given(words, setting.name):
                added += setting.flags()
    if not any(_given([*words, *added], name.removeprefix("--")) for name in _NAMES_ONE):
        for setting in context_settings(found, environment, named):
            if setting.name in CLIENT_VARIABLES:
                defaults.setdefault(CLIENT_VARIABLES[setting.name], str(setting.value))
            elif not _is_said(command, words, setting.name):
                added += setting.flags()
    elif named is not None:
        raise UsageError("--context cannot be used with --bootstrap-server or --backend.")
    if shown and not _given([*words, *added], "backend"):
        raise UsageError(f"--{next(iter(shown))} needs --backend, and none is given.")
    _default(defaults, environment)
    at = words.index("--") if "--" in words else len(words)
    return [*words[:at], *added, *words[at:]]


def _is_said(command: str, words: Sequence[str], name: str) -> bool:
    """Whether the command line says it, or the command has no use for it."""
    if (command, name) == ("serve", "backend"):
        return True
    return any(_given(words, one) for one in (name, *_SAME.get(name, ())))


def _refuse_token(words: Sequence[str]) -> None:
    if _given(words, "token"):
        raise UsageError(
            "A token must not be a flag: every user of this machine can see command lines.",
            advice="Give --token-file FILE or --token-command COMMAND, or set KSHUNT_TOKEN. "
            "Revoke the token that was typed.",
        )


def _show(shown: Mapping[str, str], environment: MutableMapping[str, str]) -> None:
    """Let the flags of a client say what the variables say."""
    if {"token-file", "token-command"} <= shown.keys():
        raise UsageError("--token-file and --token-command both give the token; use one of them.")
    for name, value in shown.items():
        if name.startswith("token-"):
            for variable in TOKEN_VARIABLES:
                environment.pop(variable, None)
        environment[CLIENT_VARIABLES[name]] = value


def _default(defaults: Mapping[str, str], environment: MutableMapping[str, str]) -> None:
    """Let a context say what neither flags nor the environment say."""
    token_set = any(environment.get(variable) for variable in TOKEN_VARIABLES)
    for variable, value in defaults.items():
        if not environment.get(variable) and not (token_set and variable in TOKEN_VARIABLES):
            environment[variable] = value


def _with_webhooks(words: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """`kshunt webhooks` with the flags for webhooks that `serve` would get."""
    added = [
        word
        for setting in serve_settings(load(environment), environment)
        if setting.name in WEBHOOK_FLAGS and not _given(words, setting.name)
        for word in setting.flags()
    ]
    return [*words, *added]


def serve_settings(found: Configuration, environment: Mapping[str, str]) -> tuple[Setting, ...]:
    """What the environment and the file say of `serve`, the environment before the file."""
    spoken = {setting.name: setting for setting in (*found.serve, *_variables(environment))}
    return tuple(spoken.values())


def serve_source(name: str, environment: Mapping[str, str]) -> str:
    """Where a flag of `serve` is set, other than on the command line; empty: nowhere."""
    said = serve_settings(load(environment), environment)
    return next((setting.source for setting in said if setting.name == name), "")


def context_settings(
    found: Configuration, environment: Mapping[str, str], named: str | None = None
) -> tuple[Setting, ...]:
    """The settings of the named context, or of the usual one; empty if there is none.

    Raises:
        ConfigError: there is none of that name.
    """
    name = named if named is not None else environment.get(CONTEXT, "") or found.context
    if not name:
        return ()
    if name not in found.contexts:
        known = ", ".join(found.contexts) or "none"
        raise ConfigError(
            f"There is no context '{name}' in {found.path}.", advice=f"The contexts are: {known}."
        )
    return found.contexts[name]


def context_of(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """The context that a command line of the dashboard means; empty where it means none."""
    words, given = _without(arguments, ("context",))
    if any(_given(words, name.removeprefix("--")) for name in _NAMES_ONE):
        return ""
    return given.get("context") or environment.get(CONTEXT, "") or load(environment).context


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


def _without(arguments: Sequence[str], names: Collection[str]) -> tuple[list[str], dict[str, str]]:
    """The words that are left without these flags, and what they were given."""
    words: list[str] = []
    found: dict[str, str] = {}
    rest = iter(arguments)
    for word in rest:
        name, equals, value = word.partition("=")
        if not word.startswith("--") or name.removeprefix("--") not in names:
            words.append(word)
            continue
        value = value if equals else next(rest, "")
        if not value:
            what = "a name" if name == "--context" else "a value"
            raise UsageError(f"{name} needs {what}.")
        found[name.removeprefix("--")] = value
    return words, found
