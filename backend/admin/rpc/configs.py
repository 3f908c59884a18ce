"""Throttle configurations on the wire: which keys are asked for, and what the answers mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from kafka.protocol.admin import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

from kshunt.backend.admin.port.item_result import ItemResult
from kshunt.backend.admin.rpc.error_mapping import decode_message, item_result, raise_for_code
from kshunt.backend.domain.cluster.config_names import MIN_ISR, ConfigSource
from kshunt.backend.domain.throttles.configs import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LOG_DIR_RATE,
    UNTHROTTLED,
    BrokerThrottle,
    ReplicaSet,
    ThrottledRate,
    ThrottledReplicas,
)
from kshunt.backend.domain.topics.configs import TopicConfig
from kshunt.backend.error_codes import (
    INVALID_TOPIC_EXCEPTION,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from kshunt.backend.errors import BadInput
from kshunt.backend.wire.raw_request import RawAnswer, RawRequest
from kshunt.backend.wire.reader import WireError

Name = TypeVar("Name", str, int)

TOPIC: Final = 2
BROKER: Final = 4
NO_RATE: Final = UNTHROTTLED
"""Kafka's default of the rates, which means none."""
RATE_KEYS: Final = (LEADER_RATE, FOLLOWER_RATE, LOG_DIR_RATE)
INTERBROKER_RATE_KEYS: Final = (LEADER_RATE, FOLLOWER_RATE)
REPLICA_KEYS: Final = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
MIN_ISR_KEYS: Final = (MIN_ISR,)

_SET, _DELETE = 0, 1
"""`AlterConfigOp.OpType`."""

_NO_TOPIC: Final = (UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION)
"""What is said of a topic that does not exist, or that could not."""

_SOURCES: Final = ("UNKNOWN", *ConfigSource)
"""`DescribeConfigsResponse.ConfigSource`, by number."""
_OWN_SOURCES: Final = frozenset({ConfigSource.DYNAMIC_TOPIC, ConfigSource.DYNAMIC_BROKER})


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """A key's effective value, and where Kafka has it from."""

    value: str
    source: str

    @property
    def is_own(self) -> bool:
        """True where the value is set on this topic or broker itself, and not inherited."""
        return self.source in _OWN_SOURCES


Values: TypeAlias = Mapping[str, ConfigValue]
"""What a topic or a broker is configured with, by key; a key without a value is absent."""
Changes: TypeAlias = Mapping[str, str | None]
"""What to write, by key; None deletes the key, so that the inherited value holds again."""


def describe_request(kind: int, names: Sequence[str], keys: Sequence[str] | None) -> RawRequest:
    """Ask for a few keys of many topics, or of a broker; for every key if None."""
    resources = [(kind, name, None if keys is None else list(keys)) for name in names]
    # Version 1 is the first that says where a value comes from.
    return RawRequest.of(
        DescribeConfigsRequest(resources=resources, include_synonyms=False), min_version=1
    )


def alter_request(kind: int, changes: Mapping[str, Changes], *, validate_only: bool) -> RawRequest:
    """Change keys of topics or of brokers, by name, and leave their other keys (KIP-339)."""
    resources = [(kind, name, _entries(of_one)) for name, of_one in changes.items()]
    return RawRequest.of(
        IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)
    )


def _entries(changes: Changes) -> list[tuple[str, int, str | None]]:
    return [
        (key, _DELETE if value is None else _SET, value) for key, value in sorted(changes.items())
    ]


def altered(answer: RawAnswer) -> Mapping[str, ItemResult]:
    """What an IncrementalAlterConfigs answer says, by topic or broker id.

    Raises:
        WireError: the answer is malformed.
    """
    return {
        one.resource_name: item_result(one.error_code, one.error_message)
        for one in decode_message(IncrementalAlterConfigsResponse, answer).responses
    }


def described(answer: RawAnswer) -> Mapping[str, Values]:
    """What a DescribeConfigs answer says, by topic or broker id. What does not exist is absent.

    Raises:
        NotAuthorized: the cluster does not show a configuration.
        WireError: the answer is malformed.
    """
    found = {}
    for result in decode_message(DescribeConfigsResponse, answer).results:
        if result.error_code == UNKNOWN_TOPIC_OR_PARTITION:
            continue
        what = f"The configuration of {result.resource_name}"
        raise_for_code(result.error_code, result.error_message, what)
        found[result.resource_name] = {
            entry.name: ConfigValue(entry.value, _source(entry.config_source))
            for entry in result.configs
            if entry.value
        }
    return found


def _source(number: int) -> str:
    return str(_SOURCES[number] if 0 <= number < len(_SOURCES) else _SOURCES[0])


def min_isr(answer: RawAnswer) -> Mapping[str, int]:
    """The min.insync.replicas in force, by topic; what is not shown is absent.

    Raises:
        WireError: the answer is malformed.
    """
    return {
        result.resource_name: _number(MIN_ISR, entry.value)
        for result in decode_message(DescribeConfigsResponse, answer).results
        for entry in result.configs
        if result.error_code == 0 and entry.name == MIN_ISR and entry.value
    }


