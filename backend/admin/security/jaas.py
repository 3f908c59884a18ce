"""`sasl.jaas.config`: one login module with its options, as Kafka's `JaasConfig` reads it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from kshunt.backend.admin.security.redacted import Redacted
from kshunt.backend.errors import ConfigError

FLAGS: Final = ("required", "requisite", "sufficient", "optional")

_TOKEN: Final = re.compile(
    r"""
    (?:\s | //[^\n]* | /\*.*?\*/)*                # white space and comments
    (?: "(?P<double>(?:[^"\\\n]|\\.)*)"
      | '(?P<single>(?:[^'\\\n]|\\.)*)'
      | (?P<mark>[;=])
      | (?P<word>[^\s;="']+)
      | (?P<end>\Z)
    )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-7]{1,3}|.)", re.DOTALL)
_ESCAPES: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
}  # fmt: skip
_SERVER_USER: Final = "user_"
"""Options that a broker's PlainLoginModule has for its users; they mean nothing to a client."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """A login module and its options."""

    module: str
    options: Redacted

    def require(self, module: str) -> None:
        """Check that the module is the one that the mechanism needs.

        Raises:
            ConfigError: it is another one.
        """
        if not self.module:
            raise ConfigError("sasl.jaas.config is missing.", advice=f"It names {module}.")
        if self.module != module:
            raise ConfigError(
                f"sasl.jaas.config names {self.module}.",
                advice=f"This sasl.mechanism needs {module}.",
            )

    def credentials(self) -> tuple[str, str]:
        """User name and password.

        Raises:
            ConfigError: one is missing, or an option changes how they are used.
        """
        unknown = [
            name
            for name in self.options
            if name not in ("username", "password") and not name.startswith(_SERVER_USER)
        ]
        if "tokenauth" in unknown and self.options["tokenauth"] != "true":
            unknown.remove("tokenauth")
        if unknown:
            raise ConfigError(f"sasl.jaas.config: cannot use {', '.join(sorted(unknown))}.")
        for name in ("username", "password"):
            if not self.options.get(name):
                raise ConfigError(f"sasl.jaas.config has no {name}.")
        return self.options["username"], self.options["password"]


def parse(text: str) -> LoginModule:
    """Read `module flag name=value ... ;`. An empty text gives a login without a module.

    Raises:
        ConfigError: it is in another form; the message has no part of the text.
    """
    tokens = _tokens(text)
    if not tokens:
        return LoginModule("", Redacted())
    if len(tokens) < 3 or tokens[1][0].lower() not in FLAGS:
        raise _malformed("a login module must be followed by 'required'")
    if tokens[-1] != (";", True):
        raise _malformed("it ends with ';'")
    if tokens.count((";", True)) > 1:
        raise _malformed("it must name one login module")
    options = Redacted()
    rest = tokens[2:-1]
    if len(rest) % 3:
        raise _malformed("options must be name=value")
    for name, equals, value in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        if equals != ("=", True) or name[1] or value[1]:
            raise _malformed("options must be name=value")
        options[name[0]] = value[0]
    return LoginModule(tokens[0][0], options)


def _tokens(text: str) -> list[tuple[str, bool]]:
    """Words and quoted strings as they mean, and marks; the flag is True for a mark."""
    tokens: list[tuple[str, bool]] = []
    at = 0
    while True:
        match = _TOKEN.match(text, at)
        if match is None:
            raise _malformed("a quotation mark is not closed")
        if match.lastgroup == "end":
            return tokens
        at, value = match.end(), match.group(match.lastgroup or 0)
        if match.lastgroup in ("double", "single"):
            value = _ESCAPE.sub(_unescaped, value)
        tokens.append((value, match.lastgroup == "mark"))


def _unescaped(match: re.Match[str]) -> str:
    escaped = match.group(1)
    if escaped.isdigit() and escaped[0] < "8":
        return chr(int(escaped, 8) & 0xFF)
    return _ESCAPES.get(escaped, escaped)


def _malformed(rule: str) -> ConfigError:
    return ConfigError(f"sasl.jaas.config cannot be read: {rule}.")
