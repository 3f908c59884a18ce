"""How a backend logs: a line an event, for people or for machines."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Final

FORMATS: Final = ("text", "json")


class JsonLines(logging.Formatter):
    """One JSON object a line; a traceback is one of its values."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        document = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        return json.dumps(document, ensure_ascii=False)


class TextLines(logging.Formatter):
    """One line for people; what users and brokers say cannot pass for a line of its own, nor tell
    a terminal anything."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line, before a traceback."""
        record.message = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in record.message)
        return super().formatMessage(record)


def set_up(format: str) -> None:
    """Log to standard error, from now on."""
    handler = logging.StreamHandler()
    if format == "json":
        handler.setFormatter(JsonLines())
    else:
        handler.setFormatter(TextLines("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    # It tells of every request with its whole address, which may be a secret (a webhook's).
    logging.getLogger("httpx").setLevel(logging.WARNING)
