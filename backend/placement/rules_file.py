"""The rules file of `by_rules`: which topics, or whose, go to which brokers.

In TOML, the first rule that fits decides::

    [[rule]]
    topics = ["payments.", "ledger."]   # The topic begins with one of these ...
    principals = ["User:bank"]          # ... and one of these asks. Either may be left out.
    brokers = [1, 2, 3]                 # Only these brokers ...
    racks = ["a", "b"]                  # ... that are in these racks. If left out, all may be used.
    min_replicas = 3                    # Refuse a topic with fewer.
    max_replicas = 3                    # Refuse a topic with more.

    [default]                           # Where no rule fits. If left out, all brokers may be used.
    brokers = [4, 5, 6]
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kshunt.backend.errors import ConfigError
from kshunt.backend.placement.placer import UsableBroker


@dataclass(frozen=True, slots=True)
class Rule:
    """Where the partitions go that it is for; the empty tuple stands for any."""

    line: int = 0
    """Where it begins in the file, from 1; 0 for what holds without a file's words."""
    topics: tuple[str, ...] = ()
    """Prefixes."""
    principals: tuple[str, ...] = ()
    brokers: tuple[int, ...] = ()
    racks: tuple[str, ...] = ()
    min_replicas: int = 1
    max_replicas: int | None = None

    def __str__(self) -> str:
        return f"the rule in line {self.line}" if self.line else "the default"

    @property
    def counts(self) -> str:
        """How many replicas a partition may have, in words."""
        if self.max_replicas is None:
            return f"{self.min_replicas} or more"
        if self.max_replicas == self.min_replicas:
            return f"{self.min_replicas}"
        return f"{self.min_replicas} to {self.max_replicas}"

    def allows_count(self, num_replicas: int) -> bool:
        """Whether a partition may have this number of replicas."""
        if num_replicas < self.min_replicas:
            return False
        return self.max_replicas is None or num_replicas <= self.max_replicas

    def fits(self, topic: str | None, principal: str | None) -> bool:
        """Whether it is for this request; what is not known fits only a rule that asks not."""
        if self.topics and not (topic or "").startswith(self.topics):
            return False
        return not self.principals or principal in self.principals

    def allows(self, broker: UsableBroker) -> bool:
        """Whether a replica may go there."""
        if self.brokers and broker.id not in self.brokers:
            return False
        return not self.racks or broker.rack in self.racks

    def hides(self, later: Rule) -> bool:
        """Whether it fits whatever the later rule fits, which so never decides."""
        if self.topics and not (
            later.topics and all(one.startswith(self.topics) for one in later.topics)
        ):
            return False
        return not self.principals or (
            bool(later.principals) and set(later.principals) <= set(self.principals)
        )


@dataclass(frozen=True, slots=True)
class Rules:
    """A rules file."""

    rules: tuple[Rule, ...] = ()
    default: Rule = Rule()

    def rule_for(self, topic: str | None, principal: str | None) -> Rule:
        """The first rule that fits, or the default."""
        return next((rule for rule in self.rules if rule.fits(topic, principal)), self.default)


_WHERE: Final = ("brokers", "racks", "min_replicas", "max_replicas")
_KEYS: Final = {"rule": ("topics", "principals", *_WHERE), "default": _WHERE}
_TABLES: Final = "It has tables [[rule]] and one table [default]."


