"""What a shrink sets on topics, and where it puts partitions: pure, decided before it is written.

The source keeps every record while it is copied, and so does the copy: no retention, no
compaction, no limit of timestamps. What an operator had set is put back in the end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from random import Random
from typing import Final

from kshunt.backend.domain.cluster.config_names import (
    CLEANUP_POLICY,
    MAX_MESSAGE_BYTES,
    MESSAGE_TIMESTAMP_TYPE,
    RETENTION_BYTES,
    RETENTION_MS,
    TIMESTAMP_BEFORE_MAX_MS,
    TIMESTAMP_DIFFERENCE_MAX_MS,
)
from kshunt.backend.domain.cluster.metadata import Broker, TopicPartition
from kshunt.backend.domain.shrink.offset_maps import Offsets, cuts_of
from kshunt.backend.domain.shrink.sealing import SEALED_BYTES
from kshunt.backend.domain.throttles.configs import FOLLOWER_REPLICAS, LEADER_REPLICAS
from kshunt.backend.errors import BadInput
from kshunt.backend.operations.state.shrink_work import ShrinkWork
from kshunt.backend.placement.generate import generate_assignment, usable_brokers

Changes = Mapping[str, str | None]
"""Settings of a topic to write; None removes one."""

HOLD: Final[Mapping[str, str]] = {
    # Compaction takes records away as retention does.
    CLEANUP_POLICY: "delete",
    RETENTION_BYTES: "-1",
    RETENTION_MS: "-1",
}
"""Nothing is deleted."""
SEAL: Final[Mapping[str, str]] = {MAX_MESSAGE_BYTES: str(SEALED_BYTES)}
"""Brokers refuse a producer's records, on any Kafka; reading and replication continue."""
SEALED: Final = ", ".join(f"{key}={value}" for key, value in SEAL.items())
"""The same in words."""
HEADER_BYTES: Final = 100
"""The copy's records are larger by less than this: by our header."""
_ANY_TIME: Final = str(2**63 - 1)
_TIMES: Final = (
    "message.timestamp.after.max.ms",
    TIMESTAMP_BEFORE_MAX_MS,
    TIMESTAMP_DIFFERENCE_MAX_MS,
)
_BY_PARTITION: Final = frozenset({LEADER_REPLICAS, FOLLOWER_REPLICAS})
"""They name partitions of the source; those of another topic are not theirs."""
_TIERED: Final = ("remote.", "local.retention.")
_LIMIT_DEFAULT: Final = "1048588"
CUT_NUMBERS_MAX: Final = 20_000
"""Offsets in the cuts of one shrink: an entry of the journal is no larger than a record."""
OUR_GROUPS: Final = "kshunt-shrink-"
"""Groups that hold how far a job is; nobody's consumers."""


def copy_name(topic: str, operation_id: str) -> str:
    """The name of the topic with the copy."""
    return f"{topic}.kshunt-{operation_id}"


def needed_in_force(configs: Mapping[str, str]) -> dict[str, str]:
    """Of what is in force for the source, what the copy needs to know."""
    return {key: value for key, value in configs.items() if key in (MAX_MESSAGE_BYTES, *_TIMES)}


def held(work: ShrinkWork) -> dict[str, str]:
    """What copy and final topic have set while records are copied into them."""
    limit = int(work.in_force.get(MAX_MESSAGE_BYTES, _LIMIT_DEFAULT)) + HEADER_BYTES
    times = {key: _ANY_TIME for key in _TIMES if key in work.in_force}
    return {**HOLD, **times, MESSAGE_TIMESTAMP_TYPE: "CreateTime", MAX_MESSAGE_BYTES: str(limit)}


def own(work: ShrinkWork) -> dict[str, str]:
    """What the final topic has set in the end: what the source had."""
    return {k: v for k, v in (work.overrides or {}).items() if k not in _BY_PARTITION}


def copy_settings(work: ShrinkWork) -> dict[str, str]:
    """What the copy is created with."""
    untiered = {key: value for key, value in own(work).items() if not key.startswith(_TIERED)}
    return {**untiered, **held(work)}


def final_settings(work: ShrinkWork) -> dict[str, str]:
    """What the final topic is created with, to be copied back into."""
    return {**own(work), **held(work)}


def to_end_with(work: ShrinkWork, found: Mapping[str, str]) -> dict[str, str | None]:
    """What has to be written on the final topic so that it has what the source had.

    What somebody set differently meanwhile stays.
    """
    ours, wanted = held(work), own(work)
    changes: dict[str, str | None] = {
        key: wanted.get(key)
        for key, value in ours.items()
        if found.get(key) == value and wanted.get(key) != value
    }
    missing = {k: v for k, v in wanted.items() if k not in found and k.startswith(_TIERED)}
    return {**changes, **missing}


def to_hold(found: Mapping[str, str]) -> dict[str, str | None]:
    """What has to be written on the source so that it keeps its records."""
    return {key: value for key, value in HOLD.items() if found.get(key) != value}


def to_release(
    work: ShrinkWork, found: Mapping[str, str], *, sealed: bool
) -> dict[str, str | None]:
    """What has to be written on the source so that it has what it had; `sealed` to stay so.

    What somebody set differently meanwhile stays.
    """
    wanted = work.overrides or {}
    ours = HOLD if sealed else {**HOLD, **SEAL}
    return {
        key: wanted.get(key)
        for key, value in ours.items()
        if found.get(key) == value and wanted.get(key) != value
    }


def placed(
    topic: str, partitions: int, replicas: int, live: Mapping[int, Broker], seed: str
) -> tuple[tuple[int, ...], ...]:
    """Replicas of each partition, striped over racks and brokers that are up.

    Raises:
        BadInput: there are fewer brokers than replicas.
    """
    try:
        brokers = usable_brokers(live, sorted(live), rack_aware=True)
    except BadInput:
        # Only some have a rack: then none counts.
        brokers = usable_brokers(live, sorted(live), rack_aware=False)
    current = {TopicPartition(topic, number): (0,) * replicas for number in range(partitions)}
    found = generate_assignment(current, brokers, Random(seed))
    return tuple(found[partition] for partition in sorted(current))


def cuts_for(groups: Sequence[Offsets], ends: Offsets) -> tuple[Offsets, ...]:
    """Positions over which the source is copied; fewer than there are groups where many are.

    A group that is left out is translated too; it may read some records again.
    """
    within = [{p: min(at, ends[p]) for p, at in one.items() if p in ends} for one in groups]
    most = max(1, CUT_NUMBERS_MAX // max(1, len(ends)))
    return tuple(cuts_of(within[:most]))


def is_ours(name: str) -> bool:
    """True for a group that holds how far a job is."""
    return name.startswith(OUR_GROUPS)


def same_topic(assignment: Sequence[Sequence[int]], found: Collection[tuple[int, ...]]) -> bool:
    """Whether a topic has the replicas that we asked for, in any order."""
    return sorted(map(sorted, assignment)) == sorted(map(sorted, found))
