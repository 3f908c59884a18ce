"""The header of a frame: what is not in columns, and what it has to look like.

What a reader takes from a stream is used much later, in other threads. What is not as it should
be is refused here, where it can still be said which stream it came from.
"""

from __future__ import annotations

import json
from typing import Any, Final

_TEXT = (str,)
_INT = (int,)
_INT_OR_NONE = (int, type(None))
_NUMBER_OR_NONE = (int, float, type(None))

_ALWAYS: Final[dict[str, Any]] = {
    "full": (bool,),
    "version": _INT,
    "taken_ms": _INT,
    "sweep_ms": _INT,
    "cluster_id": _TEXT,
    "controller": _INT,
    "history": [[_INT]],
    "history_from_ms": _INT,
}
_PARTS: Final[dict[str, Any]] = {
    "brokers": [
        {
            "id": _INT,
            "host": _TEXT,
            "port": _INT,
            "rack": (str, type(None)),
            "answered_ms": _INT_OR_NONE,
            "stale": (bool,),
            "problem": _TEXT,
        }
    ],
    "throttles": {
        "rates": [
            {
                "broker": _INT,
                "leader_bytes_per_s": _INT_OR_NONE,
                "follower_bytes_per_s": _INT_OR_NONE,
                "log_dir_bytes_per_s": _INT_OR_NONE,
            }
        ],
        "replicas": [{"topic": _TEXT, "leaders": _TEXT, "followers": _TEXT}],
        "unknown_brokers": [_INT],
    },
    "log_dirs": [
        {
            "broker": _INT,
            "path": _TEXT,
            "total_bytes": _INT,
            "usable_bytes": _INT,
            "error": (str, type(None)),
        }
    ],
    "log_dir_paths": [_TEXT],
    "problems": [_TEXT],
    "explained": [{"cause": _TEXT, "replicas": [[(str, int)]]}],
}
"""In a header with `since`, only what changed of them."""
_OPTIONAL: Final[dict[str, Any]] = {
    "history_rates": [[_NUMBER_OR_NONE]],
    "history_marks": [_INT],
    "min_isr": [_INT],
    "failed_requests": [
        {"message": _TEXT, "broker": _INT_OR_NONE, "waited_s": _NUMBER_OR_NONE},
    ],
    "deletes_ms": [[(str, int)]],
    "expected_ends": {},
    "since": _INT,
    "gone": {},
}
"""What an older backend does not send, or what is sent only where it is news."""
_GONE: Final[dict[str, Any]] = {
    "brokers": [_INT],
    "rates": [_INT],
    "replicas": [_TEXT],
    "log_dirs": [[(str, int)]],
    "explained": [[(str, int)]],
    "deletes_ms": [[(str, int)]],
    "expected_ends": [_TEXT],
}
"""Keys, by part."""


INTEGER_LIMIT: Final = 1 << 63
"""JSON has integers of any size; no column and no clock of ours has."""


def read_header(text: bytes) -> dict[str, Any]:
    """The header of a frame from its JSON.

    Raises:
        ValueError: it is no such header.
    """
    try:
        header = json.loads(text)
    except RecursionError:
        raise ValueError("a header is nested too deeply") from None
    _check(header, _ALWAYS, "header")
    shapes = _PARTS | _OPTIONAL
    if header["full"] or "since" not in header:
        _check(header, _PARTS, "header")
        shapes = _OPTIONAL
    _check_given(header, shapes)
    _check_given(header.get("gone", {}), _GONE)
    found: dict[str, Any] = header
    return found


def _check_given(header: dict[str, Any], shapes: dict[str, Any]) -> None:
    """Compare what there is; the rest is of newer backends."""
    for name in shapes.keys() & header.keys():
        _check(header[name], shapes[name], name)


def _check(value: Any, shape: Any, name: str) -> None:
    """Compare with a tuple of types, a list of one shape, or a dict of shapes by key."""
    if isinstance(shape, tuple):
        # A truth value is an integer to Python, and to nobody else.
        if not isinstance(value, shape) or (isinstance(value, bool) and bool not in shape):
            raise ValueError(f"{name} of a frame is {type(value).__name__}")
        if isinstance(value, int) and not -INTEGER_LIMIT <= value < INTEGER_LIMIT:
            raise ValueError(f"{name} of a frame does not fit 64 bits")
    elif not isinstance(value, type(shape)):
        raise ValueError(f"{name} of a frame is {type(value).__name__}")
    elif isinstance(shape, list):
        for entry in value:
            _check(entry, shape[0], name)
    else:
        for key, wanted in shape.items():
            if key not in value:
                raise ValueError(f"{name} of a frame has no {key}")
            _check(value[key], wanted, key)
