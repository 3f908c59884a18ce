"""Configurations change: IncrementalAlterConfigs (KIP-339) and AlterConfigs.

Kafka's ConfigurationControlManager. A resource changes wholly or not at all.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kshunt.backend.embedded.controller.decision import (
    DecidedItem,
    Decision,
    ItemRefused,
    KafkaError,
)
from kshunt.backend.embedded.metadata.config_keys import KEYS, ConfigKey, ConfigType, split
from kshunt.backend.embedded.metadata.image import CLUSTER_DEFAULT, ClusterImage
from kshunt.backend.embedded.metadata.records import ConfigChanged, ResourceType


class ConfigResource(NamedTuple):
    """A topic or a broker; the broker with an empty name is the default of all."""

    type: ResourceType
    name: str


class ConfigOp(enum.IntEnum):
    """What to do with a key (KIP-339, `AlterConfigOp.OpType`)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One key of an IncrementalAlterConfigs request."""

    key: str
    op: ConfigOp
    value: str | None = None
    """None for DELETE only."""


def incremental_alter_configs(
    image: ClusterImage,
    changes: Mapping[ConfigResource, Sequence[ConfigChange]],
    *,
    validate_only: bool = False,
) -> Decision[ConfigResource]:
    """Set, delete, append to or subtract from keys; the others stay.

    INVALID_CONFIG is the answer for an unknown key, for a value that is not valid, and for an
    append or subtract where the key is no list. INVALID_REQUEST is the answer for a key that
    occurs twice, a value that is missing, or a broker's name that is no number.
    UNKNOWN_TOPIC_OR_PARTITION and BROKER_ID_NOT_REGISTERED say that a resource does not exist.
    """

    def one(resource: ConfigResource) -> list[ConfigChanged]:
        return list(_incremental(image, resource, changes[resource]))

    return _each(image, list(changes), one, validate_only=validate_only)


def alter_configs(
    image: ClusterImage,
    configs: Mapping[ConfigResource, Mapping[str, str | None]],
    *,
    validate_only: bool = False,
) -> Decision[ConfigResource]:
    """Replace all that was set on each resource; a key with None goes. Errors as above."""

    def one(resource: ConfigResource) -> list[ConfigChanged]:
        wanted = {key: value for key, value in configs[resource].items() if value is not None}
        for key, value in wanted.items():
            checked(resource.type, key, value)
        present = image.dynamic_configs(*resource)
        gone = {key: None for key in present if key not in wanted}
        return [
            ConfigChanged(resource.type, resource.name, key, value)
            for key, value in {**wanted, **gone}.items()
            if present.get(key) != value
        ]

    return _each(image, list(configs), one, validate_only=validate_only)


def known_key(kind: ResourceType, key: str) -> ConfigKey:
    """A key by name.

    Raises:
        ItemRefused: INVALID_CONFIG if this kind of resource has no such key.
    """
    found = KEYS[kind].get(key)
    if found is None:
        word = kind.name.lower()
        raise ItemRefused(KafkaError.INVALID_CONFIG, f"Unknown {word} config name: {key}")
    return found


def checked(kind: ResourceType, key: str, value: str) -> str:
    """The value itself, if it can stand.

    Raises:
        ItemRefused: INVALID_CONFIG.
    """
    problem = known_key(kind, key).problem(value)
    if problem is not None:
        message = f"Invalid value {value} for configuration {key}: {problem}"
        raise ItemRefused(KafkaError.INVALID_CONFIG, message)
    return value


def _each(
    image: ClusterImage,
    resources: Sequence[ConfigResource],
    one: Callable[[ConfigResource], list[ConfigChanged]],
    *,
    validate_only: bool,
) -> Decision[ConfigResource]:
    records: list[ConfigChanged] = []
    results: list[DecidedItem[ConfigResource]] = []
    for resource in resources:
        try:
            _check_exists(image, resource)
            records += one(resource)
            results.append(DecidedItem(resource))
        except ItemRefused as refusal:
            results.append(DecidedItem.refused(resource, refusal))
    return Decision.of(records, results, validate_only=validate_only)


def _check_exists(image: ClusterImage, resource: ConfigResource) -> None:
    if resource.type is ResourceType.TOPIC:
        if image.topic(resource.name) is None:
            message = f"The topic '{resource.name}' does not exist."
            raise ItemRefused(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, message)
        return
    if resource.name == CLUSTER_DEFAULT:
        return
    if not (resource.name.isascii() and resource.name.isdigit()):
        message = f"Unable to parse broker name as a base 10 number: {resource.name}"
        raise ItemRefused(KafkaError.INVALID_REQUEST, message)
    if int(resource.name) not in image.brokers:
        message = f"No broker with id {resource.name} found."
        raise ItemRefused(KafkaError.BROKER_ID_NOT_REGISTERED, message)


def _incremental(
    image: ClusterImage, resource: ConfigResource, changes: Sequence[ConfigChange]
) -> Iterator[ConfigChanged]:
    keys = [change.key for change in changes]
    if len(set(keys)) < len(keys):
        raise ItemRefused(KafkaError.INVALID_REQUEST, "Error due to duplicate config keys")
    present = image.dynamic_configs(*resource)
    for change in changes:
        value = _new_value(image, resource, change)
        if value != present.get(change.key):
            yield ConfigChanged(resource.type, resource.name, change.key, value)


def _new_value(image: ClusterImage, resource: ConfigResource, change: ConfigChange) -> str | None:
    if change.op is ConfigOp.DELETE:
        known_key(resource.type, change.key)
        return None
    if change.value is None:
        message = f"Null value not supported for : {change.key}"
        raise ItemRefused(KafkaError.INVALID_REQUEST, message)
    if change.op is ConfigOp.SET:
        return checked(resource.type, change.key, change.value)
    key = known_key(resource.type, change.key)
    if key.type is not ConfigType.LIST:
        message = f"Can't {change.op.name} to key {change.key} because its type is not LIST."
        raise ItemRefused(KafkaError.INVALID_CONFIG, message)
    entries = split(image.config(resource.type, resource.name, change.key).value or "")
    given = split(change.value)
    if change.op is ConfigOp.APPEND:
        entries += [entry for entry in given if entry not in entries]
    else:
        entries = [entry for entry in entries if entry not in given]
    return checked(resource.type, change.key, ",".join(entries))
