"""What an error of a whole request says about the change that was asked for.

Goals
    A request that the cluster refused is told as refused, at once, and what was prepared for it is
    taken back. A request whose answer is missing is never called refused.
Constraints
    Kafka answers some requests with one error code for all items, such as
    AlterPartitionReassignments without the ALTER permission. Other failures bring no code at all.
Algorithm
    `FATES` has one row for each code that the controller, or the broker that forwards to it, gives
    for a whole change. A code that is not listed, and a failure without a code, is in doubt unless
    the kind of error shows that nothing was sent. In doubt means: read the cluster, then decide.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from kshunt.backend.admin.port.item_result import ItemResult
from kshunt.backend.domain.cluster.error_codes import BROKER_NOT_AVAILABLE, error_name
from kshunt.backend.errors import ConfigError, KshuntError, NotAuthorized, NotSupported


class Fate(enum.StrEnum):
    """What became of a change whose whole request failed."""

    REFUSED = "refused"
    """Nothing was done, and the same request would be refused again."""
    RETRY = "not accepted yet"
    """Nothing was done; the same request may be taken in a moment."""
    IN_DOUBT = "in doubt"
    """It may have been done."""


FATES: Final[Mapping[int, Fate]] = {
    -1: Fate.IN_DOUBT,  # UNKNOWN_SERVER_ERROR: the controller may have failed after its commit
    7: Fate.IN_DOUBT,  # REQUEST_TIMED_OUT: the controller may commit it later
    8: Fate.RETRY,  # BROKER_NOT_AVAILABLE: no controller to forward to
    11: Fate.RETRY,  # STALE_CONTROLLER_EPOCH
    13: Fate.IN_DOUBT,  # NETWORK_EXCEPTION
    14: Fate.RETRY,  # COORDINATOR_LOAD_IN_PROGRESS
    17: Fate.REFUSED,  # INVALID_TOPIC_EXCEPTION
    29: Fate.REFUSED,  # TOPIC_AUTHORIZATION_FAILED
    30: Fate.REFUSED,  # GROUP_AUTHORIZATION_FAILED
    31: Fate.REFUSED,  # CLUSTER_AUTHORIZATION_FAILED
    33: Fate.REFUSED,  # UNSUPPORTED_SASL_MECHANISM
    34: Fate.REFUSED,  # ILLEGAL_SASL_STATE
    35: Fate.REFUSED,  # UNSUPPORTED_VERSION
    37: Fate.REFUSED,  # INVALID_PARTITIONS
    38: Fate.REFUSED,  # INVALID_REPLICATION_FACTOR
    39: Fate.REFUSED,  # INVALID_REPLICA_ASSIGNMENT
    40: Fate.REFUSED,  # INVALID_CONFIG
    41: Fate.RETRY,  # NOT_CONTROLLER
    42: Fate.REFUSED,  # INVALID_REQUEST
    44: Fate.REFUSED,  # POLICY_VIOLATION
    54: Fate.REFUSED,  # SECURITY_DISABLED
    56: Fate.IN_DOUBT,  # KAFKA_STORAGE_ERROR: the controller's own log failed while it wrote
    58: Fate.REFUSED,  # SASL_AUTHENTICATION_FAILED
    60: Fate.REFUSED,  # REASSIGNMENT_IN_PROGRESS
    77: Fate.RETRY,  # STALE_BROKER_EPOCH
    87: Fate.REFUSED,  # INVALID_RECORD
    89: Fate.RETRY,  # THROTTLING_QUOTA_EXCEEDED
    116: Fate.RETRY,  # UNKNOWN_CONTROLLER_ID
}
"""By Kafka's error code of a whole answer."""


def fate_of(error: KshuntError) -> Fate:
    """What became of a change whose request failed as a whole."""
    if error.answered_code is not None:
        return FATES.get(error.answered_code, Fate.IN_DOUBT)
    if isinstance(error, NotAuthorized | NotSupported | ConfigError):
        return Fate.REFUSED
    return Fate.RETRY if error.kafka_code == BROKER_NOT_AVAILABLE else Fate.IN_DOUBT


def item_of(error: KshuntError) -> ItemResult:
    """The result of each item of a change that was refused as a whole."""
    code = error.kafka_code if error.answered_code is None else error.answered_code
    return ItemResult(code, error_name(code), str(error))
