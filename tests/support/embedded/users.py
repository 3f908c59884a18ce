"""Users of embedded clusters, and how real clients log in as one."""

from __future__ import annotations

from typing import Any

from tests.support.embedded.background import Running

USERS = {"admin": "admin-secret", "alice": "alice-secret", "bob": "bob-secret"}


def login(cluster: Running, name: str, password: str | None = None, **more: Any) -> dict[str, Any]:
    """The configuration of a confluent-kafka client."""
    return login_at(cluster.bootstrap_servers, name, password, **more)


def login_at(servers: str, name: str, password: str | None = None, **more: Any) -> dict[str, Any]:
    """The same, by the brokers' addresses."""
    return {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": name,
        "sasl.password": USERS[name] if password is None else password,
        "log_level": 0,
        **more,
    }
