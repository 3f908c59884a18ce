"""What a client shows to a backend; no HTTP library is loaded for it.

The client takes the token from the first of these variables that is set. `KSHUNT_TOKEN` holds the
token. `KSHUNT_TOKEN_FILE` names a file that holds it. `KSHUNT_TOKEN_COMMAND` is a command that
prints it: a keyring's, or one that fetches a fresh token. The client asks file and command again
when a backend refuses what they gave.
Flags and contexts set these variables (`kshunt.backend.config_file`). A token is no flag: everybody
on a machine sees the command lines of all.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from kshunt.backend.addresses import is_loopback
from kshunt.backend.errors import ConfigError
from kshunt.backend.secret_files import read_secret

TOKEN: Final = "KSHUNT_TOKEN"
TOKEN_FILE: Final = "KSHUNT_TOKEN_FILE"
TOKEN_COMMAND: Final = "KSHUNT_TOKEN_COMMAND"
COMMAND_S: Final = 60.0
"""A command may ask somebody for a password."""
TOKEN_BYTES_MAX: Final = 16_384


def token_for(address: str) -> str:
    """The token to show at an address; empty where nobody named one.

    Raises:
        ConfigError: as `token`; or it would be sent in the clear.
    """
    found = token()
    url = urlsplit(address)
    if found and url.scheme == "http" and not is_loopback(url.hostname or ""):
        raise ConfigError(
            f"At http://{url.hostname} others on the network could read the token, so it was not "
            "sent.",
            advice="Use the backend's https address, or a tunnel to this machine.",
        )
    return found


def token() -> str:
    """The token to show; empty where nobody named one.

    Raises:
        ConfigError: the file cannot be read or is open to others, the command fails or prints no
            token; never with what they said.
    """
    if text := os.environ.get(TOKEN, "").strip():
        return _checked(text, TOKEN)
    if path := os.environ.get(TOKEN_FILE, ""):
        what = "The token's file"
        return _checked(read_secret(Path(path), what), f"{what} {path}")
    if command := os.environ.get(TOKEN_COMMAND, ""):
        return _checked(_printed(command).strip(), "The output of the token's command")
    return ""


def _checked(text: str, where: str) -> str:
    if not text:
        raise ConfigError(f"{where} is empty.", advice="A token must be one word.")
    if len(text) >= TOKEN_BYTES_MAX or not text.isascii() or not text.isprintable() or " " in text:
        raise ConfigError(f"{where} holds no token.", advice="A token must be one word.")
    return text


def _printed(command: str) -> str:
    """What the command prints; its own errors are seen where this process' are."""
    # A client that names no command does not load it.
    import subprocess

    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"The token's command cannot be read: {error}.") from None
    if not words:
        raise ConfigError("The token's command is empty.")
    try:
        done = subprocess.run(
            words, stdout=subprocess.PIPE, timeout=COMMAND_S, check=True, text=True
        )
    except subprocess.TimeoutExpired:
        raise ConfigError(
            f"The token's command {words[0]} did not end within {COMMAND_S:g} s, so kshunt "
            "stopped it."
        ) from None
    except subprocess.CalledProcessError as error:
        raise ConfigError(
            f"The token's command {words[0]} ended with {error.returncode}.",
            advice="Its output is above. It runs without a shell.",
        ) from None
    except UnicodeDecodeError:
        raise ConfigError(f"The token's command {words[0]} printed no token.") from None
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(
            f"The token's command {words[0]} cannot be run: {said}.",
            advice="It runs without a shell: name a program and its arguments.",
        ) from None
    return done.stdout
