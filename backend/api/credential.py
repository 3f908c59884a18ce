"""What a client shows to a backend; no HTTP library is loaded for it.

The token is taken from the environment, in this order: `KSHUNT_TOKEN`; the file that
`KSHUNT_TOKEN_FILE` names; what the command in `KSHUNT_TOKEN_COMMAND` prints (a keyring's, or one
that fetches a fresh one). File and command are asked again when a backend refuses what they gave.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Final

from backend.errors import ConfigError

TOKEN: Final = "KSHUNT_TOKEN"
TOKEN_FILE: Final = "KSHUNT_TOKEN_FILE"
TOKEN_COMMAND: Final = "KSHUNT_TOKEN_COMMAND"
COMMAND_S: Final = 60.0
"""A command may ask somebody for a password."""
TOKEN_BYTES_MAX: Final = 16_384


def token() -> str:
    """The token to show; empty where nobody named one.

    Raises:
        ConfigError: the file cannot be read, or the command fails; never with what they said.
    """
    if text := os.environ.get(TOKEN, "").strip():
        return _checked(text, TOKEN)
    if path := os.environ.get(TOKEN_FILE, ""):
        try:
            with Path(path).open("rb") as file:
                content = file.read(TOKEN_BYTES_MAX)
        except OSError as error:
            raise ConfigError(f"{TOKEN_FILE}: {path} cannot be read: {error.strerror}.") from None
        return _checked(content.decode("utf-8", "replace").strip(), f"{TOKEN_FILE}: {path}")
    if command := os.environ.get(TOKEN_COMMAND, ""):
        return _checked(_printed(command), TOKEN_COMMAND)
    return ""


def _checked(text: str, where: str) -> str:
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise ConfigError(f"{where} holds no token.", advice="A token is one word.")
    return text


def _printed(command: str) -> str:
    # Loaded by nobody who names no command.
    import subprocess

    try:
        words = shlex.split(command)
        done = subprocess.run(
            words, stdout=subprocess.PIPE, timeout=COMMAND_S, check=True, text=True
        )
    except (ValueError, IndexError) as error:
        raise ConfigError(f"{TOKEN_COMMAND} is no command: {error}.") from None
    except subprocess.TimeoutExpired:
        raise ConfigError(f"{TOKEN_COMMAND} did not end within {COMMAND_S:g} s.") from None
    except (OSError, subprocess.CalledProcessError, UnicodeDecodeError) as error:
        said = error.strerror if isinstance(error, OSError) else type(error).__name__
        raise ConfigError(f"{TOKEN_COMMAND} failed: {said}.") from None
    return done.stdout.strip()
