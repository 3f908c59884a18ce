"""What an error of a whole request says about the change that was asked for.

Goals
    A request that the cluster refused is reported as refused immediately, and what was prepared
    for it is taken back. A request whose answer is missing is never called refused.
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

from kshunt.backend import error_codes
from kshunt.backend.admin.port.item_result import ItemResult
from kshunt.backend.error_codes import BROKER_NOT_AVAILABLE, error_name
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
    # The controller may have failed after its commit
    error_codes.UNKNOWN_SERVER_ERROR: Fate.IN_DOUBT,
    # The controller may commit it later
    error_codes.REQUEST_TIMED_OUT: Fate.IN_DOUBT,
    # No controller to forward to
    error_codes.BROKER_NOT_AVAILABLE: Fate.RETRY,
    error_codes.STALE_CONTROLLER_EPOCH: Fate.RETRY,
    error_codes.NETWORK_EXCEPTION: Fate.IN_DOUBT,
    error_codes.COORDINATOR_LOAD_IN_PROGRESS: Fate.RETRY,
    error_codes.INVALID_TOPIC_EXCEPTION: Fate.REFUSED,
    error_codes.TOPIC_AUTHORIZATION_FAILED: Fate.REFUSED,
    error_codes.GROUP_AUTHORIZATION_FAILED: Fate.REFUSED,
    error_codes.CLUSTER_AUTHORIZATION_FAILED: Fate.REFUSED,
    error_codes.UNSUPPORTED_SASL_MECHANISM: Fate.REFUSED,
    error_codes.ILLEGAL_SASL_STATE: Fate.REFUSED,
    error_codes.UNSUPPORTED_VERSION: Fate.REFUSED,
    error_codes.INVALID_PARTITIONS: Fate.REFUSED,
    error_codes.INVALID_REPLICATION_FACTOR: Fate.REFUSED,
    error_codes.INVALID_REPLICA_ASSIGNMENT: Fate.REFUSED,
    error_codes.INVALID_CONFIG: Fate.REFUSED,
    error_codes.NOT_CONTROLLER: Fate.RETRY,
    error_codes.INVALID_REQUEST: Fate.REFUSED,
    error_codes.POLICY_VIOLATION: Fate.REFUSED,
    error_codes.SECURITY_DISABLED: Fate.REFUSED,
    # The controller's own log failed while it wrote
    error_codes.KAFKA_STORAGE_ERROR: Fate.IN_DOUBT,
    error_codes.SASL_AUTHENTICATION_FAILED: Fate.REFUSED,
    error_codes.REASSIGNMENT_IN_PROGRESS: Fate.REFUSED,
    error_codes.STALE_BROKER_EPOCH: Fate.RETRY,
    error_codes.INVALID_RECORD: Fate.REFUSED,
    error_codes.THROTTLING_QUOTA_EXCEEDED: Fate.RETRY,
    error_codes.UNKNOWN_CONTROLLER_ID: Fate.RETRY,
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
