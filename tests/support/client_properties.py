"""What the tests of `--command-config` share."""

import traceback

import pytest

from kshunt.backend.admin.security.client_properties import client_config
from kshunt.backend.errors import ConfigError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
SECRET = "s3cr3t-Pa55-w0rd"


def shown(error: BaseException) -> str:
    """All that a log or a terminal would show of an error."""
    return "".join(traceback.format_exception(error)) + repr(error) + str(error)


def refused(properties: dict[str, str], *, match: str) -> str:
    """The whole report of the ConfigError that the properties cause, with no secret in it."""
    with pytest.raises(ConfigError, match=match) as caught:
        client_config(properties)
    report = shown(caught.value)
    assert SECRET not in report
    return report


def sasl(mechanism: str, module: str, options: str, **more: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"{module} required {options};",
        **{key.replace("_", "."): value for key, value in more.items()},
    }