def topic_configs(answer: RawAnswer, topic: str) -> tuple[TopicConfig, ...] | None:
    """Everything a topic is configured with, sorted by name; None where there is no such topic.

    Raises:
        NotAuthorized: the cluster does not show it.
        ClusterError: it refuses for another reason.
        WireError: the answer is malformed.
    """
    for result in decode_message(DescribeConfigsResponse, answer).results:
        if result.resource_name == topic and result.error_code not in _NO_TOPIC:
            what = f"The configuration of {topic}"
            raise_for_code(result.error_code, result.error_message, what)
            return tuple(sorted(map(_topic_config, result.configs), key=lambda one: one.name))
    return None


def all_configs(answer: RawAnswer) -> Mapping[str, tuple[TopicConfig, ...]]:
    """Everything that topics are configured with; what does not exist is absent.

    Raises:
        NotAuthorized: the cluster does not show a configuration.
        ClusterError: it refuses for another reason.
        WireError: the answer is malformed.
    """
    found = {}
    for result in decode_message(DescribeConfigsResponse, answer).results:
        if result.error_code not in _NO_TOPIC:
            what = f"The configuration of {result.resource_name}"
            raise_for_code(result.error_code, result.error_message, what)
            found[result.resource_name] = tuple(map(_topic_config, result.configs))
    return found


def _topic_config(entry: Any) -> TopicConfig:
    source = _source(entry.config_source)
    return TopicConfig(entry.name, entry.value, source, source == ConfigSource.DEFAULT)


def broker_throttle(broker: int, values: Values) -> BrokerThrottle:
    """A broker's rates.

    Raises:
        WireError: a rate is no number.
    """
    return BrokerThrottle(
        broker,
        ThrottledRate(_rate(values, LEADER_RATE), _rate(values, FOLLOWER_RATE)),
        _rate(values, LOG_DIR_RATE),
        leader_source=_rate_source(values, LEADER_RATE),
        follower_source=_rate_source(values, FOLLOWER_RATE),
        log_dir_source=_rate_source(values, LOG_DIR_RATE),
    )


def _rate_source(values: Values, key: str) -> str:
    return "" if _rate(values, key) is None else values[key].source


def _rate(values: Values, key: str) -> int | None:
    # Kafka's default is no rate. A number from there is one that was deleted, and that the broker
    # is about to forget.
    if key not in values or values[key].source == ConfigSource.DEFAULT:
        return None
    rate = _number(key, values[key].value)
    return None if rate == NO_RATE else rate


def _number(key: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise WireError(f"{key} holds '{value}', which is not a number.") from None


def throttled_replicas(values: Values) -> ThrottledReplicas:
    """A topic's throttled replicas.

    Raises:
        WireError: a list is in no known form.
    """
    return ThrottledReplicas(
        _replicas(values, LEADER_REPLICAS), _replicas(values, FOLLOWER_REPLICAS)
    )


def replicas_by_topic(topics: Mapping[str, Values]) -> dict[str, ThrottledReplicas]:
    """The throttled replicas of each topic.

    Raises:
        WireError: a list is in no known form.
    """
    return {topic: throttled_replicas(values) for topic, values in topics.items()}


def pairs_of(topics: Mapping[str, Values]) -> int:
    """How many pairs these lists have together."""
    texts = (one.value or "" for values in topics.values() for one in values.values())
    return sum(text.count(":") for text in texts)


def _replicas(values: Values, key: str) -> ReplicaSet:
    if key not in values:
        return ReplicaSet()
    try:
        return ReplicaSet.parse(values[key].value)
    except BadInput as unreadable:
        # Taken for empty, it would be overwritten.
        raise WireError(f"{key} holds '{values[key].value}'. {unreadable.message}") from None


def owners(values: Mapping[Name, Values], keys: Iterable[str]) -> set[Name]:
    """The topics or brokers on which one of the keys is set, and not inherited."""
    wanted = set(keys)
    return {
        name
        for name, found in values.items()
        if any(key in wanted and value.is_own for key, value in found.items())
    }


def rate_changes(rate: ThrottledRate) -> Changes:
    """What to write for a broker's rates; None removes one."""
    return {
        LEADER_RATE: _text(rate.leader_bytes_per_s),
        FOLLOWER_RATE: _text(rate.follower_bytes_per_s),
    }


def log_dir_rate_changes(rate_bytes_per_s: int | None) -> Changes:
    """What to write for a broker's rate of moves between its own log directories."""
    return {LOG_DIR_RATE: _text(rate_bytes_per_s)}


def _text(rate_bytes_per_s: int | None) -> str | None:
    return None if rate_bytes_per_s is None else str(rate_bytes_per_s)


def replica_changes(replicas: ThrottledReplicas) -> Changes:
    """What to write for a topic's throttled replicas; an empty side is removed."""
    return {
        LEADER_REPLICAS: str(replicas.leaders) or None,
        FOLLOWER_REPLICAS: str(replicas.followers) or None,
    }


def in_force(changes: Changes, values: Values) -> bool:
    """True where a topic or broker shows what was written to it."""
    own = {key: value.value for key, value in values.items() if value.is_own}
    return all(own.get(key) == wanted for key, wanted in changes.items())


def restoring(prior: Values, keys: Sequence[str]) -> Changes:
    """What to write so that the keys are as they were: the very text, or inherited again."""
    return {key: prior[key].value if key in prior and prior[key].is_own else None for key in keys}
