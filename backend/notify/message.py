"""One message of a webhook: what happened, for machines and in one line for people.

The body is JSON as the Standard Webhooks specification proposes it (`type`, `timestamp`, `data`),
with two more fields: the cluster, and a `text` that chat systems show.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

TEXT_MAX: Final = 600
WORDS_MAX: Final = 2_000
"""Of a text in the data: what an operator wrote may be that long."""
_MENTION: Final = re.compile(r"(?<!\w)@")


@dataclass(frozen=True, slots=True)
class News:
    """Something that is worth a message, before it is one."""

    type: str
    """`operation.ended`; what is before the dot says what it is about."""
    text: str
    """For people, without the cluster's name."""
    data: Mapping[str, Any]
    subject: str = ""
    """Of two messages of one subject the newer says all that counts; empty: nothing replaces it."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message."""

    id: str
    """The same however often it is sent: receivers tell by it what they have already."""
    type: str
    time_ms: int
    cluster: str
    """The cluster's id; empty where it is not known yet."""
    text: str
    data: Mapping[str, Any] = field(default_factory=dict)
    subject: str = ""

    @classmethod
    def of(cls, news: News, id: str, time_ms: int, cluster: str) -> Message:
        """News as a message."""
        text = one_line(f"{cluster}: {news.text}" if cluster else news.text)
        return cls(id, news.type, time_ms, cluster, text, news.data, news.subject)

    def body(self) -> bytes:
        """What is sent and signed; the same bytes each time."""
        moment = datetime.fromtimestamp(self.time_ms / 1000, UTC)
        document = {
            "type": self.type,
            "timestamp": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "cluster": self.cluster,
            "text": self.text,
            "data": dict(self.data),
        }
        return encoded(document)

    def as_json(self) -> dict[str, Any]:
        """For a file."""
        return {
            "id": self.id,
            "type": self.type,
            "time_ms": self.time_ms,
            "cluster": self.cluster,
            "text": self.text,
            "data": dict(self.data),
            "subject": self.subject,
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Message:
        """The opposite of `as_json`.

        Raises:
            ValueError: it is not what `as_json` gives.
        """
        texts = [found.get(name) for name in ("id", "type", "cluster", "text", "subject")]
        time_ms, data = found.get("time_ms"), found.get("data")
        if not all(isinstance(text, str) for text in texts) or not isinstance(data, dict):
            raise ValueError("it is not a message")
        if type(time_ms) is not int or not 0 <= time_ms < 1 << 47:
            raise ValueError("its time is not valid")
        id, kind, cluster, text, subject = map(str, texts)
        if not id.isascii() or not id.isprintable() or not id:
            raise ValueError("its id is not valid")
        return cls(id, kind, time_ms, cluster, text, data, subject)


def encoded(document: Mapping[str, Any]) -> bytes:
    """JSON on one line; half a surrogate pair, which UTF-8 does not have, becomes a question mark.

    A cluster may hold any text, and one that cannot be written must not hold up all others.
    """
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def one_line(text: str, most: int = TEXT_MAX) -> str:
    """A text on one line that a chat system shows as it is.

    Users and topics choose parts of it: what Slack and its like take for a mention or for a link
    (`<!channel>`, `@here`, `[a](b)`) becomes something that only looks like it.
    """
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    plain = plain.replace("<", "(").replace(">", ")").replace("](", "] (")
    plain = _MENTION.sub("(at)", plain)
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"
