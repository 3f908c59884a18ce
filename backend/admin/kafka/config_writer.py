"""Changes that confluent-kafka makes: configurations, by librdkafka.

Reads go over `kshunt.backend.admin.rpc.connections`, because they are decoded in columns or need
calls that confluent-kafka lacks. Nothing of it is imported before the first change, so that a tool
that only reads starts sooner.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from kshunt.backend.admin.port.item_result import ItemResult
from kshunt.backend.admin.rpc.configs import Changes
from kshunt.backend.admin.rpc.error_mapping import item_result
from kshunt.backend.admin.security.client_properties import ClientConfig
from kshunt.backend.error_codes import (
    NETWORK_EXCEPTION,
    REQUEST_TIMED_OUT,
)

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, ConfigResource

TOKEN_POLL_S: Final = 0.05
"""librdkafka asks for an OAUTHBEARER token only while it is polled."""

log = logging.getLogger(__name__)


class ConfigWriter:
    """One librdkafka client, made when it is first needed."""

    def __init__(
        self,
        bootstrap_servers: str,
        config: ClientConfig,
        guard: Callable[[], None] = lambda: None,
    ) -> None:
        """`guard` is asked right before anything is sent that changes the cluster."""
        self._bootstrap_servers = bootstrap_servers
        self._config = config
        self._guard = guard
        self._client: AdminClient | None = None

    async def alter_broker(
        self, broker: int, changes: Changes, *, validate_only: bool, timeout_s: float
    ) -> ItemResult:
        """Change one broker's configuration (KIP-339); librdkafka sends it to that broker."""
        results = await self._alter(
            "BROKER", {str(broker): changes}, validate_only=validate_only, timeout_s=timeout_s
        )
        return results[str(broker)]

    async def alter_topics(
        self, changes: Mapping[str, Changes], *, validate_only: bool, timeout_s: float
    ) -> Mapping[str, ItemResult]:
        """Change topics' configurations (KIP-339), in one request.

        A client that knew a broker before it ended may wait in vain for an answer of that broker.
        Half the time is left for a new client, which asks one that is up; to write the same again
        does no harm.
        """
        results = await self._alter(
            "TOPIC", changes, validate_only=validate_only, timeout_s=timeout_s / 2
        )
        late = {name: changes[name] for name, result in results.items() if result.retriable}
        if not late:
            return results
        await self.close()
        again = await self._alter(
            "TOPIC", late, validate_only=validate_only, timeout_s=timeout_s / 2
        )
        return {**results, **again}

    async def _alter(
        self,
        kind: str,
        changes: Mapping[str, Changes],
        *,
        validate_only: bool,
        timeout_s: float,
    ) -> Mapping[str, ItemResult]:
        from confluent_kafka import KafkaException

        resources = [_resource(kind, name, entries) for name, entries in changes.items()]
        client = await self._connected()
        if not validate_only:
            self._guard()
        futures = client.incremental_alter_configs(
            resources, validate_only=validate_only, request_timeout=timeout_s
        )
        results = {}
        for resource, future in futures.items():
            try:
                await self._done(future)
                results[resource.name] = item_result(0)
            except KafkaException as refused:
                results[resource.name] = _fault(refused)
        return results

    async def _connected(self) -> AdminClient:
        if self._client is None:
            self._client = await asyncio.to_thread(self._connect)
        return self._client

    async def close(self) -> None:
        """Let the client go; librdkafka ends its threads when nobody holds it."""
        client, self._client = self._client, None
        if client is not None:
            await asyncio.to_thread(_let_go, [client])

    def _connect(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient

        from kshunt.backend.admin.rpc.librdkafka import made

        settings = {**self._config.librdkafka, "bootstrap.servers": self._bootstrap_servers}
        return made(AdminClient, settings, "Nothing was changed.")

    async def _done(self, future: concurrent.futures.Future[Any]) -> Any:
        """A future's outcome; while it is not there, tokens are handed to librdkafka."""
        if self._config.tokens is not None and self._client is not None:
            while not future.done():
                await asyncio.to_thread(self._client.poll, TOKEN_POLL_S)
        return await asyncio.wrap_future(future)


def _let_go(held: list[AdminClient]) -> None:
    """Drop the last reference on a thread where waiting does no harm."""
    held.clear()


def _resource(kind: str, name: str, changes: Changes) -> ConfigResource:
    from confluent_kafka.admin import (
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        ResourceType,
    )

    entries = [
        ConfigEntry(
            key,
            value,
            incremental_operation=AlterConfigOpType.DELETE
            if value is None
            else AlterConfigOpType.SET,
        )
        for key, value in changes.items()
    ]
    return ConfigResource(ResourceType[kind], name, incremental_configs=entries)


def _item(error: Any) -> ItemResult:
    """One item's result from a `KafkaError`, or None for success.

    librdkafka's own errors are negative: those of time become REQUEST_TIMED_OUT, and the rest of
    them NETWORK_EXCEPTION, because the request did not come back.
    """
    if error is None:
        return item_result(0)
    code = error.code()
    if code >= 0:
        return item_result(code, error.str())
    timed_out = code in (error._TIMED_OUT, error._TIMED_OUT_QUEUE)
    return item_result(REQUEST_TIMED_OUT if timed_out else NETWORK_EXCEPTION, error.str())


def _fault(refused: BaseException) -> ItemResult:
    return _item(refused.args[0])
