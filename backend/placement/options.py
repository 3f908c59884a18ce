"""Settings of the shipped placers, read from the text of a broker configuration."""

from __future__ import annotations

from collections.abc import Mapping

from kshunt.backend.errors import ConfigError


def broker_ids(configs: Mapping[str, str], key: str) -> frozenset[int]:
    """Ids separated by commas; none where the key is not set.

    Raises:
        ConfigError: one of them is no broker id.
    """
    parts = [part.strip() for part in configs.get(key, "").split(",")]
    wrong = [part for part in parts if part and not (part.isascii() and part.isdigit())]
    if wrong:
        raise ConfigError(f"{key}: '{wrong[0]}' is not a broker id.", advice="Write ids as 1,2,3.")
    return frozenset(int(part) for part in parts if part)


def flag(configs: Mapping[str, str], key: str, *, default: bool) -> bool:
    """`true` or `false`.

    Raises:
        ConfigError: it is neither.
    """
    text = configs.get(key, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(f"{key}: '{text}' must be true or false.")
    return text == "true"


def share(configs: Mapping[str, str], key: str, default: float) -> float:
    """A part of a whole: more than 0, and 1 at most.

    Raises:
        ConfigError: it is no such number.
    """
    found = _number(configs, key, str(default))
    if not 0 < found <= 1:
        raise ConfigError(f"{key}: {found:g} is not a share.", advice="Write 0.85 for 85 %.")
    return found


def rate_bytes_per_s(configs: Mapping[str, str], key: str) -> float | None:
    """Bytes a second; None where the key is not set.

    Raises:
        ConfigError: it is no number over 0.
    """
    if not configs.get(key, "").strip():
        return None
    found = _number(configs, key, "")
    if not 0 < found < float("inf"):
        raise ConfigError(f"{key}: {found:g} is not a rate.", advice="Write bytes a second.")
    return found


def _number(configs: Mapping[str, str], key: str, default: str) -> float:
    text = configs.get(key, default)
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{key}: '{text}' is not a number.") from None