def parse_rules(text: str, source: str) -> Rules:
    """Read a rules file; `source` names it in errors.

    Raises:
        ConfigError: it is no TOML, a table or key is unknown or of the wrong kind, a rule fits
            everything, or never decides. The error has the line, and what to write.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source} is not valid TOML: {error}.") from None
    for name in document:
        if name not in _KEYS:
            line = _line_of(text, rf"\[*\s*{re.escape(name)}\b")
            raise ConfigError(f"{source}, line {line}: '{name}' is unknown.", advice=_TABLES)
    tables, default = document.get("rule", []), document.get("default", {})
    if not (isinstance(default, dict) and isinstance(tables, list)) or not all(
        isinstance(table, dict) for table in tables
    ):
        raise ConfigError(f"{source} is not a file of rules.", advice=_TABLES)
    rules = [
        _rule(_RulesTable(text, source, "rule", one, index)) for index, one in enumerate(tables)
    ]
    _check_hidden(source, rules)
    return Rules(tuple(rules), _RulesTable(text, source, "default", default).placing((), ()))


def _rule(table: _RulesTable) -> Rule:
    topics, principals = table.words("topics"), table.words("principals")
    if not topics and not principals:
        raise table.wrong(
            "", "matches everything.", "Give it topics or principals, or use [default]."
        )
    for one in principals:
        if ":" not in one:
            raise table.wrong("principals", f"'{one}' is not a principal.", "Write User:name.")
    return table.placing(topics, principals)


def _check_hidden(source: str, rules: Sequence[Rule]) -> None:
    for index, rule in enumerate(rules):
        for earlier in rules[:index]:
            if earlier.hides(rule):
                raise ConfigError(
                    f"{source}, line {rule.line}: this rule has no effect, because {earlier} "
                    "matches everything that it matches.",
                    advice="Put the narrower rule first.",
                )


@dataclass(frozen=True, slots=True)
class _RulesTable:
    """One table of the file, which knows where its keys stand."""

    text: str
    source: str
    name: str
    values: Mapping[str, Any]
    index: int = 0
    """Of tables of that name, from 0."""

    def placing(self, topics: tuple[str, ...], principals: tuple[str, ...]) -> Rule:
        """The rule that these values make; every key is checked."""
        for key in self.values:
            if key not in _KEYS[self.name]:
                raise self.wrong(
                    key, f"'{key}' is unknown.", f"Known: {', '.join(_KEYS[self.name])}."
                )
        least, most = self.count("min_replicas"), self.count("max_replicas")
        if least is not None and most is not None and least > most:
            raise self.wrong("min_replicas", f"{least} is more than max_replicas, {most}.")
        line = self.line("") if self.name == "rule" else 0
        brokers, racks = self.ids("brokers"), self.words("racks")
        return Rule(line, topics, principals, brokers, racks, least or 1, most)

    def words(self, key: str) -> tuple[str, ...]:
        """A list of texts, none empty; empty where the key is left out."""
        return self._each(key, lambda one: type(one) is str and one, 'Write ["one", "another"].')

    def ids(self, key: str) -> tuple[int, ...]:
        """A list of broker ids; empty where the key is left out."""
        return self._each(key, lambda one: type(one) is int and one >= 0, "Write [1, 2, 3].")

    def count(self, key: str) -> int | None:
        """A number from 1 on; None where the key is left out."""
        found: Any = self.values.get(key)
        if found is not None and (type(found) is not int or found < 1):
            raise self.wrong(key, f"{key} cannot be {found!r}.", "Write a number of at least 1.")
        return found

    def _each(self, key: str, fits: Callable[[Any], object], advice: str) -> tuple[Any, ...]:
        if key not in self.values:
            return ()
        found = self.values[key]
        if not isinstance(found, list) or not found or not all(map(fits, found)):
            raise self.wrong(key, f"{key} cannot be {found!r}.", advice)
        return tuple(found)

    def wrong(self, key: str, message: str, advice: str = "") -> ConfigError:
        """The error of a key of this table, or of the table where the key is empty."""
        subject = message if key else f"this rule {message}"
        return ConfigError(f"{self.source}, line {self.line(key)}: {subject}", advice=advice)

    def line(self, key: str) -> int:
        """Where the key stands, or the table begins, as far as lines tell."""
        brackets = (r"\[\[", r"\]\]") if self.name == "rule" else (r"\[", r"\]")
        header = rf"{brackets[0]}\s*{self.name}\s*{brackets[1]}"
        begin = _line_of(self.text, header, skip=self.index)
        return _line_of(self.text, rf"\"?{re.escape(key)}\"?\s*=", begin) if key else begin


def _line_of(text: str, pattern: str, after: int = 0, skip: int = 0) -> int:
    """The line, from 1, that begins with the pattern, after line `after`; else that line."""
    begins = re.compile(r"\s*" + pattern)
    found = [
        number
        for number, line in enumerate(text.splitlines(), 1)
        if number > after and begins.match(line)
    ]
    return found[skip] if len(found) > skip else max(after, 1)
