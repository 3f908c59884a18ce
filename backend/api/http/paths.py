"""Which paths of requests mean exactly one thing, to whatever reads them.

Goals
    A path that one program reads as one route, and another program as another route, is refused
    before anybody is asked who sent it.
Constraints
    Names in paths are those of topics, operations and proposals: letters, digits, `.`, `_`, `-`.
    So nothing that is refused here could have been meant.
Algorithm
    The path is taken as it came over the wire. It begins with `/`; each part holds only whole
    escapes, and characters that RFC 3986 lets it have, but `;`. No part is empty, `.` or `..`, also
    after escapes are read and characters are folded (NFKC), as some file systems and proxies do. No
    escape stands for `.`, `/`, `;`, `\\`, `%` or a control character.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, unquote_to_bytes, urlencode

ID_PATTERN: Final = r"^[A-Za-z0-9_-]+$"
"""Of operations and proposals, for the description of the routes: another name is not found."""
TOPIC_PATTERN: Final = r"^(\.{0,2}[A-Za-z0-9_-][A-Za-z0-9._-]*|\.{3,})$"
"""Kafka's: `.` and `..` are no topics."""
_PART: Final = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,=:@-]|%[0-9A-Fa-f]{2})*")
_BAD_ESCAPES: Final = re.compile(r"%(?:2e|2f|3b|5c|25|[01][0-9a-f]|7f)", re.IGNORECASE)
_FOLDED: Final = re.compile(r"\.{1,2}|.*[/\\].*", re.DOTALL)


def raw_path(scope: Any) -> str:
    """The path of a request as it came, without its query."""
    raw = scope.get("raw_path")
    return quote(scope["path"]) if raw is None else raw.decode("latin-1")


def fault_of(scope: Any) -> str:
    """Why the path of a request is refused, as the end of a sentence; empty where it is not."""
    raw = raw_path(scope)
    if raw == "/":
        return ""
    if not raw.startswith("/"):
        return "does not begin with a slash"
    for part in raw[1:].split("/"):
        if fault := _fault_of_part(part):
            return fault
    return "" if unquote(raw) == scope["path"] else "was changed on its way"


def _fault_of_part(part: str) -> str:
    if part == "":
        return "has an empty part"
    if not _PART.fullmatch(part):
        return "has a character or an escape that is not allowed in a path"
    if _BAD_ESCAPES.search(part):
        return (
            "has an escape for a dot, a slash, a semicolon, a percent sign or a control character"
        )
    try:
        folded = unicodedata.normalize("NFKC", unquote_to_bytes(part).decode("utf-8"))
    except UnicodeDecodeError:
        return "has an escape that is not UTF-8"
    if _FOLDED.fullmatch(folded):
        return "has a part of dots, or a slash in another form"
    return ""


def rebuilt_path(template: str, parameters: Mapping[str, str]) -> str:
    """The path of a route with its parameters, each escaped anew."""
    parts = [part for part in re.split(r"(\{[^}]+\})", template) if part]
    return "".join(
        quote(parameters[part[1:-1]], safe="") if part[0] == "{" else part for part in parts
    )


def rebuilt_query(query: bytes) -> str:
    """The parameters of a query, each escaped anew."""
    return urlencode(parse_qsl(query.decode("latin-1"), keep_blank_values=True))


def target_of(scope: Any) -> str:
    """Path and query of a request as they came."""
    query = scope["query_string"].decode("latin-1")
    return f"{raw_path(scope)}?{query}" if query else raw_path(scope)
