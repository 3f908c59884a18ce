"""Configurations are read and changed: DescribeConfigs, IncrementalAlterConfigs, AlterConfigs.

Kafka's `ConfigHelper` and `ConfigAdminManager`: what is a broker's own is asked of that broker,
and what a broker reads once when it starts cannot be changed in a running cluster. Topics, brokers
and the default of all brokers have settings here. Of loggers, metrics subscriptions and groups
there are none, so they are described as empty, and no key of theirs is known.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kshunt.backend.embedded.controller.configs import (
    ConfigChange,
    ConfigOp,
    ConfigResource,
    alter_configs,
    incremental_alter_configs,
)
from kshunt.backend.embedded.controller.decision import (
    DecidedItem,
    Decision,
    ItemRefused,
    KafkaError,
)
from kshunt.backend.embedded.core.world import World
from kshunt.backend.embedded.handlers.responses import committed, invalid_topic_name, response
from kshunt.backend.embedded.metadata.config_keys import KEYS, READ_ONLY, ConfigSourceNumber
from kshunt.backend.embedded.metadata.image import CLUSTER_DEFAULT, ClusterImage
from kshunt.backend.embedded.metadata.image_values import DescribedConfig
from kshunt.backend.embedded.metadata.records import ResourceType
from kshunt.backend.embedded.net.api import KAFKA_APIS, WireReply
from kshunt.backend.embedded.net.server import Handler, RequestContext
from kshunt.backend.error_codes import INVALID_REQUEST, UNKNOWN_SERVER_ERROR
from kshunt.backend.wire.api_keys import (
    ALTER_CONFIGS_KEY,
    DESCRIBE_CONFIGS_KEY,
    INCREMENTAL_ALTER_CONFIGS_KEY,
)

_TOPIC, _BROKER, _BROKER_LOGGER, _CLIENT_METRICS, _GROUP = 2, 4, 8, 16, 32
"""Kafka's `ConfigResource.Type`."""
_NAMELESS: Final = {
    _BROKER_LOGGER: "Broker id must not be empty",
    _CLIENT_METRICS: "Client metrics subscription name must not be empty",
    _GROUP: "Group name must not be empty",
}
_UNKNOWN_KEY: Final = {
    _BROKER_LOGGER: (KafkaError.INVALID_CONFIG, "Logger {} does not exist!"),
    _CLIENT_METRICS: (KafkaError.INVALID_REQUEST, "Unknown client metrics configuration: {}"),
    _GROUP: (KafkaError.INVALID_CONFIG, "Unknown group config name: {}"),
}
"""What is wrong with a key of a resource that has none here."""
_MALFORMED: Final = (
    "This most likely occurs because of a request being malformed by the client library or the "
    "message was sent to an incompatible broker. See the broker logs for more details."
)
_TYPES_FROM: Final = 3
_INTEGER: Final = re.compile(r"[+-]?\d{1,10}")


class Resource(NamedTuple):
    """What a request names, of any type."""

    type: int
    name: str


def handlers(world: World) -> dict[int, Handler]:
    """The APIs of this module by key."""
    answers = _Configs(world)
    return {
        DESCRIBE_CONFIGS_KEY: answers.describe_configs,
        ALTER_CONFIGS_KEY: answers.alter_configs,
        INCREMENTAL_ALTER_CONFIGS_KEY: answers.incremental_alter_configs,
    }


