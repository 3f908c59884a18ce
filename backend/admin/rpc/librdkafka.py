"""How librdkafka's clients are made here, and codes of its errors that mean the same to all.

Importing this module loads librdkafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaException

from kshunt.backend.error_codes import (
    AUTHORIZATION_FAILED,
    SASL_AUTHENTICATION_FAILED,
)
from kshunt.backend.errors import ConfigError

ACCESS_DENIED: Final = AUTHORIZATION_FAILED | {SASL_AUTHENTICATION_FAILED}
"""Error codes of a client that may not do what it wants."""

Client = TypeVar("Client")


def made(client: Callable[..., Client], settings: Mapping[str, Any], untouched: str) -> Client:
    """A client that writes nothing to the terminal.

    Args:
        client: Its class.
        settings: librdkafka's own.
        untouched: What an error is to say of the cluster: "Nothing was changed."

    Raises:
        ConfigError: librdkafka does not take the settings.
    """
    # Its log repeats what the errors of the calls say, and would land on the terminal.
    quiet = logging.getLogger("librdkafka")
    if not quiet.handlers:
        quiet.addHandler(logging.NullHandler())
    quiet.propagate = False
    try:
        return client(dict(settings), logger=quiet)
    except KafkaException as refused:
        # Its words name the property, and never a value that is a secret.
        raise ConfigError(
            f"librdkafka rejects the configuration: {refused.args[0].str()}.",
            advice=f"See --command-config. {untouched}",
        ) from None