class _Configs:
    """One method an API."""

    def __init__(self, world: World) -> None:
        self._world = world

    @property
    def _image(self) -> ClusterImage:
        return self._world.core.image

    async def describe_configs(self, context: RequestContext, message: Any) -> Any:
        """All keys of each resource, or those asked for; of the cluster's default what is set."""
        version = context.version
        made = KAFKA_APIS[DESCRIBE_CONFIGS_KEY].response.DescribeConfigsResult
        known = {_TOPIC, _BROKER, *_UNKNOWN_KEY}
        if any(asked.resource_type not in known for asked in message.resources):
            raise WireReply(INVALID_REQUEST, _MALFORMED)
        results = []
        for asked in message.resources:
            kind, name = asked.resource_type, asked.resource_name
            entry = made(version=version, resource_type=kind, resource_name=name, error_message="")
            try:
                values = self._described(context.broker_id, Resource(kind, name))
            except ItemRefused as refusal:
                entry.error_code, entry.error_message = int(refusal.error), refusal.message
                values = ()
            wanted = set(asked.configuration_keys or ())
            entry.configs = [
                _config(made.DescribeConfigsResourceResult, version, value, message)
                for value in values
                if not wanted or value.key.name in wanted
            ]
            results.append(entry)
        return response(DESCRIBE_CONFIGS_KEY, version, results=results)

    def _described(self, broker_id: int, resource: Resource) -> Iterable[DescribedConfig]:
        """The values of a resource.

        Raises:
            ItemRefused: there is no such thing, or not here.
        """
        kind, name = resource
        if kind == _TOPIC:
            _check_topic_name(name)
            if self._image.topic(name) is None:
                raise ItemRefused(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, "")
            return self._image.configs(ResourceType.TOPIC, name)
        if kind == _BROKER and name == CLUSTER_DEFAULT:
            present = self._image.dynamic_configs(ResourceType.BROKER, CLUSTER_DEFAULT)
            keys = sorted(present)
            return [self._image.config(ResourceType.BROKER, CLUSTER_DEFAULT, key) for key in keys]
        if not name:
            raise ItemRefused(KafkaError.INVALID_REQUEST, _NAMELESS[kind])
        if kind in (_BROKER, _BROKER_LOGGER):
            expected = f"{broker_id} or empty string," if kind == _BROKER else f"{broker_id}"
            number = _broker_number(name, "Broker id")
            if number != broker_id:
                message = f"Unexpected broker id, expected {expected} but received {name}"
                raise ItemRefused(KafkaError.INVALID_REQUEST, message)
        return self._image.configs(ResourceType.BROKER, name) if kind == _BROKER else ()

    async def incremental_alter_configs(self, context: RequestContext, message: Any) -> Any:
        """Set, delete, append to or subtract from keys; the others stay."""
        operations = {entry.config_operation for r in message.resources for entry in r.configs}
        if not operations <= set(ConfigOp):
            raise WireReply(UNKNOWN_SERVER_ERROR)
        wanted = {
            resource: [
                ConfigChange(entry.name, ConfigOp(entry.config_operation), entry.value)
                for entry in configs
            ]
            for resource, configs in _resources(message).items()
        }

        def decide(
            left: Sequence[ConfigResource], *, validate_only: bool
        ) -> Decision[ConfigResource]:
            changes = {resource: wanted[_plain(resource)] for resource in left}
            return incremental_alter_configs(self._image, changes, validate_only=validate_only)

        results = self._altered(context, message, decide)
        return _answer(INCREMENTAL_ALTER_CONFIGS_KEY, context.version, results)

    async def alter_configs(self, context: RequestContext, message: Any) -> Any:
        """Replace all that was set on each resource."""
        asked = _resources(message)

        def decide(
            left: Sequence[ConfigResource], *, validate_only: bool
        ) -> Decision[ConfigResource]:
            configs = {r: {e.name: e.value for e in asked[_plain(r)]} for r in left}
            return alter_configs(self._image, configs, validate_only=validate_only)

        results = self._altered(context, message, decide)
        return _answer(ALTER_CONFIGS_KEY, context.version, results)

    def _altered(
        self,
        context: RequestContext,
        message: Any,
        decide: Callable[..., Decision[ConfigResource]],
    ) -> Mapping[Resource, DecidedItem[Resource]]:
        """What becomes of each resource: refused here, or decided by the controller."""
        refused: dict[Resource, DecidedItem[Resource]] = {}
        times = Counter(Resource(r.resource_type, r.resource_name) for r in message.resources)
        asked = _resources(message)
        left = []
        for resource, count in times.items():
            try:
                if count > 1:
                    why = "Each resource must appear at most once."
                    raise ItemRefused(KafkaError.INVALID_REQUEST, why)
                _check_alterable(context.broker_id, resource, asked[resource])
            except ItemRefused as refusal:
                refused[resource] = DecidedItem.refused(resource, refusal)
                continue
            if resource.type in (_TOPIC, _BROKER):
                left.append(ConfigResource(ResourceType(resource.type), resource.name))
        decision = committed(self._world, decide(left, validate_only=message.validate_only))
        for one in decision.results:
            resource = _plain(one.item)
            refused[resource] = DecidedItem(resource, one.error, one.message)
        return {resource: refused.get(resource, DecidedItem(resource)) for resource in times}


def _resources(message: Any) -> dict[Resource, list[Any]]:
    """What a request asks of each resource."""
    return {Resource(r.resource_type, r.resource_name): list(r.configs) for r in message.resources}


def _plain(resource: ConfigResource) -> Resource:
    return Resource(int(resource.type), resource.name)


def _check_alterable(broker_id: int, resource: Resource, entries: Sequence[Any]) -> None:
    """What a broker looks at before it forwards a change to the controller.

    Raises:
        ItemRefused: what Kafka answers.
    """
    kind, name = resource
    nulls = [e.name for e in entries if e.value is None and not _deletes(e)]
    if len({entry.name for entry in entries}) < len(entries):
        raise ItemRefused(KafkaError.INVALID_REQUEST, "Error due to duplicate config keys")
    if nulls:
        message = f"Null value not supported for : {','.join(nulls)}"
        raise ItemRefused(KafkaError.INVALID_REQUEST, message)
    if kind == _TOPIC:
        if not name:
            message = "Default topic resources are not allowed."
            raise ItemRefused(KafkaError.INVALID_REQUEST, message)
        _check_topic_name(name)
    elif kind == _BROKER:
        if name != CLUSTER_DEFAULT and _broker_number(name, "Node id") != broker_id:
            message = f"Unexpected broker id, expected {broker_id}, but received {name}"
            raise ItemRefused(KafkaError.INVALID_REQUEST, message)
        fixed = [entry.name for entry in entries if entry.name in READ_ONLY]
        if fixed:
            message = f"Cannot update these configs dynamically: Set({', '.join(fixed)})"
            raise ItemRefused(KafkaError.INVALID_REQUEST, message)
    elif kind not in _UNKNOWN_KEY:
        raise ItemRefused(KafkaError.INVALID_REQUEST, f"Unknown resource type {kind}")
    else:
        _check_keyless(broker_id, resource, entries)


def _deletes(entry: Any) -> bool:
    return getattr(entry, "config_operation", ConfigOp.SET) == ConfigOp.DELETE


def _check_keyless(broker_id: int, resource: Resource, entries: Sequence[Any]) -> None:
    """A resource that can have no settings here."""
    kind, name = resource
    if kind == _BROKER_LOGGER and _broker_number(name, "Node id") != broker_id:
        message = f"Unexpected node id. Expected {broker_id}, but received {name}"
        raise ItemRefused(KafkaError.INVALID_REQUEST, message)
    for entry in entries:
        error, why = _UNKNOWN_KEY[kind]
        raise ItemRefused(error, why.format(entry.name))


def _check_topic_name(name: str) -> None:
    problem = invalid_topic_name(name)
    if problem is not None:
        raise ItemRefused(KafkaError.INVALID_TOPIC_EXCEPTION, problem)


def _broker_number(name: str, what: str) -> int:
    if not _INTEGER.fullmatch(name):
        raise ItemRefused(
            KafkaError.INVALID_REQUEST, f"{what} must be an integer, but it is: {name}"
        )
    return int(name)


def _config(made: Any, version: int, value: DescribedConfig, message: Any) -> Any:
    """One key of an answer. Nothing here is secret, and there is no documentation."""
    broker_key = value.key is KEYS[ResourceType.BROKER].get(value.key.name)
    entry = made(
        version=version,
        name=value.key.name,
        value=value.value,
        read_only=broker_key and value.key.name in READ_ONLY,
        config_source=int(value.source),
    )
    if version >= _TYPES_FROM:
        entry.config_type, entry.documentation = int(value.key.type), None
    if message.include_synonyms:
        entry.synonyms = [
            made.DescribeConfigsSynonym(
                version=version, name=name, value=set_to, source=int(source)
            )
            for name, set_to, source in _synonyms(value, of_broker=broker_key)
        ]
    return entry


def _synonyms(
    value: DescribedConfig, *, of_broker: bool
) -> Iterator[tuple[str, str | None, ConfigSourceNumber]]:
    """What could give the value. A topic's default is that of the broker's key, if it has one."""
    for name, set_to, source in value.synonyms:
        if of_broker or source is not ConfigSourceNumber.DEFAULT_CONFIG:
            yield name, set_to, source
        elif value.key.broker_synonym is not None:
            yield value.key.broker_synonym, set_to, source


def _answer(key: int, version: int, results: Mapping[Resource, DecidedItem[Resource]]) -> Any:
    made = KAFKA_APIS[key].response.AlterConfigsResourceResponse
    entries = []
    for resource, result in results.items():
        kind, name = resource
        entry = made(version=version, resource_type=kind, resource_name=name)
        entry.error_code, entry.error_message = int(result.error), result.message
        entries.append(entry)
    return response(key, version, responses=entries)
